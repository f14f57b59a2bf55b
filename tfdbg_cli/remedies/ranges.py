"""Remedies that keep what is in between within the range of its dtype."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.dumps.graph import Node, node_name_of
from tfdbg_cli.filters.causes.patterns import constant
from tfdbg_cli.remedies.edits import number_text
from tfdbg_cli.remedies.situation import Candidate, Composite, Situation, changed_input
from tfdbg_cli.remedies.trial import Change
from tfdbg_cli.tensors.numeric import has_nonfinite

__all__ = ["hypot", "near_one", "norms_kept", "scaled_before_product", "wider"]


# So many views are looked through.
_MOST_VIEWS = 20


def wider(situation: Situation) -> Iterator[Candidate]:
    """The op, and what follows as long as it needs that, in a dtype of more range.

    Args:
        situation: of the op. The text of the remedy is that of `tried`, which knows how far that
            is.
    """
    kinds = {"float16": ("float32", "bfloat16"), "bfloat16": ("float32",), "float32": ("float64",)}
    for wide in kinds.get(situation.dtype, ()):
        change = Change(situation.node.name, wide=wide)
        beside = (each for each in situation.beside() if _begins(situation, each))
        change.others = [Change(each.name, wide=wide) for each in beside]
        yield Candidate("", change)


def _begins(situation: Situation, node: Node) -> bool:
    """Whether what a node reads is finite."""
    return not any(has_nonfinite(situation.value(name)) for name in node.inputs)


def hypot(situation: Situation) -> Iterator[Candidate]:
    """``hypot`` in place of the root of a sum of two squares.

    Args:
        situation: of one of the squares.
    """
    spelling = situation.spelling.get("hypot", "")
    for total in situation.readers(situation.node) if spelling else ():
        makers = situation.makers(total)
        is_sum = situation.computes(total.op_type) == "add" and len(makers) == 2
        if not is_sum or not all(_is_square(situation, each) for each in makers):
            continue
        roots = (e for e in situation.readers(total) if situation.computes(e.op_type) == "sqrt")
        for root, candidate in itertools.product(roots, itertools.islice(wider(situation), 1)):
            yield candidate._replace(
                text=f"{spelling.format(args='x, y')} in place of sqrt(x * x + y * y)",
                edit="hypot",
                composite=Composite(root.name, ("mul", "pow", "square"), 2),
            )


def _is_square(situation: Situation, node: Node) -> bool:
    what = situation.computes(node.op_type)
    is_own = what == "mul" and len(node.inputs) == 2 and len({*node.inputs}) == 1
    return what == "square" or is_own or (what == "pow" and _number(situation, node, 1) == 2)


def _number(situation: Situation, node: Node, place: int) -> float | None:
    """An operand that is one number; ``None``: it is a tensor of several."""
    found = constant(node, place)
    if found is not None or place >= len(node.inputs):
        return found
    value = situation.value(node.inputs[place])
    return float(value.astype(np.float64).reshape(())) if value.size == 1 else None


def scaled_before_product(situation: Situation) -> Iterator[Candidate]:
    """An operand of a product of matrices made smaller first, in place of the product after it.

    Args:
        situation: of the product.
    """
    if situation.meaning != "linear" or len(situation.node.inputs) != 2:
        return
    node, between = situation.node, [situation.node.name]
    for _ in range(_MOST_VIEWS):
        views = [each for each in situation.readers(node) if situation.hands_on(each)]
        if not views:
            break
        node = views[0]
        between.append(node.name)
    for scaling in situation.readers(node):
        place = next((at for at, e in enumerate(scaling.inputs) if node_name_of(e) == node.name), 0)
        what = situation.computes(scaling.op_type)
        number = _number(situation, scaling, 1 - place) if what in ("mul", "div") else None
        if not number or (what == "div" and place):
            continue
        factor = 1 / number if what == "div" else number
        if abs(factor) < 1 and situation.is_read_by(situation.node, scaling):
            text = f"x / {number:.6g}" if what == "div" else f"x * {number:.6g}"
            yield Candidate(
                f"{text} before {situation.node.op_type}, in place of after it",
                _moved(between, scaling, place, factor),
            )
            return


def _moved(between: Sequence[str], scaling: Node, place: int, factor: float) -> Change:
    """A factor of a product moved to its first operand."""
    change = Change(scaling.name, replace=lambda given: [given[place]])
    scaled = changed_input(0, lambda x: np.asarray(x * factor))
    change.others = [Change(between[0], scaled, is_exact=True)]
    change.between = between
    return change


def near_one(situation: Situation) -> Iterator[Candidate]:
    """A divisor that is 0 because a small number was lost beside 1: ``log1p``, ``expm1``.

    Args:
        situation: of the division.
    """
    if situation.meaning != "div" or len(situation.node.inputs) != 2:
        return
    divisor = situation.makers(situation.node)[1:]
    maker = divisor[0] if divisor else situation.node
    inner = situation.makers(maker)
    compute: Callable[[Array], Array]
    what = situation.computes(maker.op_type), *(situation.computes(e.op_type) for e in inner[:1])
    if what == ("log", "add"):
        place = next((at for at in (0, 1) if _number(situation, inner[0], at) == 1), -1)
        names, compute, edit = inner[0].inputs, np.log1p, "log1p"
        name = names[1 - place] if len(names) > 1 else names[0]
        composite = None
    elif what == ("sub", "exp"):
        place = 1 if _number(situation, maker, 1) == 1 else -1
        name, compute, edit = inner[0].inputs[0], np.expm1, "expm1"
        composite = Composite(maker.name, ("exp",))
    else:
        return
    if place >= 0:
        x = situation.value(name)
        made = np.asarray(compute(x.astype(np.float64))).astype(x.dtype)
        old = "log(1 + x)" if edit == "log1p" else "exp(x) - 1"
        yield Candidate(
            f"{edit}(x) in place of {old}",
            Change(maker.name, replace=lambda given: [made]),
            edit=edit if composite else "",
            composite=composite,
        )


def norms_kept(situation: Situation) -> Iterator[Candidate]:
    """A division by norms that are roots: each is kept above 0, so that it has a gradient too.

    That is what ``cosine_similarity`` does with its eps.

    Args:
        situation: of the division.
    """
    if situation.meaning != "div" or len(situation.node.inputs) != 2:
        return
    norms = situation.makers(situation.node)[1:]
    if norms and situation.computes(norms[0].op_type) == "mul":
        norms = situation.makers(norms[0])
    meanings = [situation.computes(each.op_type) for each in norms]
    if not norms or not {*meanings} <= {"sqrt", "norm"} or len({e.name for e in norms}) > 2:
        return
    eps = 1e-3 if situation.dtype == "float16" else 1e-8
    changes = [
        _kept_root(each.name, eps * eps) if what == "sqrt" else _kept_norm(situation, each, eps)
        for each, what in zip(norms, meanings, strict=True)
    ]
    change = changes.pop(0)
    change.others = changes
    what = "norm" if {*meanings} == {"norm"} else "root"
    words = f"each {what}" if len(norms) > 1 else f"the {what}"
    as_known = ", as cosine_similarity does" if len(norms) > 1 else ""
    yield Candidate(f"{words} kept at {number_text(eps)} or above{as_known}", change)


def _kept_root(name: str, low: float) -> Change:
    def passes(given: list[Any]) -> Array:
        return np.asarray(given[0].astype(np.float64) >= low)

    return Change(name, changed_input(0, lambda x: np.maximum(x, low)), passes)


def _kept_norm(situation: Situation, node: Node, low: float) -> Change:
    def replace(given: list[Any]) -> list[Array]:
        value = situation.value(f"{node.name}:0")
        return [np.maximum(value.astype(np.float64), low).astype(value.dtype)]

    return Change(node.name, replace=replace)
