"""Keeps what is done once more from having an effect on the world a second time."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType
from typing import Any

import torch

from tfdbg_cli.dumps.sources import is_debugger_code
from tfdbg_cli.engines.torch.names.sites import tensors_in
from tfdbg_cli.engines.torch.private import DispatchMode, storage_key, uncounted
from tfdbg_cli.engines.torch.record.schemas import facts_of
from tfdbg_cli.engines.torch.values.access import is_readable
from tfdbg_cli.engines.torch.values.layouts import undisturbed

__all__ = ["ReplayRefusal", "confined", "fenced", "is_sharded", "spared"]

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
# What Python's audit hooks tell of and nobody can take back.
_EFFECTS = (
    "os.exec",
    "os.fork",
    "os.kill",
    "os.link",
    "os.mkdir",
    "os.posix_spawn",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.spawn",
    "os.symlink",
    "os.system",
    "os.truncate",
    "shutil.",
    "socket.connect",
    "socket.send",
    "subprocess.Popen",
    "_thread.start_new_thread",
)

# Bytes of memory that is overwritten and put back.
_MOST = 1 << 30

# The functions of ours that do what is watched here.
_DOING = frozenset({"_forward", "_backward", "_make_again", "call", "step_again"})

# The threads that are watched. An audit hook stays for as long as the process lives.
_watched: set[int] = set()
_is_hooked = False


class ReplayRefusal(BaseException):
    """Why something isn't done once more: a clause, to follow a colon.

    No exception of the usual kind, so that the program's own handlers let it pass.

    Attributes:
        modules: in whose calls that was found, outermost first.
    """

    def __init__(self, reason: str, modules: Sequence[torch.nn.Module] = ()) -> None:
        super().__init__(reason)
        self.modules = modules


@contextlib.contextmanager
def confined() -> Iterator[None]:
    """What the block prints or logs is dropped; before it writes, sends or waits, it ends.

    That holds for this thread.

    Raises:
        ReplayRefusal: it was about to.
    """
    global _is_hooked
    if not _is_hooked:
        _is_hooked = True
        sys.addaudithook(_audit)
    thread = threading.get_ident()
    before = sys.stdout, sys.stderr
    ours = _MutedStream(sys.stdout, thread), _MutedStream(sys.stderr, thread)
    sys.stdout, sys.stderr = ours
    _watched.add(thread)
    try:
        with _unlogged(thread), _NoCollectives() if _has_others() else contextlib.nullcontext():
            yield
    finally:
        _watched.discard(thread)
        if sys.stdout is ours[0]:
            sys.stdout = before[0]
        if sys.stderr is ours[1]:
            sys.stderr = before[1]


@contextlib.contextmanager
def _unlogged(thread: int) -> Iterator[None]:
    """What one thread logs comes to no handler: each may have a file or a stream of its own."""
    logging = sys.modules.get("logging")
    if logging is None:
        yield
        return
    kind, original = logging.Logger, logging.Logger.callHandlers

    def call_handlers(logger: Any, record: Any) -> None:
        if threading.get_ident() != thread:
            original(logger, record)

    kind.callHandlers = call_handlers
    try:
        yield
    finally:
        if kind.callHandlers is call_handlers:
            kind.callHandlers = original


def _has_others() -> bool:
    """Whether other processes could take part in what is done."""
    distributed = torch.distributed
    return bool(distributed.is_available() and distributed.is_initialized())


def is_sharded(modules: Iterable[torch.nn.Module]) -> bool:
    """Whether one of some modules has its parameters gathered from other ranks while it is called.

    What it knows of the memory that it has got, and given back, can't be put back.
    """
    fsdp = sys.modules.get("torch.distributed.fsdp")
    names = "FullyShardedDataParallel", "FSDPModule"  # the latter by `fully_shard`
    kinds = tuple(getattr(fsdp, name) for name in names if hasattr(fsdp, name))
    return bool(kinds) and any(isinstance(module, kinds) for module in modules)


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if not _watched or threading.get_ident() not in _watched:
        return
    if event == "open":
        path, mode, flags = (*args, None, 0)[:3]
        writes = any(letter in (mode or "") for letter in "wax+") or (flags or 0) & _WRITING
        if not writes or "__pycache__" in str(path):
            return
        found = f"writes to {path}"
    elif event.startswith(_EFFECTS):
        found = f"does what can't be undone ({event})"
    else:
        return
    if not _is_ours(sys._getframe(1)):
        raise ReplayRefusal(f"it {found}")


def _is_ours(frame: FrameType | None) -> bool:
    """Whether it is done to record something, not by what is recorded."""
    while frame is not None and not is_debugger_code(frame.f_code):
        frame = frame.f_back
    return frame is not None and frame.f_code.co_name not in _DOING


def fenced(own: set[int]) -> contextlib.AbstractContextManager[Any]:
    """The block ends before an op writes to memory that it hasn't allocated.

    Args:
        own: keys of storages that it may write to as well.

    Raises:
        ReplayRefusal: it was about to.
    """
    return _Fence(own)


@contextlib.contextmanager
def spared() -> Iterator[Callable[[], set[int]]]:
    """Memory that ops within overwrite is put back, and counts as not written to.

    Yields:
        tells the keys of the storages that were overwritten and were there before.

    Raises:
        ReplayRefusal: before an op writes to memory that can't be copied, or to too much of it.
    """
    with contextlib.ExitStack() as counts:
        mode = _Sparing(counts)
        try:
            with mode:
                yield mode.overwritten
        finally:
            mode.put_back()


class _MutedStream:
    """A stream to which one thread writes in vain."""

    def __init__(self, stream: Any, thread: int) -> None:
        self._stream = stream
        self._thread = thread

    def write(self, text: Any) -> Any:
        """Some text."""
        return len(text) if threading.get_ident() == self._thread else self._stream.write(text)

    def writelines(self, lines: Any) -> None:
        """Several."""
        if threading.get_ident() != self._thread:
            self._stream.writelines(lines)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _NoCollectives(DispatchMode):
    """Other processes take no part."""

    supports_higher_order_operators = True

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """One op."""
        if facts_of(func).is_collective:
            raise ReplayRefusal("other processes take part in it")
        return func(*args, **(kwargs or {}))


class _WriteMode(DispatchMode):
    """Is told of memory that ops are about to overwrite, unless they have made it themselves."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[int, torch.Tensor] = {}  # so that nobody else gets their addresses

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Any = (), kwargs: Any = None
    ) -> Any:
        """One op."""
        kwargs, facts = kwargs or {}, facts_of(func)
        if facts.has_writes:
            for _, tensor in tensors_in("", facts.written(args, kwargs), most=None):
                if storage_key(tensor) not in self._made:
                    self._keep(tensor)
        result = func(*args, **kwargs)
        if facts.is_fresh:
            for _, tensor in tensors_in("", result):
                self._made[storage_key(tensor)] = tensor
        return result

    def _keep(self, tensor: torch.Tensor) -> None:
        raise NotImplementedError


