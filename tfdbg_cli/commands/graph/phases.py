"""The parts of a training step that an op may belong to: forward, backward, optimizer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tfdbg_cli.common.node_words import PHASE
from tfdbg_cli.dumps.dump import Dump

__all__ = ["PHASES", "Phase", "phase_of", "phases_of"]


class Phase(NamedTuple):
    """One of the parts.

    Attributes:
        name: as the attribute ``_phase`` of nodes has it.
        mark: a letter for narrow columns.
        role: how the letter is shown.
        summary: a few words on it.
    """

    name: str
    mark: str
    role: str
    summary: str


#: All of them, in the order of a step.
PHASES = (
    Phase("forward", "F", "success", "forward"),
    Phase("recompute", "R", "dim", "recomputed in the backward pass (checkpointing)"),
    Phase("backward", "B", "highlight", "backward, the gradients"),
    Phase("optimizer", "O", "op_type", "optimizer"),
)

_BY_NAME = {phase.name: phase for phase in PHASES}


def phase_of(dump: Dump, node: str) -> Phase:
    """The phase of a node; what says nothing of it counts as forward."""
    found = dump.node(node)
    name = found.attributes.get(PHASE, "") if found is not None else ""
    return _BY_NAME.get(name, PHASES[0])


def phases_of(dump: Dump, nodes: Iterable[str]) -> dict[str, Phase]:
    """Node -> phase, where the nodes belong to more than one; else empty.

    Sessions of TensorFlow make their nodes before they run, and have no phases: their attributes
    are not looked at.
    """
    info = dump.run_info()
    if info is None or info.unit == "session":
        return {}
    found = {node: phase_of(dump, node) for node in nodes}
    return found if len(set(found.values())) > 1 else {}
