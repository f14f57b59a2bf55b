"""Interventions: what is applied to every run of a session, whoever asks for the run."""

from __future__ import annotations

import dataclasses
import threading
import weakref
from collections.abc import Callable
from typing import Any

from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.engines.base import CannotStep, Capture, RunCall, SteppedRun, Watch

__all__ = ["ACTIVE", "LOCK", "Intervention", "applied"]

#: Drives a run as far as it likes; what is left of it is done afterwards.
Intervention = Callable[[SteppedRun, Callable[[], RunInfo]], None]

#: Held while interventions come and go.
LOCK = threading.RLock()
#: Session -> its interventions, in order.
ACTIVE: weakref.WeakKeyDictionary[Any, list[Intervention]] = weakref.WeakKeyDictionary()


def applied(session: Any, call: RunCall, info: Callable[[], RunInfo]) -> RunCall:
    """A run with the interventions of its session, if it has any.

    A run that can't be stepped through is left as it is.
    """
    with LOCK:
        found = list(ACTIVE.get(session, ())) if ACTIVE else []
    make = call.stepper
    if not found or make is None:
        return call

    def perform() -> Capture:
        try:
            run = make()
        except CannotStep:
            return Capture(call.run(), None)
        for intervention in found:
            intervention(run, info)
        return run.finish()

    def plainly() -> Any:
        capture = perform()
        if capture.error is not None:
            raise capture.error
        return capture.value

    def debug(watch: Watch) -> Capture:
        return perform()

    return dataclasses.replace(call, run=plainly, debug=debug, plain=None)
