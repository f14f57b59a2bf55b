"""Computes a part of a run once more, in a graph and a session of its own.

The program's graph and session see nothing of it: what its operations wait for without reading it
isn't executed again, its random streams don't move, and its variables change only when somebody
writes the result to them.
"""

from __future__ import annotations

import functools
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import graph_pb2, node_def_pb2
from tensorflow.core.protobuf import config_pb2

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.engines.base import Capture, Watch
from tfdbg_cli.engines.tensorflow.sessions.errors import attempt
from tfdbg_cli.engines.tensorflow.sessions.stepping.effects import PRINTS
from tfdbg_cli.engines.tensorflow.sessions.stepping.layout import Unit, UnitLayout
from tfdbg_cli.engines.tensorflow.sessions.stepping.record import RunRecord
from tfdbg_cli.engines.tensorflow.sessions.stepping.region import Change, Region
from tfdbg_cli.engines.tensorflow.shared import guard
from tfdbg_cli.engines.tensorflow.shared.private import functions_of, is_reference, prepared_call
from tfdbg_cli.engines.tensorflow.shared.values import apart, plain

__all__ = ["Result", "Scratch"]

_SCOPE = "tfdbg_stepper"
_SEED = 87654321
_SWITCHES = ("Merge", "Switch")


class Result(NamedTuple):
    """What came of it.

    Attributes:
        data: the tensors, under the names that they have in the program's graph.
        variables: the values of the variables afterwards; of those that have one.
        error: what was raised.
    """

    data: Sequence[Datum]
    variables: Mapping[Any, Any]
    error: BaseException | None


class Override(NamedTuple):
    """An override.

    Attributes:
        edge: ``(operation, slot)`` of the tensor.
    """

    edge: tuple[Any, int]


