"""What frameworks warn of themselves, where each warning of ours is an error.

`scripts/test strict` runs the tests with ``-W error``. Nothing of ours is to be left out here.
"""

from __future__ import annotations

__all__ = ["FRAMEWORKS_OWN"]

#: Filters as pytest takes them, each with why that warning says nothing of the debugger.
FRAMEWORKS_OWN = {
    "ignore:ComplexHalf support is experimental:UserWarning": (
        "PyTorch, of any tensor of complex32: the tests make some"
    ),
    r"ignore:Sparse \w+ tensor support is in beta state:UserWarning": (
        "PyTorch, of the first compressed sparse tensor of a process: the tests make some"
    ),
    "ignore:Sparse invariant checks are implicitly disabled:UserWarning": (
        "PyTorch, of the first sparse tensor of a process: the tests make some"
    ),
    "ignore:The PyTorch API of nested tensors is in prototype stage:UserWarning": (
        "PyTorch, of the first nested tensor of a process: the tests make some"
    ),
    "ignore:torch.quantize_per_tensor, torch.quantize_per_channel and other:UserWarning": (
        "PyTorch, of the first quantized tensor of a process: the tests make some"
    ),
    r"ignore:`torch\.jit\.\w+` is deprecated:DeprecationWarning": (
        "PyTorch: its compiler and its forward mode use it themselves, and programs of the tests do"
    ),
    r"ignore:os\.fork\(\) was called:RuntimeWarning": (
        "JAX, of each fork once it is imported: the tests fork to start programs at a terminal"
    ),
}
