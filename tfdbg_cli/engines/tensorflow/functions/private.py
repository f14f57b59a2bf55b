"""The parts of TensorFlow 2 that have no public name: see `engines.tensorflow.shared.private`."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import itertools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from tensorflow.python.eager import context, execute
from tensorflow.python.framework import constant_op, dtypes, errors, tensor_shape, versions
from tensorflow.python.ops import gen_optional_ops
from tensorflow.python.profiler.trace import Trace
from tensorflow.python.util import function_utils

from tfdbg_cli.engines.kit.patching.private_names import PrivateNames

__all__ = [
    "CREATE_ITERATOR",
    "FUNCTION_CALLED",
    "NAMES",
    "call_by_name",
    "call_twin",
    "dataset_class",
    "element_count",
    "function_name",
    "graph_class",
    "is_traced",
    "iterator_class",
    "joined_cluster",
    "loss_scale_of",
    "mark_trace",
    "multi_iterator_class",
    "optimized_graphs",
    "options_in",
    "outputs_of",
    "packed_outputs",
    "parameters_of",
    "profiler_session",
    "rate_of",
    "read_optional",
    "refused",
    "replica_classes",
    "reword",
    "spare",
    "stop_recording",
    "strategy_class",
    "tape_class",
    "tensors_of",
    "trace_of",
    "unread_class",
    "variable_class",
    "variable_dtype",
    "variable_kind",
]

#: What the engine knows of this TensorFlow.
NAMES = PrivateNames("TensorFlow", str(versions.__version__), ("2.12.0", "2.21.0"))

_MODERN = "tensorflow.python.eager.polymorphic_function.atomic_function:AtomicFunction.call_flat"
_EARLY = (
    "tensorflow.python.eager.polymorphic_function.monomorphic_function:_EagerDefinedFunction.call"
)


def _door() -> tuple[Any, str]:
    """The method that every call of a traced function comes through, and its class."""
    modern = PrivateNames("", "", ("0.0",)).require(_MODERN.partition(".call_flat")[0])
    path = _MODERN if modern is not None else _EARLY
    NAMES.require(path)
    where, _, method = path.rpartition(".")
    return NAMES.require(where), method


#: The method by which an iterator takes its place in a dataset.
CREATE_ITERATOR = "_create_iterator"
#: Class and method.
FUNCTION_CALLED = _door()
#: Records what gradients are made of.
tape_class: Any = NAMES.require("tensorflow.python.eager.backprop:GradientTape")
#: What functions are traced into.
graph_class: Any = NAMES.require("tensorflow.python.framework.func_graph:FuncGraph")
#: Runs a function for each of its replicas.
strategy_class: Any = NAMES.require("tensorflow.python.distribute.distribute_lib:StrategyBase")
_NAMED = "shown with the names of their variables"
_VARIABLES = "tensorflow.python.ops.resource_variable_ops"
#: What all variables are, and what stands for one that was written to.
variable_class: Any = NAMES.need(_NAMED, f"{_VARIABLES}:BaseResourceVariable")
unread_class: Any = NAMES.need(_NAMED, f"{_VARIABLES}:_UnreadVariable")
_BACK = "led back to what has made their input"
#: What goes through a dataset, and a dataset.
iterator_class: Any = NAMES.need(_BACK, "tensorflow.python.data.ops.iterator_ops:OwnedIterator")
multi_iterator_class: Any = NAMES.need(
    _BACK, "tensorflow.python.data.ops.multi_device_iterator_ops:OwnedMultiDeviceIterator"
)
dataset_class: Any = NAMES.need(_BACK, "tensorflow.python.data.ops.dataset_ops:DatasetV2")
NAMES.require("tensorflow.python.framework.op_callbacks:add_op_callback")
NAMES.require("tensorflow.python.framework.op_callbacks:remove_op_callback")
NAMES.require("tensorflow.python.eager.context:Context.get_function_def")
NAMES.require("tensorflow.python.eager.context:Context.add_function_def")
_can_ask = "timeout_in_ms" in inspect.signature(context.Context.get_config_key_value).parameters
_is_modern = FUNCTION_CALLED[1] == "call_flat"
#: Around ops that no tape is to see.
stop_recording: Any = NAMES.require(
    "tensorflow.python.eager.record:stop_recording"
    if importlib.util.find_spec("tensorflow.python.eager.record") is not None
    else "tensorflow.python.eager.tape:stop_recording"
)


_COMPARED = "given the very results that they have alone, where TensorFlow fuses ops"
NAMES.need(_COMPARED, "tensorflow.python.eager.context:Context.enable_graph_collection")
NAMES.need(_COMPARED, "tensorflow.python.eager.context:Context.disable_graph_collection")
NAMES.need(_COMPARED, "tensorflow.python.eager.context:Context.export_run_metadata")
# What the program collects itself, by `tf.summary.trace_on`.
_SUMMARIES = "tensorflow.python.ops.summary_ops_v2:_current_trace_context"
NAMES.need(_COMPARED, _SUMMARIES)
_session: Any = NAMES.need(
    "timed", "tensorflow.python.profiler.internal._pywrap_profiler:ProfilerSession"
)
_trace: Any = NAMES.need("timed", "tensorflow.tsl.profiler.protobuf.trace_events_pb2:Trace")


def profiler_session(options: Any) -> Any:
    """Let TensorFlow profile from now on; its method `stop` gives what `trace_of` reads.

    Raises:
        Exception: somebody profiles already.
    """
    session = _session()
    session.start("", options)
    return session


def mark_trace(name: str) -> None:
    """Let the profile show where this thread is."""
    with Trace(name):
        pass


def trace_of(raw: bytes) -> Any:
    """What a profile has seen, as a ``Trace`` message."""
    return _trace.FromString(raw)


_FUNCTION = "tensorflow.python.eager.polymorphic_function"
_traced = (
    NAMES.need("stepped through", f"{_FUNCTION}.polymorphic_function:Function"),
    NAMES.need(
        "stepped through",
        f"{_FUNCTION}.concrete_function:ConcreteFunction"
        if _is_modern
        else f"{_FUNCTION}.monomorphic_function:ConcreteFunction",
    ),
)


def is_traced(function: Any) -> bool:
    """Whether a function is traced, so that a call of it is one of its graph and nothing else."""
    return isinstance(function, tuple(filter(None, _traced)))


@functools.cache
def replica_classes() -> tuple[Any, Any]:
    """What strategies do that have a thread for each replica, and such a thread.

    To be called when TensorFlow has been imported; ``None``: there is none.
    """
    ability = "seen in the replicas of a strategy that runs eagerly"
    where = "tensorflow.python.distribute"
    return (
        NAMES.need(ability, f"{where}.mirrored_strategy:MirroredExtended"),
        NAMES.need(ability, f"{where}.mirrored_run:_MirroredReplicaThread"),
    )


def element_count(tensor: Any) -> int:
    """How many elements an eager tensor has. To make its shape takes ten times as long."""
    count = getattr(tensor, "_num_elements", None)
    return int(count() if count is not None else tensor.shape.num_elements() or 0)


def variable_kind(handle: Any) -> tuple[Any, Any] | None:
    """The dtype and shape of the variable that a handle is of; ``None``: of something else."""
    kind = _kind(handle)
    return kind and (dtypes.as_dtype(kind.dtype), tensor_shape.TensorShape(kind.shape))


def variable_dtype(handle: Any) -> Any:
    """The dtype of the variable that a handle is of; ``None``: of something else."""
    kind = _kind(handle)
    return kind and dtypes.as_dtype(kind.dtype)


def _kind(handle: Any) -> Any:
    data = getattr(handle, "_handle_data", None)
    return (
        data.shape_and_type[0] if data and data.is_set and len(data.shape_and_type) == 1 else None
    )


def joined_cluster() -> tuple[Any, Any]:
    """The context, and the ``ServerDef`` of workers that compute together; ``None``: there is none.

    Also where the service by which they know each other can't be asked without waiting.
    """
    runtime = context.context()
    server = getattr(runtime, "_collective_ops_server_def", None)
    return runtime, server if _can_ask and runtime.coordination_service else None


def parameters_of(optimizer: Any) -> Sequence[Any]:
    """The variables that an optimizer of Keras 3 updates; empty: this Keras has another name."""
    return getattr(optimizer, "_trainable_variables", None) or ()


def rate_of(optimizer: Any) -> Any:
    """The learning rate of an optimizer of Keras 3: a variable, a schedule or a function."""
    return getattr(optimizer, "_learning_rate", None)


def loss_scale_of(optimizer: Any) -> tuple[Any, Any] | None:
    """What an optimizer of Keras 3 multiplies the loss by, and the steps that it has made.

    ``None``: it doesn't find its scale by itself. The first is a number before it is a variable.
    """
    kind = type(optimizer)
    if kind.__name__ != "LossScaleOptimizer" or not kind.__module__.startswith("keras.src."):
        return None
    name = "dynamic_scale" if optimizer.built else "initial_scale"
    return getattr(optimizer, name), optimizer.iterations


def function_name(function: Any) -> str:
    """The runtime's name of a traced function."""
    name = function.name
    return name.decode() if isinstance(name, bytes) else str(name)


