"""The reason of a gradient by the op that the user knows: the one of the forward pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.node_words import (
    ARGUMENT,
    BACKWARD,
    FORWARD_FRAMES,
    FORWARD_NODE,
    GRADIENTS,
    OWN_BACKWARD,
    PHASE,
    UNCLEAR_PHASE,
)
from tfdbg_cli.dumps.graph import Graph, Node, node_name_of
from tfdbg_cli.dumps.sources import own_frame
from tfdbg_cli.filters.causes.patterns import constant
from tfdbg_cli.filters.causes.rules import CLOSE, MOST_OF_MATRIX, places_of
from tfdbg_cli.filters.lineage import TensorLineage

__all__ = [
    "WrittenReason",
    "forward_node",
    "has_forward_frames",
    "has_own_line",
    "is_decomposition",
    "node_of_line",
    "of_gradient",
    "place_of",
    "written_as",
]

_GRAD = "Grad"
_OF_NODE = re.compile(r"gradients/([A-Za-z0-9]+?)Backward\d*/")
_SESSION_GRADIENT = re.compile(r"(?:.*/)?gradients(?:_\d+)?/(.+?)_grad/")
# What has a gradient that is bad where the op itself is, or that divides as well.
_WITH_POLES = frozenset({"div", "log", "log1p", "reciprocal", "rsqrt", "sqrt"})
# So many ops of a gradient are gone through, back to what the forward op was given.
_MOST_INNER = 60
_AT = re.compile(r" at (?:\[[\d, ]*\]|\d+ elements, the first at \[[\d, ]*\])")
_ZERO_BELOW = "the inverse square root of 0|a division by 0|0 / 0"
_ZERO_IN_MATRIX = f"{_ZERO_BELOW}|0 to a negative power"


class WrittenReason(NamedTuple):
    """A reason by what the program has written.

    Attributes:
        text: what happened.
        advice: what people do about it.
        forward: the node of the forward op; empty: the one of the reason itself.
    """

    text: str
    advice: str
    forward: str = ""


class _Gradient(NamedTuple):
    """What an op of a backward formula comes from.

    Attributes:
        shows: matches the beginning of the reason that the inner op has, which is the proof.
        text: of the forward op and the place at which it has no gradient.
        advice: what people do about it.
        has_places: the elements of the inner op are those of the forward op.
    """

    shows: str
    text: str
    advice: str
    has_places: bool = True


_INSIDE = "Clip the argument strictly inside of the domain: x.clamp(-1 + 1e-6, 1 - 1e-6)."
_UNMASKED = "Leave at least one element unmasked, or set such rows to 0 before it."
_MATRIX = "Add a small multiple of the identity or a little noise, or take its values only."
#: Forward op type -> what its backward formula shows.
_GRADIENTS: Mapping[str, _Gradient] = {
    "acos": _Gradient(_ZERO_BELOW, "acos at -1 or 1", _INSIDE),
    "asin": _Gradient(_ZERO_BELOW, "asin at -1 or 1", _INSIDE),
    "atanh": _Gradient(_ZERO_BELOW, "atanh at -1 or 1", _INSIDE),
    "acosh": _Gradient(_ZERO_BELOW, "acosh at 1", "Keep the argument above 1: x.clamp(1 + 1e-6)."),
    "pow": _Gradient(
        "0 to a negative power",
        "a power below 1 at 0",
        "Add a small number to the base: (x + 1e-12) ** p; where() alone doesn't help.",
    ),
    **dict.fromkeys(
        ("logaddexp", "logsumexp"),
        _Gradient("an infinity minus an infinity", "logsumexp where all is -inf", _UNMASKED, False),
    ),
    "sqrt": _Gradient(
        _ZERO_BELOW,
        "a square root at 0",
        "Add a small number under the root: sqrt(x + 1e-12); where() alone doesn't help.",
    ),
    "log1p": _Gradient(
        _ZERO_BELOW, "log1p at -1, the logarithm of 0", "Keep the argument above -1."
    ),
    **dict.fromkeys(
        ("xlogy", "special_xlogy"),
        _Gradient(
            _ZERO_BELOW,
            "xlogy where its logarithm is of 0",
            "Keep the second argument above 0: xlogy(x, y.clamp(1e-12)).",
        ),
    ),
    "atan2": _Gradient(
        _ZERO_BELOW,
        "arctan2 at (0, 0)",
        "Move such points before it; where() behind it doesn't help.",
    ),
    **dict.fromkeys(
        ("linalg_svd", "_linalg_svd", "svd"),
        _Gradient(_ZERO_IN_MATRIX, "svd at equal or zero singular values", _MATRIX, False),
    ),
    **dict.fromkeys(
        ("linalg_eigh", "_linalg_eigh", "linalg_eig", "eigh", "selfadjointeigv2"),
        _Gradient(_ZERO_IN_MATRIX, "eigenvectors at equal eigenvalues", _MATRIX, False),
    ),
    **dict.fromkeys(
        ("linalg_qr", "qr", "householder_product"),
        _Gradient(_ZERO_IN_MATRIX, "qr of a matrix without full rank", _MATRIX, False),
    ),
}


def written_as(lineage: TensorLineage, node: Node, text: str) -> WrittenReason | None:
    """The reason of a gradient by the user's op; ``None``: nothing shows that it is one of these.

    Args:
        lineage: of the dump.
        node: of the backward pass, in which something bad began.
        text: why, by the op of the node.
    """
    graph = lineage.graph
    if graph is None:
        return None
    named = forward_node(graph, node)
    if named is None and not (_is_backward(node) or UNCLEAR_PHASE in node.attributes):
        return None
    forwards = [named] if named is not None else _with_same_input(lineage, graph, node)
    known = _known(forwards[0].op_type) if len(forwards) == 1 else None
    # PyTorch: the forward pass was another run.
    if not forwards and (found := _OF_NODE.match(node.name)) is not None:
        known = _known(found[1])
    if known is None or re.match(known.shows, text) is None:
        return None
    at = _AT.search(text) if known.has_places else None
    text = f"the gradient of {known.text}{at[0] if at else ''}"
    return WrittenReason(text, known.advice, forwards[0].name if forwards else "")


def is_decomposition(op_type: str) -> bool:
    """Whether an op decomposes matrices (svd, eigh, qr), some of which have no gradient."""
    known = _known(op_type)
    return known is not None and known.advice == _MATRIX


def forward_node(graph: Graph, node: Node) -> Node | None:
    """The forward op whose gradient a node computes, as the engine tells it; ``None``: it doesn't.

    Args:
        graph: of the run.
        node: of it.
    """
    told = node.attributes.get(FORWARD_NODE)
    if told is not None:
        return graph.nodes.get(told)
    if (found := _SESSION_GRADIENT.match(node.name)) is not None:  # of tf.gradients
        return graph.nodes.get(found[1])
    if not node.op_type.endswith(_GRAD):
        return None
    # TensorFlow's SqrtGrad is given what Sqrt has made.
    makers = (graph.nodes.get(node_name_of(each)) for each in node.inputs)
    wanted = node.op_type.removesuffix(_GRAD)
    return next((each for each in makers if each is not None and each.op_type == wanted), None)


def has_forward_frames(node: Node) -> bool:
    """Whether the frames of a gradient's node are those of its forward op, not its own.

    Args:
        node: of a graph.
    """
    if FORWARD_FRAMES in node.attributes:
        return True
    return FORWARD_NODE in node.attributes and not has_own_line(node)


def has_own_line(node: Node) -> bool:
    """Whether a gradient's node was computed by code of the program: a backward function, a hook.

    Args:
        node: of a graph.
    """
    return OWN_BACKWARD in node.attributes or "/hook/" in node.name


def node_of_line(graph: Graph, node: Node) -> Node:
    """The node whose line is that of a node: for a gradient that of its forward op, as a rule.

    Args:
        graph: of the run.
        node: of it.
    """
    forward = None if has_own_line(node) else forward_node(graph, node)
    return forward or node


def place_of(node: Node) -> tuple[str, int] | None:
    """File and line of the program; ``None``: they aren't known."""
    frame = own_frame(node.frames or ())
    return (frame.file, frame.line) if frame is not None else None


