"""PyTorch tensors of every dtype and layout as the arrays that are shown, filtered and written."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from tfdbg_cli.dumps.dtypes import decode, dtype_by_name
from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.errors import one_line

__all__ = ["describe", "note", "to_numpy", "undisturbed"]

_Array = np.ndarray[Any, Any]

#: A sparse tensor is shown as a dense array of up to so many bytes, else as its values alone.
LARGEST_DENSE = 16 << 20

# What every tensor without code of its own is.
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_NUMPY_HAS = _INTEGERS | {"bool", "float16", "float32", "float64", "complex64", "complex128"}
_COMPRESSED = {
    torch.sparse_csr: "CSR",
    torch.sparse_csc: "CSC",
    torch.sparse_bsr: "BSR",
    torch.sparse_bsc: "BSC",
}
_QUANTIZED = frozenset(
    getattr(torch, name)
    for name in ("qint8", "quint8", "qint32", "quint4x2", "quint2x4")
    if hasattr(torch, name)
)
_functorch: Any = getattr(torch._C, "_functorch", None)
# Whether a tensor is one of those that the transforms of `torch.func` compute with.
_is_wrapped: Callable[[torch.Tensor], bool] = getattr(
    _functorch, "is_functorch_wrapped_tensor", lambda tensor: False
)
# A tensor of a class within a tensor of a class: nobody nests deeper, and a cycle ends.
_DEEPEST = 8


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """PyTorch as if nobody had put a mode around it, and without autograd.

    Dispatch modes, function modes (a default device is one) and the debugger's own recording see
    nothing of what is done inside.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch._C.DisableTorchFunction())
        stack.enter_context(torch.no_grad())
        for context in _no_modes():
            stack.enter_context(context())
        yield


@functools.cache
def _no_modes() -> list[Any]:
    """What turns off dispatch modes and the transforms of `torch.func`."""
    from torch._functorch import pyfunctorch
    from torch.utils import _python_dispatch

    names = (
        (pyfunctorch, "temporarily_clear_interpreter_stack"),
        (_python_dispatch, "_disable_current_modes"),
    )
    return [getattr(module, name) for module, name in names if hasattr(module, name)]


def to_numpy(tensor: torch.Tensor) -> _Array | InconvertibleTensorProto:
    """The elements of a tensor in host memory. Never raises; draws no random numbers.

    =====================  ===================================================================
    bfloat16, float8       the dtype of ml_dtypes; without that package, float32 (exact)
    complex32              complex64
    quantized              dequantized
    intN, uintN, bitsN,    the bytes as they are stored; int4, uint4, int2 and uint2 as ml_dtypes
    float4_e2m1fn_x2       has them
    sparse                 a dense array up to `LARGEST_DENSE`, else the values alone
    nested                 all parts joined along the ragged dimension, or flat where the parts
                           differ in several: no padding, so that every statistic is theirs
    distributed            this rank's shard
    of a class of its own  what it holds: dequantized, or its first inner tensor of the same shape
    =====================  ===================================================================

    `note` tells the rest in words.

    Args:
        tensor: any tensor, on any device.

    Returns:
        An array that can't be written to and may share memory with the tensor: what later writes
        to the tensor shows in it. An `InconvertibleTensorProto` that says why, where a tensor has
        no elements to show: fake and meta tensors, freed memory, classes that keep them to
        themselves.
    """
    try:
        with undisturbed():
            array = _array_of(tensor, 0)
    except Exception as error:
        return InconvertibleTensorProto(f"{_title(tensor)} can't be read: {one_line(error)}")
    if isinstance(array, np.ndarray) and array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def describe(tensor: torch.Tensor) -> tuple[str, tuple[int, ...] | None, int]:
    """What `to_numpy` gives, without reading a value.

    Args:
        tensor: any tensor.

    Returns:
        The dtype's name as NumPy and ml_dtypes have it (of values that are told by another array,
        such as complex32, the true one), the shape (``None`` where it is not known), and the bytes
        that the tensor itself occupies (0 of fake and meta tensors).
    """
    if _is_plain(tensor):
        dtype = tensor.dtype
        if dtype not in _QUANTIZED:
            size = 0 if tensor.is_meta else tensor.numel() * tensor.element_size()
            return _name(dtype), tuple(tensor.shape), size
    try:
        with undisturbed():
            return _description(tensor, 0)
    except Exception:  # a class of the user's whose attributes fail: the value says why
        return "", None, 0


def note(tensor: torch.Tensor) -> str:
    """What the array of `to_numpy` doesn't tell about a tensor, one line; empty: nothing.

    The scale of quantized tensors, the sparsity of sparse ones, where the parts of nested ones
    begin, what a shard is a shard of, and the class of a tensor that has its own.
    """
    if _is_plain(tensor):
        dtype = tensor.dtype
        if dtype not in _QUANTIZED and (_name(dtype) in _NUMPY_HAS or dtype is torch.bfloat16):
            return ""
    try:
        with undisturbed():
            return _note(tensor, 0)
    except Exception:  # a word less
        return ""


