"""The receiving end of TensorFlow's ``grpc://`` debug streams: each run becomes a dump.

The service is ``EventListener`` of
https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/debug/debug_service.proto;
its messages are read with our own scanner, so gRPC is all that is needed, and no TensorFlow.

How TensorFlow uses it: the process that a run was asked of opens a stream when the run begins,
sends the record of the run (`CoreMetadata`) on it, and waits at the end of the run until we have
closed it. Other servers that compute parts of the run open one when they first have something to
send, leave it open for all the runs to come, and send no record.
"""

from __future__ import annotations

import contextlib
import queue
import shutil
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any, Self

from tfdbg_cli.common.errors import DumpError, UserError
from tfdbg_cli.common.streams import tell
from tfdbg_cli.dumps.tfdbg_dir.debug_dump_dir import DebugDumpDir
from tfdbg_cli.dumps.tfdbg_dir.events import CoreMetadata
from tfdbg_cli.engines.tensorflow.sessions.grpc.events import (
    Assembler,
    Message,
    RunFiles,
    StreamedGraph,
)
from tfdbg_cli.net.address import Address

__all__ = ["ReceivedRun", "Receiver"]

_SERVICE = "tensorflow.EventListener"
_EMPTY_REPLY = b""  # an EventReply that changes the state of no debug op
# TensorFlow sends tensors in pieces of 4 MB; only a single string can be larger.
_LARGEST_MESSAGE = 512 << 20
# Each open stream holds a thread, and each server of a cluster holds a stream.
_STREAMS = 256

# Other servers have no way to say that they are done with a run: it is over when they are quiet.
_QUIET = 0.25
_LONGEST_WAIT = 5.0
# For streams to end by themselves when we close.
_GRACE = 2.0
# What a server sends just before the run's record arrives belongs to that run.
_EARLY = 1.0
_MOST_EARLY = 256

# Graphs are sent once; a program has a handful of distinct runs.
_KNOWN_RUNS = 64


class ReceivedRun:
    """One run, with all that was received of it.

    Attributes:
        peer: who sent it, as gRPC names it (``ipv4:127.0.0.1:50712``).
    """

    def __init__(self, files: RunFiles, peer: str) -> None:
        self.peer = peer
        self._files = files
        self._released = threading.Event()

    @property
    def folder(self) -> Path:
        """The dump directory."""
        return self._files.folder

    def open(self) -> DebugDumpDir:
        """The dump."""
        return self._files.open()

    def release(self, *, keep: bool = False) -> None:
        """Let the sender go on.

        Args:
            keep: leave the dump directory where it is.
        """
        self._released.set()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)


class _EventStream:
    """One stream, from its opening to its end."""

    def __init__(self, peer: str, limit: int) -> None:
        self.peer = peer
        self.assembler = Assembler(limit)
        #: The run that this stream has opened; ``None``: it belongs to another server.
        self.run: RunFiles | None = None
        #: Graphs that came before it was known which of both it is.
        self.graphs: list[StreamedGraph] = []
        self.is_known = False


