"""The dump of a run that was watched at the borders of its modules, and op by op in some places."""

from __future__ import annotations

import copy
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from tfdbg_cli.common.node_words import OWN_BACKWARD, WATCHED, WRITES, WRITTEN_BY
from tfdbg_cli.dumps.dump import Datum, RunInfo
from tfdbg_cli.dumps.elements import free_name, split_tensor_name
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.kit.clock import epoch
from tfdbg_cli.engines.kit.stacks import Stack
from tfdbg_cli.engines.torch.modules.calls import Border, InnerCall, ModuleCall
from tfdbg_cli.engines.torch.modules.checks import PARAMETER
from tfdbg_cli.engines.torch.modules.dump_parts import KeptTensor, renamed_node
from tfdbg_cli.engines.torch.modules.outside_nodes import OutsideNode
from tfdbg_cli.engines.torch.modules.replay import Replay
from tfdbg_cli.engines.torch.modules.state import version_of
from tfdbg_cli.engines.torch.names.scopes import Names, legal
from tfdbg_cli.engines.torch.private import sequence_of
from tfdbg_cli.engines.torch.record.assembly import RunDump, device_name
from tfdbg_cli.engines.torch.record.op_record import OpRecord
from tfdbg_cli.engines.torch.traits import TRAITS
from tfdbg_cli.engines.torch.values.access import gradient_of, is_readable
from tfdbg_cli.engines.torch.values.arrays import describe
from tfdbg_cli.engines.torch.values.layouts import undisturbed
from tfdbg_cli.tensors.numeric import has_nonfinite

__all__ = ["ModuleRecords", "ModulesDump"]

_INPUT = "input/"
_WRITTEN = "written"
_GRADIENTS = "gradients/"
# Microseconds.
_NEAR = 1_000
# Of what was seen there, and not where it was made.
_AT_BORDERS = {WATCHED: "at its borders"}


@dataclass
class ModuleRecords:
    """What is known of the modules of a run.

    Attributes:
        calls: of modules, in the order in which they began.
        names: of modules and parameters.
        bad: kind, thing, time and slot of what was bad.
        kept: of those, what modules inside of others have returned or were handed, and parameters
            that were bad before, by its place.
        losses: the names outside of what backward passes began with; empty: another one.
        nodes: of backward passes, outside of modules.
        made_node: the op outside of modules that made the node of a number.
        outside_name: what a tensor is called that an op outside of modules has made.
        step: where the last step of an optimizer was called.
        remade: the parameters of a step that was made once more, op by op.
        written_by: the op that has written to tensors between runs, and its line; may be empty.
    """

    calls: Sequence[ModuleCall]
    names: Names
    bad: Sequence[tuple[str, Any, int, int]]
    kept: Mapping[int, torch.Tensor]
    losses: Sequence[Callable[[], str]]
    nodes: Sequence[OutsideNode]
    made_node: Callable[[int], str]
    outside_name: Callable[[torch.Tensor], str]
    step: Stack | None
    remade: Sequence[torch.Tensor]
    written_by: Callable[[Sequence[torch.Tensor]], str]