def _scope(node: Node) -> str:
    return node.name.rpartition("/")[0]


def _known(op_type: str) -> _Gradient | None:
    return _GRADIENTS.get(op_type.rstrip("_").lower())


def _with_same_input(lineage: TensorLineage, graph: Graph, node: Node) -> list[Node]:
    """Of an engine that doesn't tell forward ops: those that read what a gradient is computed of.

    JAX gives the ops of a gradient the frames of the forward op, TensorFlow a phase. Those are told
    whose own gradient may be what went bad: if there are several, nobody knows which it is.
    """
    place, is_backward = place_of(node), _is_backward(node)

    def is_inner(each: Node) -> bool:
        return _is_backward(each) or (place is not None and place_of(each) == place)

    found: dict[str, Node] = {}
    waiting, seen = [node], {node.name}
    while waiting and len(seen) < _MOST_INNER:
        at = waiting.pop(0)
        for name in at.inputs:
            maker = graph.nodes.get(node_name_of(name))
            if maker is None:
                continue
            # JAX computes a part of a gradient beside its forward op, in the same function.
            is_end = _has_edge(lineage, maker, by_results=True) and _scope(maker) == _scope(node)
            if maker.name not in seen and is_inner(maker) and not is_end:
                seen.add(maker.name)
                waiting.append(maker)
            edges = graph.recipients(maker.name, control=False)
            readers = [graph.nodes[edge.node] for edge in edges]
            # What decomposes a matrix has a gradient that is computed of its results.
            for each in (*(reader for reader in readers if name in reader.inputs), maker):
                is_one = each.name not in seen and _has_edge(lineage, each, each is maker)
                # An op of the program's own, on the same line, may read the same tensor.
                if at is node and not is_backward:
                    is_one = is_one and _is_derivative(graph, node, each)
                if is_one and (place_of(each) == place or not is_inner(each)):
                    found[each.name] = each
    return [*found.values()]


