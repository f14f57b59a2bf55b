"""What a tensor really is: its memory, its parts, and whom to keep away while looking at them."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator, Sequence

import torch

from tfdbg_cli.common.interpreter.unwarned import unwarned
from tfdbg_cli.engines.torch.private import (
    JAGGED,
    LOCAL,
    RAGGED,
    coo_parts,
    is_wrapped,
    nested_sizes,
    no_modes,
    quiet,
    unwrapped,
)
from tfdbg_cli.engines.torch.values.access import (
    Access,
    access,
    has_own_dispatch,
    is_freed,
    is_readable,
    why_nothing,
)

__all__ = [
    "COMPRESSED",
    "dequantizes",
    "dtype_name",
    "equal_bits",
    "fingerprint",
    "has_memory",
    "inner_of",
    "inner_tensors",
    "jagged_parts",
    "nested_parts",
    "nested_shapes",
    "parts_of",
    "ragged_dim",
    "same_bits",
    "shape_of",
    "sparse_parts",
    "undisturbed",
]

#: Compressed sparse layouts by what people call them.
COMPRESSED = {
    torch.sparse_csr: "CSR",
    torch.sparse_csc: "CSC",
    torch.sparse_bsr: "BSR",
    torch.sparse_bsc: "BSC",
}
# A tensor of a class within a tensor of a class: nobody nests deeper, and a cycle ends.
_DEEPEST = 8
# Elements as they lie in memory, by their size in bytes.
_WORDS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """PyTorch as if nobody had put a mode around it, and without autograd.

    Dispatch modes, function modes (a default device is one) and the debugger's own recording see
    nothing of what is done inside.
    """
    with contextlib.ExitStack() as stack:
        stack.enter_context(quiet())
        stack.enter_context(torch.no_grad())
        stack.enter_context(unwarned())
        for context in no_modes():
            stack.enter_context(context())
        yield


@functools.cache
def dtype_name(dtype: torch.dtype) -> str:
    """``bfloat16`` for `torch.bfloat16`."""
    return str(dtype).removeprefix("torch.")


def shape_of(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """The shape; ``None`` where it has symbolic lengths."""
    shape = tuple(tensor.shape)
    # Asking a symbolic length for its value would put a guard on it.
    return shape if all(type(length) is int for length in shape) else None


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors have the same bits."""
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if one.is_sparse or one.is_quantized or one.is_nested:
        return True  # nobody has defined the bits
    if not (is_readable(one) and is_readable(other)):
        return True
    try:
        return equal_bits(one, other)
    except RuntimeError:  # a tensor inside a transform of `torch.func`
        return True


def fingerprint(tensor: torch.Tensor) -> int:
    """What all bits of a dense tensor on a CPU add up to; -1: nobody can tell, or has to wait.

    To be used within `undisturbed`.
    """
    if not tensor.is_cpu or not is_readable(tensor) or tensor.layout is not torch.strided:
        return -1
    try:
        words = tensor.detach().resolve_conj().resolve_neg()
        if words.is_complex():
            words = torch.view_as_real(words)
        return int(words.view(_WORDS[words.element_size()]).sum()) & sys.maxsize
    except (RuntimeError, KeyError):  # a tensor inside a transform of `torch.func`, codes
        return -1


def equal_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether dense tensors of one dtype and shape have the same bits.

    To be used within `undisturbed`. PyTorch compares whole words several times as fast as bytes.
    """
    # Conjugates are computed when they are looked at.
    pair = [
        each.detach().resolve_conj().resolve_neg().contiguous().reshape(-1) for each in (one, other)
    ]
    is_whole = all(
        not (each.nbytes % 8 or each.storage_offset() * each.element_size() % 8) for each in pair
    )
    word = torch.int64 if is_whole else torch.uint8
    return bool(torch.equal(*(each.view(word) for each in pair)))


def has_memory(tensor: torch.Tensor) -> bool:
    """Whether a tensor of a class of its own has elements in memory, besides what it holds."""
    try:
        return bool(tensor.untyped_storage().data_ptr()) and not is_freed(tensor)
    except (RuntimeError, NotImplementedError):  # it has no storage
        return False


def inner_tensors(tensor: torch.Tensor) -> dict[str, torch.Tensor]:
    """The tensors that a tensor of a class of its own is made of."""
    names: list[str] = []
    flatten = getattr(tensor, "__tensor_flatten__", None)
    if flatten is not None:
        names = list(flatten()[0])
    found = {name: getattr(tensor, name) for name in names} or dict(vars(tensor))
    return {name: part for name, part in found.items() if isinstance(part, torch.Tensor)}


def dequantizes(tensor: torch.Tensor) -> bool:
    """Whether a tensor's class brings its own ``dequantize``."""
    own = getattr(type(tensor), "dequantize", None)
    return own is not None and own is not torch.Tensor.dequantize


