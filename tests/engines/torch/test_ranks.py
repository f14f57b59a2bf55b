"""Two real processes under torchrun, or started by hand, and the debugger over both."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from samples import night

pexpect = pytest.importorskip("pexpect")

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PROGRAM = str(HERE / "scripts" / "ranks_program.py")
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m"]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("home"))
    return {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "PYTHONUNBUFFERED": "1",
        "TERM": "xterm",
        "XDG_CONFIG_HOME": folder,
        "XDG_STATE_HOME": folder,
    }


def ran(environment, *command):
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


def torchrun(environment, *arguments):
    return ran(environment, *TORCHRUN, "tfdbg_cli", *arguments)


@contextlib.contextmanager
def at_terminal(environment, *command):
    """A program at a terminal, which is ended with the block."""
    program = pexpect.spawn(
        command[0],
        list(command[1:]),
        env=environment,
        encoding="utf-8",
        timeout=300,
        dimensions=(100, 160),
    )
    try:
        yield program
    finally:
        program.close(force=True)


def offline(environment, folder, *commands):
    options = [part for command in commands for part in ("-c", command)]
    debugger = [sys.executable, "-m", "tfdbg_cli", "--batch"]
    done = ran(environment, *debugger, *options, "--dump-dir", str(folder))
    assert done.returncode == 0, done.stderr
    return done.stdout


# In batch, kept, and offline.


@pytest.fixture(scope="module")
def kept(environment, tmp_path_factory):
    """A batch that looks for infinities, and the folder with its dumps."""
    folder = tmp_path_factory.mktemp("dumps") / "root"
    done = torchrun(
        environment,
        *("--batch", "--keep-dumps", "--dump-root", str(folder)),
        *("-c", "config set level values"),
        *("-c", "run -f has_inf_or_nan", "-c", "lt -f origin_of_nonfinite"),
        *("-c", "li --to-first-bad rank_0/optimizer/SGD/linear.weight/add_", "-c", "plot"),
        PROGRAM,
    )
    return done, folder


def test_a_batch_tells_on_which_rank_it_began(kept):
    done, _ = kept
    assert done.returncode == 0, done.stderr
    title = re.search(r"--- run-end: .*", done.stdout)[0]
    assert title == (
        "--- run-end: on ranks 0, 1, first on 1: training run #3: "
        "DistributedDataParallel(x: float32[8, 3]) ---"
    )
    origins = done.stdout.partition("--- lt -f origin_of_nonfinite ---")[2]
    assert "rank_1/log:0" in origins.partition("---")[0]
    assert "--- loss of rank 1: runs 1 to 3 ---" in done.stdout
    # One rank prints for both.
    assert done.stdout.count("--- why -f has_inf_or_nan ---") <= 1
    assert "rank 0 is done" in done.stdout
    assert "rank 1 is done" in done.stdout


def test_each_rank_writes_its_own_folder(kept, environment):
    _, folder = kept
    assert sorted(str(path.relative_to(folder)) for path in folder.glob("*/*")) == [
        "rank_0/run_000003",
        "rank_1/run_000003",
    ]
    for rank in (0, 1):
        lines = (folder / f"rank_{rank}" / "run_000003" / "tensors.jsonl").read_text()
        devices = {
            record["device"]
            for record in map(json.loads, lines.splitlines()[1:])
            if "device" in record
        }
        assert devices == {f"/job:localhost/replica:0/task:{rank}/device:CPU:0"}


def test_the_ranks_of_a_run_open_together_or_one_by_one(kept, environment):
    _, folder = kept
    shown = offline(environment, folder, "runs", "lt -f has_inf_or_nan", "use 2", "lt -n ^log$")
    rows = re.findall(r"\[\d\]  \S+ \S+  (all|0|1) +#3", shown)
    assert rows == ["all", "0", "1"]
    listed = shown.partition('passing filter "has_inf_or_nan"')[2]
    first = next(line for line in listed.splitlines() if re.search(r"rank_\d/", line))
    assert first.endswith("rank_1/log:0")
    assert shown.rstrip().endswith(" log:0")
    alone = offline(environment, folder / "rank_1", "lt -n ^log$")
    assert alone.rstrip().endswith(" log:0")


# With a person at a terminal.


def test_the_others_wait_while_a_person_looks(environment):
    command = [*TORCHRUN, "tfdbg_cli", "--rank", "1", "--ui", "line", PROGRAM, "--timeout", "2"]
    with at_terminal(environment, *command) as program:
        program.expect("run-start: training run #1")
        program.expect("tfdbg> ")
        program.sendline("run -f has_inf_or_nan")
        program.expect("run-end: on ranks 0, 1, first on 1: training run #3")
        program.expect("rank_1/log:0 › ")
        time.sleep(4)  # twice what gloo waits for a rank in a collective
        program.sendline("run")
        program.expect("run-end: training run #4")
        program.expect("tfdbg> ")
        program.sendline("exit --detach")
        ended = [program.expect(r"rank \d is done") for _ in range(2)]
        assert ended == [0, 0]
        program.expect(pexpect.EOF)
    assert program.exitstatus == 0


def interrupt(program):
    """Press Ctrl-C in the middle of the program."""
    for _ in range(10):
        program.expect(r"rank 1 has done step \d+")
    program.sendintr()


@night
def test_ctrl_c_stops_at_the_end_of_a_run_though_the_terminal_is_torchruns(environment):
    command = [*TORCHRUN, "tfdbg_cli", "--ui", "line", PROGRAM, "--endless"]
    with at_terminal(environment, *command) as program:
        program.expect("run-start: training run #1")
        program.expect("tfdbg> ")
        program.sendline("run -f has_inf_or_nan -fenn .")
        # As soon as it is announced.
        program.expect("Ctrl-C stops at the end of a run")
        program.sendintr()
        program.expect(r"run-end: training run #\d+")
        program.expect("rank_1/")
        program.expect("tfdbg> ")
        program.sendline("config set level values")
        program.expect("tfdbg> ")
        program.sendline("run -f has_inf_or_nan -fenn .")
        interrupt(program)
        program.expect(r"run-end: training run #\d+")
        program.expect("rank_1/")
        program.expect("tfdbg> ")
        program.sendline("exit --end")
        program.expect(pexpect.EOF)


@night
def test_after_a_ctrl_c_in_undebugged_runs_all_ranks_go_on_together(environment):
    command = [*TORCHRUN, "tfdbg_cli", "--ui", "line", PROGRAM, "--endless"]
    with at_terminal(environment, *command) as program:
        program.expect("run-start: training run #1")
        program.expect("tfdbg> ")
        program.sendline("run -t 100000")
        interrupt(program)
        program.expect(r"run-start: training run #\d+")
        program.expect("tfdbg> ")
        program.sendline("config set level values")  # else a rank may hold none that can be listed
        program.expect("tfdbg> ")
        program.sendline("run -f has_inf_or_nan -fenn .")
        interrupt(program)
        program.expect(r"run-end: training run #\d+")
        program.expect("rank_1/")
        program.expect("tfdbg> ")
        program.sendline("exit --end")
        program.expect(pexpect.EOF)


# Errors and deaths.


@night
def test_an_error_of_another_rank_is_told_with_its_op(environment):
    done = torchrun(
        environment,
        *("--batch", "-c", "config set level values"),
        *("-c", "run -f has_inf_or_nan -fenn .", "-c", "lt -n log", PROGRAM, "--fail", "1"),
    )
    assert done.returncode != 0
    assert "Rank 1 failed in training run 3 in linear/addmm: RuntimeError" in done.stderr
    # gloo would have waited for two minutes: the screen came when the rank had ended.
    assert "Op name:    rank_1/linear/addmm" in done.stdout
    assert "On rank 1: mat1 and mat2 shapes cannot be multiplied (8x2 and 3x1)" in done.stdout
    assert "rank_1/log:0" in done.stdout


def environment_of(environment, rank, port):
    """For one rank without a launcher, which would end the others with it."""
    return {
        **environment,
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": "2",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as found:
        return found.getsockname()[1]


def connections(pid):
    """The ports, here and there, of the open TCP connections of a process."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            inodes.add(str(descriptor.readlink()))
    found = set()
    for table in (Path(f"/proc/{pid}/net/tcp"), Path(f"/proc/{pid}/net/tcp6")):
        for row in table.read_text().splitlines()[1:] if table.exists() else ():
            _, here, there, state, *_, inode = row.split()[:10]
            if state == "01" and f"socket:[{inode}]" in inodes:
                found.add((int(here.rsplit(":")[-1], 16), int(there.rsplit(":")[-1], 16)))
    return found


