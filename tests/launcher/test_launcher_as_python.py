"""A program can't tell that it runs under the debugger."""

import re
import sys
import zipfile

import pytest

IDENTITY = """\
import os, sys
print(sys.argv, sys.path, os.getcwd())
print(__name__, __file__, __package__, __cached__, __doc__)
print(type(__loader__), __spec__ and (__spec__.name, __spec__.origin, __spec__.parent))
print(sorted(globals()), sys.modules["__main__"].__dict__ is globals())
print(type(__builtins__), sys.flags, sys.warnoptions)
import signal, warnings
import numpy  # which adds filters, here or in the debugger
print(signal.getsignal(signal.SIGINT), len(warnings.filters), sys.excepthook)
"""


@pytest.mark.parametrize("path", ["s.py", "./s.py", "sub/../s.py", "link.py", "abs"])
def test_a_script_sees_the_same_world(runner, path):
    runner.write("real/s.py", IDENTITY)
    runner.write("s.py", IDENTITY)
    (runner.folder / "sub").mkdir()
    (runner.folder / "link.py").symlink_to(runner.folder / "real" / "s.py")
    if path == "abs":
        path = runner.folder / "s.py"
    runner.same(path, "-c", "--batch", "--", "x y", "--help")


def test_a_directory_and_a_zip_file(runner):
    runner.write("app/__main__.py", IDENTITY + "import part\n")
    runner.write("app/part.py", "print(__file__)")
    with zipfile.ZipFile(runner.folder / "app.zip", "w") as archive:
        archive.writestr("__main__.py", IDENTITY + "import part\n")
        archive.writestr("part.py", "print(__file__)")
    runner.same("app", "a")
    runner.same("./app/", "-m")
    runner.same("app.zip", "a")


def test_a_directory_without_main(runner):
    (runner.folder / "empty").mkdir()
    assert runner.same("empty").status == 1


def test_modules_and_packages(runner):
    runner.write("alone.py", IDENTITY)
    runner.write("pack/__init__.py", "")
    runner.write("pack/__main__.py", IDENTITY + "from . import other\n")
    runner.write("pack/other.py", "print(__name__, __package__)")
    runner.write("pack/inner.py", IDENTITY)
    runner.write("bare/__init__.py", "")
    for name in ("alone", "pack", "pack.inner", "bare", "absent", "pack.absent", "alone.py"):
        runner.same("-m", name, "-c", "-m", "--batch")


def test_a_compiled_script(runner):
    path = runner.write("s.py", "import sys; print(sys.argv, __file__)")
    runner.python("-c", f"import py_compile; py_compile.compile({str(path)!r}, 's.pyc')")
    assert "s.pyc" in runner.same("s.pyc").stdout


def test_encodings_and_source_lines(runner):
    path = runner.folder / "s.py"
    path.write_bytes(b"# coding: latin-1\nprint(ascii('\xe9'))\nname_\xe9 = 1 / 0  # \xe9\n")
    done = runner.same("s.py")
    assert "'\\xe9'" in done.stdout
    assert "ZeroDivisionError" in done.stderr


def test_names_of_ours_do_not_shadow_those_of_the_script(runner):
    for name in ("commands", "ui", "filters", "settings", "errors", "launcher", "engines"):
        runner.write(f"{name}.py", f"MINE = {name!r}")
    runner.write(
        "s.py",
        "import commands, ui, filters, settings, errors, launcher, engines\n"
        "print([m.MINE for m in (commands, ui, filters, settings, errors, launcher, engines)])",
    )
    runner.same("s.py")


