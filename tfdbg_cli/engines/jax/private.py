"""The names of JAX that it promises nobody, and what is done where one is missing."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any, NamedTuple

import jax
import jax.extend.core.primitives
from jax.extend import core

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.kit.patching.patches import PatchSet
from tfdbg_cli.engines.kit.patching.private_names import PrivateNames

__all__ = [
    "NAMES",
    "ShardMap",
    "argument_names",
    "array_of_ref",
    "call_primitive",
    "callback_results",
    "calls_back",
    "compiled_function",
    "compiler_options",
    "current_source",
    "distributed_state",
    "donated",
    "has_devices",
    "hide_frames",
    "is_clean",
    "is_committed",
    "is_own_jaxpr",
    "is_plain_array",
    "is_program_function",
    "is_ref",
    "let_calls_be_replaced",
    "new_ref",
    "only",
    "partition_spec",
    "result_tree",
    "scan_counts",
    "scope_of",
    "set_message",
    "shard_map_of",
    "statics",
    "unchecked",
    "unchecked_function",
    "varying_axes",
    "wrapped",
    "writes_to_arguments",
]

_TESTED = ["0.4.38", "0.5.3", "0.6.2", "0.7.2", "0.8.3", "0.9.2", "0.10.2", "0.12.0.1"]
NAMES = PrivateNames("JAX", jax.__version__, _TESTED)

# What JAX before 0.4.38 lacks; there more is otherwise than names.
NAMES.require("jax.errors:JaxRuntimeError")
_trace_state_clean = NAMES.require("jax._src.core:trace_state_clean")
# Whatever a compiled program calls back is called by one method, which hands the result to a
# function of this module's: what it has given is seen there, and no frame of ours is in between.
_FROM = NAMES.need("replayed with callbacks", "jax._src.callback:_FlatCallback.__call__")
_callback_trees = NAMES.need("replayed with callbacks", "jax._src.callback:tree_util.tree_leaves")
#: What a compiled function is to whatever transforms programs (``jax.grad`` and the like).
call_primitive: Any = NAMES.need(
    "seen inside of jax.grad",
    "jax.extend.core.primitives:jit_p"
    if hasattr(jax.extend.core.primitives, "jit_p")
    else "jax._src.pjit:pjit_p",  # before JAX 0.7
)

_distributed = NAMES.need(
    "debugged as ranks of jax.distributed", "jax._src.distributed:global_state"
)
_has_devices = NAMES.need(
    "told from what others import and don't use", "jax._src.xla_bridge:backends_are_initialized"
)

_GRADIENTS = "given the lines of gradients outside of compiled functions"
_name_stack = NAMES.need(_GRADIENTS, "jax._src.source_info_util:current_name_stack")
_source = NAMES.need(_GRADIENTS, "jax._src.source_info_util:current")

_exclude = NAMES.need(
    "left out where JAX says who has called it", "jax._src.source_info_util:register_exclusion"
)

#: The class of what ``jax.jit`` makes.
compiled_function: type = type(jax.jit(lambda: None))
if "__call__" not in vars(compiled_function) or not hasattr(jax.jit(lambda: None), "trace"):
    NAMES.require("jax:jit.<what it makes>.__call__ and .trace")


# Its functions are JAX's, what they do is the program's.
_PMAP = "jax._src.pmap"
# So deep stands the program's function in what JAX has made of it: within its own wrappers.
_DEPTH = 3


# In newer versions (0.10) what compiled functions are checked by is a state of its own.
_post_hook: Any = getattr(importlib.import_module("jax._src.api"), "_post_hook_state", None)
_GUARDS = tuple(
    f"jax_transfer_guard{way}"
    for way in ("_host_to_device", "_device_to_device", "_device_to_host")
)


_COMPILATIONS = "kept out of the program's log and cache of compilations"
_explained = NAMES.need(_COMPILATIONS, "jax._src.config:explain_cache_misses")
_cache_folder = (
    NAMES.need(_COMPILATIONS, "jax._src.config:compilation_cache_dir")
    if jax.__version_info__ >= (0, 6)
    else None  # without one at the first compilation there would be none later
)
_cached_from = NAMES.need(_COMPILATIONS, "jax._src.config:persistent_cache_min_compile_time_secs")
_NEVER = 1e9  # seconds that no compilation takes


@contextlib.contextmanager
def _set(*values: tuple[Any, Any]) -> Iterator[None]:
    """Switches of JAX are something else on this thread."""
    with contextlib.ExitStack() as stack:
        for switch, value in values:
            if switch is not None:
                stack.enter_context(switch(value))
        yield


# What a program can switch on -> how it is off for a while.
_SWITCHES: Mapping[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "jax_debug_nans": lambda: jax.debug_nans(False),
    "jax_debug_infs": lambda: jax.debug_infs(False),
    **dict.fromkeys(_GUARDS, lambda: jax.transfer_guard("allow")),
    "jax_log_compiles": lambda: jax.log_compiles(False),
    "jax_explain_cache_misses": lambda: _set((_explained, False)),
    # JAX asks only once whether there is a cache, and makes the folder at the first compilation.
    "jax_compilation_cache_dir": lambda: _set((_cache_folder, None), (_cached_from, _NEVER)),
}


@contextlib.contextmanager
def unchecked() -> Iterator[None]:
    """Work of ours on a thread of the program's.

    What the program has switched on isn't for it, and is what it was when it is done: the search
    for nan (``jax_debug_nans``), guards of transfers, logging and caching of what is compiled.
    """
    config: Any = jax.config
    on = [off for name, off in _SWITCHES.items() if getattr(config, name, None)]
    if not on:
        yield
        return
    with _same_hook(), contextlib.ExitStack() as stack:
        for off in on:
            stack.enter_context(off())
        yield


@contextlib.contextmanager
def _same_hook() -> Iterator[None]:
    """What checks the results of compiled functions on this thread stays.

    At the end of ``jax.debug_nans`` as a context JAX would have none there from then on.
    """
    before = _post_hook.get_local() if _post_hook is not None else None
    try:
        yield
    finally:
        if _post_hook is not None:
            _post_hook.set_local(before)


def unchecked_function(jaxpr: Any) -> Callable[..., Sequence[Any]]:
    """What a closed jaxpr computes; it doesn't check for nan."""
    function = core.jaxpr_as_fun(jaxpr)

    def compute(*values: Any) -> Sequence[Any]:
        with _same_hook():
            found: Sequence[Any] = function(*values)
        return found

    return compute


