"""Which screen a stop at a run's end begins with, and whether there is one."""

from __future__ import annotations

from tfdbg_cli.commands.run.choices import RunChoice
from tfdbg_cli.commands.series.left_out import is_search
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import Dump, is_explained, is_only_nonfinite, is_over_runs, noted
from tfdbg_cli.dumps.joined import JoinedDump, part_of
from tfdbg_cli.dumps.run_info import RunError
from tfdbg_cli.engines.base import Capture, RunAction
from tfdbg_cli.filters.builtin import RECOMMENDED
from tfdbg_cli.sessions.debugger.debugger import Debugger
from tfdbg_cli.sessions.director.magnitudes import MagnitudeSampler

__all__ = ["FirstScreens"]


class FirstScreens:
    """Knows it of the runs of a session.

    Args:
        debugger: what was asked for, and the filters.
        magnitudes: of the session's runs.
    """

    def __init__(self, debugger: Debugger, magnitudes: MagnitudeSampler) -> None:
        self._debugger = debugger
        self._magnitudes = magnitudes

    def of(
        self, choice: RunChoice | None, action: str, capture: Capture, error: RunError | None
    ) -> tuple[str, str]:
        """The first screen of a run's end and its role; empty: there is no stop.

        Args:
            choice: what was chosen for the run.
            action: what was done with it.
            capture: what came of it.
            error: its error in plain words.
        """
        dump = capture.dump
        is_awaited = choice is not None and bool(choice.filter_name)
        if error is not None:
            if choice is not None and is_awaited and dump is not None and error.is_late:
                self.filtered(choice, dump, capture)  # the error screen tells of it
            return "error", "error"
        if (
            choice is not None
            and is_awaited
            and (dump is not None or capture.filter_passed is not None)
        ):
            return self.filtered(choice, dump, capture)
        if choice is not None and choice.keeps and self._debugger.countdown > 0:
            return ("lt" if self._debugger.waiting.is_interrupted else ""), "end"
        is_profile = action == RunAction.PROFILE_RUN
        return "lp" if is_profile else "lt", "end"

    def filtered(self, choice: RunChoice, dump: Dump | None, capture: Capture) -> tuple[str, str]:
        """The first screen of a run under ``run -f`` and its role; empty: there is no stop.

        Args:
            choice: what was chosen for the run.
            dump: of the run.
            capture: what else came of it.
        """
        waiting = self._debugger.waiting
        # The first of them was debugged when the countdown was over.
        is_last = bool(choice.most) and self._debugger.countdown <= 1 - choice.most
        if capture.gap and self._debugger.report_gap(choice.filter_name, capture.gap):
            return "run_info", "error"
        if dump is None:
            if waiting.is_interrupted or is_last:
                return "run_info" if capture.make_dump is None else "lt", "end"
            waiting.say(capture.progress_text, capture.only, capture.only_because)
            return "", ""
        is_hit = capture.filter_passed or (
            capture.filter_passed is None and self._passes(choice, dump)
        )
        is_passed_over = is_hit and self._is_left_out(choice, dump)
        if is_hit and not is_passed_over:
            info = dump.run_info()
            if info is not None:
                info.filter_name = choice.filter_name  # a dump that is kept tells it
            return self.of_filter(choice), "error"
        if waiting.is_interrupted or is_last:
            return "lt", "end"
        if is_passed_over:
            waiting.pass_over()
            return "", ""
        waiting.say(capture.progress_text or f"none of {len(dump.data())} tensors")
        return "", ""

    def of_filter(self, choice: RunChoice | None) -> str:
        """The first screen of a run that a filter has stopped at."""
        if choice is None or not choice.filter_name:
            return "lt"
        shown_by: str = getattr(self._debugger.filters.get(choice.filter_name), "shown_by", "")
        if shown_by:
            return shown_by
        predicate = self._debugger.filters.predicate(choice.filter_name)
        has_reason = is_only_nonfinite(predicate) or is_explained(predicate)
        return f"{'why' if has_reason else 'lt'} {choice.awaited.options}"

    def _passes(self, choice: RunChoice, dump: Dump) -> bool:
        """Whether some tensor passes the filter; a filter that raises is noted and passed over."""
        failures: list[str] = []
        try:
            predicate = self._debugger.filters.predicate(choice.filter_name)
            if is_over_runs(predicate):
                self._magnitudes.note_gradients(dump)
            found = dump.find(predicate, 1, choice.awaited.pattern, noted(failures))
        except UserError as error:
            self._debugger.note(str(error))
            return True
        if failures:
            info = dump.run_info()
            run = f"run #{info.call_count}" if info is not None else "a run"
            self._debugger.report_filter(choice.filter_name, run, failures)
        return bool(found)

    def _is_left_out(self, choice: RunChoice, dump: Dump) -> bool:
        """Whether a gradient scaler has left out what the filter that nobody names stops at."""
        filters = self._debugger.filters
        if choice.filter_name != RECOMMENDED or filters.is_replaced(RECOMMENDED):
            return False
        return is_search(dump, self._debugger.tracks, choice.awaited.pattern)

    def first_rank(self, dump: Dump | None, choice: RunChoice | None) -> int | None:
        """On which rank a filter's first tensor is, in the order of time; ``None``: unknown."""
        if not isinstance(dump, JoinedDump) or choice is None or not choice.filter_name:
            return None
        try:
            predicate = self._debugger.filters.predicate(choice.filter_name)
            found = next(dump.passing(predicate, choice.awaited.pattern), None)
        except UserError:
            return None
        return part_of(found.node_name)[0] if found is not None else None
