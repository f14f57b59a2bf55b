"""The parts of PyTorch that have no public name, each with what is done where it isn't there.

No other module of the engine uses one. What is required is looked up when this is imported, which
fails where something is missing: then nothing of PyTorch has been touched. What isn't required has
a stand-in. Attributes that are read for each op have their name here, or a getter of the standard
library: a function of ours around each of them would cost more than they do.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import importlib
import inspect
import operator
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import CodeType
from typing import Any

import torch

from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.common.interpreter.signal_gate import add_helpers
from tfdbg_cli.engines.kit.patching.private_names import PrivateNames

# Tested by their contracts, steps and runs: `scripts/test versions all`.
_EARLIER = ("2.9.1", "2.10.0", "2.11.0", "2.12.1")
#: What the engine knows of this PyTorch.
NAMES = PrivateNames("PyTorch", str(torch.__version__), (*_EARLIER, "2.13.0", "2.14.1"))
#: The ability that `NAMES` knows by this name.
STEPPED = "stepped through"

_C: Any = torch._C


def _nothing() -> None:
    return None


def _zero() -> int:
    return 0


def _get(path: str, default: Any) -> Any:
    """What stands under a dotted name in ``torch._C``; another version may not have it."""
    found: Any = _C
    for name in path.split("."):
        found = getattr(found, name, None)
    return default if found is None else found


# Without these no op is seen, or a look at a value would become a part of the program. They are
# not even installed where one is missing.

#: While it lasts no subclass's and no mode's ``__torch_function__`` is called.
quiet: Callable[[], Any] = NAMES.require("torch._C:DisableTorchFunction")
#: While it lasts no dispatch mode and no subclass sees an op.
undispatched: Callable[[], Any] = NAMES.require("torch._C:_DisableTorchDispatch")
#: While it lasts autograd notes nothing; a tenth of the price of ``torch.no_grad``.
below_autograd: Callable[[], Any] = NAMES.require("torch._C:_AutoDispatchBelowAutograd")
#: Whether a function mode sees every attribute that is read.
functions_seen: Callable[[], bool] = NAMES.require("torch._C:_is_torch_function_mode_enabled")
#: How many dispatch modes are on; inside of the lowest one of the program's, how many of PyTorch's
#: own are (fake tensors, tracing).
modes_below: Callable[[], int] = NAMES.require("torch._C:_len_torch_dispatch_stack")
#: What programs ask the same by, and which there are.
MODE_COUNT, MODE_AT = (
    (_C, f"_{name}") for name in ("len_torch_dispatch_stack", "get_dispatch_stack_at")
)
dispatch_mode_at: Callable[[int], Any] = NAMES.require("torch._C:_get_dispatch_stack_at")
pop_dispatch_mode: Callable[[Any], Any] = NAMES.require("torch._C:_pop_torch_dispatch_stack")
push_dispatch_mode: Callable[[Any], None] = NAMES.require("torch._C:_push_on_torch_dispatch_stack")
function_mode_count: Callable[[], int] = NAMES.require("torch._C:_len_torch_function_stack")
function_mode_at: Callable[[int], Any] = NAMES.require("torch._C:_get_function_stack_at")
pop_function_mode: Callable[[], Any] = NAMES.require("torch._C:_pop_torch_function_stack")
push_function_mode: Callable[[Any], None] = NAMES.require("torch._C:_push_on_torch_function_stack")
#: The module in which the compiler's answers about modes are.
python_dispatch: Any = NAMES.require("torch.utils:_python_dispatch")
_TorchDispatchMode: Any = NAMES.require("torch.utils:_python_dispatch.TorchDispatchMode")
#: Whether a tensor stands for zeros that nobody has written.
is_zero: Callable[[torch.Tensor], bool] = NAMES.require("torch:Tensor._is_zerotensor")
NAMES.require("torch:Tensor._version")
#: How often a tensor was written to; inference tensors raise.
write_count: Callable[[torch.Tensor], int] = operator.attrgetter("_version")


def count_of(tensor: torch.Tensor) -> int:
    """`write_count`; -1 where nobody counts."""
    return -1 if tensor.is_inference() else write_count(tensor)


#: At the end of the block a tensor counts as often written to as at its beginning.
uncounted: Callable[[torch.Tensor], contextlib.AbstractContextManager[Any]] = getattr(
    torch.autograd, "_unsafe_preserve_version_counter", contextlib.nullcontext
)

NAMES.require("torch:UntypedStorage._cdata")
NAMES.require("torch:UntypedStorage._weak_ref")
_let_go: Callable[[int], None] = NAMES.require("torch:UntypedStorage._free_weak_ref")
#: Where a storage's own data are, as a number.
storage_address: Callable[[Any], int] = operator.attrgetter("_cdata")
#: Lets a function see the code that is about to run; returns the one before. The part of the
#: compiler that is there as soon as torch is; the rest comes with its first use.
set_callback: Callable[[Any], Any] = NAMES.require("torch._C:_dynamo.eval_frame.set_eval_frame")
#: Is called with each optimizer that is made.
OPTIMIZER_MADE = "_patch_step_function"
#: Of `torch.nn.utils.clip_grad`, since PyTorch 2.6: what is called first when a norm is clipped.
TOTAL_NORM = "_get_total_norm"
NAMES.require("torch.optim:Optimizer._patch_step_function")
NAMES.check()

# Of every module, since the first PyTorch there was.

#: The modules that a module has, by their names; ``None`` may be among them.
children_of: Callable[[torch.nn.Module], dict[str, Any]] = operator.attrgetter("_modules")
#: Its own parameters; ``None`` may be among them.
parameters_of: Callable[[torch.nn.Module], dict[str, Any]] = operator.attrgetter("_parameters")
#: Its own buffers; ``None`` may be among them.
buffers_of: Callable[[torch.nn.Module], dict[str, Any]] = operator.attrgetter("_buffers")
#: The hooks that see, and may change, what it gets and what it returns.
module_hooks_of: Callable[[torch.nn.Module], tuple[Any, Any]] = operator.attrgetter(
    "_forward_pre_hooks", "_forward_hooks"
)
#: The hooks that see, and may change, the gradients of what it returns and of what it gets.
backward_hooks_of: Callable[[torch.nn.Module], tuple[Any, Any]] = operator.attrgetter(
    "_backward_pre_hooks", "_backward_hooks"
)


def global_hooks() -> list[Any]:
    """The hooks that see, and may change, what any module gets and returns, and the gradients."""
    found: list[Any] = []
    for name in ("forward_pre", "forward", "backward_pre", "backward"):
        hooks = getattr(torch.nn.modules.module, f"_global_{name}_hooks", None) or {}
        found += hooks.values()
    return found


#: The hooks that see, and may change, the gradient of a parameter before and after it is there.
gradient_hooks_of: Callable[[torch.Tensor], tuple[Any, Any]] = operator.attrgetter(
    "_backward_hooks", "_post_accumulate_grad_hooks"
)

# Attributes that an object may have or not, to be asked for with a default.

#: Of an overload: what does it, without a frame of PyTorch's that no traceback of the program has.
#: Without it the traceback of an op that fails has that frame.
KERNEL = "_op"
#: Of an overload: its schema. Without it an op goes by the name of its function.
SCHEMA = "_schema"
#: Of a DTensor: this rank's part. Without it the first tensor of its shape is shown.
LOCAL = "_local_tensor"
#: Of a nested tensor of the jagged layout: values, offsets and maybe lengths. Without them it is
#: taken apart by its operators, or not held at all.
JAGGED = ("_values", "_offsets", "_lengths")
#: Of the same: the dimension, the batch's included, in which the parts differ; 1 by default.
RAGGED = "_ragged_idx"
#: Of a variable of Keras': its tensor, as it is. Without it such variables aren't named.
KERAS_VALUE = "_value"
#: In which wrappers have the module that they wrap. Without them it has one name more.
WRAPPED = {"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}

#: Of a gradient scaler: its factor, and what it has found for each optimizer. Without them runs
#: don't tell the factor, and which steps were left out.
SCALE, SCALER_STATES = "_scale", "_per_optimizer_states"

_PYTHON_KEY = _get("DispatchKey.Python", None)
_is_key_included = _get("_dispatch_tls_is_dispatch_key_included", None)
#: Whether this thread's ops come to its dispatch modes; yes if nobody knows.
is_dispatching: Callable[[], bool] = (
    (lambda: True)
    if _PYTHON_KEY is None or _is_key_included is None
    else functools.partial(_is_key_included, _PYTHON_KEY)
)

#: The sequence number of autograd nodes that have none (``AccumulateGrad``).
NO_SEQUENCE = 2**64 - 1

#: The autograd node that runs on this thread, ``None`` outside of backward passes.
current_node: Callable[[], Any] = _get("_current_autograd_node", _nothing)

#: The number that this thread's next autograd node is going to have.
next_sequence: Callable[[], int] = _get("_autograd._get_sequence_nr", _zero)

#: Whether ``torch.jit.trace`` is at work on this thread: what is done becomes a part of its result.
is_tracing: Callable[[], bool] = _get("_is_tracing", bool)

#: The functions of ``torch.jit`` by which models are traced, the last one for `torch.onnx`.
TRACES = tuple(
    name for name in ("trace", "trace_module", "_get_trace_graph") if hasattr(torch.jit, name)
)

#: What is on top of the stack of `torch.func`'s transforms, and all that is on it.
top_interpreter: Callable[[], Any] = _get("_functorch.peek_interpreter_stack", _nothing)
interpreters: Callable[[], Any] = _get("_functorch.get_interpreter_stack", _nothing)

#: Whether a tensor is one of those that the transforms of `torch.func` compute with.
is_wrapped: Callable[[torch.Tensor], bool] = _get(
    "_functorch.is_functorch_wrapped_tensor", lambda tensor: False
)
#: The tensor in such a one.
unwrapped: Callable[[torch.Tensor], torch.Tensor | None] = _get(
    "_functorch.get_unwrapped", lambda tensor: None
)
_is_functional: Callable[[torch.Tensor], bool] = getattr(
    torch, "_is_functional_tensor", lambda tensor: False
)
# All tensors of these devices are functional ones, and have values as others have.
_FUNCTIONAL = ("lazy", "xla")


def is_functional(tensor: torch.Tensor) -> bool:
    """Whether a tensor is one of those that functionalization traces with."""
    return _is_functional(tensor) and tensor.device.type not in _FUNCTIONAL


_forward_ad: Any = torch.autograd.forward_ad


def has_tangents() -> bool:
    """Whether tensors may have tangents: forward-mode AD is at work."""
    return getattr(_forward_ad, "_current_level", -1) >= 0


_foreach_norm: Callable[..., Any] | None = getattr(torch, "_foreach_norm", None)


def norms_of(tensors: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
    """The norms of tensors of one dtype and device, which a device computes in one go."""
    dtype = torch.promote_types(tensors[0].dtype, torch.float32)  # of float16 they overflow
    if _foreach_norm is not None and tensors[0].device.type in ("cpu", "cuda"):
        with contextlib.suppress(TypeError, RuntimeError):
            made: Sequence[torch.Tensor] = _foreach_norm(tensors, 2, dtype=dtype)
            return made
    # Other devices may wait for what they have no kernel for.
    return [(each := tensor.to(dtype)).mul(each).sum().sqrt() for tensor in tensors]


#: The ``__torch_dispatch__`` of classes that have theirs turned off; ``None``: nobody knows.
disabled_dispatch: Any = _get("_disabled_torch_dispatch_impl", None)

#: Where TorchScript's interpreter is, and the same in words; ``None``: nobody can tell.
gather_traceback: Callable[[bool, bool, bool], Any] | None = _get(
    "_profiler.gather_traceback", None
)
symbolize_tracebacks: Callable[[list[Any]], Any] | None = _get(
    "_profiler.symbolize_tracebacks", None
)


def _step(name: str) -> Any:
    return NAMES.need(STEPPED, f"torch._C:{name}")


# Without these a program can't be left in the middle of an op; it is debugged all the same.

#: Both take and put back dispatch keys of this thread, all of them.
force_keys: Callable[[Any, Any], Any] = _step("_ForceDispatchKeyGuard")
_included_keys: Callable[[], Any] = _step("_dispatch_tls_local_include_set")
_excluded_keys: Callable[[], Any] = _step("_dispatch_tls_local_exclude_set")
#: Inference mode on or off.
inference_mode: Callable[[bool], Any] = _step("_InferenceMode")
#: Whether `quiet` isn't on.
is_function_enabled: Callable[[], bool] = _step("_is_torch_function_enabled")
#: Undoes `quiet`.
without_quiet: Callable[[], Any] = _step("_EnableTorchFunction")
_gradients: tuple[tuple[Callable[[], bool], Callable[[bool], Any]], ...] = (
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (_step("_is_fwd_grad_enabled"), _step("_set_fwd_grad_enabled")),
    (_step("_is_multithreading_enabled"), _step("_set_multithreading_enabled")),
)
_top_saved: Callable[[bool], Any] = _get(
    "_autograd._top_saved_tensors_default_hooks", lambda ignores: None
)
_pop_saved: Callable[[], None] = _step("_autograd._pop_saved_tensors_default_hooks")
_push_saved: Callable[[Any, Any], None] = _step("_autograd._push_saved_tensors_default_hooks")


#: Whether autocast is on, for whatever device.
any_autocast: Callable[[], bool] = _get("_is_any_autocast_enabled", lambda: True)


def local_keys() -> tuple[Any, Any]:
    """The dispatch keys of this thread, for `force_keys`."""
    return _included_keys(), _excluded_keys()


def gradient_state() -> list[bool]:
    """Which gradients are noted on this thread, and whether several threads compute them."""
    return [get() for get, _ in _gradients]


def has_gradients() -> bool:
    """Whether all of them are noted, as on a new thread."""
    return all(get() for get, _ in _gradients)


def put_gradient_state(state: list[bool]) -> None:
    """Let it be as `gradient_state` has found it."""
    for (_, put), value in zip(_gradients, state, strict=True):
        put(value)


def has_saved_hooks() -> bool:
    """Whether there are hooks for tensors that autograd saves; no if nobody knows."""
    return _top_saved(True) is not None


def take_saved_hooks() -> list[Any]:
    """Pop the hooks for tensors that autograd saves, the innermost first; none if nobody knows."""
    found: list[Any] = []
    while (hooks := _top_saved(True)) is not None:
        _pop_saved()
        found.append(hooks)
    return found


def put_saved_hooks(hooks: list[Any]) -> None:
    """Put back what `take_saved_hooks` has given."""
    for pack, unpack in reversed(hooks):
        _push_saved(pack, unpack)


# Dispatch modes.


class DispatchMode(_TorchDispatchMode):  # type: ignore[misc]  # PyTorch is Any to mypy
    """A dispatch mode that the compiler knows what to do with."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # True would import the compiler at the first op. It leaves this method alone without that:
        # while a mode is on that doesn't ignore the insides of compiled code, none is used.
        return False