def test_what_a_stop_imports_is_not_the_script_s(runner):
    runner.write("html.py", "MINE = 'of the script'")  # `graph` escapes texts by Python's
    runner.write(
        "s.py",
        "import html\n"
        "from tfdbg_cli.engines import numpy as tf\n"
        "with tf.Session() as session:\n"
        "    session.run(tf.constant(1.0, name='one'))\n"
        "print(html.MINE)\n",
    )
    done = runner.tfdbg("--batch", "-c", "run", "-c", "graph one > one.svg", "-c", "run", "s.py")
    assert done.stdout.endswith("of the script\n")
    assert "one</text>" in (runner.folder / "one.svg").read_text()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "import sys; sys.exit()",
        "import sys; sys.exit(3)",
        "import sys; sys.exit(-2)",
        "import sys; sys.exit(True)",
        "import sys; sys.exit('that is why')",
        "import sys; sys.exit(['a', 1])",
        "import os, sys; print('x'); sys.stdout.flush(); os._exit(7)",
        "import atexit; atexit.register(print, 'bye'); print('here')",
        "import threading\n"
        "done = threading.Event()\n"
        "def work():\n"
        "    done.wait()\n"
        "    print('thread done')\n"
        "threading.Thread(target=work).start()\n"
        "threading.Timer(0.1, done.set).start()\n"
        "print('main done')\n",
        "from concurrent.futures import ThreadPoolExecutor\n"
        "ThreadPoolExecutor(2).submit(print, 'in a pool')\n",
        "import os\nif os.fork():\n    os.wait()\nelse:\n    raise SystemExit(0)\n",
        "raise KeyboardInterrupt",
        "raise KeyError('k')",
        "raise SystemExit",
    ],
)
def test_ends(runner, text):
    runner.write("s.py", text)
    runner.write("m.py", text)
    runner.same("s.py")
    plain, debugged = runner.python("-m", "m"), runner.tfdbg("-m", "m")
    assert (debugged.status, debugged.stdout) == (plain.status, plain.stdout)
    # What python itself shows of runpy is no news to anybody.
    runpy_frames = r'(  File "<frozen runpy>".*\n)+'
    assert debugged.own_stderr == re.sub(runpy_frames, "", plain.stderr)


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n    return 1 / x\n\ndef g():\n    try:\n        f(0)\n"
        "    except ZeroDivisionError as error:\n        raise ValueError('v') from error\n"
        "try:\n    g()\nfinally:\n    {}['late']\n",
        "def f(n):\n    raise TypeError(n)\n"
        "errors = []\nfor n in range(2):\n    try:\n        f(n)\n"
        "    except TypeError as error:\n        errors.append(error)\n"
        "raise ExceptionGroup('both', errors)\n",
        "import runpy\nrunpy.run_path('bad.py')\n",
        "import broken\n",
        "import absent_module\n",
        "import json\njson.loads('{')\n",
        "import sys\nsys.excepthook = lambda *a: print('mine', a[1], a[2].tb_lineno)\n1 / 0\n",
        "import sys\ndef hook(*a):\n    sys.exit(5)\nsys.excepthook = hook\n1 / 0\n",
        "import sys\ndef hook(*a):\n    raise OSError('hook')\nsys.excepthook = hook\n1 / 0\n",
        "import sys, atexit\n"
        "show = lambda: print(sys.last_type, sys.last_value, sys.last_traceback.tb_lineno)\n"
        "atexit.register(show)\n"
        "1 / 0\n",
        "def f(:\n    pass\n",
        "if 1:\nprint()\n",
        "class E(Exception):\n    __module__ = '__main__'\nerror = E('with notes')\n"
        "error.add_note('one')\nraise error\n",
        "import threading\n"
        "t = threading.Thread(target=lambda: 1 / 0, name='T')\nt.start()\nt.join()\n",
    ],
)
def test_tracebacks_are_those_of_python(runner, text):
    runner.write("bad.py", "print(1)\n\nundefined\n")
    runner.write("broken.py", "def f():\n    raise RuntimeError('import')\nf()\n")
    runner.write("s.py", text)
    done = runner.same("s.py")
    assert "tfdbg_cli" not in done.stderr


def test_the_stack_beneath_a_script_is_cheap_to_note(runner):
    """TensorFlow notes each eager op's: it reads a frame's line table from the front, to its line.

    Module bodies and long functions cost each op a microsecond or two.
    """
    runner.write(
        "s.py",
        """\
import sys
frame, found = sys._getframe().f_back, []
while frame:
    if not frame.f_code.co_filename.startswith("<frozen"):
        lines = frame.f_code.co_lines()
        found.append(sum(start <= frame.f_lasti for start, _, _ in lines))
    frame = frame.f_back
print(len(found), sum(found))
""",
    )
    frames, entries = map(int, runner.tfdbg("s.py").stdout.split())
    assert frames <= 3
    assert entries <= 120


def test_pickle_of_a_class_of_main(runner):
    runner.write(
        "s.py",
        "import pickle\nclass C:\n    x = 4\n"
        "print(pickle.loads(pickle.dumps(C())).x, C.__module__)\n",
    )
    assert runner.same("s.py").stdout == "4 __main__\n"


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_multiprocessing(runner, method):
    runner.write(
        "s.py",
        "import multiprocessing\n"
        "def square(x):\n    return x * x\n"
        "if __name__ == '__main__':\n"
        f"    with multiprocessing.get_context('{method}').Pool(1) as pool:\n"
        "        print(pool.map(square, [1, 2, 3]))\n",
    )
    assert runner.same("s.py").stdout == "[1, 4, 9]\n"


