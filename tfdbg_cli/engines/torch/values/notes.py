"""What the array of a tensor doesn't tell, in words."""

from __future__ import annotations

from typing import Any

import torch

from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.dumps.dtypes import dtype_by_name
from tfdbg_cli.dumps.shard_place import ShardPlace
from tfdbg_cli.engines.torch.private import functions_seen, quiet
from tfdbg_cli.engines.torch.values.access import (
    PLAIN,
    QUANTIZED,
    Access,
    access,
    has_own_dispatch,
)
from tfdbg_cli.engines.torch.values.arrays import NUMPY_HAS, fits_dense
from tfdbg_cli.engines.torch.values.layouts import (
    COMPRESSED,
    dequantizes,
    dtype_name,
    inner_of,
    nested_shapes,
    ragged_dim,
    sparse_parts,
    undisturbed,
)

__all__ = ["nested_note", "note", "wrapper_note"]

_MOST_PARTS = 6
# Scales of channels are listed up to so many.
_MOST_SCALES = 4096


def note(tensor: torch.Tensor) -> str:
    """What the array of `to_numpy` doesn't tell about a tensor, one line; empty: nothing.

    The scale of quantized tensors, the sparsity of sparse ones, where the parts of nested ones
    begin, what a shard is a shard of, and the class of a tensor that has its own.
    """
    if functions_seen():
        with quiet():
            return note(tensor)
    if access(tensor) >= Access.MEMORY and type(tensor) in PLAIN:
        dtype = tensor.dtype
        if dtype_name(dtype) in NUMPY_HAS or dtype is torch.bfloat16:
            return ""
    with contained, undisturbed():  # a word less
        return _note(tensor, 0)
    return ""


def _note(tensor: torch.Tensor, depth: int) -> str:
    if access(tensor) is Access.NOTHING:
        return ""
    if tensor.is_nested:
        return nested_note(nested_shapes(tensor))
    if tensor.layout is torch.sparse_coo or tensor.layout in COMPRESSED:
        return _sparse_note(tensor)
    if has_own_dispatch(tensor) and dequantizes(tensor):
        return f"{type(tensor).__name__}, dequantized"
    inner = inner_of(tensor, depth)
    if inner is not None:
        return "; ".join(filter(None, [wrapper_note(tensor), _note(inner, depth + 1)]))
    return _dtype_note(tensor)


def _dtype_note(tensor: torch.Tensor) -> str:
    name = dtype_name(tensor.dtype)
    if tensor.dtype in QUANTIZED:
        return f"dequantized {name}, {_scales(tensor)}"
    if name == "complex32":
        return "complex32, shown as complex64"
    if name == "float4_e2m1fn_x2":
        return "each byte holds two numbers of type float4_e2m1fn; shown as bytes"
    if name not in NUMPY_HAS and dtype_by_name(name) is None:
        return f"{name}, shown as the bytes that it is stored in"
    return ""


def _scales(tensor: torch.Tensor) -> str:
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return f"scale {tensor.q_scale():g}, zero point {tensor.q_zero_point()}"
    scales, zeros = tensor.q_per_channel_scales(), tensor.q_per_channel_zero_points()
    place = f"along dimension {tensor.q_per_channel_axis()}"
    if len(scales) > _MOST_SCALES:
        return f"{len(scales)} scales, {float(scales.min()):g} to {float(scales.max()):g}, {place}"
    listed = (", ".join(f"{float(each):.7g}" for each in part) for part in (scales, zeros))
    return f"scales {{}}, zero points {{}}, {place}".format(*listed)


def wrapper_note(tensor: torch.Tensor) -> str:
    """What a tensor of a class of its own is besides what it holds."""
    placements = getattr(tensor, "placements", None)
    if placements is not None:  # DTensor
        mesh: Any = getattr(tensor, "device_mesh", None)
        at = mesh.get_coordinate() if mesh is not None else None
        if at is None:
            return f"this rank's shard of {list(tensor.shape)}"
        ways = tuple(map(str, placements))
        return ShardPlace(tuple(tensor.shape), ways, tuple(at), tuple(mesh.shape)).note
    return f"what a {type(tensor).__name__} holds" if has_own_dispatch(tensor) else ""


def nested_note(shapes: list[tuple[int, ...]]) -> str:
    """Where the parts of a nested tensor begin."""
    dim = ragged_dim(shapes)
    text = ", ".join(str(list(shape)) for shape in shapes[:_MOST_PARTS])
    text += ", …" if len(shapes) > _MOST_PARTS else ""
    how = "one after the other, flat" if dim is None else f"joined along dimension {dim}"
    return f"nested, {len(shapes)} parts {how}: {text}"


def _sparse_note(tensor: torch.Tensor) -> str:
    values, _ = sparse_parts(tensor)
    name = COMPRESSED.get(tensor.layout, "COO")
    stored = f"sparse {name}, {values.numel()} of {tensor.numel()} elements stored"
    if tensor.layout is torch.sparse_coo and not tensor.is_coalesced():
        stored += " (indices may repeat)"
    return stored if fits_dense(tensor) else f"{stored}, shown without their places"