def is_infrastructure(mode: Any) -> bool:
    """Whether a dispatch mode is PyTorch's own; those are not part of the stack."""
    return getattr(mode, "_mode_key", None) is not None


def default_device_mode() -> Any:
    """The function mode of ``torch.set_default_device``; ``None``: there is none."""
    return getattr(getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None), "device_context", None)


@functools.cache
def no_modes() -> list[Any]:
    """What turns off the transforms of `torch.func` and dispatch modes, as far as it is there."""
    found = []
    with contextlib.suppress(ImportError):
        from torch._functorch import pyfunctorch

        found.append(getattr(pyfunctorch, "temporarily_clear_interpreter_stack", None))
    found.append(getattr(python_dispatch, "_disable_current_modes", None))
    return [each for each in found if each is not None]


# Where PyTorch's own contexts begin and end.
add_helpers(
    *(
        function.__code__.co_filename
        for function in (
            torch.no_grad.__exit__,
            torch.no_grad.__call__,
            torch.overrides.TorchFunctionMode.__exit__,
            _TorchDispatchMode.__exit__,
        )
    )
)

#: Files of functions and methods of the API: what is called is what the program has called.
API_FILES = frozenset(
    os.path.join(torch.__path__[0], *parts)
    for parts in (
        ("nn", "functional.py"),
        ("functional.py",),
        ("_tensor.py",),
        ("_jit_internal.py",),
        ("_ops.py",),
        ("overrides.py",),
        ("special", "__init__.py"),
    )
)

