"""The nodes of a backward pass between a loss and what modules have returned."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from tfdbg_cli.engines.torch.modules.calls import Border, Gradient
from tfdbg_cli.engines.torch.private import NO_SEQUENCE, sequence_of

__all__ = ["OutsideNode", "mark_end", "watch_outside"]

# Where a program computes much without modules, they aren't worth watching.
_MOST_NODES = 300
_KEY = "tfdbg_cli.border"


class OutsideNode:
    """An autograd node of an op that was called outside of any module.

    Attributes:
        kind: ``SqrtBackward0``.
        sequence: its number, by which the op is known.
        gradients: what it has handed on, by slot.
        readers: the nodes that it hands that to, by slot: others outside, or borders.
    """

    __slots__ = ("gradients", "kind", "readers", "sequence")

    def __init__(self, node: Any) -> None:
        self.kind = str(node.name()).rpartition("::")[2]
        self.sequence = sequence_of(node)
        self.gradients: dict[int, Gradient] = {}
        self.readers: dict[int, OutsideNode | Border] = {}


def mark_end(node: Any, border: Border) -> None:
    """An autograd node is that of what a module has returned.

    That stands in the node's dictionary, which goes with the node.
    """
    node.metadata[_KEY] = border


def _end_at(node: Any) -> Border | None:
    found: Border | None = node.metadata.get(_KEY)
    return found if found is not None and found.kept is not None else None


def watch_outside(
    roots: Iterable[torch.Tensor], told: Callable[[OutsideNode, Any], None]
) -> list[OutsideNode]:
    """Look at the nodes that a backward pass comes to before it comes to any module.

    Args:
        roots: what it begins with.
        told: is called with a node and the gradients that it hands on; must not raise.
    """
    known: dict[Any, OutsideNode] = {}
    pending = [root.grad_fn for root in roots if root.grad_fn is not None]
    while pending and len(known) < _MOST_NODES:
        node = pending.pop()
        if node in known or sequence_of(node) == NO_SEQUENCE or _end_at(node) is not None:
            continue
        known[node] = OutsideNode(node)
        pending += [each for each, _ in node.next_functions if each is not None]
    for node, found in known.items():
        for slot, (each, _) in enumerate(node.next_functions):
            reader = known.get(each) or (_end_at(each) if each is not None else None)
            if reader is not None:
                found.readers[slot] = reader
        node.register_hook(_hook(found, told))
    return list(known.values())


def _hook(
    found: OutsideNode, told: Callable[[OutsideNode, Any], None]
) -> Callable[[Any, Any], None]:
    def hook(made: Any, given: Any) -> None:
        told(found, made)

    return hook