@functools.cache
def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor is what it seems: strided memory, no class of its own, not wrapped."""
    return (
        type(tensor) in _PLAIN
        and tensor.layout is torch.strided
        and not tensor.is_nested
        and not _is_wrapped(tensor)
    )


def _shape(tensor: torch.Tensor) -> tuple[int, ...] | None:
    shape = tuple(tensor.shape)
    # Asking a symbolic length for its value would put a guard on it.
    return shape if all(type(length) is int for length in shape) else None


def _title(tensor: torch.Tensor) -> str:
    try:
        with torch._C.DisableTorchFunction():
            shape = "?" if tensor.is_nested else list(tensor.shape)
            return f"{type(tensor).__name__} {_name(tensor.dtype)} {shape} on {tensor.device}"
    except Exception:  # the name of its class is enough
        return type(tensor).__name__


# What a tensor really is.


@functools.cache
def _fake_class() -> type | None:
    try:
        from torch._subclasses.fake_tensor import FakeTensor
    except ImportError:
        return None
    return FakeTensor  # type: ignore[no-any-return]


def _without_data(tensor: torch.Tensor) -> str:
    """Why a tensor has no elements; empty: it has."""
    fake = _fake_class()
    if fake is not None and isinstance(tensor, fake):
        return "a fake tensor has a dtype and a shape, and no elements."
    if tensor.is_meta:
        return "a tensor on the meta device has no elements."
    return ""


def _is_freed(tensor: torch.Tensor) -> bool:
    """Whether the memory of a dense tensor was given back, as FSDP does with its parameters."""
    if not tensor.numel():
        return False
    last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    needed = (tensor.storage_offset() + last + 1) * tensor.element_size()
    return bool(tensor.untyped_storage().nbytes() < needed)


def _has_memory(tensor: torch.Tensor) -> bool:
    """Whether a tensor of a class of its own has elements in memory, besides what it holds."""
    try:
        return bool(tensor.untyped_storage().data_ptr()) and not _is_freed(tensor)
    except (RuntimeError, NotImplementedError):  # it has no storage
        return False


def _has_own_dispatch(tensor: torch.Tensor) -> bool:
    """Whether a tensor's class decides what the operators do with it."""
    mine = getattr(type(tensor), "__torch_dispatch__", None)
    return (
        type(tensor) not in _PLAIN
        and mine is not None
        and mine is not getattr(torch.Tensor, "__torch_dispatch__", None)
        and mine is not getattr(torch._C, "_disabled_torch_dispatch_impl", None)
    )


def _inner_tensors(tensor: torch.Tensor) -> dict[str, torch.Tensor]:
    """The tensors that a tensor of a class of its own is made of."""
    names: list[str] = []
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is not None:
        names = list(flatten()[0])
    found = {name: getattr(tensor, name) for name in names} or dict(vars(tensor))
    return {name: part for name, part in found.items() if isinstance(part, torch.Tensor)}


def _dequantizes(tensor: torch.Tensor) -> bool:
    own = getattr(type(tensor), "dequantize", None)
    return own is not None and own is not torch.Tensor.dequantize


def _inner(tensor: torch.Tensor, depth: int) -> torch.Tensor | None:
    """The tensor that is shown in place of one of a class of its own; ``None``: there is none."""
    if depth > _DEEPEST:
        return None
    if _is_wrapped(tensor):
        return _functorch.get_unwrapped(tensor)  # type: ignore[no-any-return]
    if not _has_own_dispatch(tensor):
        return None
    parts = _inner_tensors(tensor)
    local = parts.get("_local_tensor")
    if local is not None:  # DTensor
        return local
    same = [part for part in parts.values() if part.shape == tensor.shape]
    return next((part for part in same if part.dtype == tensor.dtype), next(iter(same), None))


def _is_waiting(tensor: torch.Tensor) -> bool:
    """Whether a collective that makes this tensor is under way: reading it would have to wait."""
    return type(tensor).__name__ == "AsyncCollectiveTensor" and not getattr(
        tensor, "completed", True
    )


# Values.


