"""A terminal, or a stream, that the system refuses to do something with."""

import errno
import gc
import os
import subprocess
import sys
import termios

import pytest

from tfdbg_cli.ui.foreign import ForeignKeys
from tfdbg_cli.ui.screen.terminal.progress import ProgressLine


@pytest.fixture
def terminal():
    master, slave = os.openpty()
    yield slave
    os.close(master)
    os.close(slave)


def no_thread(*_):
    raise RuntimeError("can't start new thread")


def no_descriptors():
    raise OSError(errno.EMFILE, "Too many open files")


def descriptors():
    gc.collect()  # what earlier tests left may be closed at any time
    return sorted(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
@pytest.mark.parametrize(
    ("name", "refuse"), [("_thread.start_new_thread", no_thread), ("os.pipe", no_descriptors)]
)
def test_keys_of_another_session_are_given_back(monkeypatch, terminal, name, refuse):
    before, open_before = termios.tcgetattr(terminal), descriptors()
    # Only while it is made: starting the watchdog takes descriptors as well.
    with monkeypatch.context() as patched:
        patched.setattr(name, refuse)
        with pytest.raises(OSError, match=r"thread|many"):
            ForeignKeys(terminal)
    assert termios.tcgetattr(terminal) == before
    assert descriptors() == open_before


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="needs /proc")
def test_a_row_that_nobody_can_draw(monkeypatch, terminal):
    open_before = descriptors()
    monkeypatch.setattr("_thread.start_new_thread", no_thread)
    with pytest.raises(OSError, match="thread"):
        ProgressLine(lambda: "", terminal)
    assert descriptors() == open_before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_message_that_can_not_be_written_is_not_told_of():
    # No debugger has taken the streams yet, as in the client of remote attach.
    code = "from tfdbg_cli.common.streams import tell; tell('lost'); print('goes on')"
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-c", code],
            stdout=subprocess.PIPE,
            stderr=full,
            timeout=60,
            check=True,
        )
    assert done.stdout == b"goes on\n"
