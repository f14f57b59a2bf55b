"""What a program that listens is at, and who is attached to it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from tfdbg_cli.commands.reply import Service
from tfdbg_cli.net.wire import Channel

__all__ = ["Client", "RunningState", "Stop", "program"]

# What a client is given of the history.
_HISTORY_SENT = 1_000
_LONGEST_TYPED = 4_000


class Client:
    """Who is attached."""

    def __init__(self, channel: Channel, who: str) -> None:
        self.channel = channel
        self.who = who
        self.since = time.strftime("%H:%M:%S")
        self.is_over = False
        self.knows_history = False


class Stop(NamedTuple):
    """The stop that the program is at."""

    number: int
    service: Service

    def event(self, client: Client) -> dict[str, Any]:
        """What the client is told."""
        service = self.service
        known, client.knows_history = client.knows_history, True
        history = [] if known else service.history.items[-_HISTORY_SENT:]
        return {
            "history": [text for text in history if len(text) <= _LONGEST_TYPED],
            "stop": self.number,
            "title": service.title,
            "title_role": service.title_role,
            "prompt": service.prompt,
            "initial_command": service.initial_command,
        }


class RunningState(NamedTuple):
    """The program runs."""

    describe: Callable[[], str]
    announcement: str

    def event(self, client: Client) -> dict[str, Any]:
        """What the client is told."""
        return {"running": self.announcement}


def program() -> str:
    """What this process runs, in short."""
    argv = [text for text in sys.argv if text] or [sys.executable]
    text = " ".join([os.path.basename(argv[0]), *argv[1:]])
    return text if len(text) <= 200 else text[:199] + "…"
