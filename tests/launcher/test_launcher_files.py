"""Files that the debugger reads by itself may be anything: no program waits or dies for it."""

import os
import resource
import socket
import sys

import pexpect
import pytest
from samples import sample

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX files")

# Twice what a session of the NumPy engine takes.
ROOM = 3 << 30


def a_fifo(path):
    os.mkfifo(path)


def an_endless_device(path):
    path.symlink_to("/dev/zero")


def a_full_device(path):
    path.symlink_to("/dev/full")


def a_folder(path):
    path.mkdir()


def a_socket(path):
    # By a name that is short enough.
    here = os.open(path.parent, os.O_RDONLY)
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(f"/proc/self/fd/{here}/{path.name}")
    finally:
        os.close(here)


def a_link_to_itself(path):
    path.symlink_to(path)


def a_link_to_nothing(path):
    path.symlink_to(path.parent / "nothing")


def unreadable(path):
    path.write_text("{}")
    path.chmod(0)


def of_eight_gigabytes(path):
    with path.open("wb") as file:
        file.truncate(8 << 30)


def one_long_line(path):
    path.write_bytes(b"9" * (100 << 20))


def no_text(path):
    path.write_bytes(bytes(range(256)) * 64)


KINDS = [
    *(a_fifo, an_endless_device, a_full_device, a_folder, a_link_to_itself, a_link_to_nothing),
    *(unreadable, of_eight_gigabytes, one_long_line, no_text),
    pytest.param(a_socket, marks=pytest.mark.skipif(sys.platform != "linux", reason="by /proc")),
]
SCRIPT = """\
from tfdbg_cli.engines import numpy as tf
made = {}
exec(compile("x = tf.constant(1.0, name='x')\\n", "SOURCE", "exec"), {"tf": tf}, made)
for _ in range(2):
    print(tf.Session().run(made["x"]))
"""


def typed(runner, arguments, lines, **environment):
    """What a terminal shows of a session, and its exit status."""
    child = pexpect.spawn(
        sys.executable,
        ["-m", "tfdbg_cli", "--ui", "plain", *map(str, arguments)],
        cwd=runner.folder,
        env=runner.environment | environment,
        dimensions=(500, 200),
        encoding="utf-8",
        timeout=120,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (ROOM, ROOM)),
    )
    said = ""
    for line in lines:
        child.expect_exact(["tfdbg> ", " › ", pexpect.EOF])
        said += child.before
        child.sendline(line)
    child.expect(pexpect.EOF)
    child.close()
    return said + child.before, child.exitstatus


@pytest.mark.parametrize("make", [*sample(KINDS, 3)], ids=lambda make: make.__name__)
def test_whatever_lies_there(runner, make, tmp_path):
    temporary = tmp_path / "tmp"
    source = tmp_path / "source.py"
    files = [
        runner.folder / "config/tfdbg_cli/config.json",
        runner.folder / "state/tfdbg_cli/history",
        runner.folder / f"state/tfdbg_cli/attach/{socket.gethostname().partition('.')[0]}-1.token",
        temporary / "tfdbg-left" / ".owner",
        runner.folder / ".git/HEAD",
        runner.folder / ".git/index",
        source,
    ]
    for path in files:
        path.parent.mkdir(parents=True, exist_ok=True)
        make(path)
    before = [os.lstat(path)[:3] for path in files[:2]]
    script = runner.write("s.py", SCRIPT.replace("SOURCE", str(source)))
    said, status = typed(
        runner,
        ["--keep-dumps", "--dump-root", "dumps", script],
        [
            *("run", f"ps {source}", "ls", "ni -t x", "ri", "history"),
            *("config set theme dark", "config", "run", "exit --detach"),
        ],
        TMPDIR=str(temporary),
    )
    assert status == 0, said[-3000:]
    assert said.count("1.0\r\n") >= 2, said[-3000:]
    assert "Traceback (most recent" not in said, said[-3000:]
    assert "debugger failed" not in said and "Error in the debugger" not in said, said[-3000:]
    if make not in (a_link_to_nothing, no_text, of_eight_gigabytes, one_long_line, unreadable):
        # What is no file of ours stays as it was.
        assert [os.lstat(path)[:3] for path in files[:2]] == before


def test_the_history_is_its_users_alone(runner):
    history = runner.folder / "state/tfdbg_cli/history"
    script = runner.write("s.py", SCRIPT.replace("SOURCE", "made"))
    for mode in (None, 0o644):
        if mode is not None:
            history.chmod(mode)
        assert typed(runner, [script], ["lf", "help lt", "exit --detach"])[1] == 0
        assert history.stat().st_mode & 0o777 == 0o600
    assert history.read_text().splitlines()[:2] == ["lf", "help lt"]


def test_of_a_long_history_the_end_is_read(runner):
    history = runner.folder / "state/tfdbg_cli/history"
    history.parent.mkdir(parents=True)
    history.write_text("".join(f"pt x{number}:0\n" for number in range(500_000)))
    script = runner.write("s.py", SCRIPT.replace("SOURCE", "made"))
    assert "pt x499999:0" in typed(runner, [script], ["history", "exit --detach"])[0]
    assert history.stat().st_size < 1 << 20
    assert history.stat().st_mode & 0o777 == 0o600
