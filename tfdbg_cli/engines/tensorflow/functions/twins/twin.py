"""The twin of a traced function: the same, with tensors in it as more results.

A function's definition is copied and given more outputs; so are those that it calls. A loop
collects what its body makes in lists, which are more variables of the loop; of branches, which must
return alike, the one that wasn't taken returns zeros. The program's own function stays as it is.

The last result says where a nan or an infinity is: numbers, of which those above zero are bad
(`health`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from tensorflow.core.framework import function_pb2, types_pb2
from tensorflow.python.framework import dtypes

from tfdbg_cli.engines.tensorflow.functions.definitions import (
    MARK,
    BodyNode,
    FunctionBody,
    Kind,
    element_node,
)
from tfdbg_cli.engines.tensorflow.functions.pipelines.loops import (
    extend_loop,
    is_bad,
    keep_one,
    variable,
)
from tfdbg_cli.engines.tensorflow.functions.twins.conditions import LoopTest
from tfdbg_cli.engines.tensorflow.functions.twins.guards import READING, Read, guard, phases_of
from tfdbg_cli.engines.tensorflow.functions.twins.health import Health, to_check, zeros
from tfdbg_cli.engines.tensorflow.functions.twins.layouts import Layout, LayoutItem, Part
from tfdbg_cli.engines.tensorflow.functions.twins.nodes import (
    add_constant,
    add_empty_list,
    add_numbers,
    add_zero,
)
from tfdbg_cli.engines.tensorflow.functions.twins.optimized import Unread
from tfdbg_cli.engines.tensorflow.functions.twins.windows import DEFAULT_ROOM, NUMBERS, Window
from tfdbg_cli.engines.tensorflow.shared.optimized import COMPOSED, PASSING
from tfdbg_cli.engines.tensorflow.shared.values import holdable

__all__ = ["Twin", "make_twin"]

_VARIANT = types_pb2.DT_VARIANT
# The optimizer would put another function in the place of one that has these.
_FOR_OPTIMIZER = "api_implements", "api_preferred_device", "forward_function_name"
_numbers = itertools.count(1)


class Twin(NamedTuple):
    """A function with more results.

    Attributes:
        name: the runtime's.
        layout: of the results that were added; they come last.
        added: how many were added, the one for health among them.
        definitions: its own and of those that it calls, to be made known to the runtime.
        guarded: the numbers of the added results that have no elements if nothing was bad.
        more: what it is given besides; it reads nothing of it (`refusable`).
    """

    name: str
    layout: Layout
    added: int
    definitions: Sequence[Any]
    guarded: Sequence[int] = ()
    more: Sequence[Any] = ()

    def keeps(self, added: Sequence[Any]) -> bool:
        """Whether all is among the added results that others can be computed of."""
        return all(tuple(added[at].shape) != (0,) for at in self.guarded)


def make_twin(
    body: FunctionBody,
    find: Callable[[str], Any],
    wants: Callable[[BodyNode], bool],
    has_health: bool = True,
    room: int = DEFAULT_ROOM,
    is_guarded: bool = False,
    unread: Unread = MappingProxyType({}),
) -> Twin:
    """The twin of a function.

    Args:
        body: of the function.
        find: gives the ``FunctionDef`` of a name.
        wants: whether the outputs of a node are to be returned.
        has_health: whether health is.
        room: how many bytes the iterations of a loop may take.
        is_guarded: what variables held is returned only if something is bad (`guards`).
        unread: the tensors that are neither returned nor looked at (`optimized`).
    """
    builder = _Builder(find, wants, has_health, room, is_guarded, unread)
    name, layout, _ = builder.make(body)
    added = len(layout.dtypes) + has_health
    guarded = range(len(layout.dtypes)) if is_guarded else ()
    return Twin(name, layout, added, builder.definitions, [*guarded])


class _Copies:
    """Does once more what the optimizer has put into one op with others, for us alone.

    Args:
        body: of a function.
        definition: a copy of the function's, to be changed.
        unread: node and slot of what isn't read.

    Attributes:
        unread: what can't be looked at even so.
    """

    def __init__(
        self, body: FunctionBody, definition: Any, unread: Collection[tuple[str, int]]
    ) -> None:
        self._definition, self._made = definition, dict[str, str]()
        self._nodes: dict[str, BodyNode] = {}
        for node in body.nodes if unread else ():
            edge = node.name, 0
            if edge in unread and node.op in COMPOSED:
                source = node.inputs[0]
                if source not in unread or source[0] in self._nodes:
                    self._nodes[node.name] = node
        self.unread = {*unread} - {(name, 0) for name in self._nodes}

    def reference(self, node: BodyNode | None, reference: str) -> str:
        """Of a tensor or its copy."""
        if node is None or node.name not in self._nodes:
            return reference
        if node.name not in self._made:
            made = self._definition.node_def.add()
            made.CopyFrom(node.definition)
            made.name = f"tfdbg_copy_{node.name}"
            made.attr["_tfdbg"].b = True  # else the optimizer makes one op of both
            source = self._nodes.get(node.inputs[0][0])
            if source is not None:
                made.input[0] = self.reference(source, made.input[0])
            self._made[node.name] = reference.replace(node.name, made.name, 1)
        return self._made[node.name]


class _Builder:
    """Makes the twins of a function and those that it calls, each once."""

    def __init__(
        self,
        find: Callable[[str], Any],
        wants: Callable[[BodyNode], bool],
        has_health: bool,
        room: int,
        is_guarded: bool,
        unread: Unread,
    ) -> None:
        self._find, self._wants, self._has_health, self._room = find, wants, has_health, room
        self._is_guarded, self._unread = is_guarded, unread
        self.definitions: list[Any] = []
        self._made: dict[tuple[str, bool], tuple[str, Layout, int]] = {}
        self._open: set[str] = set()
        # Names of functions that XLA compiles, with all that they call.
        self._compiled: frozenset[str] = frozenset()
        self._number = next(_numbers)

    def make(self, body: FunctionBody) -> tuple[str, Layout, int]:
        """A function that returns what it returns, and more: name, layout, numbers of health."""
        key = body.name, bool(self._compiled)  # XLA knows other ops for health
        if key not in self._made:
            part = self._part(body, "_by_xla" if self._compiled else "")
            kinds, references = list(part.layout.dtypes), part.references
            if self._has_health:
                kinds.append(types_pb2.DT_FLOAT)
                references = [*references, part.health.joined()]
            self._return(part.definition, kinds, references)
            self.definitions.append(part.definition)
            name = part.definition.signature.name
            self._made[key] = name, part.layout, part.health.size
        return self._made[key]

    def _copy(self, definition: Any, mark: str) -> Any:
        made = function_pb2.FunctionDef()
        made.CopyFrom(definition)
        made.signature.name = f"{definition.signature.name}{MARK}{self._number}{mark}"
        for name in _FOR_OPTIMIZER:
            if name in made.attr:
                del made.attr[name]
        return made

    def _part(self, body: FunctionBody, mark: str = "") -> Part:
        compiled = self._compiled
        if body.is_compiled:
            self._compiled = compiled | {body.name}
        self._open.add(body.name)
        definition = self._copy(body.definition, mark)
        part = Part(definition, Layout(body), [], Health(definition, bool(self._compiled)))
        nodes = {node.name: node for node in definition.node_def}
        reads: list[Read] = []
        phases = phases_of(body) if self._is_guarded else None
        unread = part.layout.unread = self._unread.get(body.name, ())
        if self._has_health:
            copies = _Copies(body, definition, unread)
            is_outermost, before = len(self._open) == 1, phases.before if phases else None
            for one, reference, kind in to_check(body, is_outermost, copies.unread, before):
                part.health.watch(copies.reference(one, reference), kind)
        for node in body.nodes:
            places: dict[int, int] = {}
            is_kept = node.name in body.live and self._wants(node)
            if is_kept and node.op != "Const" and node.op not in PASSING:
                for slot, output in enumerate(node.outputs):
                    is_read = (node.name, slot) not in unread
                    if is_read and holdable(dtypes.as_dtype(output.dtype)):
                        places[slot] = len(part.references)
                        if node.op == READING:
                            reads.append(Read(node.name, places[slot]))
                        part.references.append(output.reference)
                        part.layout.dtypes.append(output.dtype)
            first, inner = len(part.references), {}
            called = node.inner.values() if node.name in body.live else ()
            if called and not any(each.name in self._open for each in called):
                inner = self._enter(node, nodes[node.name], part)
            part.layout.items.append(LayoutItem(node, places, first, inner))
        if phases is not None and reads:
            self.definitions += guard(part, phases, reads)
        self._open.discard(body.name)
        self._compiled = compiled
        return part

    def _enter(self, node: BodyNode, made: Any, part: Part) -> dict[str, tuple[int, Layout]]:
        if node.kind == Kind.LOOP:
            return self._loop(node, made, part)
        if node.kind == Kind.BRANCH:
            return self._branch(node, made, part)
        if node.kind == Kind.DATASET:
            return self._dataset_loop(node, made, part)
        ((step, called),) = node.inner.items()
        name, layout, size = self.make(called)
        argument = "output" if "f" in made.attr else ""
        if argument:
            made.attr["f"].func.name = name
        else:
            made.op = name
        kinds = [*layout.dtypes, *([types_pb2.DT_FLOAT] if self._has_health else [])]
        self._more_outputs(made, "Tout", kinds)
        part.layout.sizes += [len(part.layout.dtypes) + at for at in layout.sizes]
        self._take(node, argument, layout.dtypes, part)
        if self._has_health:
            part.health.add(self._reference(node, argument, len(layout.dtypes)), size)
        return {step: (0, layout)}

    def _reference(self, node: BodyNode, argument: str, at: int) -> str:
        if argument:
            return f"{node.name}:{argument}:{len(node.outputs) + at}"
        return f"{node.name}:{_result(at)}:0"

    def _take(self, node: BodyNode, argument: str, kinds: Sequence[int], part: Part) -> None:
        """Return what a call returns in addition."""
        for at, kind in enumerate(kinds):
            part.references.append(self._reference(node, argument, at))
            part.layout.dtypes.append(kind)

    def _more_outputs(self, made: Any, attribute: str, kinds: Sequence[int]) -> None:
        if "_output_shapes" in made.attr:
            del made.attr["_output_shapes"]
        if attribute in made.attr:
            made.attr[attribute].list.type.extend(kinds)
        if "output_shapes" in made.attr and made.attr["output_shapes"].list.shape:
            for _ in kinds:
                made.attr["output_shapes"].list.shape.add().unknown_rank = True

    def _return(self, definition: Any, kinds: Sequence[int], references: Sequence[str]) -> None:
        for at, (kind, reference) in enumerate(zip(kinds, references, strict=True)):
            definition.signature.output_arg.add(name=_result(at), type=kind)
            definition.ret[_result(at)] = reference

    # Branches: all must return alike.

    def _branch(self, node: BodyNode, made: Any, part: Part) -> dict[str, tuple[int, Layout]]:
        parts = {
            step: self._part(body, f"_{node.name.replace('/', '_')}_{step}")
            for step, body in node.inner.items()
        }
        # XLA wants to know all shapes: no zeros in the place of anything.
        holds = not self._compiled and any(each.layout.dtypes for each in parts.values())
        kinds = [types_pb2.DT_INT32] if holds else []
        inner = {}
        for step, each in parts.items():
            inner[step] = (len(kinds), each.layout)
            kinds += each.layout.dtypes if holds else []
        held = len(kinds)
        size = sum(each.health.size for each in parts.values())
        kinds += [types_pb2.DT_FLOAT] if self._has_health else []
        for number, (step, each) in enumerate(parts.items()):
            definition = each.definition
            results = [add_constant(definition, number)] if holds else []
            empty: dict[int, str] = {}
            for other, (_, layout) in inner.items() if holds else ():
                for at, kind in enumerate(layout.dtypes):
                    if other != step and kind not in empty:
                        empty[kind] = add_zero(definition, kind)
                    results.append(each.references[at] if other == step else empty[kind])
            if self._has_health:
                sizes = [(key, value.health.size) for key, value in parts.items()]
                results.append(each.health.padded(step, sizes))
            self._return(definition, kinds, results)
            self.definitions.append(definition)
            if node.op.endswith("Case"):
                made.attr["branches"].list.func[number].name = definition.signature.name
            else:
                made.attr[f"{step}_branch"].func.name = definition.signature.name
        for before, layout in inner.values() if holds else ():
            more = [len(part.layout.dtypes) + before + at for at in layout.sizes]
            part.layout.sizes += more
        for each in parts.values() if not holds else ():
            each.layout.dtypes.clear()
        self._more_outputs(made, "Tout", kinds)
        self._take(node, "output", kinds[:held], part)
        if self._has_health:
            part.health.add(self._reference(node, "output", held), size)
        return inner

    # Loops: what the body makes goes into lists.

    def _loop(self, node: BodyNode, made: Any, outer: Part) -> dict[str, tuple[int, Layout]]:
        mark = f"_{node.name.replace('/', '_')}"
        part = self._part(node.inner["body"], mark)
        definition, layout = part.definition, part.layout
        holds = not self._compiled  # XLA knows no lists of unknown length
        before = len(layout.dtypes)
        test = LoopTest(
            node.inner["cond"],
            lambda body: self._part(body, f"{mark}_test"),
            holds,
            self._has_health,
        )
        if test.definition is not None:
            self._return(test.definition, test.kinds, test.references)
            self.definitions.append(test.definition)
        tested = [each.name for each in definition.signature.input_arg]
        part.references.extend(test.add_to(part, tested))
        layout.dtypes.extend(test.layout.dtypes)
        results = [f"{node.name}:output:{at}" for at in range(len(tested))]
        last = test.add_to(outer, results, node.name)
        condition = self._copy(self._find(made.attr["cond"].func.name), mark)
        given = [item for item in made.input if not item.startswith("^")]
        waits = [item for item in made.input if item.startswith("^")]
        kinds, results = [], []
        tensors = list(zip(part.references, layout.dtypes, strict=True)) if holds else []
        if tensors:
            count = len(tensors)
            numbers = [_argument(count + at) for at in range(NUMBERS)]
            health = _argument(count + NUMBERS) if self._has_health else ""
            window = Window(definition, tensors, layout.sizes, numbers, health, self._room)
            for at, (reference, kind) in enumerate(tensors):
                results.append(window.push(_argument(at), reference, kind))
                given.append(add_empty_list(outer.definition, kind))
            results += window.results
            given += [add_numbers(outer.definition, 0)] * NUMBERS
            kinds = [_VARIANT] * count + [types_pb2.DT_FLOAT] * NUMBERS
            outer.layout.sizes.append(len(outer.layout.dtypes) + count)
        held = len(kinds)
        if self._has_health:
            results.append(part.health.joined(_argument(held)))
            kinds.append(types_pb2.DT_FLOAT)
            given.append(zeros(outer.definition, part.health.size))
        for at, kind in enumerate(kinds):
            for each in (definition, condition):
                each.signature.input_arg.add(name=_argument(at), type=kind)
        self._return(definition, kinds, results)
        made.attr["body"].func.name = definition.signature.name
        made.attr["cond"].func.name = condition.signature.name
        self.definitions += [definition, condition]
        del made.input[:]
        made.input.extend([*given, *waits])
        self._more_outputs(made, "T", kinds)
        self._take(node, "output", kinds[:held], outer)
        if self._has_health:
            outer.health.add(self._reference(node, "output", held), part.health.size)
        if not holds:
            layout.dtypes.clear()
        outer.references.extend(last)
        outer.layout.dtypes.extend(test.layout.dtypes)
        return {"cond": (before, test.layout), "body": (0, layout)}

    # Loops over a dataset: an epoch is too long for lists, and so one iteration is kept.

    def _dataset_loop(
        self, node: BodyNode, made: Any, outer: Part
    ) -> dict[str, tuple[int, Layout]]:
        ((step, body),) = node.inner.items()
        loop = node.loop
        assert loop is not None
        mark = f"_{node.name.replace('/', '_')}"
        part = self._part(body, mark)
        definition, layout = part.definition, part.layout
        element = element_node(loop, body)
        first = len(part.references)
        part.references.extend(output.reference for output in element.outputs)
        layout.dtypes.extend(output.dtype for output in element.outputs)
        places = {at: first + at for at in range(len(element.outputs))}
        layout.items.insert(0, LayoutItem(element, places, 0, {}))
        held = len(layout.dtypes)
        keeps = add_constant(definition, 0)
        if self._has_health:
            keeps = is_bad(definition, variable(held))
        more = []
        for at, (kind, reference) in enumerate(zip(layout.dtypes, part.references, strict=True)):
            kept = keep_one(definition, variable(at), reference, kind, keeps)
            more.append((_VARIANT, add_empty_list(outer.definition, kind), kept))
        if self._has_health:
            before = zeros(outer.definition, part.health.size)
            more.append((types_pb2.DT_FLOAT, before, part.health.joined(variable(held))))
        self.definitions += [
            definition,
            *extend_loop(
                loop,
                made,
                outer.definition,
                definition,
                self._find,
                lambda each: self._copy(each, mark),
                more,
            ),
        ]
        count = len(made.attr["Tstate"].list.type) - len(more)
        references = [f"{loop.end}:components:{count + at}" for at in range(len(more))]
        outer.references.extend(references[:held])
        outer.layout.dtypes.extend([_VARIANT] * held)
        if self._has_health:
            outer.health.add(references[held], part.health.size)
        return {step: (0, layout)}


def _result(at: int) -> str:
    return f"tfdbg_result_{at}"


def _argument(at: int) -> str:
    return f"tfdbg_argument_{at}"