def tensors_of(arguments: Sequence[Any]) -> Sequence[Any]:
    """What a traced function is given, of the arguments of the method."""
    return arguments if _is_modern else arguments[1]


def call_by_name(name: str, tensors: Sequence[Any], count: int) -> Sequence[Any]:
    """Call a function that the runtime knows; what it returns.

    Args:
        name: the runtime's.
        tensors: that it is given.
        count: how many it returns.
    """
    runtime = context.context()
    if _is_modern:
        return runtime.call_function(name.encode(), list(tensors), count) or ()
    return execute.execute(name, count, list(tensors), _attributes(), runtime) or ()


def _attributes() -> tuple[Any, ...]:
    """What calls of traced functions say besides, in the words of the runtime."""
    options = context.context().function_call_options
    if _is_modern:
        return tuple(itertools.chain(*options.as_attrs().items()))
    config = options.config_proto_serialized
    if config is None:
        config = function_utils.get_disabled_rewriter_config()
    return "executor_type", options.executor_type or "", "config_proto", config


def optimized_graphs(name: str, tensors: Sequence[Any], count: int) -> Sequence[Any]:
    """The ``GraphDef``s that the runtime prepares for a call that it refuses.

    Args:
        name: of the function.
        tensors: that it would be given; one is of another type than it takes.
        count: how many it returns.

    Returns:
        One for each device. None: there is nobody who collects them, or the program itself does.
    """
    runtime, summaries = context.context(), sys.modules.get(_SUMMARIES.partition(":")[0])
    is_taken = getattr(summaries, _SUMMARIES.partition(":")[2], None) is not None
    if is_taken or NAMES.why_not(_COMPARED):
        return ()
    runtime.enable_graph_collection()
    try:
        with contextlib.suppress(errors.InvalidArgumentError):
            execute.quick_execute(name, count, list(tensors), _attributes(), runtime)
        # They are handed over with the next op.
        execute.quick_execute("NoOp", 0, [], (), runtime)
        found = runtime.export_run_metadata().function_graphs
    finally:
        runtime.disable_graph_collection()
    return found[0].partition_graphs if found else ()


