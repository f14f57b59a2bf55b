"""Several dumps of the same run seen as one: what the ranks of a distributed program computed."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tfdbg_cli.dumps.dump import Datum, Dump, RunError, RunInfo
from tfdbg_cli.dumps.feeds import LazyFeeds
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.profile import Profile, ProfileEntry
from tfdbg_cli.dumps.series.tracks import Tracks
from tfdbg_cli.dumps.sources import Sources

__all__ = ["RANK_NAME", "JoinedDatum", "JoinedDump", "part_of", "rank_name"]

#: The name of a rank's folder, and the first part of the names of its nodes.
RANK_NAME = re.compile(r"rank_(\d+)")

_TASK = re.compile(r"/task:\d+/")
# Ops through which tensors go from rank to rank.
_COLLECTIVE = re.compile(r"(?:_?c10d(?:_functional)?)\.(\w+)")
# These wait for others, or send to one of them only.
_ONE_SIDED = re.compile(r"wait_tensor|barrier|monitored_barrier|send|recv")


def rank_name(rank: int) -> str:
    """``rank_3``."""
    return f"rank_{rank}"


def part_of(name: str) -> tuple[int | None, str]:
    """The rank that a node or tensor of a joined dump belongs to, and its name there."""
    first, slash, rest = name.partition("/")
    match = RANK_NAME.fullmatch(first) if slash else None
    return (int(match[1]), rest) if match is not None else (None, name)


class JoinedDatum(Datum):
    """A tensor of one of the dumps, under the name that it has in the whole.

    Args:
        rank: whose it is.
        datum: the tensor there.
    """

    __slots__ = ("datum",)

    def __init__(self, rank: int, datum: Datum) -> None:
        device = datum.device_name or "/job:localhost/replica:0/task:0/device:CPU:0"
        super().__init__(
            f"{rank_name(rank)}/{datum.node_name}",
            datum.output_slot,
            datum.get_tensor,
            debug_op=datum.debug_op,
            timestamp=datum.timestamp,
            device_name=_TASK.sub(f"/task:{rank}/", device),
            is_view=datum.is_view,
            note=datum.note,
        )
        self.datum = datum

    def __getattr__(self, name: str) -> Any:
        # What the kinds of dumps know of a tensor besides: its health, its file.
        if name == "datum":
            raise AttributeError(name)
        return getattr(self.datum, name)

    @property
    def file_path(self) -> str:
        return self.datum.file_path

    @property
    def dump_size_bytes(self) -> int | None:
        """Size of the dump."""
        return self.datum.dump_size_bytes

    def _describe(self) -> None:
        datum = self.datum
        self._dtype, self._shape, self._nbytes = datum.dtype, datum.shape, datum.nbytes


class JoinedDump(Dump):
    """One run on several ranks.

    Nodes are called ``rank_<number>/<name>``, so that nothing of one rank is taken for the same
    thing of another: they may do different things (stages of a pipeline), and a value of one isn't
    another execution of the other's. Tensors are in the order of time over all ranks. Clocks are
    compared as they are: exact on one machine, as good as the machines' clocks agree on several.

    Where the k-th collective op is the same one on each rank, its inputs on all of them are inputs
    of its output on each: a bad value can be followed to the rank that it came from.

    Args:
        parts: rank -> its dump of the run. They are closed with this dump.
        own: the rank whose account of the run is told; default: the first.

    Attributes:
        focus: the rank that is meant by names without one.
    """

    def __init__(self, parts: Mapping[int, Dump], own: int | None = None) -> None:
        super().__init__()
        self.parts = dict(sorted(parts.items()))
        self._own = next(iter(self.parts), 0) if own is None else own
        self.focus = self._own
        self._graph: Graph | None = None
        self.absence = self._why_absent
        hosts = {_detail(part, "Host") for part in self.parts.values()} - {""}
        if len(hosts) > 1:
            self.warnings.append(
                f"The ranks ran on {len(hosts)} machines: their order in time is as exact as "
                "the machines' clocks."
            )
        for rank, part in self.parts.items():
            self.warnings += [f"Rank {rank}: {text}" for text in part.warnings]
        self.kept = next((part.kept for part in self.parts.values() if part.kept), "")
        self.lists_only_bad = all(part.lists_only_bad for part in self.parts.values())
        found = {rank: part.suspects for rank, part in self.parts.items()}
        if all(names is not None for names in found.values()):
            self.suspects = frozenset(
                f"{rank_name(rank)}/{name}" for rank, names in found.items() for name in names or ()
            )

    def _make_data(self) -> list[Datum]:
        # What a collective gives is there when the last rank has come to it.
        came = {rank: _arrivals(part) for rank, part in self.parts.items() if self._collectives}
        finished = [
            (each, max(came[rank][node.name] for rank, node in each.items()))
            for each in self._collectives
        ]
        data: list[Datum] = []
        for rank, part in self.parts.items():
            done = {each[rank].name: moment for each, moment in finished}
            for datum in part.data():
                joined = JoinedDatum(rank, datum)
                joined.timestamp = max(joined.timestamp, done.get(datum.node_name, 0))
                data.append(joined)
        return sorted(data, key=lambda datum: datum.timestamp)

    def graph(self) -> Graph | None:
        """The graphs of all, side by side."""
        if self._graph is None and any(part.graph() is not None for part in self.parts.values()):
            self._graph = Graph(self._nodes)
        return self._graph

    def _nodes(self) -> Iterator[Node]:
        across: dict[tuple[int, str], dict[int, Node]] = {}
        for same in self._collectives:
            for rank, node in same.items():
                across[rank, node.name] = {r: n for r, n in same.items() if r != rank}
        for rank, part in self.parts.items():
            graph = part.graph()
            for node in graph.nodes.values() if graph is not None else ():
                yield _renamed(rank, node, across.get((rank, node.name), {}))

    @functools.cached_property
    def _collectives(self) -> list[dict[int, Node]]:
        return _collectives(self.parts)

    def sources(self) -> Sources:
        """The text of the files, from whichever dump has it."""
        return self._sources

    @functools.cached_property
    def _sources(self) -> Sources:
        return _JoinedSources([part.sources() for part in self.parts.values()])

    def run_info(self) -> RunInfo | None:
        """The run as one rank tells it, with the inputs, outputs and errors of all."""
        infos = {
            rank: info for rank, part in self.parts.items() if (info := part.run_info()) is not None
        }
        if not infos:
            return None
        own = infos.get(self._own) or next(iter(infos.values()))
        feeds = {
            f"{rank_name(rank)}/{name}": functools.partial(info.feeds.__getitem__, name)
            for rank, info in infos.items()
            for name in info.feeds
        }
        shapes: dict[str, str] = {}
        tensors: dict[str, str] = {}
        for rank, info in infos.items():
            if isinstance(info.feeds, LazyFeeds):
                start = f"{rank_name(rank)}/"
                shapes |= {start + name: each for name, each in info.feeds.shapes.items()}
                tensors |= {start + name: start + each for name, each in info.feeds.tensors.items()}
        outputs = {
            f"{rank_name(rank)}/{name}": f"{rank_name(rank)}/{tensor}"
            for rank, info in infos.items()
            for name, tensor in info.outputs.items()
        }
        results = {
            f"{rank_name(rank)}/{tensor}": is_one
            for rank, info in infos.items()
            for tensor, is_one in (info.results or {}).items()
        }
        has_results = all(info.results is not None for info in infos.values())
        details = [item for item in own.details if item[0] not in ("Rank", "Host")]
        details.append(("Ranks", ", ".join(map(str, self.parts))))
        filters = [info.filter_name for info in infos.values() if info.filter_name]
        return replace(
            own,
            fetches=[f"{rank_name(self._own)}/{name}" for name in own.fetches],
            feeds=LazyFeeds(feeds, shapes, tensors),
            outputs=outputs,
            results=results if has_results else None,
            details=details,
            filter_name=filters[0] if filters else "",
            error=_error(infos, self._own),
        )

    def tracks_of(self, node: str) -> tuple[Tracks | None, str]:
        rank = part_of(node)[0]
        if rank not in self.parts:
            rank = self.focus
        own = rank == self._own
        found = super().tracks_of("") if own else self.parts[rank].tracks_of("")
        return found[0], f"of rank {rank}"

    def profile(self) -> Profile | None:
        """The timings of all; when ops began counts from the first one of each rank."""
        found = {rank: each for rank, part in self.parts.items() if (each := part.profile())}
        if not found:
            return None
        return Profile(
            (f"{rank_name(rank)}/{name}", [_renamed_entry(rank, each) for each in entries])
            for rank, profile in found.items()
            for name, entries in profile.devices
        )

    def close(self) -> None:
        """Close all of them."""
        for part in self.parts.values():
            part.close()

    def op_type(self, node_name: str) -> str:
        rank, name = part_of(node_name)
        part = self.parts.get(rank) if rank is not None else None
        return part.op_type(name) if part is not None else ""

    def _why_absent(self, node_name: str) -> str:
        rank, name = part_of(node_name)
        part = self.parts.get(rank) if rank is not None else None
        return part.why_absent(name) if part is not None else ""


class _JoinedSources(Sources):
    """Asks one dump after the other."""

    def __init__(self, parts: list[Sources]) -> None:
        super().__init__(live=False)
        self._parts = parts

    def _holder(self, path: str) -> Sources | None:
        return next((part for part in self._parts if part.lines(path) is not None), None)

    def lines(self, path: str) -> list[str] | None:
        holder = self._holder(path)
        return holder.lines(path) if holder is not None else None

    def note(self, path: str) -> str:
        holder = self._holder(path)
        return holder.note(path) if holder is not None else ""

    def paths(self) -> list[str]:
        return sorted({path for part in self._parts for path in part.paths()})


def _error(infos: Mapping[int, RunInfo], own: int) -> RunError | None:
    """The error of the run: one that names its op comes before those that follow from it."""
    failed = [(rank, info.error) for rank, info in infos.items() if info.error is not None]
    if not failed:
        return None
    # The others fail because the first one is gone: in a collective, which is their op.
    failed.sort(key=lambda pair: (_follows(pair[1]), pair[0] != own))
    rank, error = failed[0]
    op = f"{rank_name(rank)}/{error.op_name}" if error.op_name else ""
    lines = [f"On rank {rank}: {error.message}"]
    lines += [f"On rank {rank}: {one.type_name}: {one.message}" for rank, one in failed[1:]]
    return RunError(error.type_name, "\n".join(lines), op)


def _follows(error: RunError) -> bool:
    """Whether an error looks like that of a rank whose partner has gone."""
    return "c10d" in error.op_name or "peer" in error.message or not error.op_name


def _detail(dump: Dump, label: str) -> str:
    info = dump.run_info()
    return next((text for name, text in info.details if name == label), "") if info else ""


def _renamed(rank: int, node: Node, others: Mapping[int, Node]) -> Node:
    """A node under its name in the whole.

    Args:
        rank: whose it is.
        node: the node there.
        others: the nodes of other ranks that hand it tensors.
    """
    start = rank_name(rank) + "/"
    # What is listed first is the node's own.
    givers = [(start, node), *((rank_name(at) + "/", other) for at, other in others.items())]
    return Node(
        start + node.name,
        node.op_type,
        [at + tensor for at, giver in givers for tensor in giver.inputs],
        [at + name for at, giver in givers for name in giver.control_inputs],
        _TASK.sub(f"/task:{rank}/", node.device),
        lambda: node.attributes,
        lambda: node.frames,
        returns=[[start + tensor if tensor else "" for tensor in each] for each in node.returns],
    )


def _renamed_entry(rank: int, entry: ProfileEntry) -> ProfileEntry:
    return ProfileEntry(
        f"{rank_name(rank)}/{entry.node}",
        entry.op_type,
        entry.start,
        entry.op_time,
        entry.exec_time,
        entry.runtime_name,
        entry.kernel,
        lambda _: entry.place,
    )


def _arrivals(dump: Dump) -> dict[str, int]:
    """When each node was reached: after all that was computed ahead of it.

    A node's own tensors don't say it, as a dump may hold bad tensors only.
    """
    graph, found, last = dump.graph(), {}, 0
    for name in graph.nodes if graph is not None else ():
        own = max((datum.timestamp for datum in dump.by_node(name)), default=0)
        found[name] = max(last + 1, own)
        last = max(last, own)
    return found


def _collectives(parts: Mapping[int, Dump]) -> list[dict[int, Node]]:
    """The collectives of a run, in order: each as rank -> its node there.

    Nothing where the ranks' collectives are not the same ones in the same order: they belong to
    groups of ranks then, and which is which can't be told.
    """
    found: dict[int, list[Node]] = {}
    for rank, part in parts.items():
        graph = part.graph()
        found[rank] = [
            node
            for node in (graph.nodes.values() if graph is not None else ())
            if (match := _COLLECTIVE.fullmatch(node.op_type)) and not _ONE_SIDED.match(match[1])
        ]
    kinds = {tuple(node.op_type for node in nodes) for nodes in found.values()}
    if len(found) < 2 or len(kinds) != 1:
        return []
    return [dict(zip(found, same, strict=True)) for same in zip(*found.values(), strict=True)]