class ModulesDump(MemoryDump):
    """Calls of modules as nodes, the ops of those that were made once more, and those outside.

    Args:
        seen: of the modules.
        outside: the ops outside of modules; ``None``: there were none.
        is_bad: one of those may be bad.
        replays: of calls that were made once more.
    """

    def __init__(
        self,
        seen: ModuleRecords,
        outside: MemoryDump | None,
        is_bad: bool,
        replays: Sequence[Replay],
    ) -> None:
        super().__init__()
        self._seen = seen
        self._parts = [part for part in (outside, *(each.dump for each in replays)) if part]
        self._outside = outside
        self._replays = replays
        self._kept: list[KeptTensor] = []
        self._nodes: dict[str, Node] = {}
        self._suspects: set[str] = set()
        self._results: dict[str, bool] = {}
        self._names: dict[int, str] = {}  # of borders
        self._unnamed: dict[str, dict[int, int]] = {}  # kinds of nodes, their numbers -> a count
        self._taken: dict[tuple[str, int], Datum] = {}  # by node and slot
        self._epoch = epoch()
        graph = outside.graph() if outside is not None else None
        taken = set(graph.nodes) if graph is not None else set()
        self._renames = {id(each): self._collisions(each, taken) for each in replays}
        for replay in replays:
            self._renames[id(replay)].update(self._inputs_of(replay))
        if outside is not None:
            self._take_outside(outside, is_bad)
        self._fill()
        self._graph = Graph(self._nodes.values())
        self.suspects = frozenset(self._suspects)
        self.set_run_info(RunInfo(engine=TRAITS.name, results=self._results))
        self.absence = self._why_absent
        self.warnings += [text for part in self._parts for text in part.warnings]

    def settle(self) -> None:
        """Copy what the program could still write to. The dump may then outlive the stop."""
        for part in self._parts:
            if isinstance(part, RunDump):
                part.settle()
        for kept in self._kept:
            kept.settle()

    def close(self) -> None:
        for part in self._parts:
            part.close()
        for kept in self._kept:
            kept.close()
        for call in self._seen.calls:
            call.forget()
        for node in self._seen.nodes:
            node.gradients.clear()
        super().close()

    def ops(self) -> Iterator[tuple[str, OpRecord]]:
        """Each op that was recorded under the name of its node."""
        for replay in self._replays:
            if isinstance(replay.dump, RunDump):
                for name, record in replay.dump.ops():
                    yield split_tensor_name(self._renamed(replay, f"{name}:0"))[0], record
        if isinstance(self._outside, RunDump):
            yield from self._outside.ops()

    def _why_absent(self, name: str) -> str:
        for part in self._parts:
            graph = part.graph()
            if graph is not None and name in graph and part.absence is not None:
                return part.absence(name)
        return "It was not kept: the run was watched at the borders of its modules."

    # Its parts.

    def _take_outside(self, part: MemoryDump, is_bad: bool) -> None:
        graph, info = part.graph(), part.run_info()
        known = self._leaves_of_modules(graph)
        gone = {split_tensor_name(name)[0] for name in known}

        def renamed(name: str) -> str:
            return known.get(name, name)

        for name, node in graph.nodes.items() if graph is not None else ():
            if name not in gone:
                is_reader = any(each in known for each in node.inputs)
                self._nodes[name] = renamed_node(node, name, renamed) if is_reader else node
        for datum in part.data():
            if datum.node_name not in gone:
                self._taken[datum.node_name, datum.output_slot] = datum
                self.add_datum(datum)
        suspects = part.suspects
        if suspects is None:
            suspects = frozenset(each.tensor_name for each in part.data() if is_bad)
        self._suspects |= set(map(renamed, suspects))
        if info is not None and info.results:
            self._results.update((renamed(name), value) for name, value in info.results.items())
        for name in self._loss_names():
            self._results[renamed(name)] = True

    def _leaves_of_modules(self, graph: Graph | None) -> dict[str, str]:
        """What outputs of modules, and what they keep, are called outside -> here."""
        found = {}
        for replay in self._replays:
            for tensor, again in replay.kept:
                name = _before_writes(graph, self._seen.outside_name(tensor))
                if name.startswith(_INPUT):
                    found[name] = self._renamed(replay, again)
        for call in self._seen.calls:
            for border in call.borders.values() if call.parent is None else ():
                tensor = border.kept
                name = self._seen.outside_name(tensor) if tensor is not None else ""
                name = _before_writes(graph, name)
                if name.startswith(_INPUT):
                    found[name] = self.border_name(border)
        bad = [(each, when) for kind, each, when, _ in self._seen.bad if kind == PARAMETER]
        for parameter, when in (*((each, 0) for each in self._seen.remade), *bad):
            leaf, gradient = self._seen.names.tensor(parameter), gradient_of(parameter)
            name = self._seen.outside_name(gradient) if gradient is not None else ""
            if when and name:  # it may have been written to since
                name = _before_writes(graph, name)
            if leaf is not None and name.startswith(_INPUT):
                self._add_gradient_of(parameter, leaf.name, when)
                found[name] = f"{_GRADIENTS}{leaf.name}:0"
                if when:
                    self._suspects.add(found[name])
                    self._results[found[name]] = True
        return found

    def _fill(self) -> None:
        again = {id(each.call): each for each in self._replays}
        for call in sorted(self._seen.calls, key=lambda call: call.ended or call.began):
            replay = again.get(id(call))
            if replay is not None:
                self._add_replay(replay)
            elif call.parent is None or id(call.parent) not in again:
                self._add_call(call)
        for node in self._seen.nodes:
            self._add_node(node)
        for call in reversed(self._seen.calls):
            for border in call.borders.values():
                if border.call is call:
                    self._add_gradients(border)
            if call.parent is None:
                names = map(self.border_name, call.borders.values())
                self._results.update((name, True) for name in names if name)
        for at, (kind, thing, when, slot) in enumerate(self._seen.bad):
            if isinstance(thing, InnerCall):
                self._add_inside(kind, thing, when, slot, self._seen.kept.get(at))
            elif kind == "node":
                name = f"{self._node_of(thing)}:{slot}"
                self._suspects.add(name)
                reader = thing.readers.get(slot)
                if not isinstance(reader, OutsideNode) or not reader.gradients:
                    self._results.setdefault(name, False)  # else its reader tells what came of it
            elif kind == "weight":  # an update may have written to it since
                self._add_weight(thing, self._seen.kept.get(at, thing), when)
            else:
                self._add_bad(kind, thing, when)

    # Calls of modules.

    def _node_name(self, chain: Sequence[torch.nn.Module], count: int) -> str:
        caller = None
        for module in chain:
            caller = self._seen.names.module(module, None, caller)
        assert caller is not None
        name = caller.path or legal(caller.class_name)
        return f"{name}-{count}" if count else name

    def _read_by(self, call: ModuleCall) -> Iterator[str]:
        """What a call reads, as far as that is known."""
        yield from filter(None, map(self.border_name, call.sources))
        known = {id(border.reference()) for border in call.sources}
        for tensor, _ in call.tensors:
            if id(tensor) not in known and (name := self._seen.outside_name(tensor)):
                yield name

    def border_name(self, border: Border) -> str:
        """What a tensor is called that a module has returned; empty: it isn't known."""
        known = self._names.get(id(border))
        if known is not None:
            return known
        for replay in self._replays:
            if border.call is replay.call or border in replay.call.borders.values():
                name = replay.outputs.get(border.slot, "")
                return self._renamed(replay, name) if name else ""
        return f"{self._node_name(border.call.chain, border.call.count)}:{border.slot}"

    def _add_call(self, call: ModuleCall) -> None:
        own = [border for border in call.borders.values() if border.call is call]
        if not own:
            return
        name = free_name(self._node_name(call.chain, call.count), self._nodes)
        for border in own:
            self._names[id(border)] = f"{name}:{border.slot}"
            tensor = border.tensor()
            if tensor is not None:
                self._keep(name, border.slot, tensor, border.version, call.ended)
        kind = type(call.module).__name__
        sources = list(dict.fromkeys(self._read_by(call)))
        self._nodes[name] = Node(
            name,
            kind,
            sources,
            attributes={"_module": f"{name} ({kind})", **_AT_BORDERS},
            frames=call.stack.frames,
        )

    def _keep(self, name: str, slot: int, tensor: torch.Tensor, version: int, when: int) -> None:
        kept = KeptTensor(tensor, version)
        self._kept.append(kept)
        with undisturbed():
            dtype, shape, size = describe(tensor.detach() if is_readable(tensor) else tensor)
        datum = self._taken[name, slot] = Datum(
            name,
            slot,
            kept.load,
            timestamp=(self._epoch + when) // 1000,
            device_name=device_name(tensor.device),
            dtype=dtype,
            shape=shape,
            nbytes=size,
        )
        self.add_datum(datum)

    # Calls that were made once more.

    def _collisions(self, replay: Replay, taken: set[str]) -> dict[str, str]:
        """Nodes of a replay whose names others have -> what they are called here."""
        graph = replay.dump.graph()
        found: dict[str, str] = {}
        for name, node in graph.nodes.items() if graph is not None else ():
            is_leaf = not node.inputs and node.op_type in ("Parameter", "Buffer", "Input", "State")
            new, count = name, 0
            while new in taken and not is_leaf:
                count += 1
                new = f"{name}_{count}"
            taken.add(new)
            if new != name:
                found[name] = new
        return found

    def _inputs_of(self, replay: Replay) -> Iterator[tuple[str, str]]:
        """What a call gets, as it is called in the replay and here."""
        by_id = {id(border.reference()): border for border in replay.call.sources}
        for tensor, name in replay.inputs:
            border = by_id.get(id(tensor))
            known = self.border_name(border) if border is not None else ""
            known = known or self._seen.outside_name(tensor)
            if known and name.startswith(_INPUT):
                yield name, known
        for slot, name in replay.handed.items():
            known = self.border_name(replay.call.borders[slot])
            if known and name.startswith(_INPUT):
                yield name, f"{_GRADIENTS}{known}"

    def _renamed(self, replay: Replay, name: str) -> str:
        """What a tensor of a replay is called here."""
        names = self._renames[id(replay)]
        if name in names:
            return names[name]
        node, slot = split_tensor_name(name)
        return f"{names[node]}:{slot}" if node in names else name

    def _add_replay(self, replay: Replay) -> None:
        graph = replay.dump.graph()
        renamed = functools.partial(self._renamed, replay)
        names = self._renames[id(replay)]
        gone = {split_tensor_name(name)[0] for name in names if name.startswith(_INPUT)}
        # What it got is there already, unless that was overwritten while nobody looked.
        gone -= {
            split_tensor_name(name)[0]
            for _, name in replay.inputs
            if name in names and split_tensor_name(names[name]) not in self._taken
        }
        if graph is not None:
            for name, node in graph.nodes.items():
                if name in gone:
                    continue
                new = split_tensor_name(renamed(f"{name}:0"))[0]
                if new not in self._nodes:
                    self._nodes[new] = renamed_node(node, new, renamed) if names else node
        began = (self._epoch + replay.call.began) // 1000
        # What it got may be some microseconds later, as no two ops outside have the same one.
        given = (self._taken.get(split_tensor_name(renamed(name))) for _, name in replay.inputs)
        times = (each.timestamp for each in given if each is not None)
        began = max(began, *(each for each in times if each < began + _NEAR), 0)
        for datum in replay.dump.data():
            if datum.node_name in gone:
                continue
            is_gradient = datum.node_name.startswith(_GRADIENTS) and replay.time
            when = (self._epoch + replay.time) // 1000 if is_gradient else began
            place = split_tensor_name(renamed(datum.tensor_name))
            known = self._taken.get(place)
            if known is not None:  # a parameter that is there already
                known.timestamp = min(known.timestamp, when)
                continue
            moved = self._taken[place] = copy.copy(datum)
            (moved.node_name, moved.output_slot), moved.timestamp = place, when
            self.add_datum(moved)
        if replay.is_bad:
            found = replay.dump.suspects
            if found is None:
                found = frozenset(datum.tensor_name for datum in replay.dump.data())
            self._suspects |= {renamed(name) for name in found}
        info = replay.dump.run_info()
        if replay.call.parent is None and info is not None and info.results:
            self._results.update((renamed(name), value) for name, value in info.results.items())

    # Gradients and what was bad.

    def _add_gradients(self, border: Border) -> None:
        for gradient in border.gradients:
            if not gradient.is_whole or gradient.tensor is None:
                continue
            source = self.border_name(border)
            if not source:
                continue
            node, slot = split_tensor_name(source)
            name = f"{_GRADIENTS}{node}"
            self._keep(name, slot, gradient.tensor, gradient.version, gradient.time)
            if name not in self._nodes:
                self._nodes[name] = Node(
                    name,
                    "Gradient",
                    filter(None, dict.fromkeys(self._gradient_sources(border))),
                    attributes={"_grad_of": source, **_AT_BORDERS},
                    frames=border.call.stack.frames,
                )

    def _add_node(self, node: OutsideNode) -> None:
        """A node of a backward pass, with what it has handed on."""
        name, forward = self._node_of(node), self._seen.made_node(node.sequence)
        for slot, gradient in node.gradients.items():
            if gradient.is_whole and gradient.tensor is not None:
                self._keep(name, slot, gradient.tensor, gradient.version, gradient.time)
        made = self._nodes.get(forward)
        frames: Callable[[], Any] | None = (lambda: made.frames) if made is not None else None
        if node.is_arrival:
            of = {"_grad_of": f"{forward}:0"} if forward else {}
            sources = dict.fromkeys([*self._handed_to(node), *self._arrived_from(node)])
            self._nodes[name] = Node(
                name,
                node.kind,
                filter(None, sources),
                attributes={**of, **_AT_BORDERS},
                frames=frames,
            )
            return
        result = self._taken.get((forward, 0)) if node.keeps_result else None
        may_be_bad = result is not None and result.tensor_name in self._suspects
        read = [*self._handed_to(node)]
        if result is not None and may_be_bad and has_nonfinite(result.get_tensor()):
            read.append(result.tensor_name)  # 0 times it is nan, though the inputs are clean
        read += made.inputs if made is not None else ()
        attributes = {"_phase": "backward", "_forward_node": forward} if forward else {}
        if node.code is not None:
            attributes[OWN_BACKWARD] = "true"
            frames = Stack((node.code, 0)).frames
        self._nodes[name] = Node(
            name, node.kind, dict.fromkeys(read), attributes=attributes, frames=frames
        )

    def _arrived_from(self, arrival: OutsideNode) -> Iterator[str]:
        """The gradients of the calls of modules that read what an op outside of them has made."""
        for replay in self._replays:
            for tensor, name in replay.gradients:
                node = tensor.grad_fn
                if node is not None and sequence_of(node) == arrival.sequence:
                    yield self._renamed(replay, name)
        for call in arrival.calls:
            yield from self._gradients_of(call)

    def _node_of(self, node: OutsideNode) -> str:
        forward = self._seen.made_node(node.sequence)
        if forward:
            is_node = not node.is_arrival
            return f"{_GRADIENTS}{forward}_grad/{node.kind}" if is_node else _GRADIENTS + forward
        # Of the gradient of a gradient, for example.
        known = self._unnamed.setdefault(node.kind, {})
        count = known.setdefault(node.sequence, len(known))
        return f"{_GRADIENTS}{node.kind}_{count}" if count else _GRADIENTS + node.kind

    def _handed_to(self, reader: OutsideNode | Border) -> Iterator[str]:
        """The gradients that nodes outside of modules have handed to one, or to a module."""
        for node in self._seen.nodes:
            for slot, each in node.readers.items():
                if each is reader:
                    yield f"{self._node_of(node)}:{slot}"

    def _loss_names(self) -> Iterator[str]:
        return filter(None, (name() for name in self._seen.losses))

    def _gradient_sources(self, border: Border) -> Iterator[str]:
        """What a gradient was made of; where that isn't known in full, also what it is about."""
        users = [call for call in self._seen.calls if border in call.sources]
        exact = {id(call): name for call, name in self._replayed(border.reference())}
        yield from exact.values()
        handed = [] if users else [*self._handed_to(border)]
        yield from handed
        unseen = [call for call in users if id(call) not in exact]
        for call in unseen:
            yield from self._gradients_of(call, but=border)
        if not users and not handed:
            yield from self._loss_names()
        if unseen or not (users or handed):
            yield self.border_name(border)

    def _replayed(self, tensor: Any) -> Iterator[tuple[ModuleCall, str]]:
        """The calls that were made again and have given a tensor a gradient, and its name there."""
        for replay in self._replays:
            for each, name in replay.gradients:
                if each is tensor:
                    yield replay.call, self._renamed(replay, name)

    def _gradients_of(self, call: ModuleCall, but: Border | None = None) -> Iterator[str]:
        for border in call.borders.values():
            if border is not but and border.gradients:
                name = self.border_name(border)
                yield f"{_GRADIENTS}{name}" if name else ""

    def _owner_sources(self, parameter: Any) -> Iterator[str]:
        """What the gradient of a parameter was made of; as `_gradient_sources`."""
        exact = {id(call): name for call, name in self._replayed(parameter)}
        yield from exact.values()
        for node in self._seen.nodes:
            for slot, owner in node.owners.items():
                if owner == id(parameter):
                    yield f"{self._node_of(node)}:{slot}"
        for call in self._seen.calls:
            if id(call) not in exact and any(each is parameter for each in call.parameters):
                yield from self._gradients_of(call)
                yield from map(self.border_name, call.borders.values())

    def _add_bad(self, kind: str, thing: Any, when: int) -> None:
        if kind in ("output", "gradient"):
            name = self.border_name(thing)
            if name and kind == "gradient":
                name = f"{_GRADIENTS}{name}"
                self._results[name] = True
            self._suspects |= {name} - {""}
        elif kind == "input":
            self._suspects |= {self._seen.outside_name(each) for each, _ in thing.tensors} - {""}
        else:
            leaf = self._seen.names.tensor(thing)
            owner = leaf.name if leaf is not None else "parameter"
            if kind == "updated" and self._seen.remade:
                return  # its ops are there
            tensor = gradient_of(thing) if kind == "parameter" else thing
            name = f"{_GRADIENTS}{owner}" if kind == "parameter" else f"optimizer/{owner}"
            if tensor is None:  # what `grad` has returned
                tensor = thing
            if name in self._nodes:
                return
            if kind == "parameter":
                sources = dict.fromkeys(self._owner_sources(thing))
                self._add_gradient(name, sources)
            else:
                gradient = gradient_of(thing)
                # Something may have written to it since the backward pass.
                taken = self._seen.outside_name(gradient) if gradient is not None else ""
                if not taken or taken.startswith(_INPUT):
                    self._add_gradient_of(thing, owner, when - 1)  # before the update
                    taken = f"{_GRADIENTS}{owner}:0"
                step = self._seen.step
                frames = step.frames if step is not None else None
                self._nodes[name] = Node(
                    name,
                    "Update",
                    [taken],
                    attributes={"_phase": "optimizer", **_AT_BORDERS},
                    frames=frames,
                )
            self._keep(name, 0, tensor, version_of(tensor), when)
            self._suspects.add(f"{name}:0")
            self._results[f"{name}:0"] = True

    def _add_gradient(self, name: str, sources: Iterable[str]) -> None:
        inputs = filter(None, sources)
        self._nodes[name] = Node(name, "Gradient", inputs, attributes=_AT_BORDERS)

    def _add_gradient_of(self, parameter: torch.Tensor, owner: str, when: int = 0) -> None:
        """What an update was made of, or what the program has read, at a time."""
        name, gradient = f"{_GRADIENTS}{owner}", parameter.grad
        if name not in self._nodes and gradient is not None:
            sources = dict.fromkeys(self._owner_sources(parameter))
            self._add_gradient(name, sources)
            when = when or time.perf_counter_ns()
            self._keep(name, 0, gradient, version_of(gradient), when)

    def _add_weight(self, parameter: torch.Tensor, before: torch.Tensor, when: int) -> None:
        """A parameter that was bad before, where the calls that read it couldn't be made again."""
        leaf = self._seen.names.tensor(parameter)
        known = [each for replay in self._replays for each in replay.call.parameters]
        if leaf is None or leaf.name in self._nodes or any(each is parameter for each in known):
            return
        by = self._seen.written_by([parameter])
        self._nodes[leaf.name] = Node(
            leaf.name, "Parameter", attributes={WRITTEN_BY: by} if by else None
        )
        self._keep(leaf.name, 0, before, version_of(before), when)
        self._suspects.add(f"{leaf.name}:0")
        self._results[f"{leaf.name}:0"] = True

    def _add_inside(
        self, kind: str, inside: InnerCall, when: int, slot: int, tensor: torch.Tensor | None
    ) -> None:
        """Something bad in a call that wasn't made once more."""
        if tensor is None or any(inside.call is each.call for each in self._replays):
            return
        name = self._node_name(inside.chain, 0)
        sources: Iterable[str] = self._read_by(inside.call)
        if kind == "gradient":
            name, sources = f"{_GRADIENTS}{name}", self._gradients_of(inside.call)
            # Of a tensor that two calls return the gradient of the inner one is told first.
            handed = (each for border in inside.call.borders.values() for each in border.gradients)
            when = max(when, *(each.time for each in handed), 0)
        name = free_name(name, self._nodes)
        kind = type(inside.module).__name__
        self._nodes[name] = Node(name, kind, filter(None, sources), attributes=_AT_BORDERS)
        self._keep(name, slot, tensor, version_of(tensor), when)
        self._suspects.add(f"{name}:{slot}")
        self._results[f"{name}:{slot}"] = True


def _before_writes(graph: Graph | None, tensor: str) -> str:
    """What was first in the memory of a tensor."""
    name, slot = split_tensor_name(tensor)
    while graph is not None and name in graph:
        node = graph.nodes[name]
        # What others have written to in parts comes first among what it is made of.
        is_made = node.op_type == _WRITTEN
        written = node.inputs[:1] if is_made else node.attributes.get(WRITES, "").split(", ")
        if slot >= len(written) or not written[slot]:
            break
        tensor = written[slot]
        name, slot = split_tensor_name(tensor)
    return tensor
