"""Which functions and methods of MLX are ops, and how each is done once more on other operands."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any

import mlx.core as mx

from tfdbg_cli.dumps.sources import show_program_only
from tfdbg_cli.engines.kit.patching.patches import PatchSet
from tfdbg_cli.engines.mlx.tape import TAPES, Tape

__all__ = ["see_ops"]

_array: Any = mx.array
_FUNCTION = type(mx.add)
# Functions that make no arrays, or whose arrays come from outside, or that call others.
_NO_OPS = frozenset(
    [
        *(
            "array",
            "async_eval",
            "asarray",
            "can_cast",
            "checkpoint",
            "clear_cache",
            "clear_streams",
        ),
        *("compile", "custom_function", "default_device", "default_stream", "depends"),
        *(
            "device_count",
            "device_info",
            "disable_compile",
            "einsum_path",
            "enable_compile",
            "eval",
        ),
        *("export_function", "export_to_dot", "exporter", "from_dlpack", "get_active_memory"),
        *("get_array_buffer_size", "get_cache_memory", "get_memory_limit", "get_peak_memory"),
        *("get_printoptions", "grad", "import_function", "is_available", "isdtype", "issubdtype"),
        *("jvp", "load", "new_stream", "new_thread_local_stream", "new_thread_unsafe_stream"),
        *("printoptions", "reset_peak_memory", "result_type", "save", "save_gguf"),
        *("save_safetensors", "savez", "savez_compressed", "seed", "set_cache_limit"),
        *("set_default_device", "set_default_stream", "set_memory_limit", "set_printoptions"),
        *("set_wired_limit", "stream", "synchronize", "value_and_grad", "vjp", "vmap"),
        *("broadcast_shapes", "metal_kernel", "cuda_kernel", "precompiled_cuda_kernel"),
    ]
)
# Other names of the same op.
_SAME = {
    **{"abs_": "abs", "permute_dims": "transpose", "concat": "concatenate", "pow": "power"},
    **{"acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh"},
    **{"atan": "arctan", "atan2": "arctan2", "atanh": "arctanh", "conjugate": "conj"},
    **{"cumulative_prod": "cumprod", "cumulative_sum": "cumsum"},
}
_BINARY = {
    **{"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "div": "divide"},
    **{"floordiv": "floor_divide", "mod": "remainder", "pow": "power", "matmul": "matmul"},
    **{"and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor"},
    **{"lshift": "left_shift", "rshift": "right_shift"},
}
_OPERATORS = {
    **{f"__{name}__": op for name, op in _BINARY.items()},
    **{"__lt__": "less", "__le__": "less_equal", "__gt__": "greater", "__ge__": "greater_equal"},
    **{"__eq__": "equal", "__ne__": "not_equal", "__neg__": "negative", "__abs__": "abs"},
    **{"__invert__": "bitwise_invert", "__getitem__": "getitem"},
}
_PROPERTIES = {"T": "transpose", "mT": "matrix_transpose", "real": "real", "imag": "imag"}
_split = mx.random.split
_state: Any = mx.random.state


def see_ops(patches: PatchSet) -> None:
    """Let every op be told to the tape of its thread."""
    for owner in (mx, mx.fast, mx.linalg, mx.fft):
        for name in _functions(owner):
            patches.replace(owner, name, _op(_SAME.get(name, name)))
    for name in _functions(mx.random):
        patches.replace(mx.random, name, _random(name))
    for name in _methods():
        patches.replace(_array, name, _op(_SAME.get(name, name)))
    for name, op_type in _OPERATORS.items():
        if hasattr(_array, name):
            patches.replace(_array, name, _op(op_type))
    for name, op_type in _BINARY.items():
        if hasattr(_array, f"__r{name}__"):
            patches.replace(_array, f"__r{name}__", _op(op_type, is_swapped=True))
        if hasattr(_array, f"__i{name}__"):
            plain = getattr(_array, f"__{name}__")
            patches.replace(_array, f"__i{name}__", _in_place(op_type, plain))
    patches.replace(_array, "__setitem__", _in_place("setitem", _with_item))
    patches.replace(_array, "__iter__", _iterated)
    for name, op_type in _PROPERTIES.items():
        _property(patches, name, _op(op_type))
    _property(patches, "at", _at)


def _functions(owner: Any) -> Iterator[str]:
    for name, each in [*vars(owner).items()]:
        if type(each) is _FUNCTION and name not in _NO_OPS and not name.startswith("_"):
            yield name


def _methods() -> Iterator[str]:
    others = ("item", "tolist", "at")
    for name, each in vars(_array).items():
        if not name.startswith("_") and name not in others and not isinstance(each, property):
            yield name


def _op(op_type: str, is_swapped: bool = False) -> Callable[[Any], Any]:
    """Makes the stand-in of a function that is an op."""

    def make(original: Any) -> Any:
        def swapped(left: Any, right: Any) -> Any:
            return original(right, left)

        redo = swapped if is_swapped else original

        def op(*args: Any, **kwargs: Any) -> Any:
            tape = TAPES.get(get_ident())
            if tape is None:
                return original(*args, **kwargs)
            try:
                result = original(*args, **kwargs)
            except Exception as error:
                _failed(tape, error, op_type, args[::-1] if is_swapped else args, kwargs)
                raise
            operands = args[::-1] if is_swapped else args
            tape.op(op_type, redo, operands, kwargs, result, sys._getframe(1))
            return result

        return op

    return make


def _failed(tape: Tape, error: Exception, op_type: str, args: Any, kwargs: Any) -> None:
    tape.failed(error, op_type, args, kwargs, sys._getframe(2))
    show_program_only(error)


def _in_place(op_type: str, plain: Any) -> Callable[[Any], Any]:
    """The stand-in of a method that gives its array another value; `plain` makes a new one."""

    def make(original: Any) -> Any:
        def op(self: Any, *args: Any) -> Any:
            tape = TAPES.get(get_ident())
            if tape is None:
                return original(self, *args)
            before = tape.keep_from_change(self)
            try:
                result = original(self, *args)
            except Exception as error:
                _failed(tape, error, op_type, (self, *args), {})
                raise
            if result is not NotImplemented:
                frame = sys._getframe(1)
                tape.op(op_type, plain, (self, *args), {}, self, frame, before)
            return result

        return op

    return make


_set_item, _get_item = _array.__setitem__, _array.__getitem__


def _with_item(array: mx.array, index: Any, value: Any) -> mx.array:
    made = copy.copy(array)
    _set_item(made, index, value)
    return made


def _iterated(original: Any) -> Any:
    def iterate(self: Any) -> Any:
        if TAPES.get(get_ident()) is None or not self.ndim:
            return original(self)
        return (self[at] for at in range(self.shape[0]))

    return iterate


def _property(patches: PatchSet, name: str, make: Callable[[Any], Any]) -> None:
    before = vars(_array)[name]
    after = property(make(before.fget), doc=before.__doc__)

    def undo() -> None:
        if vars(_array)[name] is after:
            setattr(_array, name, before)

    patches.also(lambda: setattr(_array, name, after), undo)


class _At:
    """``x.at[index]``, whose methods are ops."""

    def __init__(self, array: mx.array, get: Any, index: Any = None) -> None:
        self._array, self._get, self._index = array, get, index

    def __getitem__(self, index: Any) -> _At:
        return _At(self._array, self._get, index)

    def __getattr__(self, name: str) -> Any:
        get = self._get

        def redo(array: mx.array, index: Any, value: Any) -> Any:
            return getattr(get(array)[index], name)(value)

        getattr(get(self._array)[self._index], name)  # it has it, or raises
        return lambda value: _op(f"at_{name}")(redo)(self._array, self._index, value)


def _at(get: Any) -> Any:
    return lambda self: get(self) if TAPES.get(get_ident()) is None else _At(self, get)


def _random(name: str) -> Callable[[Any], Any]:
    """The stand-in of a function that draws numbers by the process's own key, if it gets none.

    It is then an op of that key: it makes the numbers, and the next key.
    """

    def make(original: Any) -> Any:
        plain = _op(name)(original)

        def redo(key: mx.array, *args: Any, **kwargs: Any) -> Any:
            following, own = _split(key)
            return original(*args, **{**kwargs, "key": own}), following

        def draw(*args: Any, **kwargs: Any) -> Any:
            tape = TAPES.get(get_ident())
            if tape is None:
                return original(*args, **kwargs)
            key = _state[0]
            known = tape.find(key)
            try:
                result = original(*args, **kwargs)
            except Exception as error:
                _failed(tape, error, name, args, kwargs)
                raise
            following = _state[0]
            frame = sys._getframe(1)
            if following is key:
                tape.op(name, original, args, kwargs, result, frame)
            else:
                if known is None:
                    tape.names[tape.ref(key)] = "random_key"
                tape.op(name, redo, (key, *args), kwargs, (result, following), frame)
            return result

        return draw if name not in ("key", "split") else plain

    return make
