"""Calls of compiled functions that are looked at by twins of these."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.engines.base import Capture, Watch
from tfdbg_cli.engines.jax.runs.calls import Call
from tfdbg_cli.engines.jax.runs.in_place import InPlace
from tfdbg_cli.engines.jax.runs.levels import OUTPUTS, OutputsLevel
from tfdbg_cli.engines.jax.twins.twins import Twin, Twins
from tfdbg_cli.engines.kit.levels import ORIGIN

__all__ = ["OPS", "OpsLevel"]

#: What comes out of compiled functions, and whether anything in them is bad.
OPS = "ops"
# A new twin is waited for so many times as long as the call itself has taken, with its compiling;
# so many seconds at most, as nobody can interrupt that.
_PATIENCE, _MOST_SECONDS = 2.0, 30.0
# Stands for a flag: something bad is written down in the function, and needs no twin to be found.
_PLACED = -1


class OpsLevel(OutputsLevel):
    """What calls return, and whether anything in them is bad; then they are done again op by op.

    Args:
        watch: what was asked for.
        twins: of the program's functions, which are computed beside these.
        in_place: those that the program gets its results from; ``None``: it gets its own.

    Attributes:
        lacks: why calls are not looked into, with their names.
    """

    level = OPS
    recomputes = False  # twins get what calls got at once

    def __init__(self, watch: Watch, twins: Twins[Twin], in_place: InPlace | None = None) -> None:
        super().__init__(watch)
        self.lacks: dict[str, str] = {}
        self._asked = watch.filter_name, watch.exclude
        self._twins = twins
        self._in_place = in_place
        self._sources: dict[str, str] = {}
        self._told: list[tuple[Call, Twin, Any]] = []
        self._news: list[tuple[Call, Twin, set[int]]] = []

    def make(self, call: Call, plain: Callable[[], Any]) -> Any:
        twin = self._in_place.ready(call) if self._in_place is not None else None
        if twin is None:
            return plain()
        try:
            computed = twin.compute(call.jaxpr.consts, call.given())
        except Exception as error:
            pass_on(error)
            twin.refuse(f"its twin can't be computed: {one_line(error)}")
            return call.again() if call.is_used_up() else plain()
        self._told.append((call, twin, computed.flags))
        call.is_fine = computed.is_fine
        apart = (
            f"by up to {twin.distance:.1e} of the largest number" if twin.distance else "nowhere"
        )
        self._sources[call.title] = (
            "its twin's (setting results twin), whose last bits may differ: they differed "
            f"{apart} when both were computed"
        )
        return call.rebuild(computed.results)

    def called(self, call: Call) -> None:
        super().called(call)
        if call.error is not None or call.is_fine is not None:
            return
        patience = min(_PATIENCE * call.seconds, _MOST_SECONDS)
        if self._in_place is None or not self._try_out(self._in_place, call, patience):
            self._look(call, patience)

    def _try_out(self, in_place: InPlace, call: Call, patience: float) -> bool:
        """Whether the program will get a function's results from its twin."""
        twin = in_place.twin(call, patience)
        try:
            computed = None if twin.lack else in_place.try_out(twin, call)
        except Exception as error:
            pass_on(error)
            twin.refuse(f"its twin can't be computed: {one_line(error)}")
        if twin.refusal:
            self._sources[call.title] = f"its own: {twin.refusal}"
            return False
        if twin.lack:
            self._lack(call, twin.lack)
        elif computed is not None:
            self._told.append((call, twin, computed.flags))
        return True

    def _look(self, call: Call, patience: float) -> None:
        """Let a function's twin look at what it computes."""
        twin = None
        try:
            values, results, closed = [leaf.value for leaf in call.leaves], call.outputs, call.jaxpr
            placement = tuple(getattr(value, "sharding", None) for value in (*values, *results))
            twin = self._twins.of(closed, placement, Twin, values, results, patience)
            flags = twin.flags(closed.consts, values, results)
        except Exception as error:
            self._refuse(call, twin, error)
            return
        if twin.lack:
            self._lack(call, twin.lack)
        elif flags is not None or twin.places_bad:
            self._told.append((call, twin, flags))

    @property
    def notes(self) -> list[tuple[str, str]]:
        """Where what the program got has come from, where it may not be from its own function."""
        sources = [("Results", f"{title}: {each}") for title, each in self._sources.items()]
        return [*super().notes, *sources]

    def is_fine(self) -> bool:
        if not super().is_fine():
            return False
        self._news = [each for each in map(self._new_flags, self._told) if each is not None]
        return not self._news

    def finish(self, error: BaseException | None) -> Capture:
        capture = super().finish(error)
        if self._news:
            self._judge(capture)
        if capture.filter_passed is False and self.lacks:
            capture.progress_text = f"none in the outputs; {self.lack}"
            capture.only_because = self.lack
        return capture

    @property
    def lack(self) -> str:
        """Why calls are not looked into; empty: they are."""
        return "; ".join(f"{title}: {why}" for title, why in self.lacks.items())

    def _new_flags(self, told: tuple[Call, Twin, Any]) -> tuple[Call, Twin, set[int]] | None:
        """Those that are set and weren't in vain before; ``None``: none is."""
        call, twin, flags = told
        try:
            found = twin.bad(flags) if flags is not None else set()
        except Exception as error:
            self._refuse(call, twin, error)
            return None
        if twin.lack:
            self._lack(call, twin.lack)
        if twin.places_bad and self.watch.filter_name != ORIGIN:  # which leaves it out
            found.add(_PLACED)
        news = found - twin.excused.get(self._asked, set())
        return (call, twin, news) if news else None

    def _judge(self, capture: Capture) -> None:
        """Whether what twins have told of is what was waited for."""
        made = capture.dump
        assert made is not None
        capture.filter_passed = self.watch.passes(made, on_error=lambda *_: None)
        if capture.filter_passed:
            return
        # A mask that is -inf is no origin of anything: that is known from now on.
        for _, twin, news in self._news:
            twin.excused.setdefault(self._asked, set()).update(news)
        capture.gap = self.gap([call for call, _, news in self._news if news != {_PLACED}])
        capture.dump, capture.make_dump = None, lambda: made
        capture.progress_text = "none that counts"

    def _refuse(self, call: Call, twin: Twin | None, error: Exception) -> None:
        pass_on(error)
        why = f"its twin can't be computed: {one_line(error)}"
        if twin is not None:
            twin.refuse(why)
        self._lack(call, why)

    def _lack(self, call: Call, why: str) -> None:
        self.level = OUTPUTS
        self.lacks.setdefault(call.title, why)
