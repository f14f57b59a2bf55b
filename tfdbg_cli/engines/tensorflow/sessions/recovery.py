"""After a failed run: what may be computed again without touching the program's state."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tensorflow.python.framework import errors_impl

from tfdbg_cli.engines.tensorflow.sessions.capture.plan import CapturePlan, PlannedTensor
from tfdbg_cli.engines.tensorflow.sessions.capture.topology import walk
from tfdbg_cli.engines.tensorflow.sessions.errors import attempt, failed_op
from tfdbg_cli.engines.tensorflow.sessions.stepping.effects import HARMLESS, VARIABLES

__all__ = ["has_side_effects", "recomputable", "recompute", "with_variables"]

# How often the tensors before a failure are asked for, each time without what failed anew.
_ATTEMPTS = 4

_READERS = HARMLESS | {"Identity", "Rank", "Shape", "Size"}


def _harmless(op: Any) -> bool:
    if op.type in HARMLESS:
        return True
    # What writes to a reference variable isn't declared as stateful.
    return not (op.op_def.is_stateful or any(arg.is_ref for arg in op.op_def.input_arg))


def has_side_effects(plan: CapturePlan) -> bool:
    """Whether running a plan's operations once more could change variables, queues or streams."""
    return not all(_harmless(op) for op in plan.ops)


def recomputable(
    plan: CapturePlan, failed: set[str], variables: bool = True
) -> list[PlannedTensor]:
    """The fetched tensors that can be computed again after a failure, with the same values.

    Left out is what depends on an operation that failed, on one with side effects, or on a
    variable that the failed run may have written.

    Args:
        plan: the plan of the run.
        failed: names of the operations that failed.
        variables: whether variables may be read.
    """
    edges = walk(plan.ops, plan.fed)
    downstream: set[Any] = set()
    for op in plan.ops:
        data, control = edges[op]
        if op.name in failed or any(
            source in downstream for source in _sources(data, control, plan)
        ):
            downstream.add(op)
    written = {
        source
        for op in plan.ops
        if op not in downstream and op.type not in _READERS
        for source, _ in edges[op].data
        if source.type in VARIABLES
    }
    lost = set(downstream)
    for op in plan.ops:
        data, control = edges[op]
        touches = op if op.type in VARIABLES else None
        if (
            not _harmless(op)
            or (touches is not None and (touches in written or not variables))
            or any(source in lost for source in _sources(data, control, plan))
        ):
            lost.add(op)
    names = {op.name for op in lost}

    def is_left(entry: PlannedTensor) -> bool:
        # A variable by reference may be known by the value that was read of it.
        fetched = plan.extra[entry.fetch].op.name if entry.fetch >= 0 else entry.node
        return entry.node not in names and fetched not in names

    return [entry for entry in plan.entries if entry.position < 0 or is_left(entry)]


def recompute(
    plan: CapturePlan,
    fetch: Callable[[list[Any]], list[Any]],
    failed: set[str],
    error: BaseException,
) -> tuple[list[PlannedTensor], list[Any]]:
    """Compute what came before a failure once more.

    Args:
        plan: the plan of the run that failed.
        fetch: gives the values of tensors.
        failed: the names of the operations that have no value.
        error: the error of the run.

    Returns:
        The entries that have values, and the values at the places of `CapturePlan.extra`.
    """
    lost = set(failed)
    for _ in range(_ATTEMPTS):
        # One variable is uninitialized, and another: most likely all of them are.
        uninitialized = isinstance(error, errors_impl.FailedPreconditionError) and len(lost) > len(
            failed
        )
        entries = recomputable(plan, lost, variables=not uninitialized)
        places = sorted({entry.fetch for entry in entries if entry.fetch >= 0})
        values, again = attempt(functools.partial(fetch, [plan.extra[place] for place in places]))
        if again is None:
            extra: list[Any] = [None] * len(plan.extra)
            for place, value in zip(places, values, strict=True):
                extra[place] = value
            return entries, extra
        name = failed_op(again)
        if not name or name in lost:
            break
        lost.add(name)
        error = again
    return [], []


def with_variables(
    plan: CapturePlan,
    entries: Sequence[PlannedTensor],
    extra: Sequence[Any],
    before: Sequence[Any],
    after: Sequence[Any],
) -> tuple[list[PlannedTensor], list[Any]]:
    """What is known of a failed run, and of the variables that were read before it.

    An update that was made is told by the variable, which is another one since.

    Args:
        plan: the plan of the run.
        entries, extra: what is known, as `recompute` gives it.
        before: the variables before the run.
        after: the same as they are now.
    """
    end = len(plan.extra) - plan.ahead
    values = [*(extra[:end] or [None] * end), *before]
    names = [tensor.name for tensor in plan.extra[end:]]
    changed = {
        name: new
        for name, old, new in zip(names, before, after, strict=True)
        if old.shape != new.shape or old.tobytes() != new.tobytes()
    }
    known = {id(entry) for entry in entries}
    found = []
    for entry in plan.entries:
        variable = plan.updates.get(entry.node)
        if variable is not None and variable.name in changed:
            values[entry.fetch] = changed[variable.name]
        elif entry.fetch < end and id(entry) not in known:
            continue
        found.append(entry)
    return found, values


def _sources(data: Any, control: Any, plan: CapturePlan) -> list[Any]:
    return [edge[0] for edge in data if edge not in plan.fed] + list(control)
