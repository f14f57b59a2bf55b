"""Ranks that wait for each other: freed parameters, steps that hang, and names without a rank."""

import re
from pathlib import Path

import pytest
from program_server import Done, Programs
from test_ranks import PROGRAM, environment

__all__ = ["environment"]  # a fixture

BATCH = ("-m", "tfdbg_cli", "--batch")
SHARDED = str(Path(PROGRAM).with_name("fsdp_program.py"))


def steps(text):
    return re.findall(r"^step \d: \S+$", text, re.MULTILINE)


def torchrun(environment, *arguments):
    """What both ranks have said, one after the other."""
    done = Programs(environment).ranks(*arguments)
    return Done(
        max(each.status for each in done),
        "".join(each.out for each in done),
        "".join(each.err for each in done),
    )


@pytest.fixture(scope="module")
def alone(environment):
    done = torchrun(environment, SHARDED)
    assert len(steps(done.out)) == 4, done.err
    return steps(done.out)


def test_parameters_that_are_freed_between_uses(environment, alone, tmp_path):
    looks = [part for each in ("run", "lt", "lt --views") * 3 for part in ("-c", each)]
    keeps = ("--keep-dumps", "--dump-root", str(tmp_path / "root"))
    done = torchrun(environment, *BATCH, *keeps, *looks, SHARDED)
    assert done.status == 0, done.err
    assert steps(done.out) == alone
    assert "could not be written" not in done.out
    assert "rank_1/0.2/addmm:0" in done.out
    assert "the debugger failed" not in done.err
    filtered = torchrun(environment, *BATCH, "-c", "run -f has_inf_or_nan", SHARDED)
    assert filtered.status == 0, filtered.err
    assert steps(filtered.out) == alone
    # What nobody has written to yet, or others have still to send, goes nowhere.
    origins = torchrun(environment, *BATCH, "-c", "run -f origin_of_nonfinite", SHARDED)
    assert steps(origins.out) == alone
    assert "run-end" not in origins.out, origins.out


def test_a_step_that_hangs_is_told_with_the_op_and_line_of_each_rank(environment, alone):
    commands = ("-c", "config set rank_patience 1", "-c", "run -f has_inf_or_nan -fenn .")
    done = torchrun(environment, *BATCH, *commands, SHARDED, "--hang", "8")
    assert done.status == 0, done.err
    assert steps(done.out) == alone
    (line,) = [each for each in done.err.splitlines() if "training run 3 takes long" in each]
    assert line.startswith("tfdbg: training run 3 takes long: rank 0 is ")
    text = Path(SHARDED).read_text().splitlines()
    asleep = next(at for at, each in enumerate(text, 1) if "time.sleep" in each)
    assert line.endswith(f", at fsdp_program.py:{asleep} in forward.")
    assert re.search(r"rank 0 is (in|after) \S+, at fsdp_program\.py:\d+ in main; rank 1 ", line)


def test_a_name_without_a_rank_is_of_the_rank_that_the_stop_is_about(environment):
    commands = ("-c", "run -f origin_of_nonfinite", "-c", "li --to-first-bad linear/addmm")
    done = torchrun(environment, *BATCH, *commands, "-c", "pt linear/addmm -s", PROGRAM)
    assert done.status == 0, done.err
    assert "rank_1/linear/addmm" in done.out.partition("--- li --to-first-bad")[2]
    assert 'Tensor "rank_1/linear/addmm:0' in done.out
