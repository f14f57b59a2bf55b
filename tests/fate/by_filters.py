"""Warnings under filters of every action; the corpus has this text in place of an import of it."""

import warnings


def user(x):
    warnings.warn("mine", stacklevel=2)
    return x * 2


def told(message, category, filename, lineno, file=None, line=None):
    # A file that autograph has written has a name by chance.
    name = filename.rpartition("/")[2]
    print("  ", category.__name__, str(message)[:60], lineno, name.startswith("__auto") or name)


warnings.showwarning = told


def by_filters(sources, package):
    line = next(iter(sources.values())).__code__.co_firstlineno
    filters = {
        "default": lambda: warnings.simplefilter("default"),
        "always": lambda: warnings.simplefilter("always"),
        "once": lambda: warnings.simplefilter("once"),
        "module": lambda: warnings.simplefilter("module"),
        "error here": lambda: warnings.filterwarnings("error", module="__main__"),
        "error in it": lambda: warnings.filterwarnings("error", module=package),
        "not here": lambda: warnings.filterwarnings("ignore", module="__main__"),
        "not in it": lambda: warnings.filterwarnings("ignore", module=package),
        "a line": lambda: warnings.filterwarnings("ignore", lineno=line),
    }
    for name, put in filters.items():
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            put()
            print(name)
            for source, give in sources.items():
                print(" ", source)
                for _ in range(2):
                    try:
                        give()
                    except Warning as warning:
                        print("   raised", type(warning).__name__)
