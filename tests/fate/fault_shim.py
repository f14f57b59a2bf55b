"""Lets calls of the debugger's to the operating system fail, and never one of the program's.

A fault is told as ``n:mode``: the n-th call fails; ``once`` only that, ``on`` all from there on,
``other`` once with another error; or a signal comes in before it: ``SIGTERM``. Each call is noted,
with who has made it, in a file.
"""

from __future__ import annotations

import _thread
import builtins
import errno
import fcntl
import gc
import importlib
import io
import mmap
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

__all__ = ["install", "prepare"]

_OURS = os.path.join(Path(__file__).resolve().parents[2], "tfdbg_cli", "")
_NOT_OURS = (
    "/site-packages/torch/",
    "/site-packages/tensorflow/",
    "/site-packages/jax/",
    "/script.py",
    "/asyncio/selector_events.py",  # a socket pair of its own: it has no other end to fail
    f"{_OURS}engines/numpy/",  # what a program imports
    f"{_OURS}front/launcher.py",  # reads the program
    f"{_OURS}front/main.py",  # nothing has begun
)

# What a call fails with: at first, and in the mode ``other``.
_ERRORS = {
    "open": (errno.EMFILE, errno.EIO),
    "import": (errno.EMFILE, errno.EIO),
    "read": (errno.EIO, errno.EIO),
    "write": (errno.ENOSPC, errno.EIO),
    "sync": (errno.EIO, errno.ENOSPC),
    "name": (errno.ENOSPC, errno.EACCES),
    "remove": (errno.EACCES, errno.EIO),
    "list": (errno.EMFILE, errno.EIO),
    "map": (errno.ENOMEM, errno.ENODEV),
    "socket": (errno.EMFILE, errno.ENOMEM),
    "send": (errno.ECONNRESET, errno.EPIPE),
    "process": (errno.EAGAIN, errno.ENOMEM),
}
_OS = {
    "open": ("open", "pipe", "dup"),
    "read": ("read", "pread", "readv", "preadv"),
    "write": ("write", "pwrite", "writev", "ftruncate", "posix_fallocate", "sendfile"),
    "sync": ("fsync", "fdatasync"),
    "name": ("mkdir", "rename", "replace", "link", "symlink", "utime", "chmod"),
    "remove": ("unlink", "remove", "rmdir"),
    "list": ("scandir", "listdir"),
    "process": ("fork",),
}
_SOCKET = {
    "socket": ("__init__", "bind", "listen", "connect", "accept"),
    "send": ("send", "sendall", "recv", "recv_into"),
}

# Of our modules, by their files.
_codes: dict[str, CodeType | None] = {}


def _is_over() -> bool:
    """Whether Python ends: what it calls then has none of the program's callers."""
    frame: FrameType | None = sys._getframe()
    if threading.get_ident() != threading.main_thread().ident:
        return False
    while frame is not None:
        if frame.f_code.co_filename.endswith("/fate_server.py"):
            return False
        frame = frame.f_back
    return True


class _Faults:
    """Counts the calls and lets some fail."""

    def __init__(self, told: str, log: str) -> None:
        number, self._mode = told.split(":")
        self._number = int(number)
        self._count, self._process = 0, os.getpid()
        #: The program's file has been opened: what fails before that leaves nothing to debug.
        self.has_begun = False
        self._lock = threading.Lock()
        self._write, flags = os.write, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        found = os.open(log, flags, 0o600)
        # Far from those that a program looks at.
        self._log = os.dup2(found, 900, False)
        os.close(found)

    def _place(self) -> str:
        frame = sys._getframe(3)
        while frame is not None:
            name = frame.f_code.co_filename
            if any(each in name for each in _NOT_OURS):
                return ""
            if name.startswith(_OURS):
                return f"{name.removeprefix(_OURS)}:{frame.f_lineno}"
            frame = frame.f_back
        return ""

    def fails(self, kind: str, call: str) -> OSError | None:
        """The error that a call is to fail with."""
        # Not in forked children: they would count on from where they were made.
        place = self._place() if self.has_begun and os.getpid() == self._process else ""
        if not place:
            return None
        with self._lock:
            self._count += 1
            count = self._count
        late = " late" if _is_over() else ""
        self._write(self._log, f"{count} {kind} {call} {place}{late}\n".encode())
        if self._mode.startswith("SIG"):
            if count == self._number:
                os.kill(os.getpid(), getattr(signal, self._mode))
            return None
        if count < self._number or (count > self._number and self._mode != "on"):
            return None
        # The program could import nothing either; a terminal that is gone has come to its end.
        if kind in ("import", "read") and self._mode == "on":
            return None
        number = _ERRORS[kind][self._mode == "other"]
        return OSError(number, os.strerror(number))

    def let_fail(self, owner: Any, call: str, kind: str) -> None:
        """Put a call in the place of one, that may fail."""
        original = getattr(owner, call, None)
        if original is None:
            return

        def called(*args: Any, **kwargs: Any) -> Any:
            on_streams = args and isinstance(args[0], int) and 0 <= args[0] <= 2
            error = None if on_streams else self.fails(kind, call)
            if error is not None:
                raise error
            return original(*args, **kwargs)

        setattr(owner, call, called)