# What is asked of tensors, modules and the process, one at a time.

#: The dispatch keys of a tensor; ``None``: nobody knows.
keys_of: Callable[[torch.Tensor], Any] = _get("_dispatch_keys", lambda tensor: None)


def _plain_keys() -> tuple[Any, ...]:
    found = []
    for is_inference in (False, True):
        with (
            contextlib.suppress(AttributeError),
            quiet(),
            undispatched(),
            torch.inference_mode(is_inference),
        ):
            found.append(keys_of(torch.empty(0, device="cpu")))
    return tuple(each for each in found if each is not None)


#: Those of tensors in the memory of the CPU that nothing is special about: dense, not conjugated,
#: nobody's wrapper; with autograd and in inference mode.
PLAIN_KEYS = _plain_keys()


def _copy_each(targets: Sequence[torch.Tensor], sources: Sequence[torch.Tensor]) -> None:
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)


#: Copies tensors into others, one by one.
copy_all: Callable[[Sequence[torch.Tensor], Sequence[torch.Tensor]], None] = getattr(
    torch, "_foreach_copy_", _copy_each
)


def nonzero_count(tensor: torch.Tensor) -> int:
    """How many elements a sparse tensor holds; 0: nobody knows."""
    count = getattr(tensor, "_nnz", None)
    return int(count()) if count is not None else 0


