"""Unmodified programs: the debugger finds their runs, and they compute what they compute alone."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from corpus import CORPUS, Script
from program_server import Done, Programs, environment
from samples import night, sample

OUTS = ("stdout", "stderr")
LETTERS = {"forward": "F", "backward": "B", "step": "S"}


def marked(scripts: list[Script]) -> list[object]:
    """Scripts as parameters; those whose packages are missing are skipped."""
    found = []
    for script in scripts:
        missing = [name for name in script.needs if importlib.util.find_spec(name) is None]
        skip = pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")
        found.append(pytest.param(script, id=script.name, marks=skip))
    return found


ALONE = [script for script in CORPUS if script.ranks == 1]
# One of each kind. What the compiler of PyTorch makes is also tried in `test_breakers_compile`,
# trainers of others in `test_modules`.
SOME = {
    "plain_loop",
    "reinforcement",
    "grad_scaler",
    "optimizer_in_backward",
    "background_thread",
    "evaluation_mode",
    "anomalies",
    "data_loader_workers",
    "compiled_eager",
    "function_training",
    "copies_and_saves",
}
KEPT = [script for script in ALONE if script.name in SOME]
SEVERAL = pytest.mark.parametrize("script", marked([*sample(ALONE, KEPT)]))


@pytest.fixture(scope="module")
def plain(programs: Programs) -> Callable[[Script], Done]:
    """What a script does alone; each is run once."""
    known: dict[str, Done] = {}

    def run(script: Script) -> Done:
        if script.name not in known:
            known[script.name] = programs.plain(script.path)
        done = known[script.name]
        assert done.status == 0, done.err
        return done

    return run


def options(*commands: str) -> list[str]:
    return ["--batch", *(part for command in commands for part in ("-c", command))]


def every_run(script: Script) -> list[str]:
    """Debug each run and look at what is known of it; the program has three runs to spare."""
    return options("run", *["ri", "run"] * (len(script.kinds) + 3))


def runs_of(output: str) -> list[tuple[str, str]]:
    """Kind and events of the runs that a batch session has shown."""
    found = []
    for screen in re.split(r"^--- ri ---$", output, flags=re.M)[1:]:
        kind = re.search(r"^(\w.*) #\d+: ", screen, re.M)
        events = re.search(r"^Events: +(.*)$", screen, re.M)
        assert kind and events, screen
        found.append((kind[1].lower(), letters(events[1])))
    return found


def letters(events: str) -> str:
    """``2 x forward, step`` is ``FFS``."""
    parts = re.findall(r"(?:(\d+) x )?(\w+)", events)
    return "".join(LETTERS[word] * int(count or 1) for count, word in parts)


def own_lines(output: str, done: Done) -> list[str]:
    """The lines of a debugged program's output that it prints alone, too."""
    wanted = set(done.out.splitlines())
    return [text for text in output.splitlines() if text in wanted]


def on_ranks(script: Script, folder: Path, *arguments: str | Path) -> list[Done]:
    """What each rank of a program that ``torchrun`` starts has printed."""
    launcher = ["torch.distributed.run", "--standalone", "--nproc-per-node", str(script.ranks)]
    for attempt in range(4):
        logs = folder / str(attempt)
        done = subprocess.run(
            [sys.executable, "-m", *launcher, "--redirects", "3", "--log-dir", str(logs)]
            + [str(argument) for argument in arguments],
            env=environment(logs),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        # PyTorch aborts so now and then, plain and with all of its output written.
        errors = "".join(path.read_text() for path in logs.glob("*/attempt_0/*/stderr.log"))
        if not done.returncode or "terminate called without an active exception" not in errors:
            break
    assert done.returncode == 0, done.stderr
    return [
        Done(0, *(next(logs.glob(f"*/attempt_0/{rank}/{name}.log")).read_text() for name in OUTS))
        for rank in range(script.ranks)
    ]


def assert_same(done: Done, alone: Done) -> None:
    assert done.status == 0, done.err
    assert own_lines(done.out, alone) == alone.out.splitlines()
    assert "Traceback" not in done.err


def assert_runs(script: Script, found: list[tuple[str, str]]) -> None:
    assert [kind for kind, _ in found] == script.kinds
    for (_, seen), expected in zip(found, script.events, strict=True):
        assert expected is None or seen == expected


@SEVERAL
def test_every_run_is_found_and_the_program_prints_the_same(
    script: Script, programs: Programs, plain: Callable[[Script], Done]
) -> None:
    done = programs.debugged(*every_run(script), script.path)
    assert_runs(script, runs_of(done.out))
    assert_same(done, plain(script))


@SEVERAL
def test_runs_that_nobody_looks_at_are_those_of_the_plain_program(
    script: Script, programs: Programs, plain: Callable[[Script], Done]
) -> None:
    done = programs.debugged(*options("run -t 1000000"), script.path)
    assert_same(done, plain(script))
    assert done.out == plain(script).out


@SEVERAL
def test_waiting_for_a_bad_tensor_changes_nothing(
    script: Script, programs: Programs, plain: Callable[[Script], Done]
) -> None:
    commands = options("run -f origin_of_nonfinite", "run -f origin_of_nonfinite")
    done = programs.debugged(*commands, script.path)
    assert_same(done, plain(script))
    assert ("why -f origin_of_nonfinite" in done.out) == script.has_origin


@night
@pytest.mark.parametrize("script", marked([s for s in CORPUS if s.ranks > 1]))
def test_a_rank_shows_its_runs_and_the_others_run_along(script: Script, tmp_path: Path) -> None:
    alone = on_ranks(script, tmp_path / "alone", script.path)
    shown = script.ranks - 1
    command = ["-m", "tfdbg_cli", "--rank", str(shown), *every_run(script)]
    debugged = on_ranks(script, tmp_path / "debugged", *command, script.path)
    assert_runs(script, runs_of(debugged[shown].out))
    for rank in range(script.ranks):
        assert_same(debugged[rank], alone[rank])
        assert rank == shown or debugged[rank].out == alone[rank].out
