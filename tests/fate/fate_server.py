"""Starts programs: each in a forked child, which becomes python or has imported a framework.

A request is a line of JSON, the answers are two lines: ``child`` and its number, ``status``
and what it ended with.
The arguments are names of modules to import before the first request.
"""

from __future__ import annotations

import builtins
import importlib
import io
import json
import os
import resource
import signal
import sys
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any

_OPEN = (os.O_RDWR, *(os.O_RDWR | os.O_CREAT | os.O_APPEND,) * 2)


def _next_request() -> dict[str, Any] | None:
    """In a child: what it is to do; in the server: nothing, when all is done."""
    for line in iter(sys.stdin.readline, ""):
        request: dict[str, Any] = json.loads(line)
        child = os.fork()
        if not child:
            return request
        print("child", child, flush=True)
        print("status", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
    return None


def _settle(request: dict[str, Any]) -> None:
    """Be in the place of the program: its session, folder, environment and streams."""
    os.setsid()
    # Whatever has started us may ignore them, as a shell does for what it starts in the background,
    # and nohup.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.chdir(request["folder"])
    # Through its own methods, so that C's getenv sees it as well.
    for name in set(os.environ) - set(request["environment"]):
        del os.environ[name]
    os.environ.update(request["environment"])
    for number, (path, flags) in enumerate(zip(request["streams"], _OPEN, strict=True)):
        made = os.open(path, flags, 0o600)  # the first terminal becomes the session's
        os.dup2(made, number)
        os.close(made)
    if limit := os.environ.pop("FATE_LIMIT", None):
        _limit(*limit.split(":"))


def _limit(name: str, text: str) -> None:
    """Have no more of something than a program may have; of memory: than there is now."""
    number = int(text)
    if name == "AS":
        pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[0]
        number = number * 1024 + int(pages) * resource.getpagesize()
    resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (number, number))


def _renew_streams() -> None:
    """What python makes of descriptors 0 to 2 when it starts."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        raw = open(number, "rb" if not number else "wb", closefd=False)  # noqa: SIM115
        errors = "backslashreplace" if number == 2 else "strict"
        stream = io.TextIOWrapper(
            raw, "utf-8", errors, line_buffering=number == 2 or os.isatty(number)
        )
        stream.mode = "w" if number else "r"
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _program(path: str) -> None:
    """Do what ``python path`` does; its uncaught errors are the program's."""
    sys.argv = [path]
    filename = os.path.abspath(path)
    sys.path[0] = os.path.dirname(filename)
    main = ModuleType("__main__")
    main.__dict__.update(
        __builtins__=builtins,
        __cached__=None,
        __file__=filename,
        __annotations__={},
        __loader__=SourceFileLoader("__main__", filename),
    )
    sys.modules["__main__"] = main
    with open(filename, encoding="utf-8") as file:
        code = compile(file.read(), filename, "exec", dont_inherit=True)
    uncaught = None
    try:
        exec(code, main.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        uncaught = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
    if uncaught is None:
        return
    sys.excepthook(type(uncaught), uncaught, uncaught.__traceback__)
    if not isinstance(uncaught, KeyboardInterrupt):
        sys.exit(1)
    # Python ends by the signal once all has been done; the traceback has been printed.
    sys.excepthook = lambda *_: None
    raise uncaught


def _main() -> None:
    for name in sys.argv[1:]:
        importlib.import_module(name)
    if "fault_shim" in sys.modules:
        sys.modules["fault_shim"].prepare()
    request = _next_request()
    if request is None:
        return
    _settle(request)
    arguments = request["arguments"]
    if len(sys.argv) == 1:
        os.execv(sys.executable, [sys.executable, *arguments])
    _renew_streams()
    if fault := os.environ.pop("FATE_FAULT", None):
        from fault_shim import install

        install(*fault.split(" ", 1))
    patience = os.environ.pop("FATE_PATIENCE", None)
    if arguments[:2] != ["-m", "tfdbg_cli"]:
        _program(*arguments)
        return
    if patience:
        from tfdbg_cli.sessions.ranks import group

        group._FIRST_PATIENCE = float(patience)
    from tfdbg_cli.__main__ import main

    sys.argv = ["tfdbg_cli", *arguments[2:]]
    sys.exit(main())


if __name__ == "__main__":
    _main()