class _Sparing(_WriteMode):
    """Copies what ops are about to overwrite.

    Args:
        counts: gets what puts back how often tensors were written to.
    """

    def __init__(self, counts: contextlib.ExitStack) -> None:
        super().__init__()
        self._counts = counts
        self._copies: dict[int, tuple[Any, Any]] = {}
        self._counted: dict[int, torch.Tensor] = {}

    def _keep(self, tensor: torch.Tensor) -> None:
        key = storage_key(tensor)
        if id(tensor) not in self._counted and not tensor.is_inference():
            self._counted[id(tensor)] = tensor
            self._counts.enter_context(uncounted(tensor))
        if key not in self._copies:
            if not is_readable(tensor) or tensor.layout is not torch.strided:
                raise ReplayRefusal("it writes to a tensor that can't be copied")
            storage = tensor.untyped_storage()
            if storage.nbytes() + sum(each.nbytes() for _, each in self._copies.values()) > _MOST:
                raise ReplayRefusal(f"it writes to more than {_MOST >> 20} MB")
            with undisturbed():
                self._copies[key] = storage, storage.clone()

    def overwritten(self) -> set[int]:
        """The keys of the storages that are put back."""
        return {*self._copies}

    def put_back(self) -> None:
        """The block is over."""
        with undisturbed():
            for storage, copy in self._copies.values():
                storage.copy_(copy)


class _Fence(_WriteMode):
    """Ops write only to some storages, and to what they have made.

    Args:
        own: keys of the storages.
    """

    def __init__(self, own: set[int]) -> None:
        super().__init__()
        self._own = own

    def _keep(self, tensor: torch.Tensor) -> None:
        if storage_key(tensor) not in self._own:
            raise ReplayRefusal("it writes to more than the optimizer has")