def _is_backward(node: Node) -> bool:
    return node.attributes.get(PHASE) == BACKWARD or node.name.startswith(GRADIENTS)


def _has_edge(lineage: TensorLineage, node: Node, by_results: bool) -> bool:
    """Whether a forward op is one that has no gradient somewhere though it gives finite numbers."""
    known = _known(node.op_type)
    if known is None:
        return lineage.roles.computes(node.op_type) in _WITH_POLES and not by_results
    if by_results and known.has_places:
        return False
    return not any(lineage.bad(each) for each in lineage.dump.by_node(node.name))


def _is_derivative(graph: Graph, node: Node, forward: Node) -> bool:
    """Whether a power is the one in the gradient of another one, whose exponent is larger by 1."""
    if node.op_type != forward.op_type:
        return False
    one, other = constant(node, 1), constant(forward, 1)
    if one is not None:
        return one + 1 == other
    maker = graph.nodes.get(node_name_of(node.inputs[1])) if len(node.inputs) > 1 else None
    given = forward.inputs[1:] or [forward.attributes.get(f"{ARGUMENT}1", "")]
    return maker is not None and (
        constant(maker, 1) == 1
        and (maker.inputs[:1] == given or maker.attributes.get(f"{ARGUMENT}0") == given[0])
    )


def of_gradient(node: Node, made: Array, given: Sequence[Array | None]) -> WrittenReason | None:
    """The reason of a gradient that one node stands for, by what the forward op was given.

    Args:
        node: ``AcosBackward0``.
        made: its gradient.
        given: what comes back to it, and what the forward op was given.
    """
    found = _NODE.fullmatch(node.op_type)
    name = found[1].lower() if found is not None else ""
    edge, x = _EDGES.get(name), given[-1] if given else None
    decomposed = name.removeprefix("linalg")
    if decomposed in _VALUES and x is not None and x.ndim >= 2 and _has_equal(decomposed, x):
        known = _GRADIENTS[decomposed]
        return WrittenReason(f"the gradient of {known.text}", known.advice)
    if edge is None or x is None or x.shape != made.shape:
        return None
    bad = ~np.isfinite(made)
    if not bad.any() or not edge(x)[bad].all():
        return None
    known = _GRADIENTS[name]
    at = places_of(bad) if known.has_places else ""
    return WrittenReason(f"the gradient of {known.text}{at}", known.advice)


# NumPy is imported when it is needed.
_VALUES: Mapping[str, Callable[[Array], Array]] = {
    "eigh": lambda x: np.linalg.eigvalsh(x, "L"),
    "svd": lambda x: np.linalg.svd(x, compute_uv=False),
}


def _has_equal(name: str, x: Array) -> bool:
    """Whether a matrix has equal eigenvalues, or equal singular values or one of 0."""
    if x.size > MOST_OF_MATRIX or not np.isfinite(x).all():
        return False
    values = _VALUES[name](x.astype(np.float64))
    least = np.abs(values).max(initial=0.0) * CLOSE
    has_zero = name == "svd" and values.min(initial=np.inf) <= least
    return bool(has_zero or (np.abs(np.diff(values)) <= least).any())


def _all_masked(x: Array) -> Array:
    """Where a row along some axis is -inf as a whole."""
    masked = x == -np.inf
    rows = [masked.all(axis, keepdims=True) & masked for axis in range(x.ndim)]
    return np.asarray(np.logical_or.reduce(rows, axis=0)) if rows else masked


_NODE = re.compile(r"(\w+?)Backward\d*")
#: Forward op -> where it has no gradient.
_EDGES: Mapping[str, Callable[[Array], Array]] = {
    **dict.fromkeys(("acos", "asin", "atanh"), lambda x: np.abs(x) == 1),
    "acosh": lambda x: x == 1,
    "log1p": lambda x: x == -1,
    **dict.fromkeys(("pow", "xlogy"), lambda x: x == 0),
    "logsumexp": _all_masked,
}
