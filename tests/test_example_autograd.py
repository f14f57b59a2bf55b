"""The package with an engine for autograd passes its own tests, and its README is true."""

import re
import subprocess
import sys

import pytest
from package_kit import ROOT, environment_of, own_tests

pytest.importorskip("autograd")
PACKAGE = ROOT / "examples" / "engine_autograd"


def test_its_own_tests_pass(tmp_path):
    done = own_tests(PACKAGE, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_readme_shows_what_it_prints(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", "--batch", "-c", "run -f", "logistic.py"],
        cwd=PACKAGE,
        env=environment_of(PACKAGE, tmp_path),
        capture_output=True,
        text=True,
        check=True,
    )
    text = (PACKAGE / "README.md").read_text(encoding="utf-8")
    said = text.partition("$ tfdbg")[2].partition("```")[0].splitlines()[1:]
    assert said
    assert [each for each in said if each not in done.stdout.splitlines()] == []


@pytest.mark.parametrize("command", ["why", "lt"])
def test_a_dump_says_the_same_without_the_package(tmp_path, command):
    kept = tmp_path / "dumps"
    debug = [sys.executable, "-m", "tfdbg_cli", "--batch"]
    environment = environment_of(PACKAGE, tmp_path / "packages")
    options = ["--keep-dumps", "--dump-root", kept, "-c", "run -f", "-c", command]
    live = subprocess.run(
        [*debug, *options, PACKAGE / "logistic.py"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    run = max(kept.glob("*/run.json"), key=lambda each: each.stat().st_mtime_ns).parent
    offline = subprocess.run(
        [*debug, "--dump-dir", run, "-c", command],
        env={**environment, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    shown = [
        re.findall(
            r"^(?:It began|Why:).*|.*:0$", done.stdout.partition(f"--- {command} ---")[2], re.M
        )
        for done in (live, offline)
    ]
    assert shown[0] == shown[1] != []