def inner_of(tensor: torch.Tensor, depth: int) -> torch.Tensor | None:
    """The tensor that is shown in place of one of a class of its own; ``None``: there is none."""
    if depth > _DEEPEST:
        return None
    if is_wrapped(tensor):
        return unwrapped(tensor)
    if not has_own_dispatch(tensor):
        return None
    parts = inner_tensors(tensor)
    local = parts.get(LOCAL)
    if local is not None:  # DTensor
        return local
    same = [part for part in parts.values() if part.shape == tensor.shape]
    return next((part for part in same if part.dtype == tensor.dtype), next(iter(same), None))


def nested_parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The parts of a nested tensor of either layout."""
    if not has_own_dispatch(tensor):
        return list(tensor.unbind())
    inner = inner_tensors(tensor)
    parts = [inner[name] for name in JAGGED if name in inner]
    if len(parts) < 2 or any(map(why_nothing, parts)):
        return list(tensor.unbind())
    return jagged_parts(parts, getattr(tensor, RAGGED, 1) - 1)


def jagged_parts(parts: Sequence[torch.Tensor], dim: int) -> list[torch.Tensor]:
    """The parts of a nested tensor of the jagged layout, by slices of what it holds.

    Args:
        parts: values, offsets and maybe lengths.
        dim: of the values.
    """
    values, starts = parts[0], parts[1].tolist()
    if len(parts) > 2:  # a narrowed one skips elements
        ends = [start + n for start, n in zip(starts, parts[2].tolist(), strict=False)]
    else:
        ends = starts[1:]
    return [values.narrow(dim, a, b - a) for a, b in zip(starts, ends, strict=False)]


def ragged_dim(shapes: list[tuple[int, ...]]) -> int | None:
    """The only dimension in which shapes differ (the first where none does); ``None``: several."""
    if not shapes or not shapes[0] or len({len(shape) for shape in shapes}) > 1:
        return None
    differ = [dim for dim, sizes in enumerate(zip(*shapes, strict=True)) if len(set(sizes)) > 1]
    if len(differ) > 1:
        return None
    return differ[0] if differ else 0


def sparse_parts(tensor: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The values and the index tensors."""
    tensor = tensor.detach()
    if tensor.layout is torch.sparse_coo:
        values, indices = coo_parts(tensor)
        return values, [indices]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return tensor.values(), [tensor.crow_indices(), tensor.col_indices()]
    return tensor.values(), [tensor.ccol_indices(), tensor.row_indices()]


def nested_shapes(tensor: torch.Tensor) -> list[tuple[int, ...]]:
    """The shapes of the same parts."""
    if tensor.layout is torch.strided:
        sizes = nested_sizes(tensor)
        if sizes is not None:
            return [tuple(shape) for shape in sizes.tolist()] if sizes.dim() == 2 else []
    return [tuple(part.shape) for part in nested_parts(tensor)]


def parts_of(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """The strided tensors whose elements are a tensor's, on its device; none that has no memory.

    The values of a sparse tensor, the parts of a nested one, all that a class of its own holds.
    To be used within `undisturbed`.
    """
    return _parts(tensor, 0)


def _parts(tensor: torch.Tensor, depth: int) -> Iterator[torch.Tensor]:
    how = access(tensor)
    if depth > _DEEPEST or how in (Access.NOTHING, Access.ZEROS):
        return
    if is_wrapped(tensor):
        yield from _parts(unwrapped(tensor), depth + 1)
    elif tensor.is_nested:
        for part in nested_parts(tensor):
            yield from _parts(part, depth + 1)
    elif tensor.layout is torch.sparse_coo or tensor.layout in COMPRESSED:
        yield from _parts(sparse_parts(tensor)[0], depth + 1)
    elif tensor.layout is not torch.strided:
        yield tensor.to_dense()
    elif how is Access.CLASS:
        for part in inner_tensors(tensor).values():
            yield from _parts(part, depth + 1)
    else:
        yield tensor.as_subclass(torch.Tensor).detach()
