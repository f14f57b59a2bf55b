"""`GradientsDebugger`: which tensor is the gradient with respect to which.

TensorFlow is imported by the first method that needs it.
"""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Sequence
from typing import Any, Self

from tfdbg_cli.dumps.elements import split_tensor_name

__all__ = ["GradientsDebugger", "clear_gradient_debuggers", "gradient_values_from_dump"]

_TAG = "gradient_debug_"
_debuggers: dict[str, GradientsDebugger] = {}


class GradientsDebugger:
    """Collects the gradient tensors that ``tf.gradients`` and the optimizers make.

    Mark tensors with `identify_gradient`, or after the forward part of the graph has been built
    with `watch_gradients_by_tensors` or `watch_gradients_by_tensor_names`; make the gradients
    (inside ``with debugger:`` where there are several debuggers); then ask for them with
    `gradient_tensor`, or for their values in a dump with `gradient_values_from_dump`.

    Args:
        y_tensor: the tensor that is differentiated.
    """

    def __init__(self, y_tensor: Any = None) -> None:
        self._uuid = uuid.uuid4().hex
        _debuggers[self._uuid] = self
        self._gradients: dict[str, Any] = {}
        self._y_tensor = y_tensor
        self._graph = y_tensor.graph if y_tensor is not None else None
        self._is_active = False

    @property
    def y_tensor(self) -> Any:
        """The tensor that is differentiated, if it was given."""
        return self._y_tensor

    @property
    def graph(self) -> Any:
        """The graph of the gradients; ``None`` before there are any."""
        return self._graph

    def __enter__(self) -> Self:
        self._is_active = True
        return self

    def __exit__(self, *unused: object) -> None:
        self._is_active = False

    def identify_gradient(self, input_tensor: Any) -> Any:
        """The same tensor under another name; gradients that flow through it are registered.

        Args:
            input_tensor: a ``tf.Tensor``; build on with the result instead of it.

        Raises:
            ValueError: it was identified by this debugger before.
        """
        from tensorflow.python.ops import gen_array_ops

        from tfdbg_cli.engines.tensorflow.shared.private import is_reference

        node, slot = split_tensor_name(input_tensor.name)
        name = f"{node}_{slot}/{_TAG}{self._uuid}"
        make = (
            gen_array_ops.debug_gradient_ref_identity
            if is_reference(input_tensor)
            else gen_array_ops.debug_gradient_identity
        )
        # A gradient of our own: TensorFlow's registers with its own debuggers.
        ours = dict.fromkeys(("DebugGradientIdentity", "DebugGradientRefIdentity"), _gradient())
        graph = input_tensor.graph
        with graph.as_default(), graph.gradient_override_map(ours):
            made = make(input_tensor, name=name)
        if made.op.name != name:
            raise ValueError(f"The graph already contains an op named {name}")
        return made

    def watch_gradients_by_tensors(self, graph: Any, tensors: Any) -> Self:
        """Identify tensors after the forward part of the graph has been built.

        Args:
            graph: the ``tf.Graph``, which is changed: what used a tensor now uses its identity.
            tensors: a ``tf.Tensor`` or ``tf.Variable``, or a list of such.

        Returns:
            The debugger itself, for a ``with`` statement.
        """
        listed: Sequence[Any] = tensors if isinstance(tensors, list) else [tensors]
        names = "|".join(f"{re.escape(tensor.name)}$" for tensor in listed)
        return self.watch_gradients_by_tensor_names(graph, f"({names})")

    def watch_gradients_by_tensor_names(self, graph: Any, tensor_name_regex: str) -> Self:
        """As `watch_gradients_by_tensors`, of the tensors whose names begin with a match.

        Args:
            graph: the ``tf.Graph``, which is changed.
            tensor_name_regex: on names such as ``hidden/Relu:0``.
        """
        from tfdbg_cli.engines.tensorflow.shared.private import replace_input

        pattern = re.compile(tensor_name_regex)
        found = [
            tensor
            for op in graph.get_operations()
            for tensor in op.outputs
            if pattern.match(tensor.name)
        ]
        for tensor in found:
            identity = self.identify_gradient(tensor)
            for consumer in list(tensor.consumers()):
                if consumer is identity.op:
                    continue
                for place, source in enumerate(consumer.inputs):
                    if source is tensor:
                        replace_input(consumer, place, identity)
        return self

    def register_gradient_tensor(self, x_tensor_name: str, gradient_tensor: Any) -> None:
        """Note the gradient with respect to a tensor; TensorFlow's differentiation calls it.

        Raises:
            ValueError: it belongs to another graph than those before it.
        """
        if len(_debuggers) > 1 and not self._is_active:
            return
        if self._graph is None:
            self._graph = gradient_tensor.graph
        elif self._graph is not gradient_tensor.graph:
            raise ValueError(
                f"The graph of the value ({gradient_tensor.graph}) is not the same as the graph "
                f"{self._graph}"
            )
        self._gradients[x_tensor_name] = gradient_tensor

    def gradient_tensor(self, x_tensor: Any) -> Any:
        """The gradient with respect to a tensor.

        Args:
            x_tensor: a ``tf.Tensor``, a ``tf.Variable``, or the name of one.

        Raises:
            TypeError: it is nothing of the kind.
            LookupError: no gradient was made with respect to it.
        """
        name = _name_of(x_tensor)
        if name not in self._gradients:
            raise LookupError(
                f"This GradientsDebugger has not received any gradient tensor for x-tensor {name}"
            )
        return self._gradients[name]

    def gradient_tensors(self) -> dict[str, Any]:
        """Name of a tensor -> the gradient with respect to it."""
        return self._gradients


