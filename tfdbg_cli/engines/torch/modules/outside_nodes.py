"""The nodes of a backward pass outside of modules: after what they have returned, and between."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from tfdbg_cli.engines.kit.stacks import USER, kind_of
from tfdbg_cli.engines.torch.modules.calls import Border, Gradient, ModuleCall
from tfdbg_cli.engines.torch.modules.state import version_of
from tfdbg_cli.engines.torch.private import (
    NO_SEQUENCE,
    keeps_result,
    own_backward,
    sequence_of,
)

__all__ = ["OutsideNode", "mark_end", "watch_outside"]

# Where a program computes much without modules, they aren't worth watching.
_MOST_NODES = 300
_KEY = "tfdbg_cli.border"
#: The kind of what stands for the gradient that comes to a node.
ARRIVAL = "Gradient"


class OutsideNode:
    """An autograd node of an op that was called outside of any module.

    Attributes:
        kind: ``SqrtBackward0``; ``Gradient``: it stands for what comes to such a node.
        sequence: its number, by which the op is known.
        code: of the program's function that computes it; ``None``: PyTorch does.
        keeps_result: it computes what it hands on of what the op has made.
        calls: of modules that got what the op has made; only where it stands for what comes to it.
        gradients: what it has handed on, by slot.
        readers: the nodes that it hands that to, by slot: others outside, or borders.
        owners: the ids of the parameters whose gradient that is, by slot.
    """

    __slots__ = (
        "calls",
        "code",
        "gradients",
        "keeps_result",
        "kind",
        "owners",
        "readers",
        "sequence",
    )

    def __init__(self, node: Any, kind: str = "") -> None:
        self.kind = kind or str(node.name()).rpartition("::")[2]
        self.sequence = sequence_of(node)
        code = own_backward(node) if not kind else None
        self.code = code if code is not None and kind_of(code) == USER else None
        self.keeps_result = keeps_result(node)
        self.calls: list[ModuleCall] = []
        self.gradients: dict[int, Gradient] = {}
        self.readers: dict[int, OutsideNode | Border] = {}
        self.owners: dict[int, int] = {}

    @property
    def is_arrival(self) -> bool:
        """Whether it stands for what comes to a node: the sum of what others hand to it."""
        return self.kind == ARRIVAL


def mark_end(node: Any, border: Border) -> None:
    """An autograd node is that of what a module has returned.

    That stands in the node's dictionary, which goes with the node.
    """
    node.metadata[_KEY] = border


def _end_at(node: Any) -> Border | None:
    found: Border | None = node.metadata.get(_KEY)
    return found if found is not None and found.kept is not None else None


def watch_outside(roots: Iterable[torch.Tensor], told: Callable[..., None]) -> list[OutsideNode]:
    """Look at the nodes of a backward pass that are outside of modules, and at what comes to them.

    Args:
        roots: what it begins with.
        told: is called with a node, the gradients that it hands on, and those that it was given,
            if these are others; must not raise.
    """
    known: dict[Any, OutsideNode] = {}
    fed: dict[Any, set[int]] = {}  # whose gradient is a sum or comes from elsewhere -> its slots
    calls: dict[Any, list[ModuleCall]] = {}
    passed: set[int] = set()
    pending = [_place(root) for root in roots if root.grad_fn is not None]
    for node, slot in pending:
        fed.setdefault(node, set()).add(slot)
    while pending and len(known) < _MOST_NODES:
        node, _ = pending.pop()
        if node in known or sequence_of(node) == NO_SEQUENCE:
            continue
        border = _end_at(node)
        if border is None:
            known[node] = OutsideNode(node)
            pending += [each for each in node.next_functions if each[0] is not None]
        elif id(border.call) not in passed:
            passed.add(id(border.call))
            for given, slot in _given(border.call):
                pending.append((given, slot))
                fed.setdefault(given, set()).add(slot)
                calls.setdefault(given, []).append(border.call)
    edges = [each for node in known for each in node.next_functions if each[0] in known]
    counts = Counter(node for node, _ in edges)
    for node, slot in edges:
        if node in fed or counts[node] > 1:
            fed.setdefault(node, set()).add(slot)
    arrivals = {node: OutsideNode(node, ARRIVAL) for node in fed if node in known}
    for node, arrival in arrivals.items():
        arrival.calls = calls.get(node, [])
        arrival.readers.update((slot, known[node]) for slot in fed[node])
        node.register_prehook(functools.partial(told, arrival))
    for node, found in known.items():
        for slot, (each, _) in enumerate(node.next_functions):
            outside = arrivals.get(each) or known.get(each)
            reader = outside or (_end_at(each) if each is not None else None)
            if reader is not None:
                found.readers[slot] = reader
            elif each is not None and sequence_of(each) == NO_SEQUENCE:
                found.owners[slot] = id(getattr(each, "variable", None))
        node.register_hook(functools.partial(told, found))
    return [*arrivals.values(), *known.values()]


def _place(tensor: torch.Tensor) -> tuple[Any, int]:
    return tensor.grad_fn, tensor.output_nr


def _given(call: ModuleCall) -> Iterator[tuple[Any, int]]:
    """The autograd nodes of what a call got from the program."""
    while call.parent is not None:
        call = call.parent
    for tensor, version in call.tensors:
        if version_of(tensor) == version and tensor.grad_fn is not None:
            yield _place(tensor)
