"""PyTorch tensors of every dtype and layout as the arrays that are shown, filtered and written."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.interpreter.program_signals import contained, pass_on
from tfdbg_cli.dumps.dtypes import decode, dtype_by_name
from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.engines.torch.private import functions_seen, is_capturing, quiet
from tfdbg_cli.engines.torch.values.access import (
    PLAIN,
    QUANTIZED,
    Access,
    access,
    has_own_dispatch,
    why_nothing,
)
from tfdbg_cli.engines.torch.values.layouts import (
    COMPRESSED,
    dequantizes,
    dtype_name,
    has_memory,
    inner_of,
    inner_tensors,
    nested_parts,
    nested_shapes,
    ragged_dim,
    shape_of,
    sparse_parts,
    undisturbed,
)

__all__ = [
    "LARGEST_DENSE",
    "NUMPY_HAS",
    "class_keeps",
    "describe",
    "fits_dense",
    "shared_array",
    "title",
    "to_numpy",
]

_Array = np.ndarray[Any, Any]

#: A sparse tensor is shown as a dense array of up to so many bytes, else as its values alone.
LARGEST_DENSE = 16 << 20
_INTEGERS = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
#: The types that NumPy has too.
NUMPY_HAS = _INTEGERS | {"bool", "float16", "float32", "float64", "complex64", "complex128"}


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

    `tfdbg_cli.engines.torch.values.notes.note` tells the rest in words.

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
        pass_on(error)
        return InconvertibleTensorProto(f"{title(tensor)} can't be read: {one_line(error)}")
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
    if functions_seen():
        with quiet():
            return describe(tensor)
    if access(tensor) >= Access.MEMORY and type(tensor) in PLAIN:
        size = tensor.numel() * tensor.element_size()
        return dtype_name(tensor.dtype), tuple(tensor.shape), size
    with contained, undisturbed():  # attributes of a user's class may fail
        return _description(tensor, 0)
    return "", None, 0


def title(tensor: torch.Tensor) -> str:
    """A tensor by its class, dtype, shape and device."""
    with contained, quiet():  # the name of its class is enough
        shape = "?" if tensor.is_nested else list(tensor.shape)
        return f"{type(tensor).__name__} {dtype_name(tensor.dtype)} {shape} on {tensor.device}"
    return type(tensor).__name__


def class_keeps(tensor: torch.Tensor) -> str:
    """That nobody but the class of a tensor has its elements, and what it is made of."""
    parts = ", ".join(f"{k} {list(p.shape)}" for k, p in inner_tensors(tensor).items())
    made = f" It is made of {parts}." if parts else ""
    return f"{title(tensor)}: its class keeps the elements to itself.{made}"


# Values.


def _array_of(tensor: torch.Tensor, depth: int) -> _Array | InconvertibleTensorProto:
    how = access(tensor)
    if how is Access.NOTHING:
        return InconvertibleTensorProto(f"{title(tensor)}: {why_nothing(tensor)}")
    if how is Access.ZEROS:
        tensor = torch.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    if tensor.is_nested:
        return _nested_array(tensor)
    if tensor.layout is torch.sparse_coo or tensor.layout in COMPRESSED:
        return _sparse_array(tensor)
    if tensor.layout is not torch.strided:
        tensor = tensor.to_dense()
    if has_own_dispatch(tensor) and dequantizes(tensor):
        dense = tensor.dequantize()
        if type(dense) is torch.Tensor:
            return _array_of(dense, depth + 1)
    inner = inner_of(tensor, depth)
    if inner is not None:
        return _array_of(inner, depth + 1)
    if has_own_dispatch(tensor) and not has_memory(tensor):
        return InconvertibleTensorProto(class_keeps(tensor))
    return _dense_array(tensor)


def _dense_array(tensor: torch.Tensor) -> _Array:
    """The elements of a strided tensor without a class of its own."""
    # A tensor of the lazy backend can't be another class's.
    plain = tensor if type(tensor) in PLAIN else tensor.as_subclass(torch.Tensor)
    tensor = plain.detach()
    if tensor.dtype in QUANTIZED:
        tensor = tensor.dequantize()
    if tensor.device.type != "cpu":
        tensor = _on_host(tensor)
    tensor = tensor.resolve_conj().resolve_neg()
    name = dtype_name(tensor.dtype)
    if name in NUMPY_HAS:
        return shared_array(tensor, name)
    if name == "complex32":
        return shared_array(tensor.to(torch.complex64), "complex64")
    if tensor.element_size() == 2:
        raw = shared_array(tensor, "<u2")
    else:
        raw = shared_array(tensor.view(torch.uint8), "uint8")
    dtype = dtype_by_name(name)
    return decode(raw.view(dtype.raw), dtype) if dtype is not None and dtype.raw else raw


class _Memory:
    """The memory of a tensor, to NumPy; keeps the tensor."""

    def __init__(self, tensor: torch.Tensor, dtype: np.dtype[Any]) -> None:
        self._tensor = tensor
        size = dtype.itemsize
        self.__array_interface__ = {
            "version": 3,
            "data": (tensor.data_ptr(), True),
            "typestr": dtype.str,
            "shape": tuple(tensor.shape),
            "strides": tuple(step * size for step in tensor.stride()),
        }


def shared_array(tensor: torch.Tensor, dtype: str) -> _Array:
    """An array over the memory of a tensor on the CPU.

    Unlike ``tensor.numpy()`` it leaves the program free to resize that memory (as FSDP does).

    Args:
        tensor: strided, without lazy bits.
        dtype: of the array, of the same size.
    """
    return np.asarray(_Memory(tensor, np.dtype(dtype)))


def _on_host(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_cuda:
        if is_capturing():
            # Waiting for the device would spoil the graph that the program is recording.
            raise RuntimeError("a CUDA graph is being captured")
        torch.cuda.synchronize(tensor.device)  # any stream may have computed it
    return tensor.cpu()


def _nested_array(tensor: torch.Tensor) -> _Array | InconvertibleTensorProto:
    arrays = []
    for part in nested_parts(tensor):
        array = _array_of(part, 1)
        if not isinstance(array, np.ndarray):
            return array
        arrays.append(array)
    if not arrays:
        return _dense_array(torch.empty(0, dtype=tensor.dtype))
    dim = ragged_dim([array.shape for array in arrays])
    if dim is None:
        return np.concatenate([array.reshape(-1) for array in arrays])
    return np.concatenate(arrays, axis=dim)


def fits_dense(tensor: torch.Tensor) -> bool:
    """Whether a sparse tensor is shown as a dense array."""
    # PyTorch makes no dense tensor of the small floats.
    is_small_float = tensor.dtype.is_floating_point and tensor.element_size() == 1
    return not is_small_float and tensor.numel() * tensor.element_size() <= LARGEST_DENSE


def _sparse_array(tensor: torch.Tensor) -> _Array | InconvertibleTensorProto:
    if fits_dense(tensor):
        return _array_of(tensor.detach().to_dense(), 1)
    return _array_of(sparse_parts(tensor)[0], 1)


# Descriptions.


def _description(tensor: torch.Tensor, depth: int) -> tuple[str, tuple[int, ...] | None, int]:
    if access(tensor) is Access.NOTHING:
        return dtype_name(tensor.dtype), None if tensor.is_nested else shape_of(tensor), 0
    if tensor.is_nested:
        return _nested_description(tensor)
    if tensor.layout is torch.sparse_coo or tensor.layout in COMPRESSED:
        values, indices = sparse_parts(tensor)
        size = sum(part.numel() * part.element_size() for part in (values, *indices))
        shape = shape_of(tensor) if fits_dense(tensor) else tuple(values.shape)
        return dtype_name(tensor.dtype), shape, size
    if has_own_dispatch(tensor) and dequantizes(tensor):
        size = sum(part.numel() * part.element_size() for part in inner_tensors(tensor).values())
        return dtype_name(tensor.dtype), shape_of(tensor), size
    inner = inner_of(tensor, depth)
    if inner is not None:
        return _description(inner, depth + 1)
    size = tensor.numel() * tensor.element_size()
    if tensor.dtype in QUANTIZED:  # what is shown are numbers
        return "float32", shape_of(tensor), size
    return dtype_name(tensor.dtype), shape_of(tensor), size


def _nested_description(tensor: torch.Tensor) -> tuple[str, tuple[int, ...] | None, int]:
    shapes = nested_shapes(tensor)
    total = sum(int(np.prod(shape)) for shape in shapes)
    dim = ragged_dim(shapes)
    joined: tuple[int, ...] = (total,)
    if dim is not None:
        length = sum(shape[dim] for shape in shapes)
        joined = (*shapes[0][:dim], length, *shapes[0][dim + 1 :])
    return dtype_name(tensor.dtype), joined, total * tensor.element_size()