def _array_of(tensor: torch.Tensor, depth: int) -> _Array | InconvertibleTensorProto:
    reason = _without_data(tensor)
    if not reason and _is_waiting(tensor):
        reason = "a collective is still to deliver it."
    if reason:
        return InconvertibleTensorProto(f"{_title(tensor)}: {reason}")
    if tensor.is_nested:
        return _nested_array(tensor)
    if tensor.layout is torch.sparse_coo or tensor.layout in _COMPRESSED:
        return _sparse_array(tensor)
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if _has_own_dispatch(tensor) and _dequantizes(tensor):
        dense = tensor.dequantize()
        if type(dense) is torch.Tensor:
            return _array_of(dense, depth + 1)
    inner = _inner(tensor, depth)
    if inner is not None:
        return _array_of(inner, depth + 1)
    if _has_own_dispatch(tensor) and not _has_memory(tensor):
        parts = ", ".join(f"{k} {list(p.shape)}" for k, p in _inner_tensors(tensor).items())
        made = f" It is made of {parts}." if parts else ""
        return InconvertibleTensorProto(
            f"{_title(tensor)}: its class keeps the elements to itself.{made}"
        )
    if tensor.dtype not in _QUANTIZED and _is_freed(tensor):
        return InconvertibleTensorProto(
            f"{_title(tensor)}: its memory was given back since (parameters of FSDP are, between "
            "uses)."
        )
    return _dense_array(tensor)


def _dense_array(tensor: torch.Tensor) -> _Array:
    """The elements of a strided tensor without a class of its own."""
    tensor = tensor.as_subclass(torch.Tensor).detach()
    if tensor.dtype in _QUANTIZED:
        tensor = tensor.dequantize()
    if tensor.device.type != "cpu":
        tensor = tensor.cpu()
    tensor = tensor.resolve_conj().resolve_neg()
    name = _name(tensor.dtype)
    if name in _NUMPY_HAS:
        return np.asarray(tensor.numpy())
    if name == "complex32":
        return np.asarray(tensor.to(torch.complex64).numpy())
    if tensor.element_size() == 2:
        raw = tensor.view(torch.int16).numpy().view("<u2")
    else:
        raw = tensor.view(torch.uint8).numpy()
    dtype = dtype_by_name(name)
    return decode(raw.view(dtype.raw), dtype) if dtype is not None and dtype.raw else raw


def _nested_parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    if tensor.layout is torch.strided:
        return list(tensor.unbind())
    parts = _jagged_parts(tensor)
    return parts if parts is not None else list(tensor.unbind())


def _jagged_parts(tensor: torch.Tensor) -> list[torch.Tensor] | None:
    """The parts of a tensor of the jagged layout, by slices of what it holds."""
    inner = _inner_tensors(tensor)
    values, offsets = inner.get("_values"), inner.get("_offsets")
    if values is None or offsets is None or _without_data(values) or _without_data(offsets):
        return None
    starts = offsets.tolist()
    lengths = inner.get("_lengths")
    if lengths is not None:  # a narrowed one skips elements
        ends = [start + n for start, n in zip(starts, lengths.tolist(), strict=False)]
    else:
        ends = starts[1:]
    dim = getattr(tensor, "_ragged_idx", 1) - 1
    return [values.narrow(dim, a, b - a) for a, b in zip(starts, ends, strict=False)]


def _ragged_dim(shapes: list[tuple[int, ...]]) -> int | None:
    """The only dimension in which shapes differ (the first where none does); ``None``: several."""
    if not shapes or not shapes[0] or len({len(shape) for shape in shapes}) > 1:
        return None
    differ = [dim for dim, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1]
    if len(differ) > 1:
        return None
    return differ[0] if differ else 0


def _nested_array(tensor: torch.Tensor) -> _Array | InconvertibleTensorProto:
    arrays = []
    for part in _nested_parts(tensor):
        array = _array_of(part, 1)
        if not isinstance(array, np.ndarray):
            return array
        arrays.append(array)
    if not arrays:
        return _dense_array(torch.empty(0, dtype=tensor.dtype))
    dim = _ragged_dim([array.shape for array in arrays])
    if dim is None:
        return np.concatenate([array.reshape(-1) for array in arrays])
    return np.concatenate(arrays, axis=dim)


