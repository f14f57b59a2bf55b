"""How long each operation of a run took, device by device."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.sources import Frame, is_library_path

if TYPE_CHECKING:
    from tfdbg_cli.dumps.dump import Dump

__all__ = [
    "CodeLine",
    "DeviceProfile",
    "Locate",
    "Profile",
    "ProfileEntry",
    "is_profile_only",
    "place_of",
]


class CodeLine(NamedTuple):
    """The line of the user's that made a node.

    Attributes:
        file: path, as frames have it.
        line: line number, from 1.
        function: name of the function, ``<module>`` for a script's own level.
    """

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}({self.function})"


#: From a node's name to the line that made it; ``None`` where nobody knows.
Locate = Callable[[str], CodeLine | None]


class ProfileEntry:
    """One execution of one operation. All times are microseconds.

    Args:
        node: the node's name, the user's wherever it is known.
        op_type: its type in the user's graph; the runtime's for what the runtime made itself.
        start: when it began, counted from the beginning of the run's first operation.
        op_time: how long it computed.
        exec_time: how long it took in all: also getting ready, and handing on the results.
        runtime_name: what the runtime calls it, if that is another name.
        kernel: the type of the operation that was executed, if that is another type: a fused or
            rewritten operation, or the feeding of a placeholder.
        place: the line that made the node, or a function that looks it up by the node's name.
    """

    __slots__ = (
        "_place",
        "exec_time",
        "kernel",
        "node",
        "op_time",
        "op_type",
        "runtime_name",
        "start",
    )

    def __init__(
        self,
        node: str,
        op_type: str,
        start: float,
        op_time: float,
        exec_time: float,
        runtime_name: str = "",
        kernel: str = "",
        place: CodeLine | Locate | None = None,
    ) -> None:
        self.node = node
        self.op_type = op_type
        self.start = start
        self.op_time = op_time
        self.exec_time = exec_time
        self.runtime_name = "" if runtime_name == node else runtime_name
        self.kernel = "" if kernel == op_type else kernel
        self._place = place

    @property
    def place(self) -> CodeLine | None:
        """The innermost line outside libraries that made the node; looked up when asked for."""
        if callable(self._place):
            self._place = self._place(self.node)
        return self._place

    def __repr__(self) -> str:
        return f"ProfileEntry({self.node!r}, {self.op_type!r}, {self.exec_time:g}us)"


class DeviceProfile(NamedTuple):
    """What one device executed.

    Attributes:
        name: of the device, as the runtime writes it.
        entries: in the order in which they began.
    """

    name: str
    entries: tuple[ProfileEntry, ...]


class Profile:
    """The timings of one run.

    Args:
        devices: name and entries of each device; entries may come in any order.
    """

    def __init__(self, devices: Iterable[tuple[str, Iterable[ProfileEntry]]] = ()) -> None:
        self.devices = tuple(
            DeviceProfile(name, tuple(sorted(entries, key=lambda entry: entry.start)))
            for name, entries in devices
        )

    def __iter__(self) -> Iterator[ProfileEntry]:
        for device in self.devices:
            yield from device.entries

    def __len__(self) -> int:
        return sum(len(device.entries) for device in self.devices)


def is_profile_only(dump: Dump) -> bool:
    """Whether a dump is of a run that was timed, and holds no tensors."""
    return dump.profile() is not None and not dump.data()


def place_of(graph: Graph | Callable[[], Graph | None] | None) -> Locate:
    """A function that finds the line which made a node, and remembers it.

    Args:
        graph: the nodes with their creation stacks, or a function that gives it when first asked.
    """
    known: dict[str, CodeLine | None] = {}

    def locate(node: str) -> CodeLine | None:
        if node not in known:
            found = graph() if callable(graph) else graph
            entry = found.nodes.get(node) if found is not None else None
            known[node] = _innermost((entry.frames if entry is not None else None) or ())
        return known[node]

    return locate


def _innermost(frames: tuple[Frame, ...]) -> CodeLine | None:
    for frame in reversed(frames):
        if not is_library_path(frame.file):
            return CodeLine(frame.file, frame.line, frame.function)
    return None
