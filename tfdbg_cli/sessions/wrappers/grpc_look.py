"""Looking at the runs that other processes send, each at its end while its program waits."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tfdbg_cli.commands.run.choices import ExitChoice, RunChoice
from tfdbg_cli.commands.units import describe_run
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.streams import tell
from tfdbg_cli.engines.base import Capture
from tfdbg_cli.engines.tensorflow.sessions.grpc.stream import ReceivedRun, Receiver
from tfdbg_cli.net.address import Address
from tfdbg_cli.sessions.debugger.debugger import Debugger
from tfdbg_cli.sessions.director.first_screens import FirstScreens
from tfdbg_cli.sessions.director.magnitudes import MagnitudeSampler

__all__ = ["look_at_runs"]


class _Desk:
    """The person at the receiver, and which run they wait for."""

    def __init__(self, debugger: Debugger) -> None:
        self._debugger = debugger
        debugger.choice, debugger.countdown = RunChoice(), 1
        self._screens = FirstScreens(debugger, MagnitudeSampler(debugger.tracks))

    def take(self, run: ReceivedRun) -> bool:
        """Show a run if it is the one; whether there is to be another."""
        debugger = self._debugger
        choice = debugger.choice or RunChoice()
        debugger.run_count += 1
        debugger.waiting.run_started(debugger.run_count)
        debugger.countdown -= 1
        is_due = debugger.countdown <= 0
        if not debugger.waiting.is_interrupted and not (is_due and choice.is_debug):
            if is_due:
                debugger.choice = None  # the run after the one that was not to be looked at
            return True
        dump = run.open()
        try:
            initial, role = "lt", "end"
            if choice.filter_name:
                initial, role = self._screens.filtered(choice, dump, Capture(None, None))
            if not initial:
                return True
            context = debugger.context("run-end", dump.run_info(), dump)
            action = debugger.stop(
                context,
                title=f"run-end: {describe_run(context.run_info)} from {_name(run.peer)}",
                title_role=role,
                initial_command=initial,
            )
        finally:
            dump.close()
        if not isinstance(action, RunChoice):
            if isinstance(action, ExitChoice) and action.ends_program:
                tell("the program belongs to another process: it runs on, undebugged.")
            return False
        self._note_watch(action)
        debugger.choose(action, debugger.run_count + 1)
        return True

    def _note_watch(self, choice: RunChoice) -> None:
        if choice.is_profile or choice.node_name or choice.op_type or choice.tensor_dtype:
            self._debugger.note(
                "The program that sends a run chooses the watched tensors (watch_fn)."
            )


def _name(peer: str) -> str:
    """``ipv4:127.0.0.1:50712`` as people write it."""
    return peer.partition(":")[2] or peer


def look_at_runs(address: Address, debugger: Debugger) -> None:
    """Receive runs and stop at the end of each, until the user leaves.

    Args:
        address: where to listen.
        debugger: UI, filters and settings; with its ``keep``, the dumps stay.

    Raises:
        UserError: grpcio isn't installed, the port is taken, or there is no folder for the dumps.
    """
    if address.path:
        raise UserError("--grpc listens at a port; TensorFlow knows no Unix sockets.")
    store = debugger.store
    root = store.root or ("tfdbg_dumps" if store.keep else None)
    with tempfile.TemporaryDirectory(prefix="tfdbg_grpc_", ignore_cleanup_errors=True) as temporary:
        folder = Path(root or temporary)
        with Receiver(address, folder, limit=store.renew_limit(), holds=True) as receiver:
            if not address.is_private:
                tell("anybody who can reach this port can send runs here and make them wait.")
            where = f"{address.host if not address.is_private else 'localhost'}:{receiver.port}"
            tell(f"waiting for runs at grpc://{where}; Ctrl-C ends it.")
            _receive(receiver, _Desk(debugger), store.keep)


def _receive(receiver: Receiver, desk: _Desk, keep: bool) -> None:
    goes_on = True
    while goes_on:
        run = None
        try:
            while run is None:
                run = receiver.next(timeout=0.5)
            goes_on = desk.take(run)
        except KeyboardInterrupt:
            goes_on = False
        if not goes_on:
            receiver.close()  # before the program goes on: it must not send another run
        if run is not None:
            run.release(keep=keep)