def has_devices() -> bool:
    """Whether devices were asked for, as for the first computation."""
    return _has_devices is None or bool(_has_devices())


def distributed_state() -> tuple[int, int, Any] | None:
    """Which process this is, of how many, and the client of the service that they meet at.

    ``None``: the program is of one process, or has not called ``jax.distributed.initialize`` yet.
    """
    client = getattr(_distributed, "client", None)
    if client is None:
        return None
    rank, size = _distributed.process_id, _distributed.num_processes
    return (rank, size, client) if size and size > 1 else None


def is_clean() -> bool:
    """Whether nothing is being traced: what is called is computed."""
    return bool(_trace_state_clean())


def calls_back(equation: Any) -> bool:
    """Whether an equation calls functions of the program's, or prints."""
    if "callback" in equation.primitive.name or equation.primitive.name == "debug_print":
        return True
    return any(calls_back(each) for jaxpr in inner_jaxprs(equation) for each in jaxpr.eqns)


def inner_jaxprs(equation: Any) -> list[Any]:
    """The jaxprs among the parameters of an equation."""
    found = []
    for value in equation.params.values():
        for each in value if isinstance(value, tuple | list) else (value,):
            jaxpr = getattr(each, "jaxpr", each)
            if hasattr(jaxpr, "eqns"):
                found.append(jaxpr)
    return found


@functools.cache
def hide_frames(folder: str) -> None:
    """Where JAX says who has called it, the code in a folder doesn't count."""
    if _exclude is not None:
        _exclude(folder)


