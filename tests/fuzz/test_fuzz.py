"""A few inputs for every target of ``scripts/fuzz``, and all that it has ever found."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from fuzz_kit import (
    FINDINGS,
    Checker,
    Finding,
    Target,
    by_structure,
    confined,
    shown,
)
from fuzz_targets import TARGETS
from fuzz_tree_targets import LEFT_OUT
from samples import sample

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.proto import wire

HERE = Path(__file__).parent
FOUND = sorted(
    path for path in FINDINGS.rglob("*") if path.is_file() and path.parent.name not in LEFT_OUT
)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*sample(TARGETS, TARGETS.keys() - {"screens"})])
def test_no_input_breaks_a_promise(name: str) -> None:
    target = TARGETS[name]
    found: list[Finding] = []

    def report(count: int, finding: Finding | None) -> None:
        found.extend([finding] if finding is not None else [])

    by_structure(target, 1, 600, target.few, report)
    assert not found, f"{found[0].data!r}: {found[0].where}\n{found[0].text}"


@pytest.mark.parametrize("path", FOUND, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_what_was_found_stays_mended(path: Path) -> None:
    with Checker(TARGETS[path.parent.name]) as checker:
        finding = checker.check(path.read_bytes())
    assert finding is None, f"{finding.where}\n{finding.text}"


def test_every_finding_has_a_target() -> None:
    assert {path.parent.name for path in FOUND} <= set(TARGETS)


# Large inputs: neither time nor memory grows faster than they do.

_MANY = 50_000


def _within(*path: int, payload: bytes) -> bytes:
    for number in reversed(path):
        payload = wire.put_bytes(number, payload)
    return payload


def _nested(depth: int) -> bytes:
    found = b""
    for _ in range(depth):
        found = wire.put_bytes(
            10, _within(2, payload=wire.put_text(1, "k") + _within(2, payload=found))
        )
    return found


def _of_dtype(number: int, size: int, payload: bytes) -> bytes:
    shape = _within(2, 2, payload=wire.put_varint(1, size))
    return wire.put_varint(1, number) + shape + payload


LARGE = {
    "graph, empty nodes": ("graph", b"\x0a\x00" * _MANY),
    "graph, names of one node": ("graph", _within(1, payload=b"\x0a\x00" * _MANY)),
    "graph, unknown fields": ("graph", _within(1, payload=b"\x32\x00" * _MANY)),
    "graph, inputs": ("graph", _within(1, payload=b"\x1a\x01a" * _MANY)),
    "graph, attributes": ("graph", _within(1, payload=b"\x2a\x00" * _MANY)),
    "event, values": ("event", _within(5, 1, 8, payload=b"\x28\x00" * _MANY)),
    "event, dimensions": ("event", _within(5, 1, 8, 2, payload=b"\x12\x00" * _MANY)),
    "tensor, strings": ("tensor", _of_dtype(7, _MANY, b"\x42\x00" * _MANY)),
    "tensor, handles": ("tensor", _of_dtype(20, 1, b"\x72\x00" * _MANY)),
    "tensor, lengths of handles": ("tensor", _of_dtype(20, 1, _within(4, payload=bytes(_MANY)))),
    "tensor, a fill": ("tensor", _of_dtype(1, 1 << 40, b"\x2d\0\0\0\0")),
    "attribute, functions": ("attribute", _nested(3000)),
    "attribute, a list": ("attribute", _within(1, payload=b"\x12\x00" * _MANY)),
    "strings, empty": ("strings", b'a{"values":[' + b'"",' * _MANY + b'""],"shape":[1]}'),
    "quotes": ("commands", b"'a" * (_MANY // 10)),
    "digits of a size": ("masks", b"9" * _MANY),
    "one long word": ("links", b"x" * _MANY),
}


@pytest.mark.parametrize("case", LARGE)
def test_large_inputs_cost_in_proportion(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, data = LARGE[case]
    monkeypatch.setattr("fuzz_kit.FIXED_BYTES", 4 << 20)
    monkeypatch.setattr("fuzz_kit.BYTES_PER_BYTE", 120)
    with Checker(TARGETS[name]) as checker:
        for check in (checker.check, checker._check_memory):
            finding = check(data)
            assert finding is None, f"{finding.where}\n{finding.text}"


# The harness itself: what breaks a promise is told.


def _hangs(data: bytes) -> None:
    while True:
        pass


def _is_slow(data: bytes) -> None:
    for _ in range(3_000_000):
        pass


def _allocates(data: bytes) -> None:
    np.ones(40 << 20, np.uint8)


def _leaves(data: bytes) -> None:
    with confined("/nowhere"), open("/etc/hostname", "rb"):
        pass


def _refuses_well(data: bytes) -> None:
    raise UserError("a\x1b[2Jb", "Two\nlines.")


def _fails(data: bytes) -> None:
    raise KeyError("\x1b")


def _shows(data: bytes) -> None:
    shown("a", "\x1b[2J")


def _warns(data: bytes) -> None:
    np.array([1e300]).astype(np.float32)


@pytest.mark.parametrize(
    ("read", "told"),
    [
        (_hangs, "hang"),
        (_allocates, "memory"),
        (_leaves, "BrokenPromise"),
        (_fails, "KeyError"),
        (_shows, "BrokenPromise"),
        (_warns, "RuntimeWarning"),
        (_refuses_well, ""),
    ],
)
def test_what_breaks_a_promise_is_told(
    read: Callable[[bytes], None], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fuzz_kit.CPU_SECONDS", 0.2)
    with Checker(Target("own", read, lambda: [])) as checker:
        checker.count = 63 if told == "memory" else 0  # one that is traced
        finding = checker.check(b"x")
    assert (finding is None) == (told == "")
    assert finding is None or finding.where.startswith(told)


def test_slow_inputs_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz_kit.SLOW_SECONDS", 0.01)
    with Checker(Target("own", _is_slow, lambda: [])) as checker:
        finding = checker.check(b"x")
    assert finding is not None and finding.where == "slow"


@pytest.mark.slow
def test_the_script_counts_what_it_runs(tmp_path: Path) -> None:
    command = [sys.executable, str(HERE / "fuzz_run.py"), "event", "names", "--inputs", "400"]
    done = subprocess.run(
        [*command, "--way", "structure"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 targets, 400 inputs, 0 found" in done.stdout
