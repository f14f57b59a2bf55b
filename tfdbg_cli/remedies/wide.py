"""Ops that are computed in a dtype of more range than their own, as far as they need it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.dumps.graph import Graph, Node, node_name_of
from tfdbg_cli.filters.causes.ops import forward_node
from tfdbg_cli.filters.causes.patterns import later_phase
from tfdbg_cli.tensors.numeric import dtype_kind, has_nonfinite

__all__ = ["WideOps"]


class WideOps:
    """Which ops of a trial are computed in a wider dtype, and what becomes of their results.

    Those are the changed op, its gradient, what reads a result that doesn't fit into its own dtype,
    and what overflows by itself. A result that fits is rounded to its own dtype.

    Attributes:
        dtype: ``float32``, ``float64``, or ``bfloat16``: float32 rounded to 8 bits. Empty: none.
        reach: of the forward pass, the nodes computed so; for each whether its result fits.

    Args:
        dtype: the wider one.
        graph: of the run.
        computes: op type -> meaning.
        is_gradient: whether a node is part of the gradient of another one, which is given by name.
    """

    def __init__(
        self,
        dtype: str,
        graph: Graph,
        computes: Callable[[str], str],
        is_gradient: Callable[[Node, str], bool],
    ) -> None:
        self.dtype = dtype
        self.reach: dict[str, bool] = {}
        self._graph, self._computes, self._is_gradient = graph, computes, is_gradient
        # Tensors that don't fit into their own dtype, which is the value; the nodes of the forward
        # pass, and those behind the backward pass.
        self._beyond: dict[str, Any] = {}
        self._nodes: set[str] = set()
        self._later: set[str] = set()

    def reads_wide(self, node: Node) -> bool:
        """Whether a node is computed in the wider dtype because of what it reads."""
        return bool(self.dtype) and (
            any(name in self._beyond for name in node.inputs) or self._is_back(node)
        )

    def has_overflown(self, given: Sequence[Any], found: Sequence[Any] | None) -> bool:
        """Whether an op makes infinities of finite numbers in its own dtype."""
        is_bad = bool(self.dtype) and any(x is not None and has_nonfinite(x) for x in found or ())
        return is_bad and not any(map(has_nonfinite, given))

    def widened(self, given: Sequence[Any]) -> list[Any]:
        """What an op is given, in the wider dtype."""
        kind = "float32" if self.dtype == "bfloat16" else self.dtype
        wide = [x.astype(kind) if dtype_kind(x.dtype) == "float" else x for x in given]
        return [*map(self._rounded, wide)]

    def narrowed(
        self, node: Node, given: Sequence[Any], found: Sequence[Any], made: Sequence[Any]
    ) -> list[Any]:
        """The results of a node, in its own dtype where they fit into that.

        Args:
            node: it.
            given: what it read, before that was `widened`.
            found: its results in the wider dtype.
            made: those of the run; ``None`` where they weren't kept.
        """
        own = [self._beyond.get(e, x.dtype) for e, x in zip(node.inputs, given, strict=True)]
        own = [dtype for dtype in own if dtype_kind(dtype) == "float"]
        if not own:
            return [*found]
        # A small number may be a factor of one that is beyond the range.
        is_small = self._is_back(node)
        results: list[Any] = []
        for slot, each in enumerate(found):
            if each is None:
                results.append(None)
                continue
            value = self._rounded(each)
            is_kept = slot < len(made) and made[slot] is not None
            narrow = value.astype(made[slot].dtype if is_kept else own[0])
            fits = _fits(value, narrow, is_small=is_small)
            if not fits:
                self._beyond[f"{node.name}:{slot}"] = narrow.dtype
            results.append(narrow if fits else value)
        self._note(node)
        return results

    def _note(self, node: Node) -> None:
        names = (node.name, *map(node_name_of, node.inputs))
        if any(later_phase(self._graph.nodes, each) or each in self._later for each in names):
            self._later.add(node.name)
            return
        self._nodes.add(node.name)
        if not self._is_backward(node):
            self.reach[node.name] = f"{node.name}:0" not in self._beyond

    def _is_back(self, node: Node) -> bool:
        """Whether a node is part of the gradient of one that was computed in the wider dtype."""
        if not self._nodes or not self._is_backward(node):
            return False
        forward = forward_node(self._graph, node)
        if forward is not None:
            return forward.name in self._nodes
        is_read = any(node_name_of(name) in self._nodes for name in node.inputs)
        return is_read or any(self._is_gradient(node, each) for each in self._nodes)

    def _is_backward(self, node: Node) -> bool:
        """Whether it belongs to the backward pass, or is a factor that only this pass reads.

        JAX computes such derivatives beside the results.
        """
        nodes = self._graph.nodes
        if later_phase(nodes, node.name):
            return True
        readers = [nodes[e.node] for e in self._graph.recipients(node.name, control=False)]
        return bool(readers) and all(
            later_phase(nodes, each.name) and self._computes(each.op_type) == "mul"
            for each in readers
        )

    def _rounded(self, value: Any) -> Any:
        """Of bfloat16 float32 has the upper 16 bits: to the nearest, and ties to even."""
        if self.dtype != "bfloat16" or value.dtype != np.float32:
            return value
        bits = np.ascontiguousarray(value).view(np.uint32)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
        return np.where(np.isfinite(value), rounded.view(np.float32).reshape(value.shape), value)


def _fits(value: Array, narrow: Array, *, is_small: bool) -> bool:
    """Whether a value is the same in another dtype, but for rounding.

    Args:
        value: in the wider dtype.
        narrow: it, rounded.
        is_small: small numbers count as well.
    """
    one, other = value.astype(np.float64), narrow.astype(np.float64)
    is_lost = np.isfinite(one) & ~np.isfinite(other)
    if is_small:
        is_lost |= np.abs(one - other) > 0.01 * np.abs(one)
    return not is_lost.any()
