"""A program with stops, to run on a real terminal: ``ui_program.py KIND [--thread] [COMMAND…]``."""

from __future__ import annotations

import signal
import sys
import threading

from ui_service import SmallService

from tfdbg_cli.ui.base import CommandQueue
from tfdbg_cli.ui.choose import make_ui


def main() -> None:
    kind, *commands = sys.argv[1:]
    in_thread = "--thread" in commands
    commands = [c for c in commands if c != "--thread"]
    first = SmallService()
    ui = make_ui(kind, first.settings)
    queue = CommandQueue(commands)
    before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGWINCH, signal.SIGTSTP)]

    def stops() -> None:
        print("begin", flush=True)
        leave = ui.interact(first, queue)
        print(f"left with {leave.action!r}", flush=True)
        if leave.action.startswith("run"):
            second = SmallService("run-end: run #1", "end")
            second.settings, second.history = first.settings, first.history
            leave = ui.interact(second, queue)
            print(f"left again with {leave.action!r}", flush=True)

    try:
        if in_thread:
            thread = threading.Thread(target=stops)
            thread.start()
            thread.join()
        else:
            stops()
    except RuntimeError as error:
        print(f"raised {error}", flush=True)
    after = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGWINCH, signal.SIGTSTP)]
    print("handlers restored" if before == after else f"handlers {before} {after}", flush=True)
    ui.close()


if __name__ == "__main__":
    main()
