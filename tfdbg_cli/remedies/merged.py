"""Remedies that put one function in place of several ops: logarithms of softmax and sigmoid."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.dumps.graph import Node, node_name_of
from tfdbg_cli.filters.causes.patterns import later_phase
from tfdbg_cli.remedies.situation import Candidate, Composite, Situation
from tfdbg_cli.remedies.trial import Change

__all__ = [
    "binary_cross_entropy",
    "is_sigmoid",
    "is_softmax",
    "log_sigmoid",
    "log_softmax",
    "log_sum_exp",
]

# Op types, in lower case.
_SIGMOIDS = ("sigmoid", "logistic")
_SUMS = ("sum", "reduce_sum", "reducesum")
# So many logarithms are looked through.
_MOST_LOGS = 50


def is_sigmoid(node: Node) -> bool:
    """Whether an op is a sigmoid."""
    return node.op_type.lower() in _SIGMOIDS


def log_softmax(situation: Situation, softmax: Node) -> Candidate:
    """``log_softmax`` in place of the logarithm of a softmax.

    Args:
        situation: of the logarithm.
        softmax: the op.
    """
    found = _merged(situation, softmax, "log_softmax(logits)", _log_softmax, _softmax_gradient)
    composite = Composite(situation.node.name, ("softmax",))
    return found._replace(edit="log_softmax", composite=composite)


def log_sigmoid(situation: Situation, sigmoid: Node) -> Candidate:
    """``logsigmoid`` in place of the logarithm of a sigmoid.

    Args:
        situation: of the logarithm.
        sigmoid: the op.
    """
    found = _merged(situation, sigmoid, "logsigmoid(logits)", _log_sigmoid, _sigmoid_gradient)
    composite = Composite(situation.node.name, _SIGMOIDS)
    return found._replace(edit="log_sigmoid", composite=composite)


def binary_cross_entropy(situation: Situation) -> Iterator[Candidate]:
    """Binary cross entropy of logits in place of ``log(p)`` and ``log(1 - p)`` of a sigmoid.

    Args:
        situation: of one of the logarithms.
    """
    graph = situation.graph
    found: dict[bool, list[Node]] = {}
    sigmoid = _sigmoid_of(situation, situation.node) if situation.meaning == "log" else None
    if sigmoid is None:
        return
    logs = (each for each in graph.nodes.values() if situation.computes(each.op_type) == "log")
    for log in itertools.islice(logs, _MOST_LOGS):
        if _sigmoid_of(situation, log) is sigmoid and not later_phase(graph.nodes, log.name):
            is_direct = node_name_of(log.inputs[0]) == sigmoid.name
            found.setdefault(is_direct, []).append(log)
    if len(found.get(True, ())) != 1 or len(found.get(False, ())) != 1:
        return
    logits = sigmoid.inputs[0]
    changes = {}
    for is_direct, [log] in found.items():
        sign = 1 if is_direct else -1
        change = Change(log.name, replace=_of_logits(situation, logits, sign))
        change.inner, change.pulled = sigmoid.name, _pulled_to_logits(situation, logits, sign)
        change.slope = _sigmoid_slope
        change.between = [] if is_direct else [node_name_of(log.inputs[0])]
        changes[log.name] = change
    change = changes.pop(situation.node.name)
    change.others = [*changes.values()]
    yield Candidate("BCE with logits in place of log(p) and log(1 - p)", change)


def is_softmax(situation: Situation) -> bool:
    """Whether ``exp`` is divided by its sum over the last axis: a softmax that is written by hand.

    Args:
        situation: of the exponential.
    """
    total = _sum_of(situation)
    return any(
        situation.computes(each.op_type) == "div"
        and each.inputs[0] == f"{situation.node.name}:0"
        and total in situation.makers(each)[1:]
        for each in situation.readers(situation.node)
    )


def log_sum_exp(situation: Situation) -> Iterator[Candidate]:
    """``logsumexp`` in place of the logarithm of a sum of ``exp``; ``logaddexp`` of two of them.

    The largest argument is subtracted before ``exp``, and added to the logarithm: so the gradient
    needs no change.

    Args:
        situation: of the exponential.
    """
    exps = [situation.node]
    total = _sum_of(situation)
    if total is None:
        added = (e for e in situation.readers(exps[0]) if len(e.inputs) == 2)
        total = next((each for each in added if situation.computes(each.op_type) == "add"), None)
        makers = [situation.graph.nodes.get(node_name_of(e)) for e in total.inputs] if total else []
        exps = [each for each in makers if each and situation.computes(each.op_type) == "exp"]
        if len(exps) != 2:
            return
    assert total is not None
    logs = situation.readers(total)
    log = next((each for each in logs if situation.computes(each.op_type) == "log"), None)
    given = [situation.value(each.inputs[0]).astype(np.float64) for each in exps]
    if log is None or len({x.shape for x in given}) != 1:
        return
    if not all(situation.is_read_by(each, total) for each in exps):
        return  # what else reads exp would get another result
    if not situation.is_read_by(total, log):
        return
    name = "logsumexp" if len(exps) == 1 else "logaddexp"
    top = given[0].max(-1, keepdims=True) if len(exps) == 1 else np.maximum(*given)
    top = np.where(np.isfinite(top), top, 0)

    def shifted(given: list[Any]) -> list[Any]:
        return [(given[0].astype(np.float64) - top).astype(given[0].dtype)]

    def replace(sums: list[Any]) -> list[Array]:
        found = np.log(sums[0].astype(np.float64)) + top.reshape(sums[0].shape)
        return [found.astype(sums[0].dtype)]

    change = Change(log.name, replace=replace)
    change.others = [Change(each.name, shifted) for each in exps]
    change.between = [total.name, *(each.name for each in exps)]
    what = "the sum of exp" if len(exps) == 1 else "exp + exp"
    # A sum that keeps its axis would be written with one argument more.
    is_whole = len(exps) == 2 or top.ndim > situation.value(f"{total.name}:0").ndim
    yield Candidate(
        f"{name} in place of log of {what}",
        change,
        edit=name if is_whole else "",
        composite=Composite(log.name, ("exp",), len(exps)),
    )


def _sum_of(situation: Situation) -> Node | None:
    """The sum of an op's result over the last axis."""
    shape = situation.value(situation.node.inputs[0]).shape
    for node in situation.readers(situation.node):
        is_sum = node.op_type.lower() in _SUMS and node.inputs[0] == f"{situation.node.name}:0"
        if is_sum and situation.value(f"{node.name}:0").shape in (shape[:-1], (*shape[:-1], 1)):
            return node
    return None


