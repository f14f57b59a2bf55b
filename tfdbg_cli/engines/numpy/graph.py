"""The graph that a program builds: operations, tensors, name scopes and control dependencies."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

from tfdbg_cli.common.errors import did_you_mean
from tfdbg_cli.dumps.elements import parse_tensor_name
from tfdbg_cli.engines.numpy.dtypes import DType
from tfdbg_cli.engines.numpy.nodes import Loop, Operand, Operation, Tensor, raw_stack
from tfdbg_cli.engines.numpy.registry import OPS

__all__ = [
    "Graph",
    "control_dependencies",
    "get_default_graph",
    "name_scope",
    "reset_default_graph",
]


class _ControlBlock(NamedTuple):
    """One ``control_dependencies`` block: what it waits for, and what was made in it so far."""

    waits_for: list[Operation]
    made: set[Operation]


class _BuildState(threading.local):
    """Where in the graph a thread is building."""

    scope = ""
    control: tuple[_ControlBlock, ...] = ()
    loop: Loop | None = None

    @contextmanager
    def elsewhere(self, **place: Any) -> Iterator[None]:
        """Build in another place within the block."""
        before = {name: getattr(self, name) for name in place}
        vars(self).update(place)
        try:
            yield
        finally:
            vars(self).update(before)


class Graph:
    """Operations and tensors. Nodes are only ever added, so a plan made once stays right."""

    def __init__(self) -> None:
        self._operations: dict[str, Operation] = {}
        self._names: dict[str, int] = {}
        #: For the engine's own use.
        self.building = _BuildState()
        #: Seed of sessions that were given none; see `set_random_seed`.
        self.seed: int | None = None
        #: Every variable, in the order of creation.
        self.variables: list[Any] = []

    @property
    def version(self) -> int:
        """A number that grows with each node."""
        return len(self._operations)

    def get_operations(self) -> list[Operation]:
        """Every operation, in the order of creation."""
        return list(self._operations.values())

    def get_operation_by_name(self, name: str) -> Operation:
        """An operation by its name.

        Raises:
            KeyError: there is none.
        """
        found = self._operations.get(name)
        if found is None:
            hint = did_you_mean(name, self._operations)
            raise KeyError(f"There is no operation named {name!r} in the graph. {hint}".strip())
        return found

    def get_tensor_by_name(self, name: str) -> Tensor:
        """A tensor by its name, ``node:slot``.

        Raises:
            ValueError: the name has no slot.
            KeyError: there is none.
        """
        node, slot = parse_tensor_name(name)
        if slot is None:
            raise ValueError(f"{name!r} is not a tensor name; those look like {name}:0.")
        outputs = self.get_operation_by_name(node).outputs
        if slot >= len(outputs):
            raise KeyError(f"{name!r} does not exist: {node!r} has {len(outputs)} output(s).")
        return outputs[slot]

    def as_graph_element(self, item: Any) -> Tensor | Operation:
        """The tensor or operation that an object or a name stands for.

        Raises:
            TypeError: it stands for neither.
            ValueError: it is part of another graph, or there is none of that name.
        """
        element = item.as_graph_element() if isinstance(item, Operand) else item
        if isinstance(element, str):
            try:
                if ":" in element:
                    return self.get_tensor_by_name(element)
                return self.get_operation_by_name(element)
            except KeyError as error:
                raise ValueError(error.args[0]) from None
        if not isinstance(element, Tensor | Operation):
            raise TypeError(f"{item!r} is not a tensor, operation or name of one.")
        if element.graph is not self:
            raise ValueError(f"{element!r} is not an element of this graph.")
        return element

    def as_default(self) -> AbstractContextManager[Graph]:
        """Build into this graph within the ``with`` block."""
        return _defaults.holding(self)

    def unique_name(self, name: str) -> str:
        """A name that no node has yet, in the current name scope; it is taken from now on.

        Names that differ only by case are told apart by a number too.
        """
        scope = self.building.scope
        made = wanted = f"{scope}/{name}" if scope else name
        count = self._names.get(wanted.lower(), 1)
        while made.lower() in self._names:
            made = f"{wanted}_{count}"
            count += 1
        self._names[made.lower()] = 1
        self._names[wanted.lower()] = count
        return made

    @contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Put a prefix before the names of the nodes made in the block.

        Args:
            name: a new scope within the current one, made unique; with a slash at its end: an
                existing scope, entered again; empty or ``None``: the top.

        Yields:
            The scope with a slash at its end (empty at the top). An op that is given this as its
            name is called exactly like the scope.
        """
        scope = (name or "")[:-1] if not name or name.endswith("/") else self.unique_name(name)
        building = self.building
        before, building.scope = building.scope, scope
        try:
            yield scope + "/" if scope else ""
        finally:
            building.scope = before

    def control_dependencies(
        self, control_inputs: Iterable[Any] | None
    ) -> AbstractContextManager[None]:
        """Nodes made in the block run after the given operations and tensors.

        Args:
            control_inputs: what to wait for; ``None`` waits for nothing, not even for what the
                blocks around this one name, and leaves loops.
        """
        place: dict[str, Any] = {"control": (), "loop": None}
        if control_inputs is not None:
            elements = [self.as_graph_element(item) for item in control_inputs]
            waits_for = [item.op if isinstance(item, Tensor) else item for item in elements]
            place = {"control": (*self.building.control, _ControlBlock(waits_for, set()))}
        return self.building.elsewhere(**place)

    def create_op(
        self,
        op_type: str,
        inputs: Sequence[Tensor],
        dtypes: Sequence[DType],
        attributes: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> Operation:
        """Add a node.

        Args:
            op_type: one of `registry.OPS`.
            dtypes: of each output.
            attributes: constants for the kernel.
            name: default: the op type. With a slash at its end it is taken as it is (`name_scope`).

        Raises:
            ValueError: an input is of another graph or of another loop, or the inputs' shapes
                can't go together.
        """
        infer = OPS[op_type].shape
        name = op_type if name is None else name
        full = name[:-1] if name.endswith("/") else self.unique_name(name)
        building = self.building
        for tensor in inputs:
            if tensor.op.graph is not self:
                raise ValueError(f"{tensor!r} is not an element of this graph.")
            if tensor.op.loop is not building.loop and op_type != "Exit":
                _check_inside(building.loop, tensor, full)
        op = Operation(
            self,
            full,
            op_type,
            tuple(inputs),
            self._control_inputs(inputs),
            attributes or {},
            building.loop,
            len(self._operations),
            raw_stack(),
        )
        try:
            shapes = (None,) * len(dtypes) if infer is None else infer(op)
        except ValueError as error:
            raise ValueError(f"{error} (node {full}, op type {op_type})") from None
        op.outputs = tuple(
            Tensor(op, slot, dtype, shape)
            for slot, (dtype, shape) in enumerate(zip(dtypes, shapes, strict=True))
        )
        if OPS[op_type].ref_inputs:
            op.outputs[0].variable = inputs[0].variable
        self._operations[full] = op
        for block in building.control:
            block.made.add(op)
        return op

    def _control_inputs(self, inputs: Sequence[Tensor]) -> tuple[Operation, ...]:
        building = self.building
        if not building.control and building.loop is None:
            return ()
        sources = {tensor.op for tensor in inputs}
        found: dict[Operation, None] = {}
        loop = building.loop
        if loop is not None and loop.pivot and not any(op.loop is loop for op in sources):
            found[loop.pivot] = None
        for block in building.control:
            # An input that was made in the block has waited already.
            if block.made.isdisjoint(sources):
                found.update((op, None) for op in block.waits_for if op not in sources)
        return tuple(found)


def _check_inside(where: Loop | None, tensor: Tensor, user: str) -> None:
    """A tensor of a loop may have no value outside of it, or many."""
    source = tensor.op.loop
    while where is not None and where is not source:
        where = where.parent
    if source is not None and where is None:
        raise ValueError(
            f"{tensor.name} can't be an input of {user}: it lives inside {source.name}. "
            "Return it from there and use the result."
        )


class ThreadStack(threading.local):
    """What is the default in a thread: the innermost item."""

    def __init__(self) -> None:
        self.items: list[Any] = []

    def last(self) -> Any:
        """The innermost item, or ``None``."""
        return self.items[-1] if self.items else None

    @contextmanager
    def holding(self, item: Any) -> Iterator[Any]:
        """Make an item the innermost one within the block, whatever else comes and goes."""
        self.items.append(item)
        try:
            yield item
        finally:
            del self.items[max(at for at, each in enumerate(self.items) if each is item)]


_defaults = ThreadStack()
_global_graph = Graph()


def get_default_graph() -> Graph:
    """The graph that is being built into: the innermost ``as_default``, else a global one."""
    return _defaults.last() or _global_graph


def reset_default_graph() -> None:
    """Start with a new global graph; not within an ``as_default`` block."""
    global _global_graph
    if _defaults.items:
        raise RuntimeError("reset_default_graph() can't be used within Graph.as_default().")
    _global_graph = Graph()


def name_scope(name: str | None) -> AbstractContextManager[str]:
    """`Graph.name_scope` of the default graph."""
    return get_default_graph().name_scope(name)


def control_dependencies(control_inputs: Iterable[Any] | None) -> AbstractContextManager[None]:
    """`Graph.control_dependencies` of the default graph."""
    return get_default_graph().control_dependencies(control_inputs)
