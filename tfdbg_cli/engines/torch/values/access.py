"""How the elements of a tensor may be read: the one place where that is decided."""

from __future__ import annotations

import enum
from collections.abc import Iterable

import torch

from tfdbg_cli.engines.torch.private import (
    PLAIN_KEYS,
    disabled_dispatch,
    fake_classes,
    functions_seen,
    has_tangents,
    is_functional,
    is_lazy,
    is_wrapped,
    is_zero,
    keys_of,
    modes_below,
    quiet,
    top_interpreter,
)

__all__ = [
    "PLAIN",
    "QUANTIZED",
    "TRAINED_ELSEWHERE",
    "Access",
    "access",
    "are_on_host",
    "gradient_of",
    "has_own_dispatch",
    "is_freed",
    "is_given_back",
    "is_readable",
    "is_seen",
    "is_waiting",
    "why_nothing",
]

#: What every tensor without code of its own is.
PLAIN = (torch.Tensor, torch.nn.Parameter)
#: The element types of quantized tensors.
QUANTIZED = frozenset(
    getattr(torch, name)
    for name in ("qint8", "quint8", "qint32", "quint4x2", "quint2x4")
    if hasattr(torch, name)
)
_Tensor, _Parameter = PLAIN


class Access(enum.IntEnum):
    """How the elements of a tensor may be read, the easiest way last.

    Attributes:
        NOTHING: there are none, or none yet (`why_nothing`). Reading them may end the process.
        CLASS: the class of the tensor, or a transform of `torch.func`, knows them. PyTorch's own
            operators would take its memory for something else.
        LAYOUT: PyTorch's operators take it apart: it is sparse, nested or quantized.
        ZEROS: all are 0, and no memory holds them. Within a dispatch mode a kernel would read
            address 0.
        MEMORY: strided memory holds them.
        HOST: likewise, of the CPU.
    """

    NOTHING = 0
    CLASS = 1
    LAYOUT = 2
    ZEROS = 3
    MEMORY = 4
    HOST = 5


_NOTHING, _HOST = Access.NOTHING, Access.HOST


def access(tensor: torch.Tensor) -> Access:
    """How the elements of a tensor may be read now.

    Calls no operator. Of the tensor's class nothing is called.

    Args:
        tensor: any tensor.
    """
    kind = type(tensor)
    if functions_seen() or (kind is not _Tensor and kind is not _Parameter):
        with quiet():  # a mode or a class would see every attribute that is read
            return _access(tensor)
    if keys_of(tensor) in PLAIN_KEYS:  # nearly always
        # Nearly always the memory holds just the elements.
        is_whole = tensor.untyped_storage().nbytes() >= tensor.nbytes and tensor.is_contiguous()
        if (is_whole and not tensor.storage_offset()) or not _is_short(tensor):
            return _HOST
        return _NOTHING
    return _access(tensor)


def are_on_host(tensors: Iterable[torch.Tensor]) -> bool:
    """Whether `access` says `Access.HOST` of all of some tensors.

    Args:
        tensors: nothing of the program's sees what they are asked.
    """
    for tensor in tensors:
        # Nearly always.
        is_plain = type(tensor) in PLAIN and keys_of(tensor) in PLAIN_KEYS
        if (
            not (
                is_plain
                and tensor.is_contiguous()
                and not tensor.storage_offset()
                and tensor.untyped_storage().nbytes() >= tensor.nbytes
            )
            and access(tensor) is not _HOST
        ):
            return False
    return True


def is_seen(tensor: torch.Tensor) -> bool:
    """Whether somebody would take an operator on a tensor for the program's.

    That is a mode, a transform of `torch.func`, autograd, or forward-mode AD, which would compute
    the tangent as well.
    """
    return bool(
        modes_below()
        or functions_seen()
        or top_interpreter() is not None
        or has_tangents()
        or (tensor.requires_grad and torch.is_grad_enabled())
    )


def _access(tensor: torch.Tensor) -> Access:
    if isinstance(tensor, fake_classes()) or tensor.is_meta:
        return Access.NOTHING
    if is_functional(tensor) or is_waiting(tensor):
        return Access.NOTHING
    if is_wrapped(tensor) or has_own_dispatch(tensor):
        return Access.CLASS
    if tensor.is_nested or tensor.layout is not torch.strided or tensor.dtype in QUANTIZED:
        return Access.LAYOUT
    if is_zero(tensor):
        return Access.ZEROS
    if is_freed(tensor):
        return Access.NOTHING
    return Access.HOST if type(tensor) in PLAIN and keys_of(tensor) in PLAIN_KEYS else Access.MEMORY


def is_readable(tensor: torch.Tensor) -> bool:
    """Whether PyTorch's own operators can read, and copy, the elements of a tensor."""
    return access(tensor) >= Access.LAYOUT


def is_given_back(tensor: torch.Tensor) -> bool:
    """Whether a tensor has no elements any more, as the program has given its memory back."""
    is_gone = type(tensor) in PLAIN and access(tensor) is Access.NOTHING
    return is_gone and not (tensor.is_meta or is_functional(tensor) or is_waiting(tensor))


def why_nothing(tensor: torch.Tensor) -> str:
    """Why there are no elements to read, where `access` says `Access.NOTHING`; else empty."""
    if is_functional(tensor):
        return "it belongs to a trace; its elements may be still to come."
    if is_waiting(tensor):
        return "a collective is still to deliver it."
    if isinstance(tensor, fake_classes()):
        return "a fake tensor has a dtype and a shape, and no elements."
    if tensor.is_meta:
        return "a tensor on the meta device has no elements."
    if access(tensor) is Access.NOTHING:
        return "its memory was given back since (parameters of FSDP are, between uses)."
    return ""


def is_freed(tensor: torch.Tensor) -> bool:
    """Whether the memory of a dense tensor was given back, as FSDP does with its parameters."""
    return not is_lazy(tensor) and _is_short(tensor)


def _is_short(tensor: torch.Tensor) -> bool:
    if not tensor.numel():
        return False
    there, offset = tensor.untyped_storage().nbytes(), tensor.storage_offset()
    last = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    return bool(there < (offset + last + 1) * tensor.element_size())


def is_waiting(tensor: torch.Tensor) -> bool:
    """Whether a collective that makes this tensor is under way: reading it would have to wait."""
    return type(tensor).__name__ == "AsyncCollectiveTensor" and not getattr(
        tensor, "completed", True
    )


def has_own_dispatch(tensor: torch.Tensor) -> bool:
    """Whether a tensor's class decides what the operators do with it."""
    mine = getattr(type(tensor), "__torch_dispatch__", None)
    return (
        type(tensor) not in PLAIN
        and mine is not None
        and mine is not getattr(torch.Tensor, "__torch_dispatch__", None)
        and mine is not disabled_dispatch
    )


#: The ids of parameters that a thread trains whose runs aren't watched: it may free a gradient
#: while somebody else takes it, which ends the process.
TRAINED_ELSEWHERE: set[int] = set()


def gradient_of(tensor: torch.Tensor) -> torch.Tensor | None:
    """What a backward pass has left in ``grad``.

    A parameter may be no leaf (`torch.func.functional_call`). It has no gradient then, and PyTorch
    warns of the question. One of `TRAINED_ELSEWHERE` isn't asked.
    """
    if TRAINED_ELSEWHERE and id(tensor) in TRAINED_ELSEWHERE:
        return None
    return tensor.grad if tensor.is_leaf or tensor.retains_grad else None