def _sparse_parts(tensor: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The values and the index tensors."""
    tensor = tensor.detach()
    if tensor.layout is torch.sparse_coo:
        return tensor._values(), [tensor._indices()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.values(), [tensor.crow_indices(), tensor.col_indices()]
    return tensor.values(), [tensor.ccol_indices(), tensor.row_indices()]


def _fits_dense(tensor: torch.Tensor) -> bool:
    # PyTorch makes no dense tensor of the small floats.
    is_small_float = tensor.dtype.is_floating_point and tensor.element_size() == 1
    return not is_small_float and tensor.numel() * tensor.element_size() <= LARGEST_DENSE


def _sparse_array(tensor: torch.Tensor) -> _Array | InconvertibleTensorProto:
    if _fits_dense(tensor):
        return _array_of(tensor.detach().to_dense(), 1)
    return _array_of(_sparse_parts(tensor)[0], 1)


# Descriptions.


def _description(tensor: torch.Tensor, depth: int) -> tuple[str, tuple[int, ...] | None, int]:
    if _without_data(tensor):
        return _name(tensor.dtype), None if tensor.is_nested else _shape(tensor), 0
    if tensor.is_nested:
        return _nested_description(tensor)
    if tensor.layout is torch.sparse_coo or tensor.layout in _COMPRESSED:
        values, indices = _sparse_parts(tensor)
        size = sum(part.numel() * part.element_size() for part in (values, *indices))
        shape = _shape(tensor) if _fits_dense(tensor) else tuple(values.shape)
        return _name(tensor.dtype), shape, size
    if _has_own_dispatch(tensor) and _dequantizes(tensor):
        size = sum(part.numel() * part.element_size() for part in _inner_tensors(tensor).values())
        return _name(tensor.dtype), _shape(tensor), size
    inner = _inner(tensor, depth)
    if inner is not None:
        return _description(inner, depth + 1)
    size = tensor.numel() * tensor.element_size()
    if tensor.dtype in _QUANTIZED:  # what is shown are numbers
        return "float32", _shape(tensor), size
    return _name(tensor.dtype), _shape(tensor), size


def _nested_shapes(tensor: torch.Tensor) -> list[tuple[int, ...]]:
    if tensor.layout is torch.strided:
        sizes = tensor._nested_tensor_size()
        return [tuple(shape) for shape in sizes.tolist()] if sizes.dim() == 2 else []
    return [tuple(part.shape) for part in _nested_parts(tensor)]


def _nested_description(tensor: torch.Tensor) -> tuple[str, tuple[int, ...] | None, int]:
    shapes = _nested_shapes(tensor)
    total = sum(int(np.prod(shape)) for shape in shapes)
    dim = _ragged_dim(shapes)
    joined: tuple[int, ...] = (total,)
    if dim is not None:
        length = sum(shape[dim] for shape in shapes)
        joined = (*shapes[0][:dim], length, *shapes[0][dim + 1 :])
    return _name(tensor.dtype), joined, total * tensor.element_size()


# Notes.

_MOST_PARTS = 6


def _note(tensor: torch.Tensor, depth: int) -> str:
    if _without_data(tensor):
        return ""
    if tensor.is_nested:
        return _nested_note(tensor)
    if tensor.layout is torch.sparse_coo or tensor.layout in _COMPRESSED:
        return _sparse_note(tensor)
    if _has_own_dispatch(tensor) and _dequantizes(tensor):
        return f"{type(tensor).__name__}, dequantized"
    inner = _inner(tensor, depth)
    if inner is not None:
        return "; ".join(filter(None, [_wrapper_note(tensor), _note(inner, depth + 1)]))
    return _dtype_note(tensor)


def _dtype_note(tensor: torch.Tensor) -> str:
    name = _name(tensor.dtype)
    if tensor.dtype in _QUANTIZED:
        return f"dequantized {name}, {_scales(tensor)}"
    if name == "complex32":
        return "complex32, shown as complex64"
    if name == "float4_e2m1fn_x2":
        return "each byte holds two numbers of type float4_e2m1fn; shown as bytes"
    if name not in _NUMPY_HAS and dtype_by_name(name) is None:
        return f"{name}, shown as the bytes that it is stored in"
    return ""


def _scales(tensor: torch.Tensor) -> str:
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return f"scale {tensor.q_scale():g}, zero point {tensor.q_zero_point()}"
    scales = tensor.q_per_channel_scales()
    low, high = float(scales.min()), float(scales.max())
    return f"scales {low:g} to {high:g} along dimension {tensor.q_per_channel_axis()}"


def _wrapper_note(tensor: torch.Tensor) -> str:
    placements = getattr(tensor, "placements", None)
    if placements is not None:  # DTensor
        where = ", ".join(map(str, placements))
        return f"this rank's shard of {list(tensor.shape)}, placed {where}"
    return f"what a {type(tensor).__name__} holds" if _has_own_dispatch(tensor) else ""


def _nested_note(tensor: torch.Tensor) -> str:
    shapes = _nested_shapes(tensor)
    dim = _ragged_dim(shapes)
    text = ", ".join(str(list(shape)) for shape in shapes[:_MOST_PARTS])
    text += ", …" if len(shapes) > _MOST_PARTS else ""
    how = "one after the other, flat" if dim is None else f"joined along dimension {dim}"
    return f"nested, {len(shapes)} parts {how}: {text}"


def _sparse_note(tensor: torch.Tensor) -> str:
    values, _ = _sparse_parts(tensor)
    name = _COMPRESSED.get(tensor.layout, "COO")
    stored = f"sparse {name}, {values.numel()} of {tensor.numel()} elements stored"
    if tensor.layout is torch.sparse_coo and not tensor.is_coalesced():
        stored += " (indices may repeat)"
    return stored if _fits_dense(tensor) else f"{stored}, shown without their places"
