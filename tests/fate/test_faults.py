"""Calls of the debugger's that fail leave the program alone; ``scripts/faults`` tries them all."""

import pytest
from fault_kit import Faults, may_mount
from fault_situations import MODES, SIGNALS, SITUATIONS, is_sensible
from samples import night, sample

# Calls that are tried in each situation.
_TRIED = 8


@pytest.mark.parametrize(
    "situation", [*sample([name for name in SITUATIONS if is_sensible("numpy", name)], 2)]
)
def test_calls_that_fail(tmp_path, situation):
    faults = Faults(tmp_path, "numpy", situation)
    try:
        assert not faults.found()
        assert len(faults.calls) > _TRIED
        modes = [mode for mode in (*MODES, *SIGNALS) if situation in ("stop", "keep")] or ["once"]
        # The later ones: the first are those of each situation, but for the client's.
        step = len(faults.calls) // (2 * _TRIED)
        numbers = [len(faults.calls) - turn * step for turn in range(_TRIED - 1)]
        for turn, number in enumerate([*numbers, 1]):
            wrong = faults.found(number, modes[turn % len(modes)])
            assert not wrong, wrong
    finally:
        faults.close()


def test_a_ctrl_c_while_the_debugger_tidies_up(tmp_path):
    faults = Faults(tmp_path, "numpy", "spill")
    try:
        late = [at for at, call in enumerate(faults.calls, 1) if call.late]
        for number in late[:: len(late) // 3]:
            wrong = faults.found(number, "SIGINT")
            assert not wrong, wrong
    finally:
        faults.close()


@pytest.mark.parametrize(("limit", "values"), [("NOFILE", (8, 9, 11, 14, 20)), ("DISK", (4, 64))])
def test_a_system_that_gives_less(tmp_path, limit, values):
    if limit == "DISK" and not may_mount(tmp_path):
        pytest.skip("a disk of its own can't be had")
    faults = Faults(tmp_path, "numpy", "keep")
    try:
        for value in values:
            assert faults.limited(limit, value) == ""
    finally:
        faults.close()


@pytest.mark.torch
@pytest.mark.parametrize(
    ("situation", "tried"),
    [
        (
            "leader",
            [
                "sessions/ranks/leader.py once",
                "common/interpreter/threads.py once",
                "files.py SIGKILL",
            ],
        ),
        pytest.param(
            "follower",
            ["net/wire.py:117 once", "run_folder/writer.py other", "files.py SIGTERM"],
            marks=night,
        ),
    ],
)
def test_one_of_two_ranks_is_struck(tmp_path, situation, tried):
    pytest.importorskip("torch")
    faults = Faults(tmp_path, "torch", situation)
    try:
        assert not faults.found()
        places = [f"{call.kind} {call.name} {call.place}" for call in faults.calls]
        for place, mode in map(str.split, tried):
            number = next(at for at, each in enumerate(places, 1) if place in each)
            wrong = faults.found(number, mode)
            assert not wrong, wrong
    finally:
        faults.close()


def test_what_goes_wrong_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(SITUATIONS, "stop", (("--batch", "-c", "run", "-c", "exit --end"), ()))
    faults = Faults(tmp_path, "numpy", "stop")
    try:
        assert "exit status: 0 plain" in faults.found()  # the person has ended the program
    finally:
        faults.close()
