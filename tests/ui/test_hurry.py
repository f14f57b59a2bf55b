"""What is looked up for the pane never keeps a key waiting."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

import pytest
from terminal_kit import Terminal
from test_terminal import terminal

from tfdbg_cli.ui.screen.terminal.hurry import giving_way

__all__ = ["terminal"]


def test_a_key_ends_what_takes_long(terminal: Callable[..., Terminal]) -> None:
    shown = terminal("screen", size=(120, 24))
    shown.until("tfdbg>")
    shown.type("list\r")
    shown.until("node_3:0")
    shown.type("\x1b[17~")  # F6
    shown.until("about node_0:0 --kind value")
    began = time.monotonic()
    shown.type("j")  # what this row shows takes half a minute
    shown.until("row 2/40")
    for _ in range(3):
        time.sleep(0.4)  # long enough for the work to have begun
        shown.type("jk")
        shown.until("row 2/40")
    shown.type("j")
    shown.until("about node_2:0 --kind value")
    shown.type("k")
    shown.until("row 2/40")
    time.sleep(0.4)
    shown.type("\x03")  # Ctrl-C gives it up for good
    shown.until("Cancelled.")
    assert time.monotonic() - began < 20
    shown.type(":exit --end\r")
    assert shown.ends() == 0
    assert "handlers restored" in shown.normal_screen


def test_work_that_is_done_in_time_is_not_interrupted() -> None:
    read, write = os.pipe()
    os.write(write, b"key")
    before = threading.active_count()
    with giving_way([read]) as hurry:
        pass
    assert not hurry.came
    with pytest.raises(KeyboardInterrupt), giving_way([read]) as hurry:
        time.sleep(20)
    assert hurry.came
    with giving_way([]) as hurry:
        time.sleep(0.2)
    assert not hurry.came
    assert threading.active_count() == before
    opened = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(20):
        with giving_way([read]):
            pass
    if opened:
        assert len(os.listdir("/proc/self/fd")) == opened
    os.close(read)
    os.close(write)
