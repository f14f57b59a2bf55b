"""Programs that wait for a nan which never comes, under the debugger."""

import contextlib

from tfdbg_cli.common.settings import all_fields
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.filters.builtin import has_inf_or_nan
from tfdbg_cli.sessions.wrappers.framework import BaseDebugWrapperSession
from tfdbg_cli.sessions.wrappers.requests import (
    OnRunEndResponse,
    OnRunStartAction,
    OnRunStartResponse,
    OnSessionInitAction,
    OnSessionInitResponse,
)

DEFAULTS = {field.name: field.default for field in all_fields()}


class Session(BaseDebugWrapperSession):
    """Awaits nan and infinities in all runs, or in none."""

    is_debugging = True
    seen = 0
    tracks = None

    def on_session_init(self, request):
        return OnSessionInitResponse(OnSessionInitAction.PROCEED)

    def on_run_start(self, request):
        if not self.is_debugging:
            return OnRunStartResponse(OnRunStartAction.NON_DEBUG_RUN)
        watch = Watch(filter_name="has_inf_or_nan", predicate=has_inf_or_nan)
        return OnRunStartResponse(OnRunStartAction.DEBUG_RUN, watch=watch)

    def on_run_end(self, request):
        assert not request.capture.filter_passed
        self.seen += 1
        return OnRunEndResponse()

    def expected_watch(self):
        return self.on_run_start(None).watch() if self.is_debugging else None


@contextlib.contextmanager
def waiting(engine, is_debugging=True, tracks=None, **settings):
    """A program's runs under the debugger, with these settings: `run -f`, or unwatched.

    Numbers over runs go to ``tracks``, if there are any.
    """
    engine.configure({**DEFAULTS, **settings}.__getitem__)
    session = Session(engine.program())
    session.is_debugging, session.tracks = is_debugging, tracks
    undo = engine.install(lambda program: session)
    try:
        yield
    finally:
        undo()
    # A failure of the debugger's is contained, and would be timed as a debugger that costs nothing.
    assert not is_debugging or session.seen
