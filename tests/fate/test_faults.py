"""Calls of the debugger's that fail leave the program alone; ``scripts/faults`` tries them all."""

import pytest
from fault_kit import MODES, SIGNALS, SITUATIONS, Faults

# Calls that are tried in each situation.
_TRIED = 12


@pytest.mark.parametrize("situation", SITUATIONS)
def test_calls_that_fail(tmp_path, situation):
    faults = Faults(tmp_path, "numpy", situation)
    try:
        assert not faults.found()
        assert len(faults.calls) > _TRIED
        modes = [mode for mode in (*MODES, *SIGNALS) if situation in ("stop", "keep")] or ["once"]
        # The later ones: the first are those of each situation.
        for turn in range(_TRIED):
            number = len(faults.calls) - turn * (len(faults.calls) // (2 * _TRIED))
            wrong = faults.found(number, modes[turn % len(modes)])
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