def prepare() -> None:
    """Do once what each forked program would do again, and where no call is to fail.

    That is what the debugger has imported by the program's first line, and what it imports later
    of other packages. What it imports later of its own is left to each program, but compiled here.
    """
    for name in ("tfdbg_cli.sessions.debugger.debugger", "tfdbg_cli.__main__", "numpy.random"):
        importlib.import_module(name)
    # Not only imported: it makes its tables when it is used.
    importlib.import_module("pygments.lexers.python").PythonLexer()
    for path in Path(_OURS).rglob("*.py"):
        _codes[str(path)] = SourceFileLoader("it", str(path)).get_code("it")
    gc.freeze()  # else each program copies all of its framework's memory to look through it


def install(told: str, log: str, has_begun: bool = False) -> None:
    """Let one fail, or none: ``0:once``.

    Args:
        told: which, and how.
        log: where calls are noted.
        has_begun: whether they fail at once, and not from the program's first line on.
    """
    faults = _Faults(told, log)
    faults.has_begun = has_begun
    for kind, calls in _OS.items():
        for call in calls:
            faults.let_fail(os, call, kind)
    for kind, calls in _SOCKET.items():
        for call in calls:
            faults.let_fail(socket.socket, call, kind)
    faults.let_fail(fcntl, "fcntl", "open")
    faults.let_fail(subprocess, "_fork_exec", "process")
    _let_threads_fail(faults)
    _let_files_fail(faults)
    _import_sources()

    class Map(mmap.mmap):
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            error = faults.fails("map", "mmap")
            if error is not None:
                raise error
            return super().__new__(cls, *args, **kwargs)

    mmap.mmap = Map


def _import_sources() -> None:
    """Our modules have one file each: without its bytecode Python would go on with the source."""
    original = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, name: str) -> CodeType | None:
        path = self.get_filename(name)
        if not path.startswith(_OURS):
            return original(self, name)
        data = self.get_data(path)
        return _codes.get(path) or compile(data, path, "exec", dont_inherit=True)

    SourceFileLoader.get_code = get_code


def _let_threads_fail(faults: _Faults) -> None:
    original: Callable[..., Any] = _thread.start_new_thread

    def start(*args: Any) -> Any:
        if faults.fails("process", "start_new_thread") is not None:
            raise RuntimeError("can't start new thread")
        return original(*args)

    threading._start_new_thread = _thread.start_new_thread = start


def _let_files_fail(faults: _Faults) -> None:
    original = io.open

    class File(io.FileIO):
        def write(self, data: Any) -> Any:
            error = faults.fails("write", "file.write")
            if error is not None:
                raise error
            return super().write(data)

    def opened(
        file: Any,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        closefd: bool = True,
        opener: Any = None,
    ) -> Any:
        is_import = sys._getframe(1).f_code.co_filename.startswith("<frozen importlib")
        error = None
        if is_import:
            if str(file).startswith(_OURS) and not any(each in str(file) for each in _NOT_OURS):
                error = faults.fails("import", "open")
        elif file not in (0, 1, 2):
            error = faults.fails("open", "open")
        if str(file).endswith("/script.py"):
            faults.has_begun = True
        if error is not None:
            raise error
        if not set("wax+") & set(mode) or file in (0, 1, 2):
            return original(file, mode, buffering, encoding, errors, newline, closefd, opener)
        raw = File(file, "".join(set("rwxa+") & set(mode)), closefd, opener)
        buffered = io.BufferedRandom(raw) if "+" in mode else io.BufferedWriter(raw)
        if "b" in mode:
            return raw if not buffering else buffered
        return io.TextIOWrapper(buffered, encoding, errors, newline, buffering == 1)

    builtins.open = io.open = opened
    sys.modules["_io"].open = opened
