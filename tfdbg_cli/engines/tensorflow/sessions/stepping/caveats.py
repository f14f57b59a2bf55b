"""What a person has to know before stepping through a run of TensorFlow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from tfdbg_cli.engines.tensorflow.sessions.stepping.layout import Unit, UnitLayout

__all__ = ["caveats_of", "updated_already"]

_NAMED = 3
# What they give follows from the shape of their input, not from its elements.
_OF_SHAPES = frozenset({"Const", "Rank", "Shape", "ShapeN", "Size"})
_KEPT = {
    "random": ("Random numbers are drawn once, and stay whatever is overridden before: {names}."),
    "python": (
        "Python functions are called once, before the first step, and their results stay whatever "
        "is overridden before: {names}."
    ),
    "state": (
        "Queues, iterators, tables and files are used once, before the first step, and what they "
        "gave stays whatever is overridden before: {names}."
    ),
    "print": "Printed before the first step, with nothing overridden: {names}.",
}


def caveats_of(
    layout: UnitLayout, stuck: Iterable[Any], failed: str | None = None
) -> Iterator[str]:
    """What can't be overridden or done again in a run, a sentence each.

    Args:
        layout: the units of the run.
        stuck: the variables that can't be set.
        failed: where the recorded run has failed, if it has.
    """
    kept: dict[str, list[str]] = {}
    drawing: list[str] = []
    for unit in _exposed(layout):
        if unit.keeps:
            kept.setdefault(unit.keeps, []).append(unit.step.node)
        elif unit.draws:
            drawing.append(unit.step.node)
    for reason, text in _KEPT.items():
        if reason in kept:
            yield text.format(names=_few(kept[reason]))
    if drawing:
        yield (
            f"Inside {_few(drawing)}, random numbers are drawn again if an earlier tensor is "
            "overridden."
        )
    names = [variable.name for variable in stuck]
    if names:
        yield (
            f"The graph has no operation to read or set {_few(names)}: overrides don't change "
            "what the run does to it."
        )
    loops = [unit.step.node for unit in layout.units if len(unit.ops) > 1]
    if loops:
        yield (
            f"A loop is one step: the inside can be looked at but not overridden ({_few(loops)})."
        )
    if failed is not None:
        again = [unit.step.node for unit in layout.units if unit.keeps in ("random", "python")]
        if again:
            yield (
                f"The run has failed{f' at {failed}' if failed else ''}: if an override repairs "
                f"it, its unknown parts are executed again, {_few(again)} included."
            )


def updated_already(variables: Sequence[Any]) -> str:
    """Of variables that have the outcome of the run before its first step."""
    names = _few([variable.name for variable in variables])
    return (
        f"Updated before the first step, and can't be given back: {names} (without a value before, "
        "on a server, or with no operation in the graph that sets it)."
    )


def _exposed(layout: UnitLayout) -> Iterator[Unit]:
    """The units that an override may lead to: something other than shapes goes into them."""
    exposed: set[int] = set()
    fed = layout.fed
    for unit in layout.units:
        edges = [edge for op in unit.ops for edge in layout.edges[op].data]
        sources = [layout.unit_of[op] for op, slot in edges if (op, slot) not in fed]
        comes_in = any(edge in fed for edge in edges) or any(
            source.index in exposed for source in sources if source is not unit
        )
        if comes_in:
            yield unit
        if unit.ops and unit.ops[0].type not in _OF_SHAPES and (comes_in or unit.reads):
            exposed.add(unit.index)


def _few(names: Sequence[str]) -> str:
    text = ", ".join(names[:_NAMED])
    return text if len(names) <= _NAMED else f"{text} and {len(names) - _NAMED} more"