def test_stdin_is_the_programs(runner):
    runner.write("s.py", "print(input(), input())")
    assert runner.tfdbg("s.py", stdin="a\nb\n").stdout == "a b\n"


def test_a_missing_script(runner):
    done = runner.tfdbg("absent.py")
    path = runner.folder / "absent.py"
    assert done == (
        2,
        "",
        f"tfdbg: can't open file '{path}': [Errno 2] No such file or directory\n",
    )


def test_under_p_nothing_is_put_on_the_path(runner):
    runner.write("s.py", "import sys; print(sys.path[0])")
    plain = runner.python("-P", "s.py")
    assert runner.python("-P", "-m", "tfdbg_cli", "s.py").stdout == plain.stdout


MUTE = "class Mute(Exception):\n    def __str__(self):\n        raise ValueError('no str')\n"


@pytest.mark.parametrize(
    "text",
    [
        "raise Mute()\n",
        "import sys\nsys.excepthook = lambda *a: print('mine', a[0].__name__)\nraise Mute()\n",
        "class Mute(Mute):\n    __repr__ = Mute.__str__\nraise Mute()\n",
        "try:\n    raise Mute()\nexcept Mute as error:\n    raise KeyError('k') from error\n",
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise Mute() from error\n",
        "raise ExceptionGroup('both', [Mute(), ValueError('v')])\n",
        "import sys\ndef hook(*a):\n    raise Mute()\nsys.excepthook = hook\n1 / 0\n",
        "class Wrong(Exception):\n    def __str__(self):\n        return 5\nraise Wrong()\n",
    ],
)
def test_errors_that_cannot_say_what_they_are(runner, text):
    runner.write("s.py", MUTE + text)
    done = runner.same("s.py")
    assert "tfdbg_cli" not in done.stderr
    # A debugger that has something to show of it.
    runner.write("d.py", "import tfdbg_cli.engines.numpy\n" + MUTE + text)
    runner.same("d.py")


@pytest.mark.parametrize(
    "text",
    [
        "import sys\nsys.exit(Mute())\n",
        "class Number:\n    def __str__(self):\n        return 5\nraise SystemExit(Number())\n",
    ],
)
def test_a_status_that_cannot_be_printed(runner, text):
    runner.write("s.py", MUTE + text)
    plain, debugged = runner.python("s.py"), runner.tfdbg("s.py")
    assert debugged.own_stderr == "\n"
    assert (debugged.status, debugged.stdout) == (plain.status, plain.stdout)
    if sys.version_info < (3, 12):  # then python leaves the error to what comes next at its end
        assert plain.stderr == "\n"


TRAPS = ("random", "json", "numpy", "argparse", "typing", "queue", "urwid", "tempfile", "string")


@pytest.mark.parametrize("options", [(), ("-P",)])
def test_what_lies_in_the_current_folder_is_not_imported(runner, options):
    for name in TRAPS:
        runner.write(f"{name}.py", f"print('{name} ran')\nraise SystemExit(9)\n")
    runner.write("app/s.py", IDENTITY + "import json, random, numpy, argparse, typing\n")
    plain = runner.python(*options, "app/s.py")
    debugged = runner.python(*options, "-m", "tfdbg_cli", "app/s.py")
    assert (debugged.status, debugged.stdout) == (0, plain.stdout)
    assert "no dump" in runner.python(*options, "-m", "tfdbg_cli", "--dump-dir", ".").stderr
    assert runner.tfdbg("--help").status == 0


def test_with_a_variable_the_path_is_safe_too(runner):
    runner.write("s.py", IDENTITY)
    runner.environment["PYTHONSAFEPATH"] = "1"
    runner.same("s.py")


def test_modules_of_the_script_come_before_those_that_the_debugger_has_used(runner):
    names = ("argparse", "queue", "shlex", "difflib")
    for name in names:
        runner.write(f"{name}.py", f"MINE = {name!r}\n")
    runner.write("string/notes.txt", "a folder is not a module\n")
    runner.write(
        "s.py",
        f"import {', '.join(names)}, string\n"
        f"print([each.MINE for each in ({', '.join(names)})], string.digits)\n"
        "from tfdbg_cli.engines import numpy as tf\n"
        "y = tf.log(tf.constant([0.0]), name='y')\n"
        "tf.Session().run(y)\n",
    )
    assert runner.python("s.py").status == 0
    done = runner.tfdbg("--batch", "-c", "run -f has_inf_or_nan", "-c", "lt", "s.py")
    assert done.stdout.startswith(runner.python("s.py").stdout), done.stderr
    assert "y:0" in done.stdout
    assert done.status == 0
    assert not done.notes
    runner.same("-m", "s")