class Receiver:
    """Listens for debug streams until it is closed.

    Args:
        address: where; port 0 takes one that is free.
        root: the folder below which each run gets a dump directory.
        limit: bytes that the tensors of one run may take.
        holds: whether the program that sent a run waits until the run is released.

    Attributes:
        port: where it listens.

    Raises:
        UserError: grpcio isn't installed, or the port is taken.
    """

    def __init__(
        self, address: Address, root: Path, *, limit: int = 1 << 40, holds: bool = False
    ) -> None:
        grpc = _import_grpc()
        self._root, self._limit, self._holds = root, limit, holds
        self._lock = threading.Lock()
        self._open: list[RunFiles] = []
        self._others = 0
        self._last_heard = 0.0
        self._early: deque[tuple[float, Message]] = deque(maxlen=_MOST_EARLY)
        self._graphs: OrderedDict[Any, dict[str, StreamedGraph]] = OrderedDict()
        self._count = 0
        self._done: queue.Queue[ReceivedRun] = queue.Queue()
        self._closing = threading.Event()
        self._server = grpc.server(
            futures.ThreadPoolExecutor(_STREAMS, thread_name_prefix="tfdbg-grpc"),
            options=[
                ("grpc.max_receive_message_length", _LARGEST_MESSAGE),
                ("grpc.so_reuseport", 0),
            ],
        )
        handlers = {
            "SendEvents": grpc.stream_stream_rpc_method_handler(self._receive),
            "SendTracebacks": grpc.unary_unary_rpc_method_handler(_accept),
            "SendSourceFiles": grpc.unary_unary_rpc_method_handler(_accept),
        }
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(_SERVICE, handlers),)
        )
        host = f"[{address.host}]" if ":" in address.host else address.host or "[::]"
        try:
            self.port = int(self._server.add_insecure_port(f"{host}:{address.port}"))
        except RuntimeError:
            self.port = 0
        if not self.port:
            self._server.stop(None)
            raise UserError(
                f"The debugger can't listen for runs at {address}.",
                "Is the port in use? Port 0 takes any that is free.",
            )
        self._server.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def next(self, timeout: float | None = None) -> ReceivedRun | None:
        """The next run that is complete, or ``None`` if there is none in so many seconds."""
        with contextlib.suppress(queue.Empty):
            return self._done.get(timeout=timeout)
        return None

    def close(self) -> None:
        """Stop listening, and then let everybody go on; runs that nobody has taken are deleted."""
        # In this order: the next run of a program that goes on must not find us half closed.
        stopped = self._server.stop(_GRACE)
        self._closing.set()
        stopped.wait()
        with contextlib.suppress(queue.Empty):
            while True:
                self._done.get_nowait().release()

    # The service. Each stream has a thread of its own.

    def _receive(self, events: Iterator[bytes], context: Any) -> Iterator[bytes]:
        """``SendEvents``: the replies to the Events of one stream."""
        stream = _EventStream(context.peer(), self._limit)
        is_whole = False
        try:
            while True:
                try:
                    data = next(events)
                except StopIteration:
                    is_whole = context.is_active()
                    break
                except Exception:  # plain ones, where the sender is gone or we are closing
                    break
                if self._take(stream, data):
                    yield _EMPTY_REPLY
        finally:
            self._end(stream, is_whole, context.is_active)

    def _take(self, stream: _EventStream, data: bytes) -> bool:
        """Take an Event; whether the sender may be waiting for a reply.

        It waits after each graph and after the record of the run. One that it doesn't wait for
        does no harm.
        """
        try:
            message = stream.assembler.feed(data)
        except DumpError as error:
            with self._lock:
                run = stream.run or (self._open[-1] if self._open else None)
            if run is not None:
                run.note(f"A part of the run can't be read: {error}")
            return True
        if isinstance(message, CoreMetadata):
            try:
                self._begin(stream, message)
            except UserError as error:  # the folder can't be made
                tell(f"a run can't be received: {error}")
        elif isinstance(message, StreamedGraph) and not stream.is_known:
            stream.graphs.append(message)
        elif message is not None:
            self._settle(stream)
            self._file(stream, message)
        return isinstance(message, CoreMetadata | StreamedGraph)

    def _begin(self, stream: _EventStream, core: CoreMetadata) -> None:
        """A run begins on this stream."""
        if stream.run is not None:
            stream.run.note("The stream holds the records of several runs; this is the first.")
            return
        with self._lock:
            number, self._count = self._count, self._count + 1
            folder = self._root / f"run_{time.time_ns() // 1000}_{number}"
            stream.run = run = RunFiles(folder, self._limit)
            self._open.append(run)
            oldest = time.monotonic() - _EARLY
            early = [message for at, message in self._early if at >= oldest]
            self._early.clear()
            if not stream.is_known:
                stream.is_known = True
            else:
                self._others -= 1
        for message in (core, *stream.graphs, *early):
            run.add(message)
        stream.graphs.clear()

    def _settle(self, stream: _EventStream) -> None:
        """A stream that sends tensors before any record is that of another server."""
        if stream.is_known:
            return
        stream.is_known = True
        with self._lock:
            self._others += 1
        for graph in stream.graphs:
            self._file(stream, graph)
        stream.graphs.clear()

    def _file(self, stream: _EventStream, message: Message) -> None:
        run = stream.run
        if run is None:
            now = time.monotonic()
            with self._lock:
                self._last_heard = now
                if not self._open:
                    self._early.append((now, message))
                    return
                run = self._open[-1]
        run.add(message)

    def _end(self, stream: _EventStream, is_whole: bool, is_active: Callable[[], bool]) -> None:
        """A stream is at its end, and with it the run that it has opened."""
        run = stream.run
        if run is None:
            if stream.is_known:
                with self._lock:
                    self._others -= 1
            return
        if not is_whole:
            run.note("The sender broke off: the run may be incomplete.")
        for name in stream.assembler.unfinished:
            run.note(f"A piece of the {name} is missing.")
        self._wait_for_others()
        with self._lock:
            self._open.remove(run)
        self._complete_graphs(run, stream.peer.rpartition(":")[0])
        received = ReceivedRun(run, stream.peer)
        self._done.put(received)
        while self._holds and is_active() and not self._closing.is_set():
            if received._released.wait(0.2):
                break

    def _wait_for_others(self) -> None:
        """Wait until the streams of other servers are quiet."""
        end = time.monotonic() + _LONGEST_WAIT
        start = time.monotonic()
        while self._others and not self._closing.is_set():
            now = time.monotonic()
            quiet_at = max(self._last_heard, start) + _QUIET
            if now >= min(quiet_at, end):
                return
            self._closing.wait(min(quiet_at, end) - now)

    def _complete_graphs(self, run: RunFiles, host: str) -> None:
        """A server sends its graph once: what is missing is taken from the run that had it."""
        core = run.core
        if core is None:
            return
        names = (core.input_names, core.output_names, core.target_nodes)
        key = (host, *map(tuple, names))
        with self._lock:
            known = self._graphs.setdefault(key, {})
            self._graphs.move_to_end(key)
            while len(self._graphs) > _KNOWN_RUNS:
                self._graphs.popitem(last=False)
            if core.executor_step_index == 0:
                known.clear()
            missing = [known[name] for name in run.devices - run.graphs.keys() if name in known]
            known.update(run.graphs)
        for graph in missing:
            run.add(graph)


def _accept(request: bytes, context: Any) -> bytes:
    """``SendTracebacks`` and ``SendSourceFiles``, which only other tools send."""
    return _EMPTY_REPLY


def _import_grpc() -> Any:
    try:
        import grpc
    except ImportError:
        raise UserError(
            "Receiving runs needs the package grpcio.", 'pip install "tfdbg_cli[grpc]" has it.'
        ) from None
    return grpc