def _sigmoid_of(situation: Situation, log: Node) -> Node | None:
    """The sigmoid ``p`` of ``log(p)`` or ``log(1 - p)``."""
    maker = situation.graph.nodes.get(node_name_of(log.inputs[0])) if log.inputs else None
    if maker is None or is_sigmoid(maker):
        return maker
    for name in maker.inputs:
        inner = situation.graph.nodes.get(node_name_of(name))
        if inner is not None and is_sigmoid(inner):
            given, p = situation.value(log.inputs[0]), situation.value(name)
            if given.shape == p.shape and np.array_equal(given, (1 - p).astype(p.dtype)):
                return inner
    return None


def _of_logits(situation: Situation, logits: str, sign: int) -> Callable[[list[Any]], list[Array]]:
    def replace(given: list[Any]) -> list[Array]:
        x = situation.value(logits).astype(np.float64)
        return [_log_sigmoid(sign * x).astype(given[0].dtype)]

    return replace


def _pulled_to_logits(situation: Situation, logits: str, sign: int) -> Callable[[Array], Array]:
    def pulled(g: Array) -> Array:
        x = situation.value(logits)
        found = sign * _sigmoid_gradient(sign * x.astype(np.float64), g.astype(np.float64))
        return np.asarray(found).astype(x.dtype)

    return pulled


def _merged(
    situation: Situation,
    maker: Node,
    text: str,
    compute: Callable[[Array], Array],
    gradient: Callable[[Array, Array], Array],
) -> Candidate:
    """One function in place of two ops."""
    name = maker.inputs[0]

    def replace(given: list[Any]) -> list[Array]:
        x = situation.value(name)
        return [np.asarray(compute(x.astype(np.float64))).astype(given[0].dtype)]

    def pulled(g: Array) -> Array:
        x = situation.value(name)
        return np.asarray(gradient(x.astype(np.float64), g.astype(np.float64))).astype(x.dtype)

    change = Change(situation.node.name, replace=replace)
    change.inner, change.pulled = maker.name, pulled
    change.slope = _sigmoid_slope if is_sigmoid(maker) else None
    op, inner = situation.node.op_type, maker.op_type
    return Candidate(f"{text} in place of {op} of {inner.lstrip('_')}", change)


def _log_softmax(x: Array) -> Array:
    top = x - x.max(-1, keepdims=True)
    return np.asarray(top - np.log(np.exp(top).sum(-1, keepdims=True)))


def _softmax_gradient(x: Array, g: Array) -> Array:
    return np.asarray(g - np.exp(_log_softmax(x)) * g.sum(-1, keepdims=True))


def _log_sigmoid(x: Array) -> Array:
    return np.asarray(-np.logaddexp(0, -x))


def _sigmoid_gradient(x: Array, g: Array) -> Array:
    return np.asarray(g * np.exp(-np.logaddexp(0, x)))


def _sigmoid_slope(p: Array) -> Array:
    return np.asarray(p * (1 - p))
