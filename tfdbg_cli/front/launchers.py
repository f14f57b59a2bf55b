"""Launchers that are given as the program: the debugger belongs into what they start."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from tfdbg_cli.front.command_line import CommandLine

__all__ = ["right_order"]


class _Launcher(NamedTuple):
    """How processes are started with it.

    Attributes:
        typed: what it is called by, and which of its commands it is.
        flag: makes it run a module; empty: it runs any command.
    """

    typed: str
    flag: str = "-m"


_ACCELERATE = _Launcher("accelerate launch")
_DEEPSPEED = _Launcher("deepspeed", "--module")
_HOROVOD = _Launcher("horovodrun", "")

_MODULES = {
    "torch.distributed.run": _Launcher("torchrun"),
    "torch.distributed.launch": _Launcher("python -m torch.distributed.launch"),
    "accelerate.commands.launch": _ACCELERATE,
    "accelerate.commands.accelerate_cli": _ACCELERATE,
    "deepspeed": _DEEPSPEED,
    "deepspeed.launcher.runner": _DEEPSPEED,
    "composer.cli.launcher": _Launcher("composer"),
    "horovod.runner.launch": _HOROVOD,
}
_SCRIPTS = {
    "torchrun": _Launcher("torchrun"),
    "accelerate": _ACCELERATE,
    "accelerate-launch": _ACCELERATE,
    "deepspeed": _DEEPSPEED,
    "ds": _DEEPSPEED,
    "composer": _Launcher("composer"),
    "horovodrun": _HOROVOD,
    **{
        name: _Launcher(name, "")
        for name in ("mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "srun", "jsrun")
    },
}
# Those that have commands which start nothing.
_WITH_COMMANDS = {"accelerate", "accelerate.commands.accelerate_cli"}

_MODULE_FLAGS = ("-m", "--module", "--module_mode")
_PYTHON = re.compile(r"python[\d.]*t?")
# Options of Python's that have their value in the next word.
_VALUED = ("-W", "-X")


def right_order(line: CommandLine) -> str:
    """What to say where a launcher is the program; empty: it is none."""
    if line.module is not None:
        name, launcher = line.module, _MODULES.get(line.module)
    else:
        name = os.path.basename(line.script or "")
        launcher = _SCRIPTS.get(name)
    if launcher is None:
        return ""
    args = list(line.args)
    if name in _WITH_COMMANDS:
        if args[:1] != ["launch"]:
            return ""
        del args[0]
    command = _command(launcher, args, line.own)
    if not command:
        return ""
    return f"{name} starts other processes, which the debugger is not in. To debug them: {command}"


def _command(launcher: _Launcher, args: Sequence[str], own: Sequence[str]) -> str:
    """The same command line with the debugger in its place; empty: it is there as well."""
    if "tfdbg_cli" in args:
        return ""
    is_bare = not launcher.flag or not {"--no-python", "--no_python"}.isdisjoint(args)
    at = _program_at(args, is_bare)
    debugger = ["tfdbg_cli", *own]
    if at is None:
        inner = ["python", "-m"] if is_bare else [launcher.flag]
        return f"{launcher.typed} … {shlex.join([*inner, *debugger])} …"
    before, rest = args[:at], list(args[at:])
    if not is_bare:
        if rest[0] in _MODULE_FLAGS:
            rest[0] = "-m"
        return f"{launcher.typed} {shlex.join([*before, launcher.flag, *debugger, *rest])}"
    python = [rest.pop(0)] if _is_python(rest[0]) else ["python"]
    while rest and rest[0].startswith("-") and not rest[0].startswith("-m"):
        python += [rest.pop(0) for _ in range(2 if rest[0] in _VALUED else 1)]
    return f"{launcher.typed} {shlex.join([*before, *python, '-m', *debugger, *rest])}"


def _program_at(args: Sequence[str], is_bare: bool) -> int | None:
    """Where the program begins behind the launcher's own options; ``None``: that isn't clear."""
    for at, word in enumerate(args):
        if word.endswith(".py") or (_is_python(word) if is_bare else word in _MODULE_FLAGS):
            return at
    return None


def _is_python(word: str) -> bool:
    return _PYTHON.fullmatch(os.path.basename(word)) is not None