def coo_parts(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Values and indices of a sparse COO tensor; the public names want them coalesced."""
    return tensor._values(), tensor._indices()


def nested_sizes(tensor: torch.Tensor) -> torch.Tensor | None:
    """The shapes of the parts of a nested tensor of the strided layout, a row each."""
    sizes = getattr(tensor, "_nested_tensor_size", None)
    return sizes() if sizes is not None else None


def fused_switches(library: str) -> tuple[Callable[[], bool], Callable[[bool], None]] | None:
    """Whether fused kernels of a library are used, and what changes it; ``None``: it can't be.

    The public ``flags`` of the libraries set more than this, and warn of it.
    """
    get, put = (_get(f"_{verb}_{library}_enabled", None) for verb in ("get", "set"))
    return (get, put) if get is not None and put is not None else None


def graph_line(module: Any, line: int) -> int | None:
    """Which node of its graph a line of a graph module's code stands for; ``None``: none known."""
    numbers = getattr(module, "_lineno_map", None) or {}
    at = numbers.get(line - (getattr(module, "_prologue_start", 0) or 0))
    return int(at) if at is not None else None


def default_store() -> Any:
    """The store of the default process group; ``None``: not found."""
    module: Any = sys.modules["torch.distributed.distributed_c10d"]
    with contained:  # another name in this version, or a group that was made without a store
        return module._get_default_store()
    return None


def engine_codes() -> Iterator[CodeType]:
    """The code of what runs a backward pass, as far as it is known."""
    code = code_of("torch.autograd.graph", "_engine_run_backward")
    if code is not None:
        yield code


def recompute_codes() -> Iterator[CodeType]:
    """The code of what computes again what a checkpoint has not kept, as far as it is known."""
    code = code_of("torch.utils.checkpoint", "CheckpointFunction", "backward")
    if code is not None:
        yield code
    hooks = code_of("torch.utils.checkpoint", "_checkpoint_hook", "__init__")
    for inner in hooks.co_consts if hooks is not None else ():
        if isinstance(inner, CodeType) and inner.co_name == "unpack_hook":
            yield inner


def training_codes() -> Iterator[CodeType]:
    """The code that makes a backward pass or a step, as far as it is known."""
    step = getattr(getattr(torch.amp, "GradScaler", None), "step", None)
    for function in (torch.autograd.backward, torch.autograd.grad, step):
        code = getattr(inspect.unwrap(function), "__code__", None) if function else None
        if code is not None:  # of what is there when nobody has put anything on top
            yield code
    hook = code_of("torch.optim.optimizer", "Optimizer", "profile_hook_step")
    for inner in hook.co_consts if hook is not None else ():
        if isinstance(inner, CodeType):
            yield inner


#: Whether this PyTorch could record a CUDA graph at all.
MAY_CAPTURE = bool(torch.backends.cuda.is_built())


def is_capturing() -> bool:
    """Whether what is done now becomes part of a CUDA graph that the program records.

    Not what was built is asked, nor whether there is a GPU (to look for one initializes the
    driver, after which no forked process can use it), but whether the program has begun to use it.
    """
    return torch.cuda.is_initialized() and bool(torch.cuda.is_current_stream_capturing())


_BY_STEPS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")
_BY_ALL_STEPS = ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks")


def calls_hooks(optimizer: Any) -> bool:
    """Whether a step of an optimizer of PyTorch's calls hooks of the program's, if that's known."""
    everywhere: Any = sys.modules.get("torch.optim.optimizer")
    return any(getattr(optimizer, name, True) for name in _BY_STEPS) or any(
        getattr(everywhere, name, True) for name in _BY_ALL_STEPS
    )


def sequence_of(node: Any) -> int:
    """The sequence number of an autograd node, `NO_SEQUENCE` if it has none."""
    number = getattr(node, "_sequence_nr", None)
    return number() if number is not None else NO_SEQUENCE


def keeps_result(node: Any) -> bool:
    """Whether an autograd node computes its gradient of what the op has made."""
    return hasattr(type(node), "_saved_result")


def own_backward(node: Any) -> CodeType | None:
    """The backward function of a ``torch.autograd.Function`` that an autograd node calls."""
    backward = getattr(getattr(type(node), "_forward_cls", None), "backward", None)
    code = getattr(backward, "__code__", None)
    return code if isinstance(code, CodeType) else None


@contextlib.contextmanager
def unobserved() -> Iterator[None]:
    """What is done inside is seen by no mode, no subclass and no autograd."""
    with quiet(), undispatched():
        before = torch.is_grad_enabled()
        try:
            torch._C._set_grad_enabled(False)  # half the price of ``torch.no_grad``
            yield
        finally:
            torch._C._set_grad_enabled(before)


@contextlib.contextmanager
def without_hooks(tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    """Hooks for the gradients of tensors aren't called within."""
    found = [(each, each._backward_hooks) for each in tensors if each._backward_hooks]
    for tensor, _ in found:
        tensor._backward_hooks = None
    try:
        yield
    finally:
        for tensor, hooks in found:
            tensor._backward_hooks = hooks


_LAZY = "torch._lazy.ts_backend"


def is_lazy(tensor: torch.Tensor) -> bool:
    """Whether a tensor is one of PyTorch's lazy backend: asking for its storage is a crash."""
    return _LAZY in sys.modules and tensor.device.type == "lazy"


def shard_of(tensor: torch.Tensor) -> torch.Tensor:
    """This rank's part of a DTensor, which is what its ops are given; of others, themselves."""
    part = getattr(tensor, LOCAL, None)
    return part if isinstance(part, torch.Tensor) else tensor


def storage_key(tensor: torch.Tensor) -> int:
    """What tensors that share memory have in common; 0: the tensor has no storage of its own."""
    try:
        if _LAZY in sys.modules and is_lazy(tensor):
            return 0
        return storage_address(tensor.untyped_storage())
    except (RuntimeError, NotImplementedError, AttributeError):
        return 0


class _LetGo(map):  # type: ignore[type-arg]
    """Lets go of what refers to storages when nobody has this.

    No line of Python runs then: what a handler of the program's signals raises amid a ``__del__``
    would be lost.
    """

    __slots__ = ()
    # Gives ``partial(deque, self, maxlen=0)``, which is then called, and empties the map.
    __del__ = property(functools.partial(functools.partial, collections.deque, maxlen=0))


class Pins:
    """While this lives, no other storage gets the `storage_key` of a tensor that was pinned.

    The memory itself is not kept. This is as ``StorageWeakRef``, for many storages together.

    Attributes:
        keys: of what is pinned.
    """

    def __init__(self) -> None:
        self.clear()

    def add(self, key: int, tensor: torch.Tensor) -> None:
        """Pin the storage of a tensor."""
        if key not in self.keys:
            self.keys.add(key)
            self._references.append(tensor.untyped_storage()._weak_ref())

    def clear(self) -> None:
        """Let them go."""
        self.keys: set[int] = set()
        self._references: list[int] = []
        self._letting_go = _LetGo(_let_go, self._references)


_storage_use_count: Callable[[int], int] = _get("_storage_Use_Count", lambda key: 1 << 30)


def storage_uses(key: int) -> int:
    """How many tensors refer to the storage of a `storage_key`; a large number if unknown."""
    return int(_storage_use_count(key))


@functools.cache
def _least_uses() -> int:
    """What `storage_uses` says where there is one tensor: Python's storage counts as well."""
    with quiet(), undispatched():
        tensor = torch.empty(1, device="cpu")
        return storage_uses(storage_key(tensor))


def is_alone(key: int) -> bool:
    """Whether it is known that one tensor alone refers to the storage of a `storage_key`."""
    return storage_uses(key) <= _least_uses() if key else False


def code_of(module: str, *path: str) -> CodeType | None:
    """The code of a function of PyTorch, ``None`` where this version has none of that name."""
    try:
        found: Any = importlib.import_module(module)
        for name in path:
            found = getattr(found, name)
        code = getattr(found, "__code__", None)
    except (ImportError, AttributeError):
        return None
    return code if isinstance(code, CodeType) else None


#: What an op goes through that one dispatch mode hands to another.
OVERLOAD_CALL = code_of("torch._ops", "OpOverload", "__call__")


def fetchers() -> Iterator[type]:
    """What makes the batches of data loaders, in workers and elsewhere, as far as it is known."""
    module = importlib.import_module("torch.utils.data._utils.fetch")
    for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        kind = getattr(module, name, None)
        if isinstance(kind, type) and hasattr(kind, "fetch"):
            yield kind


def fake_classes() -> tuple[type, ...]:
    """The classes of tensors that have a shape and no data, as far as they are in use."""
    found = (
        getattr(sys.modules.get(f"torch._subclasses.{module}"), name, None)
        for module, name in (
            ("fake_tensor", "FakeTensor"),
            ("functional_tensor", "FunctionalTensor"),
        )
    )
    return tuple(kind for kind in found if kind is not None)