def clear_gradient_debuggers() -> None:
    """Forget all debuggers: those made before register no gradients any more."""
    _debuggers.clear()


def gradient_values_from_dump(grad_debugger: Any, x_tensor: Any, dump: Any) -> list[Any]:
    """The values that a gradient had in a run, in time order; empty if the run didn't compute it.

    Args:
        grad_debugger: the `GradientsDebugger`.
        x_tensor: with respect to what; as in `GradientsDebugger.gradient_tensor`.
        dump: a `DebugDumpDir` or any other dump.

    Raises:
        LookupError: no gradient was made with respect to it.
        ValueError: the dump is of another graph.
        TypeError: ``x_tensor`` is not a tensor.
    """
    graph = getattr(dump, "python_graph", None)
    if graph and grad_debugger.graph and graph is not grad_debugger.graph:
        raise ValueError(
            f"This GradientsDebugger instance has a graph ({grad_debugger.graph}) that differs "
            f"from the graph of the DebugDumpDir object ({graph})."
        )
    name = grad_debugger.gradient_tensor(x_tensor).name
    return [datum.get_tensor() for datum in dump.by_tensor(name)]


def _name_of(tensor: Any) -> str:
    import tensorflow as tf

    if isinstance(tensor, str):
        return tensor
    if isinstance(tensor, tf.Tensor | tf.Variable):
        return str(tensor.name)
    raise TypeError(
        f"x_tensor must be a str or tf.Tensor or tf.Variable, but instead has type {type(tensor)}"
    )


@functools.cache
def _gradient() -> str:
    """Register our gradient of the identity ops; its name."""
    from tensorflow.python.framework import ops

    name = "TfdbgGradientIdentity"

    def register(op: Any, dy: Any) -> Any:
        scope, _, tag = op.name.rpartition("/")
        node, _, slot = scope.rpartition("_")
        debugger = _debuggers.get(tag.removeprefix(_TAG).partition("_")[0])
        if debugger is not None:
            debugger.register_gradient_tensor(f"{node}:{slot}", dy)
        return dy

    ops.RegisterGradient(name)(register)
    return name