class Scratch:
    """A region as a graph of its own.

    Args:
        layout: the units of the run.
        record: the recorded run.
        change: in what this one is different.
        region: what is to be computed.
        initial: variable -> its value before the run; those without one are uninitialized.
        is_remote: the program's session is another process's: devices have other names there.
    """

    def __init__(
        self,
        layout: UnitLayout,
        record: RunRecord,
        change: Change,
        region: Region,
        initial: Mapping[Any, Any],
        is_remote: bool = False,
    ) -> None:
        self._layout, self._record, self._change = layout, record, change
        self._region, self._is_remote = region, is_remote
        self._units = [layout.units[index] for index in sorted(region.included)]
        self._ops = {op for unit in self._units for op in unit.ops if op.type != "PrintV2"}
        self._names = {op.name for op in self._ops}
        taken = {op.name.partition("/")[0] for op in layout.edges}
        self._scope = _SCOPE
        while self._scope in taken:
            self._scope += "_"
        self._graph = graph_pb2.GraphDef()
        self._feeds: dict[str, Any] = {}
        #: Fed tensor -> what has its value: a tensor of the run, a variable, or an override.
        self._sources: dict[str, Any] = {}
        self._adapter: Any = None
        self._direct: tuple[Any, Callable[..., Any], int] | None = None
        self._ends: list[str] = []
        self._lock = threading.Lock()
        self._given: dict[tuple[Any, ...], str] = {}
        self._setters: dict[str, str] = {}
        self._getters: dict[Any, str] = {}
        self._ended: set[Any] = set()
        self._after = self._order()
        for unit in self._units:
            for op in unit.ops:
                if op in self._ops:
                    self._add(op, unit)
        for variable in region.variables:
            if variable in self._ops:
                self._add_access(variable, initial.get(variable))

    # The graph.

    def _order(self) -> dict[Any, list[str]]:
        """What operations wait for besides, as they work on variables in the order of the run."""
        after: dict[Any, list[str]] = {}
        included = self._region.included
        for variable in self._region.variables:
            users = [i for i in self._layout.users[variable] if i in included]
            writers = [i for i in users if variable in self._layout.units[i].writes]
            for on in writers:
                for index in users:
                    if index != on and self._layout.depends(index, on):
                        self._wait(after, index, on)
            readers = [i for i in users if i not in writers]
            for index in writers:
                for on in readers:
                    if on < index:
                        self._wait(after, index, on)
        return after

    def _wait(self, after: dict[Any, list[str]], index: int, on: int) -> None:
        """Let a unit begin after another one."""
        unit, before = self._layout.units[index], self._layout.units[on]
        if len(unit.ops) > 1 or len(before.ops) > 1:
            return  # what enters and leaves a loop orders it
        source = before.ops[0]
        after.setdefault(unit.ops[0], []).append(f"^{self._end_of(source)}")

    def _end_of(self, op: Any) -> str:
        """What to wait for so that an operation is done, or known not to be.

        Whoever waits for an operation of a branch that isn't taken isn't done either.
        """
        if self._layout.always(op):
            return str(op.name)
        name = f"{self._scope}/end_of/{op.name}"
        if op not in self._ended:
            self._ended.add(op)
            self._graph.node.add(name=name, op="ControlTrigger", input=[f"^{op.name}"])
        return name

    def _add(self, op: Any, unit: Unit) -> None:
        node = node_def_pb2.NodeDef()
        node.CopyFrom(op.node_def)
        data, control = self._layout.edges[op]
        node.ClearField("input")
        node.input.extend(self._input(edge, unit) for edge in data)
        waits = [f"^{each.name}" for each in control if each in self._ops]
        node.input.extend(dict.fromkeys(waits + self._after.get(op, [])))
        if op.type in PRINTS:
            _make_identity(node, len(data))
        if self._is_remote:
            node.device = ""
        _colocate(node, self._names)
        self._seed(node)
        self._graph.node.append(node)

    def _input(self, edge: tuple[Any, int], unit: Unit) -> str:
        op, slot = edge
        if self._change.seen(edge, unit.index):
            return self._give(edge, self._change.values[edge], is_override=True)
        if op in self._ops and edge not in self._layout.fed:
            return f"{op.name}:{slot}"
        tensor = op.outputs[slot]
        if is_reference(tensor):  # an update that is not to count hands on its variable
            source = tensor
            while is_reference(source) and source.op not in self._ops:
                source = source.op.inputs[0]
            return f"{source.op.name}:{source.value_index}"
        value = self._record.array(tensor)
        if value is None:
            raise UserError(f"The value of {tensor.name}, which this needs, was not recorded.")
        return self._give(edge, value)

    def _give(self, edge: tuple[Any, int], value: Any, is_override: bool = False) -> str:
        """The name of a tensor that has a value from outside."""
        key = (*edge, is_override)
        if key not in self._given:
            op, slot = edge
            tensor = op.outputs[slot]
            name = self._placeholder(tensor.dtype.base_dtype, value, tensor.shape)
            self._sources[name] = Override(edge) if is_override else tensor
            if not self._layout.certain(op, slot):
                name = self._gate(edge, name, is_override)
            self._given[key] = name
        return self._given[key]

    def _placeholder(self, dtype: Any, value: Any, shape: Any) -> str:
        name = f"{self._scope}/given_{len(self._graph.node)}"
        node = self._graph.node.add(name=name, op="Placeholder")
        node.attr["dtype"].type = dtype.as_datatype_enum
        node.attr["shape"].shape.CopyFrom(shape.as_proto())
        self._feeds[f"{name}:0"] = value
        return f"{name}:0"

    def _gate(self, edge: tuple[Any, int], given: str, is_override: bool) -> str:
        """A value that is there only in runs in which the tensor that it stands for would be."""
        op, slot = edge
        inputs = [given]
        types = [op.outputs[slot].dtype.base_dtype.as_datatype_enum]
        waits: list[str] = []
        if is_override and op.type.removeprefix("Ref") in _SWITCHES:
            conditions: Iterable[tuple[Any, int]] = [edge]
        else:
            data, control = self._layout.edges[op]
            conditions = [each for each in data if not self._layout.certain(*each)]
            waits = [f"^{each.name}" for each in control if each in self._ops]
        for source, at in conditions:
            if source in self._ops:
                inputs.append(f"{source.name}:{at}")
                types.append(source.outputs[at].dtype.base_dtype.as_datatype_enum)
        name = f"{self._scope}/gate_{len(self._graph.node)}"
        node = self._graph.node.add(name=name, op="IdentityN", input=[*inputs, *waits])
        node.attr["T"].list.type.extend(types)
        return f"{name}:0"

    def _add_access(self, variable: Any, value: Any) -> None:
        is_reference = variable.type != "VarHandleOp"
        handle = f"{variable.name}:0"
        name = f"{self._scope}/{variable.name}"
        kind = _dtype_of(variable)
        if value is not None:
            dtype = tf.as_dtype(kind)
            op = "Assign" if is_reference else "AssignVariableOp"
            given = self._placeholder(dtype, value, tf.TensorShape(None))
            self._sources[given] = variable
            setter = self._graph.node.add(name=f"{name}/set", op=op, input=[handle, given])
            setter.attr["T" if is_reference else "dtype"].type = kind
            if is_reference:
                setter.attr["validate_shape"].b = False
            self._setters[setter.name] = given
        if is_reference:
            self._getters[variable] = handle
        else:
            getter = self._graph.node.add(name=f"{name}/get", op="ReadVariableOp", input=[handle])
            getter.attr["dtype"].type = kind
            self._getters[variable] = f"{getter.name}:0"

    @staticmethod
    def _seed(node: Any) -> None:
        """Let unseeded random operations draw the same each time that the region is computed."""
        kinds = node.attr
        if {"seed", "seed2"} <= set(kinds) and not (kinds["seed"].i or kinds["seed2"].i):
            kinds["seed"].i = _SEED
            kinds["seed2"].i = zlib.crc32(node.name.encode())

    def _library(self, graph: Any) -> None:
        """The functions of the program's graph; what they print was printed."""
        for function in functions_of(graph).values():
            definition = self._graph.library.function.add()
            definition.CopyFrom(function.definition)
            arguments = {each.name for each in definition.signature.input_arg}
            for node in definition.node_def:
                self._seed(node)
                if node.op == "PrintV2":
                    waits = [text for text in node.input if text.startswith("^")]
                    makers = [text.partition(":")[0] for text in node.input if text not in waits]
                    waits += [f"^{name}" for name in makers if name not in arguments]
                    node.op = "NoOp"
                    node.attr.clear()
                    node.ClearField("input")
                    node.input.extend(dict.fromkeys(waits))
                elif node.op == "Print":
                    _make_identity(node, len([t for t in node.input if not t.startswith("^")]))

    # The run.

    def run(self, graph: Any, config: Any, adapt: Any) -> Result:
        """Do it.

        Args:
            graph: the program's.
            config: a ``ConfigProto`` or ``None``: that of the program's session.
            adapt: makes an adapter of a session.
        """
        if not self._ops:
            return Result((), {}, None)
        with guard.bypass(), self._session(graph, config) as session:
            starts = {given: self._feeds.pop(given) for given in self._setters.values()}
            session.run(list(self._setters), starts)
            capture: Capture = adapt(session).debug_run(
                list(self._targets()), self._feeds, None, None, Watch()
            )
            variables = dict(self._read(session))
        assert capture.dump is not None
        return Result(capture.dump.data(), variables, capture.error)

    def _session(self, graph: Any, config: Any) -> Any:
        self._library(graph)
        self._graph.versions.CopyFrom(graph.graph_def_versions)
        made = tf.Graph()
        with made.as_default():
            tf.graph_util.import_graph_def(self._graph, name="")
        settings = config_pb2.ConfigProto()
        if config is not None and not self._is_remote:
            settings.CopyFrom(config)
        if not self._graph.library.function:
            # All is fetched, nothing can be rewritten: only the bodies of functions need it, which
            # it inlines.
            settings.graph_options.rewrite_options.disable_meta_optimizer = True
        return tf.compat.v1.Session(graph=made, config=settings)

    @property
    def lasts(self) -> bool:
        """Whether it can be used for other runs: nothing in it remembers the run before."""
        return (
            bool(self._ops)
            and set(self._region.variables) <= set(self._sources.values())
            and not any(unit.draws or unit.keeps or unit.shares for unit in self._units)
        )

    def again(
        self,
        record: RunRecord,
        initial: Mapping[Any, Any],
        change: Change,
        graph: Any,
        config: Any,
        adapt: Any,
    ) -> Result:
        """The same for another run of the same steps, in a session that is kept; see `run`.

        Args:
            record, initial: of that run.
            change: of its kind, with values of that run.
            graph, config, adapt: as `run` takes them; for the first time.

        Returns:
            What came of it; variables are looked at only where there is a change.

        Raises:
            UserError: of that run not the same is known.
        """
        values: dict[str, Any] = {}
        for name, source in self._sources.items():
            if isinstance(source, Override):
                values[name] = change.values[source.edge]
                continue
            is_tensor = hasattr(source, "value_index")
            values[name] = record.array(source) if is_tensor else initial.get(source)
            if values[name] is None:
                raise UserError(f"The value of {source.name}, which this needs, was not recorded.")
        starts = {given: values.pop(given) for given in self._setters.values()}
        with self._lock, guard.bypass():
            if self._adapter is None:
                self._adapter = adapt(self._session(graph, config))
                self._ends = list(self._targets())
            if starts:
                self._adapter.session.run(list(self._setters), starts)
            capture: Capture = self._adapter.debug_run(self._ends, values, None, None, Watch())
            is_changed = bool(change or change.undone)
            variables = dict(self._read(self._adapter.session)) if is_changed else {}
        assert capture.dump is not None
        return Result(capture.dump.data(), variables, capture.error)

    def value(self, tensor_name: str, record: RunRecord, graph: Any, config: Any) -> Any:
        """One tensor of a region of plain operations, for another run of the same steps.

        All of the region is fetched, so that nothing in it is computed in another way.

        Args:
            tensor_name: of it.
            record: of that run.
            graph, config: as `run` takes them; for the first time.

        Raises:
            UserError: of that run not the same is known.
            Exception: what TensorFlow raises.
        """
        values = [record.array(source) for source in self._sources.values()]
        if any(value is None for value in values):
            raise UserError(f"The inputs of {tensor_name} were not recorded.")
        with self._lock, guard.bypass():
            if self._direct is None:
                session = self._session(graph, config)
                fetches = [tensor.name for op in self._ops for tensor in op.outputs]
                options = config_pb2.CallableOptions(feed=self._sources, fetch=fetches)
                call = prepared_call(session, options)
                if call is None:
                    raise UserError("This TensorFlow has no callables.")
                self._direct = session, call, fetches.index(tensor_name)
            session, call, place = self._direct
            return apart(plain(call(session, map(np.asarray, values))[place]))

    def _targets(self) -> Iterator[str]:
        """What is to be run by name; what a loop is made of runs with what leaves the loop.

        What the program fetches is fetched here as well: of a variable's buffer that somebody uses
        later nobody else may take a copy. What others wait for needn't be said.
        """
        doors = {*self._setters, *(name.partition(":")[0] for name in self._getters.values())}
        awaited = {
            text.removeprefix("^").partition(":")[0]
            for node in self._graph.node
            if node.name not in doors
            for text in node.input
        }
        for unit in self._units:
            for op in unit.ops:
                is_end = op in self._ops and op.name not in awaited
                if is_end and (len(unit.ops) == 1 or not self._layout.in_loop(op)):
                    yield op.name
        for op, slot in self._layout.asked:
            if slot >= 0 and op in self._ops and self._layout.shown(op, slot):
                yield op.outputs[slot].name

    def _read(self, session: Any) -> Iterator[tuple[Any, Any]]:
        values, error = attempt(lambda: session.run(list(self._getters.values())))
        if error is None:
            yield from zip(self._getters, map(np.array, values), strict=True)
            return
        for variable, getter in self._getters.items():
            value, error = attempt(functools.partial(session.run, getter))
            if error is None:  # else it never got a value
                yield variable, np.array(value)


def _make_identity(node: Any, count: int) -> None:
    """Make a node hand on its first input and nothing else."""
    kind = node.attr["T"].type
    first, rest = node.input[0], list(node.input[count:])
    node.op = "Identity"
    node.attr.clear()
    node.attr["T"].type = kind
    node.ClearField("input")
    node.input.extend([first, *rest])


def _colocate(node: Any, names: set[str]) -> None:
    """Leave out the wish to be where a node is that isn't here."""
    known = [
        each
        for each in node.attr["_class"].list.s
        if each.removeprefix(b"loc:@").decode("utf-8", "replace") in names
    ]
    del node.attr["_class"]
    if known:
        node.attr["_class"].list.s.extend(known)


def _dtype_of(variable: Any) -> int:
    return int(variable.get_attr("dtype").as_datatype_enum)
