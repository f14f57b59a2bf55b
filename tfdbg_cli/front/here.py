"""``tfdbg_cli.here()``: looks at a run from within, while it goes on."""

from __future__ import annotations

from tfdbg_cli.commands.units import describe_run
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.common.streams import tell, tell_failure
from tfdbg_cli.engines.base import Glimpse, ShowsOpenRuns
from tfdbg_cli.engines.registry import imported
from tfdbg_cli.front.engine_watch import EngineWatch
from tfdbg_cli.sessions.debugger.debugger import Debugger
from tfdbg_cli.sessions.ranks.interface import SingleRank

__all__ = ["here"]


def here() -> None:
    """Show the tensors that the run that goes on has made so far, and go on after that.

    Meant for pdb's prompt, or a line in the middle of a model. Where there is nothing to show, a
    line says why.
    """
    watch = EngineWatch.current
    if watch is None or watch.debugger.is_off:
        tell("here: the debugger isn't on; python -m tfdbg_cli SCRIPT, or tfdbg_cli.enable().")
        return
    if watch.debugger.is_detached:
        tell("here: the debugger was left by exit, and nothing is recorded; see set_trace().")
        return
    if type(watch.debugger.ranks) is not SingleRank:
        tell("here: a run of several processes can only be looked at when it is over.")
        return
    try:
        _look(watch.debugger)
    except Exception as error:
        pass_on(error)
        tell_failure(error)


def _look(debugger: Debugger) -> None:
    is_open = False
    for engine in imported():
        if engine.name not in debugger.engines or not isinstance(engine, ShowsOpenRuns):
            continue
        with engine.glimpse() as glimpse:
            if glimpse is None:
                continue
            is_open = True
            if glimpse.dump is not None and glimpse.dump.data():
                with debugger.lock:
                    _show(debugger, glimpse)
                return
    if is_open:
        tell("here: this run isn't recorded; to record it, type run at the stop before it.")
    else:
        tell("here: no run that the debugger can look into is in progress at this line.")


def _show(debugger: Debugger, glimpse: Glimpse) -> None:
    assert glimpse.dump is not None
    glimpse.dump.set_run_info(glimpse.info)
    context = debugger.context("here", glimpse.info, glimpse.dump, tracks=debugger.tracks)
    title = f"here, in the middle of {describe_run(context.run_info)}"
    debugger.look(context, title=title, title_role="end", initial_command="lt")