def spare() -> Sequence[Any]:
    """What a function may be given besides its arguments, which it doesn't read.

    It is a float32 in the memory that all devices have a way to. None: this TensorFlow takes as
    many tensors as the program's function has arguments.
    """
    return [_in_memory(0.0)] if _is_modern else []


def refused() -> Any:
    """What can't be given to a function in the place of `spare`."""
    return _in_memory(0)


def _in_memory(number: float) -> Any:
    with context.eager_mode(), stop_recording(), context.device("CPU:0"):
        return constant_op.constant(number)


class _Delegate:
    """Something of TensorFlow's, but for what is given here."""

    def __init__(self, original: Any, **given: Any) -> None:
        self._tfdbg_original = original
        vars(self).update(given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tfdbg_original, name)


def call_twin(
    function: Any,
    original: Callable[[Any], Any],
    twin: str,
    count: int,
    plain_text: Callable[[str], str],
    more: Sequence[Any] = (),
) -> tuple[Any, Sequence[Any]]:
    """Call a function's twin in its place.

    Args:
        function: the framework's object for it.
        original: calls what it is given.
        twin: the runtime's name of the twin.
        count: how many results it has besides.
        plain_text: puts the function's name into a message in the place of the twin's.
        more: what it is given besides, if this TensorFlow has something to `spare`.

    Returns:
        What the method returns, and the other results.
    """
    added: list[Any] = []

    def split(results: Any) -> Any:
        own = len(results or ()) - count
        added.extend((results or ())[own:])
        return (results or [])[:own] or None

    if _is_modern:
        runtime = function._bound_context

        def call_function(name: Any, tensors: Any, number: int) -> Any:
            try:
                given = [*tensors, *more]
                return split(runtime.call_function(twin.encode(), given, number + count))
            except errors.OpError as error:  # the framework looks for the function's name in it
                reword(error, plain_text)
                raise

        seen = _Delegate(function, _bound_context=_Delegate(runtime, call_function=call_function))
    else:
        seen = _Delegate(
            function,
            name=twin.encode(),
            signature=_Delegate(function.signature, name=twin),
            _num_outputs=function._num_outputs + count,
        )
    try:
        results = original(seen)
    except errors.OpError as error:
        reword(error, plain_text)
        raise
    return (results if _is_modern else split(results)), added


def outputs_of(function: Any) -> Any:
    """What a function returns, in words: a mapping by names, or something else; ``None``: unknown.

    What TensorFlow says of it has no public name.
    """
    made = getattr(getattr(function, "function_type", None), "output", None)
    return getattr(made, "mapping", made)


def packed_outputs(function: Any, results: Sequence[Any]) -> Any:
    """The results of a call, nested as the function returns them; ``None``: it isn't known how.

    What TensorFlow says of it has no public name.
    """
    pack = getattr(getattr(function, "function_type", None), "pack_output", None)
    return pack(list(results)) if pack is not None else None


def options_in(outputs: Any) -> Any:
    """What is in an optional that a function returns; ``None``: it returns none."""
    return getattr(outputs, "_element_spec", None)


def read_optional(held: Any, specs: Sequence[Any]) -> Sequence[Any]:
    """The tensors in an optional."""
    with context.eager_mode():
        made: Sequence[Any] = gen_optional_ops.optional_get_value(
            held, [spec.dtype for spec in specs], [spec.shape for spec in specs]
        )
    return made


def reword(error: Any, plain_text: Callable[[str], str]) -> None:
    """Put the message of an error of TensorFlow's into other words."""
    error._message = plain_text(error.message)
    error.args = tuple(plain_text(each) if isinstance(each, str) else each for each in error.args)
