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


QUIET = """
from tfdbg_cli.engines import numpy as tf
tf.Session().run(tf.square(3.0, name="y"))
"""


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("is_kept", [False, True], ids=["at the program", "at its dump"])
def test_a_batch_whose_output_is_lost_has_failed(tmp_path, is_kept):
    def tfdbg(*arguments, stdout):
        return subprocess.run(
            [sys.executable, "-m", "tfdbg_cli", "--batch", *arguments],
            stdout=stdout,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
            cwd=tmp_path,
        )

    (tmp_path / "quiet.py").write_text(QUIET)
    what = ["-c", "run", "-c", "lt", "quiet.py"]
    if is_kept:
        keeps = ("--keep-dumps", "--dump-root", "kept")
        assert tfdbg(*keeps, *what, stdout=subprocess.DEVNULL).returncode == 0
        what = ["--dump-dir", "kept", "-c", "lt"]
    with open("/dev/full", "w") as full:
        done = tfdbg(*what, stdout=full)
    said = "the debugger's output can't be written any more: No space left on device."
    assert (done.stderr, done.returncode) == (f"tfdbg: {said}\n", 1)
