"""Remedies for the step of an optimizer: a smaller rate, clipped gradients, a larger eps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.node_words import ALPHA, BACKWARD
from tfdbg_cli.dumps.graph import node_name_of
from tfdbg_cli.dumps.series.tracks import CLIP_NORM, LOSS_SCALE
from tfdbg_cli.filters.causes.patterns import later_phase, number_of
from tfdbg_cli.filters.magnitude import largest_number
from tfdbg_cli.remedies.edits import number_text
from tfdbg_cli.remedies.situation import Candidate, Situation, changed_input
from tfdbg_cli.remedies.trial import Change

__all__ = ["clipped_gradients", "larger_eps", "smaller_loss_scale", "smaller_rate"]

# More gradients aren't changed together.
_MOST_GRADIENTS = 500
# The norms of fewer runs say little.
_FEWEST_NORMS = 3
# So much smaller a loss scale is tried: four and eight halvings, as a gradient scaler makes them.
_SMALLER = (16, 256)
# The series of the norm of all gradients, where it is followed or the program clips.
_NORMS = ("grad_norm", CLIP_NORM)


def smaller_rate(situation: Situation) -> Iterator[Candidate]:
    """The largest rate with which an update stays finite.

    Args:
        situation: of the update.
    """
    rate = number_of(situation.node, ALPHA)
    largest = largest_number(situation.dtype)
    if situation.meaning not in ("add", "sub") or rate is None or largest is None:
        return
    if len(situation.node.inputs) != 2:
        return
    before, step = (situation.value(name).astype(np.float64) for name in situation.node.inputs)
    with np.errstate(all="ignore"):
        most = float(np.min((largest - np.abs(before)) / np.abs(step)))
    if not 0 < most < abs(rate):
        return
    # One digit less than that, so that it is a number to write down.
    rounded = float(np.format_float_positional(most, 1, fractional=False, trim="-"))
    rounded = rounded if rounded <= most else rounded / 2
    yield Candidate(
        f"a rate of {number_text(rounded)} in place of {number_text(abs(rate))}",
        Change(situation.node.name, changed_input(1, lambda x: x * (rounded / abs(rate)))),
    )


def clipped_gradients(situation: Situation) -> Iterator[Candidate]:
    """All gradients of a step clipped at the norm that they had in the runs before, or at 1.

    Args:
        situation: of the step.
    """
    nodes = situation.graph.nodes
    if later_phase(nodes, situation.node.name) != "optimizer":
        return
    steps = (node for name, node in nodes.items() if later_phase(nodes, name) == "optimizer")
    names = dict.fromkeys(name for node in steps for name in node.inputs)
    names = {e: None for e in names if later_phase(nodes, node_name_of(e)) == BACKWARD}
    if not names or len(names) > _MOST_GRADIENTS:
        return
    values = [situation.value(name).astype(np.float64) for name in names]
    norm = float(np.sqrt(sum(float((value * value).sum()) for value in values)))
    usual, count = _usual_norm(situation)
    for limit, text in ((usual, f", the median of {count} runs,"), (1.0, "")):
        if limit < norm < np.inf:
            scale = limit / norm
            changes = [
                Change(node_name_of(name), replace=_scaled(situation, name, scale))
                for name in names
            ]
            change = changes.pop(0)
            change.others = changes
            told = f"the gradients clipped at norm {limit:.3g}{text} (it is {norm:.3g} here)"
            yield Candidate(told, change)


def _usual_norm(situation: Situation) -> tuple[float, int]:
    """The median of the norms of earlier runs, and how many they are; infinite: nobody knows."""
    series = next((situation.tracks[e] for e in _NORMS if e in situation.tracks), None)
    values = series.points().values if series is not None and len(series) else np.zeros(0)
    values = values[np.isfinite(values)]
    return (float(np.median(values)) if len(values) >= _FEWEST_NORMS else np.inf), len(values)


def _scaled(situation: Situation, name: str, scale: float) -> Callable[[list[Any]], list[Array]]:
    def replace(given: list[Any]) -> list[Array]:
        value = situation.value(name)
        return [(value.astype(np.float64) * scale).astype(value.dtype)]

    return replace


def smaller_loss_scale(situation: Situation) -> Iterator[Candidate]:
    """A smaller factor of the loss, where a gradient leaves a narrow dtype because of it.

    Args:
        situation: of the gradient.
    """
    scales = situation.tracks.get(LOSS_SCALE)
    nodes = situation.graph.nodes
    if scales is None or not len(scales) or later_phase(nodes, situation.node.name) != BACKWARD:
        return
    scale = float(scales.points().values[-1])
    for node in nodes.values():
        if situation.computes(node.op_type) != "mul" or later_phase(nodes, node.name):
            continue
        for name in node.inputs:
            value = situation.value(name)
            if value.size == 1 and float(value.reshape(()).astype(np.float64)) == scale > 1:
                for factor in _SMALLER:
                    smaller = Change(
                        node_name_of(name), replace=_scaled(situation, name, 1 / factor)
                    )
                    told = f"a loss scale of {number_text(scale / factor)} in place of"
                    yield Candidate(f"{told} {number_text(scale)}", smaller)
                return


def larger_eps(situation: Situation) -> Iterator[Candidate]:
    """A larger eps beside the divisor of an optimizer or a norm layer.

    Args:
        situation: of the division, or of the inverse root.
    """
    places = {"div": 1, "addcdiv": 2, "rsqrt": 0, "reciprocal": 0}
    place = places.get(situation.meaning, -1)
    if 0 <= place < len(situation.node.inputs):
        is_step = later_phase(situation.graph.nodes, situation.node.name) == "optimizer"
        whose = "the optimizer" if is_step else "the divisor"
        yield Candidate(
            f"an eps of 1e-4 for {whose}",
            Change(situation.node.name, changed_input(place, lambda x: x + 1e-4)),
            place,
            "" if is_step else "add",
            (1e-4,),
        )
