"""Runs a program of PyTorch in this process and keeps the dump of each of its runs."""

import contextlib
import sys
from pathlib import Path

from tfdbg_cli.engines.torch.engine import TorchEngine
from tfdbg_cli.sessions.wrappers.framework import (
    BaseDebugWrapperSession,
    OnRunEndResponse,
    OnRunStartAction,
    OnRunStartResponse,
    OnSessionInitAction,
    OnSessionInitResponse,
)

sys.path.append(str(Path(__file__).parents[2] / "commands"))

from command_kit import Shell, link_of

__all__ = ["Shell", "dumps_of", "link_of", "program_file", "runs_of"]


class Collector(BaseDebugWrapperSession):
    """Debugs every run, or does with it what it was told to, and keeps what came of it."""

    def __init__(self, program, action=OnRunStartAction.DEBUG_RUN, **watch):
        self.action, self.watch = action, watch
        self.dumps = []
        super().__init__(program)

    def on_session_init(self, request):
        return OnSessionInitResponse(OnSessionInitAction.PROCEED)

    def on_run_start(self, request):
        return OnRunStartResponse(self.action, **self.watch)

    def on_run_end(self, request):
        if request.dump is not None:
            if hasattr(request.dump, "settle"):
                request.dump.settle()
            self.dumps.append(request.dump)
        return OnRunEndResponse()


@contextlib.contextmanager
def runs_of(action=OnRunStartAction.DEBUG_RUN, **watch):
    """Collect the dumps of the runs of what is done inside."""
    engine = TorchEngine()  # one that knows no modules yet
    collector = Collector(engine.program(), action, **watch)
    undo = engine.install(lambda program: collector)
    try:
        yield collector.dumps
    finally:
        undo()


def program_file(folder, text, name="train.py"):
    """A file with a program; it counts as the user's own code."""
    path = folder / name
    path.write_text(text)
    return path


def dumps_of(path, action=OnRunStartAction.DEBUG_RUN, **watch):
    """The dumps of a program's runs."""
    code = compile(path.read_text(), str(path), "exec")
    with runs_of(action, **watch) as dumps:
        exec(code, {"__name__": "__main__", "__file__": str(path)})
    return dumps