def callback_results(patches: PatchSet, see: Callable[[Any, Any], None]) -> None:
    """Let somebody see what functions of the program's give to compiled ones.

    Args:
        patches: with which it is taken back.
        see: gets what stands for the function, and the arrays.
    """
    if _FROM is None or _callback_trees is None:
        return
    module = sys.modules["jax._src.callback"]

    def seeing(trees: Any) -> Any:
        def tree_leaves(*args: Any, **kwargs: Any) -> Any:
            made = trees.tree_leaves(*args, **kwargs)
            caller = sys._getframe(1)
            if caller.f_code is _FROM.__code__:
                see(caller.f_locals.get("self"), made)
            return made

        return SimpleNamespace(**{**vars(trees), "tree_leaves": tree_leaves})

    patches.replace(module, "tree_util", seeing, wraps=False)


def only(jaxpr: Any, equation: Any, inputs: Sequence[Any]) -> Any:
    """A jaxpr of one of its equations."""
    made = {"constvars": [], "invars": inputs, "outvars": equation.outvars, "eqns": [equation]}
    if jax.__version_info__ < (0, 5):  # it counts the names of arguments
        made["debug_info"] = None
    return jaxpr.replace(**made)


def current_source() -> Any:
    """The ``source_info`` of the op whose gradient is computed now, outside of compiled functions.

    ``None``: none is.
    """
    if _name_stack is None or _source is None or "transpose" not in _text_of(_name_stack()):
        return None
    return _source()


def scope_of(source: Any) -> str:
    """Where an equation was written: ``transpose(jvp(Model))/Dense_0``."""
    return _text_of(source.name_stack)


def _text_of(stack: Any) -> str:
    if jax.__version_info__ >= (0, 7):
        return str(stack)
    # Transformations of what has no name were left out.
    names: list[str] = []
    for each in reversed(stack.stack):
        if type(each).__name__ == "Transform":
            names.append(f"{each.name}({names.pop() if names else ''})")
        else:
            names.append(each.name)
    return "/".join(reversed(names))


def writes_to_arguments(jaxpr: Any) -> bool:
    """Whether a jaxpr reads or writes mutable arrays, which it must not do twice."""
    kinds = {type(effect).__module__ for effect in jaxpr.effects}
    return any(kind.startswith("jax._src.state") for kind in kinds)


_core = sys.modules["jax._src.core"]
_ref_class: Any = next(
    # The newest name first.
    (vars(_core)[name] for name in ("Ref", "ArrayRef", "MutableArray") if name in vars(_core)),
    None,
)


_array_class: Any = getattr(sys.modules.get("jax._src.array"), "ArrayImpl", None)


def is_plain_array(value: Any) -> bool:
    """Whether it is known to be an array of numbers: no key, no mutable array, nothing traced.

    JAX's own classes take microseconds to say whether something is an instance of them.
    """
    return type(value) is _array_class


def is_ref(value: Any) -> bool:
    """Whether it is a mutable array."""
    if is_plain_array(value) or not isinstance(_ref_class, type):
        return False
    return isinstance(value, _ref_class)


def array_of_ref(value: Any) -> Any:
    """What a mutable array holds now, as an array of its own."""
    return jax.numpy.copy(value[...])


def new_ref(array: Any) -> Any:
    """A mutable array that begins as a copy of another array."""
    make = getattr(jax, "new_ref", None) or _core.mutable_array  # before JAX 0.7
    return make(jax.numpy.copy(array))


def scan_counts(params: Mapping[str, Any]) -> tuple[int, int]:
    """How many of what a scan is given are constants, and how many go round."""
    if "ft_in" in params:  # from JAX 0.12 on
        constants, carried, _ = params["ft_in"].unpack()
        return len(constants), len(carried)
    return params["num_consts"], params["num_carry"]