def are_connected(leader, other, store):
    """Whether two ranks talk to each other, and not only through the store at its port."""
    back = {(there, here) for here, there in connections(other)}
    return any(store not in ports for ports in connections(leader) & back)


@contextlib.contextmanager
def pair(environment, leader, *arguments):
    """A leader at a terminal of its own, and another rank that waits for it."""
    port = free_port()
    command = [sys.executable, "-m", "tfdbg_cli", "--rank", str(leader), "--ui", "line"]
    command += [PROGRAM, "--alone", *arguments]
    other = subprocess.Popen(
        command,
        env=environment_of(environment, 1 - leader, port),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    try:
        with at_terminal(environment_of(environment, leader, port), *command) as program:
            program.expect("run-start: training run #1")
            program.expect("tfdbg> ")
            while not are_connected(program.pid, other.pid, port):
                assert other.poll() is None, other.communicate()
                time.sleep(0.05)
            yield program, other
    finally:
        other.kill()
        other.communicate()


@night
def test_the_others_go_on_when_the_leader_dies(environment):
    # The other one is rank 0, whose store outlives the leader.
    with pair(environment, 1) as (leader, other):
        leader.kill(signal.SIGKILL)
        printed, _ = other.communicate(timeout=300)
        assert other.returncode == 0, printed
        assert "rank 0 is done" in printed
        # It may be gone before the other one has come to it.
        told = re.findall(r"the leading rank is gone|can't reach rank 1", printed)
        assert len(told) == 1, printed


@night
def test_the_leader_goes_on_when_another_rank_dies(environment, tmp_path):
    with pair(environment, 0, "--late", str(tmp_path / "never")) as (leader, other):
        leader.sendline("run")
        leader.expect("run-end: training run #1")
        leader.expect("rank_1/log:0")  # it follows
        leader.expect("tfdbg> ")
        leader.sendline("run")
        leader.expect("waiting for rank 1, which is still in training run 2")
        other.kill()
        leader.expect("Rank 1 is gone: its process has ended unexpectedly")
        leader.expect("run-end: training run #2")
        leader.expect("tfdbg> ")
        leader.sendline("exit --detach")
        leader.expect("rank 0 is done")
        leader.expect(pexpect.EOF)


@night
def test_runs_that_only_one_rank_has_hold_nobody_up(environment):
    with pair(environment, 0) as (leader, other):
        leader.sendline("run -t 5")  # the evaluation that rank 0 does alone
        leader.expect(r"run-end: inference run #\d")
        leader.expect("Rank 1 has no inference run 1")
        leader.expect("tfdbg> ")
        leader.sendline("exit --detach")
        leader.expect("rank 0 is done")
        printed, _ = other.communicate(timeout=300)
        assert other.returncode == 0, printed
        assert "rank 1 is done" in printed


@night
def test_a_ctrl_c_while_a_rank_is_waited_for_shows_the_run_without_it(environment, tmp_path):
    come = tmp_path / "come"
    with pair(environment, 0, "--late", str(come)) as (leader, other):
        leader.sendline("run -f has_inf_or_nan")
        leader.expect("waiting for rank 1, which is still in training run 2; Ctrl-C: not")
        leader.sendintr()
        leader.expect("run-end: training run #2")
        leader.expect(r"\d\d dumped tensor\(s\):")
        leader.expect("Rank 1 is still in training run 2")
        leader.expect("rank_0/log:0")
        leader.expect("tfdbg> ")
        leader.sendline("exit --detach")
        leader.expect("rank 0 is done")
        come.touch()
        printed, _ = other.communicate(timeout=300)
        assert other.returncode == 0, printed
