"""What a program was: what it was started as, and what it ran on."""

from __future__ import annotations

import functools
import os
import platform
import re
import shlex
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType

from tfdbg_cli.common.commits import commit_at, is_dirty
from tfdbg_cli.common.traits import all_traits
from tfdbg_cli.common.version import __version__

__all__ = ["program_facts"]

# Where the debugger itself is.
_OURS = str(Path(__file__).parents[1])

# What others had better not read.
_SECRET = re.compile(r"(--?[\w-]*(?:token|passw|secret|credential|api-?_?key)[\w-]*)(=?)(.*)", re.I)


def program_facts() -> list[tuple[str, str]]:
    """What is to be said of the program of this process, as (label, text).

    Neither its environment nor the name of the machine is told, nor the values of options that
    look like secrets.
    """
    facts = [("Program", _command(sys.argv)), ("Started as", _command(_started_as()))]
    if commit := _commit():
        facts.append(("Commit", commit))
    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    python = f"{platform.python_implementation()} {platform.python_version()} on {system}"
    facts.append(("Python", python))
    for traits in all_traits():
        version = getattr(sys.modules.get(traits.package), "__version__", None)
        if version is not None and _is_used(traits.package):
            facts.append((traits.title, str(version)))
    numpy = sys.modules.get("numpy")
    facts.append(("NumPy", str(getattr(numpy, "__version__", "not imported"))))
    facts.append(("tfdbg_cli", __version__))
    return facts


def _is_used(package: str) -> bool:
    """Whether the program's own modules have imported a package, not another package alone."""
    libraries = tuple({sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")})
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if not isinstance(file, str) or file.startswith((*libraries, _OURS)):
            continue
        for value in list(vars(module).values()):
            if isinstance(value, ModuleType):
                name = value.__name__
            elif isinstance(value, type | FunctionType | BuiltinFunctionType):
                name = str(value.__module__)
            else:
                continue
            if name == package or name.startswith(f"{package}."):
                return True
    return False


@functools.cache
def _commit() -> str:
    """Of the program's own file, as it was when this was asked first."""
    if not sys.argv or not sys.argv[0]:
        return ""
    program = Path(sys.argv[0])
    commit = commit_at(program)
    return f"{commit}, and changes since" if commit and is_dirty(program) else commit


def _started_as() -> list[str]:
    words = list(sys.orig_argv)
    return [os.path.basename(words[0]), *words[1:]] if words else []


def _command(words: Sequence[str]) -> str:
    shown: list[str] = []
    is_secret = False
    for word in words:
        found = _SECRET.fullmatch(word)
        if is_secret and not word.startswith("-"):
            shown.append("…")
        elif found is not None and found[2]:
            shown.append(f"{found[1]}=…")
        else:
            shown.append(shlex.quote(word))
        is_secret = found is not None and not found[2] and not found[3]
    return " ".join(shown)