class ShardMap(NamedTuple):
    """What a ``shard_map`` consists of.

    Attributes:
        jaxpr: what each device does.
        axes: of the mesh, those that it splits along, in the mesh's order.
        sizes: axis -> devices along it.
        inputs, outputs: how what it gets and gives is split.
        is_checked: JAX knows of each value inside along which axes it is the same.
        make: a ``shard_map`` of another function over the same mesh.
    """

    jaxpr: Any
    axes: tuple[str, ...]
    sizes: Mapping[str, int]
    inputs: Sequence[Any]
    outputs: Sequence[Any]
    is_checked: bool
    make: Callable[[Callable[..., Any], Any, Any], Callable[..., Any]]


def shard_map_of(equation: Any) -> ShardMap | None:
    """What an equation consists of; ``None``: it is no ``shard_map``, or one of another kind."""
    params = equation.params
    if equation.primitive.name != "shard_map" or "mesh" not in params:
        return None
    if hasattr(jax, "shard_map"):
        function: Callable[..., Any] = jax.shard_map
    else:  # before JAX 0.6
        function = importlib.import_module("jax.experimental.shard_map").shard_map
    known = inspect.signature(function).parameters
    mesh = params["mesh"]
    axes = params.get("newly_manual_axes", params.get("manual_axes"))
    if axes is None:
        axes = frozenset(mesh.axis_names) - params.get("auto", frozenset())
    inputs, outputs = params.get("in_specs"), params.get("out_specs")
    if inputs is None:
        inputs, outputs = params["in_names"], params["out_names"]
        inputs = [_spec_of(*each) for each in zip(inputs, equation.invars, strict=True)]
        outputs = [_spec_of(*each) for each in zip(outputs, equation.outvars, strict=True)]
    is_checked = "check_vma" in known and bool(params.get("check_vma"))
    options: dict[str, Any] = {"mesh": mesh}
    options["check_vma" if "check_vma" in known else "check_rep"] = is_checked
    if "axis_names" in known:
        options["axis_names"] = set(axes)
    elif "auto" in known:
        options["auto"] = frozenset(mesh.axis_names) - axes

    def make(function_of_one: Callable[..., Any], in_specs: Any, out_specs: Any) -> Any:
        return function(function_of_one, in_specs=in_specs, out_specs=out_specs, **options)

    ordered = tuple(axis for axis in mesh.axis_names if axis in axes)
    return ShardMap(params["jaxpr"], ordered, mesh.shape, inputs, outputs, is_checked, make)


def _spec_of(names: Mapping[int, Any], operand: Any) -> Any:
    return partition_spec(names.get(at) for at in range(operand.aval.ndim))


def partition_spec(axes: Iterable[Any]) -> jax.sharding.PartitionSpec:
    """Along which axes of a mesh each dimension is split."""
    return jax.sharding.PartitionSpec(*axes)  # type: ignore[no-untyped-call]


def varying_axes(aval: Any) -> frozenset[str]:
    """The axes of a mesh along which a value inside of a ``shard_map`` may differ."""
    found = getattr(aval, "vma", None)
    if found is None:  # from JAX 0.9 on
        found = getattr(getattr(aval, "mat", None), "varying", None)
    return frozenset(found or ())


def set_message(error: BaseException, text: str) -> None:
    """Let an error of a computation have another text."""
    error.args = (text, *error.args[1:])
    if hasattr(error, "_error_message"):
        error._error_message = text


def result_tree(traced: Any) -> Any:
    """How the results of a function that was traced are nested."""
    return traced.out_tree if hasattr(traced, "out_tree") else traced._out_tree  # before JAX 0.8


def wrapped(function: Any) -> Callable[..., Any] | None:
    """The function that was given to ``jax.jit``; ``None``: it is one of JAX's own."""
    return getattr(function, "_fun", None)


def is_program_function(function: Any) -> bool:
    """Whether something that was compiled is the program's (or another library's), not JAX's."""
    plain = wrapped(function)
    if plain is None:
        return False
    module = getattr(plain, "__module__", None) or ""
    if module == _PMAP or (module != "jax" and not module.startswith("jax.")):
        return True
    # What the program has compiled of JAX's functions; those of JAX's own stand in their module.
    name = getattr(plain, "__name__", "")
    if name.startswith("_"):  # what JAX compiles when it is needed
        return False
    if getattr(sys.modules.get(module), name, None) is plain:
        return True
    # What JAX has made of the program's: of `jax.vjp`, the call of an export, `checkify` of one.
    return isinstance(plain, MethodType) or not name or _holds_other(plain, _DEPTH)


