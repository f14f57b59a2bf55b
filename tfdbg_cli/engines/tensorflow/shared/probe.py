"""Reads creation stacks in a copy of the process, where a crash does no harm."""

from __future__ import annotations

import contextlib
import functools
import json
import linecache
import os
import re
import select
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

from tfdbg_cli.common.interpreter.unwarned import unwarned

try:
    import resource
except ImportError:  # no fork there either
    resource = None  # type: ignore[assignment]

__all__ = ["Stack", "probe", "stack_of"]

#: ``[file, line, function]`` per frame, outermost first.
Stack: TypeAlias = list[list[Any]]

# Stacks that end the process while they are read are left out, up to so many.
_MOST_CRASHES = 20
_SECONDS = 20.0


def probe(operations: Sequence[Any]) -> dict[str, Stack | None]:
    """The stacks of operations that may point to code that is gone.

    Frames that can't be real are left out: what is left of freed code may look like anything.

    Args:
        operations: of one graph.

    Returns:
        Name -> stack; ``None`` for an operation whose stack can't be read.
    """
    if not hasattr(os, "fork"):
        return {op.name: stack_of(op) for op in operations}
    found: dict[str, Stack | None] = {op.name: None for op in operations}
    at = crashes = 0
    until = time.monotonic() + _SECONDS
    while at < len(operations) and crashes <= _MOST_CRASHES and time.monotonic() < until:
        for name, stack in _in_a_copy(operations[at:], until):
            found[name] = [frame for frame in stack if _is_real(*frame)] if stack else None
            at += 1
        if at < len(operations):  # the copy ended at the next one
            at += 1
            crashes += 1
    return found


def stack_of(op: Any) -> Stack | None:
    """The creation stack of an operation, as TensorFlow notes it; ``None``: it noted none.

    The frames' texts aren't asked for: TensorFlow looks through all modules for each of them.
    """
    stack = op.traceback
    return None if stack is None else [[each.filename, each.lineno, each.name] for each in stack]


@functools.lru_cache(maxsize=4096)
def _is_real(file: str, line: int, function: str) -> bool:
    """Whether a file has such a line, in a function of that name."""
    if file.startswith("<"):
        return True
    if not (file in linecache.cache or os.path.exists(file)):
        return False
    if not file.endswith(".py"):
        return True
    lines = linecache.getlines(file)
    if lines and not 1 <= line <= len(lines):
        return False
    if function.startswith("<") or not lines:
        return True
    head = re.compile(rf"\s*(?:async\s+def|def|class)\s+{re.escape(function)}\b")
    return any(head.match(each) for each in lines[:line])


def _in_a_copy(operations: Sequence[Any], until: float) -> Iterator[tuple[str, Stack | None]]:
    """What the copy can tell before it ends."""
    reader, writer = os.pipe()
    # What is buffered is the parent's to write.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, OSError, ValueError):
            stream.flush()
    # Python and JAX warn of forks amid threads. The copy runs nothing but the reading of stacks.
    with unwarned():
        # No handler of the program's runs in the copy: what it raised there would run the program.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            child = os.fork()
            if child == 0:
                _tell(operations, writer)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.close(writer)
    try:
        yield from _listen(reader, until)
    finally:
        os.close(reader)
        with contextlib.suppress(OSError):  # the program may wait for any child itself
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _tell(operations: Sequence[Any], writer: int) -> None:
    """The copy's whole life."""
    try:
        # A crash is expected: no message, no core file, nobody's handler.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for number in (signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT):
            signal.signal(number, signal.SIG_DFL)
        known: dict[tuple[Any, ...], int] = {}
        for op in operations:
            # Each frame is sent once, and from then on as its number.
            stack, new = stack_of(op), []
            for frame in stack or ():
                if tuple(frame) not in known:
                    known[tuple(frame)] = len(known)
                    new.append(frame)
            numbers = None if stack is None else [known[tuple(frame)] for frame in stack]
            data = json.dumps([op.name, numbers, new]).encode() + b"\n"
            while data:
                data = data[os.write(writer, data) :]
    finally:
        os._exit(0)


def _listen(reader: int, until: float) -> Iterator[tuple[str, Stack | None]]:
    rest = b""
    frames: list[list[Any]] = []
    while True:
        ready, _, _ = select.select([reader], [], [], max(until - time.monotonic(), 0))
        data = os.read(reader, 1 << 16) if ready else b""
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            name, numbers, new = json.loads(line)
            frames += new
            yield name, None if numbers is None else [frames[number] for number in numbers]
