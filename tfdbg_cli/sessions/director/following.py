"""Follows numbers over the runs of a session or a program: expressions, and the loss it fetches."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from tfdbg_cli.commands.context import Context
from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.interpreter.program_signals import contained, pass_on
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.series.points import Series
from tfdbg_cli.dumps.series.tracks import LOSS, Tracks
from tfdbg_cli.engines.base import Capture, RunCall
from tfdbg_cli.engines.kit.sites import leaves

__all__ = ["NumberFollower", "as_number"]

# What programs call the number that they make smaller.
_LOSS = re.compile(r"(?i)(?:^|[^a-z])(?:\w*loss(?:es)?|cost|objective|nll)(?![a-z])")


class NumberFollower:
    """What is followed of the runs of one session, or of a program.

    Args:
        tracks: where the numbers go.
        context: makes what an expression sees of a run: its dump.
    """

    def __init__(self, tracks: Tracks, context: Callable[[Dump | None, RunCall], Context]) -> None:
        self._tracks = tracks
        self._context = context
        self._known: tuple[Sequence[Series], frozenset[str]] = ((), frozenset())
        self._losses: dict[tuple[str, ...], int | None] = {}
        # Whether the losses come from training steps, which fetch an operation as well.
        self._trains: bool | None = None

    def nodes(self) -> frozenset[str]:
        """What has to be watched for the expressions."""
        followed = self._tracks.expressions  # another list as soon as it is another one
        if followed is not self._known[0]:
            names = frozenset(name for each in followed for name in nodes_in(each.expression))
            self._known = followed, names
        return self._known[1]

    def note(self, call: RunCall, capture: Capture, run: int) -> None:
        """A run of a session is over.

        Args:
            call: what was asked for.
            capture: what came of it.
            run: its number.
        """
        if capture.error is not None:
            return
        with contained:  # the run was done, whatever is followed
            self._note_loss(call.fetches, capture.value, run)
            self.evaluate(self._context(capture.dump, call), run)

    def evaluate(self, context: Context, run: int) -> None:
        """Note the numbers of all expressions.

        Args:
            context: with what is known of the run.
            run: its number.
        """
        for series in self._tracks.expressions:
            self._evaluate(series, context, run)

    def _evaluate(self, series: Series, context: Context, run: int) -> None:
        from tfdbg_cli.commands.tensors.expressions import evaluate

        try:
            series.add(run, as_number(evaluate(context, series.expression)))
            series.problem = ""
        except UserError as error:
            series.problem = error.message
            dump = context.dump
            nodes = nodes_in(series.expression)
            missing = [each for each in nodes if dump is not None and not dump.by_node(each)]
            if missing and dump is not None and dump.absence is not None:
                series.problem = f"{missing[0]}: {dump.absence(missing[0])}"

    def _note_loss(self, fetches: Sequence[str], value: Any, run: int) -> None:
        key = tuple(fetches)
        if key not in self._losses:
            if len(self._losses) > 100:
                self._losses.clear()
            values = [*leaves(value)] if len(key) < 1000 else []
            self._losses[key] = loss_among(key, values)
        at = self._losses[key]
        if at is None:
            return
        values = [*leaves(value)]
        if at < len(values) and _is_number(values[at]):
            trains = any(each is None for each in values)
            known = self._tracks.get(LOSS)
            if trains and self._trains is False and known is not None and not known.expression:
                self._tracks.forget(LOSS)  # it was that of evaluations
            if trains or not self._trains:
                self._trains = trains
                self._tracks.note(LOSS, run, float(values[at]))


def nodes_in(expression: str) -> list[str]:
    """The nodes that an expression names."""
    from tfdbg_cli.commands.tensors.references import parse_reference, parse_template

    names = parse_template(expression).references.values()
    return [parse_reference(name).node for name in names]


def as_number(value: Any) -> float:
    """The one number that an expression has given.

    Raises:
        UserError: it is none.
    """
    try:
        found = np.asarray(value)
        if found.size == 1:
            return float(found.reshape(())[()])
    except Exception as error:
        pass_on(error)
        raise UserError(f"It gives no number: {one_line(error)}.") from None
    raise UserError(
        f"It gives {found.size} elements of shape {found.shape}, not one number.",
        "Add .mean(), .max() or np.linalg.norm(...).",
    )


def loss_among(names: Sequence[str], values: Sequence[Any]) -> int | None:
    """Which of some fetches is the loss; ``None``: none is known to be.

    It is a floating point number that is called so, or the only one beside an operation that is
    fetched: a training step's.
    """
    if len(names) != len(values):
        return None
    numbers = [at for at, value in enumerate(values) if _is_number(value)]
    named = [at for at in numbers if _LOSS.search(names[at])]
    if named:
        return named[0]
    has_op = any(value is None for value in values)
    return numbers[0] if has_op and len(numbers) == 1 else None


def _is_number(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return getattr(value, "shape", None) == () and getattr(dtype, "kind", "") == "f"