def _holds_other(function: Any, depth: int) -> bool:
    """Whether a function of JAX's was made of one that isn't JAX's."""
    for cell in getattr(function, "__closure__", None) or ():
        try:
            held = cell.cell_contents
        except ValueError:  # it is empty
            continue
        module = getattr(held, "__module__", None) or ""
        if callable(held) and module.partition(".")[0] not in ("jax", "jaxlib"):
            return True
        if depth and isinstance(held, FunctionType) and _holds_other(held, depth - 1):
            return True
    return False


def is_own_jaxpr(jaxpr: Any) -> bool:
    """Whether a jaxpr is of a function of JAX's own."""
    place = getattr(getattr(jaxpr, "debug_info", None), "func_src_info", None) or ""
    return f"{os.sep}jax{os.sep}_src{os.sep}" in place


def _jit_info(function: Any) -> Any:
    """What ``jax.jit`` was given with a function."""
    found = getattr(function, "_jit_info", None)
    if found is None:  # before JAX 0.6
        trace = getattr(function.trace, "__wrapped__", None) if hasattr(function, "trace") else None
        if trace is not None:
            cells = zip(trace.__code__.co_freevars, trace.__closure__ or (), strict=False)
            found = next((each.cell_contents for name, each in cells if name == "jit_info"), None)
    return found


def statics(function: Any) -> tuple[Sequence[int], Sequence[str]]:
    """The arguments that are part of the function: positions and names."""
    info = _jit_info(function)
    positions = getattr(info, "static_argnums", None) or ()
    return (*positions,), (*(getattr(info, "static_argnames", None) or ()),)


def compiler_options(function: Any) -> dict[str, Any] | None:
    """What XLA was told about a function beside what it computes."""
    return dict(getattr(_jit_info(function), "compiler_options_kvs", None) or ()) or None


def is_committed(value: Any) -> bool:
    """Whether an array stays on the devices where it is."""
    return bool(getattr(value, "_committed", False))


def donated(function: Any) -> tuple[Sequence[int], Sequence[str]]:
    """The arguments whose memory the function may use again: positions and names."""
    info = _jit_info(function)
    positions = getattr(info, "donate_argnums", None) or ()
    return (*positions,), (*(getattr(info, "donate_argnames", None) or ()),)


def argument_names(jaxpr: Any) -> Sequence[str]:
    """What the arguments of a jaxpr are called in its function; none: it isn't known."""
    found = getattr(getattr(jaxpr, "debug_info", None), "arg_names", None)
    names = [name or "" for name in found or ()]
    return names if len(names) == len(jaxpr.invars) else ()


# Where ``tp_flags`` is in a type object, in words of the machine, and its flag for types that are
# called by another way than ``__call__``. From Python 3.12 on setting ``__call__`` takes it off.
_FLAGS_WORD = 21
_HAS_VECTORCALL = 1 << 11


def let_calls_be_replaced() -> tuple[Callable[[], None], Callable[[], None]]:
    """Let calls of compiled functions come by ``__call__``.

    Returns:
        What makes it so, and what takes it back.

    Raises:
        UserError: it can't be done with this Python.
    """
    if sys.version_info >= (3, 12) or not compiled_function.__flags__ & _HAS_VECTORCALL:
        return lambda: None, lambda: None
    at = id(compiled_function) + _FLAGS_WORD * ctypes.sizeof(ctypes.c_void_p)
    flags = ctypes.c_ulong.from_address(at)
    if sys.implementation.name != "cpython" or flags.value != compiled_function.__flags__:
        raise UserError(f"{NAMES.framework} can't be watched with this build of Python.")

    def do() -> None:
        flags.value &= ~_HAS_VECTORCALL

    def undo() -> None:
        flags.value |= _HAS_VECTORCALL

    return do, undo
