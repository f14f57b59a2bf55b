"""What ``scripts/test changed`` runs: prints a line of arguments for each run of pytest.

What has changed since the branch left main, or since another commit, asks for tests; so does what
isn't committed yet. The walls are always looked at.
"""

from __future__ import annotations

import glob
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

#: Stands for all tests that need no framework and no terminal.
QUICK = "quick"
WALLS = "tests/test_imports.py"
CONTRACTS = "tests/engines/*/*contract*.py"

#: The beginning of a path -> the tests that a change there asks for. The first that fits counts.
ASKED = {
    "tfdbg_cli/engines/tensorflow/functions/": ("tests/engines/kit", "tests/engines/*/*tf2*.py"),
    "tfdbg_cli/engines/tensorflow/": ("tests/engines/kit", "tests/engines/tensorflow"),
    "tfdbg_cli/engines/torch/": ("tests/engines/kit", "tests/engines/torch"),
    "tfdbg_cli/engines/jax/": ("tests/engines/jax",),
    "tfdbg_cli/engines/onnx/": ("tests/engines/onnx",),
    "tfdbg_cli/engines/mlx/": ("tests/engines/mlx",),
    "tfdbg_cli/engines/": (QUICK, "tests/engines/kit", CONTRACTS),
    "tfdbg_cli/testing/": (CONTRACTS,),
    "tfdbg_cli/net/": (QUICK, "tests/remote"),
    "tfdbg_cli/front/": (QUICK, "tests/launcher"),
    "tfdbg_cli/__": (QUICK, "tests/launcher"),
    "tfdbg_cli/agents/": ("tests/agents",),
    "tfdbg_cli/coverage/": ("tests/launcher/test_coverage_plugin.py",),
    # The tests of a room, with its terminals and programs.
    "tfdbg_cli/": (QUICK, "tests/{1}", CONTRACTS),
    "examples/": ("tests/test_*example*.py", "tests/docs/test_cookbook.py"),
    "docs/": ("tests/docs", "tests/test_command_docs.py", "tests/test_tour.py"),
    "README.md": ("tests/docs",),
    "scripts/": ("tests/test_*.py",),
    "pyproject.toml": (QUICK, "tests/test_lock.py"),
    "requirements/": ("tests/test_lock.py",),
}


def changed(since: str) -> set[str]:
    """The paths of files that were changed, added, renamed or removed."""
    base = _git("merge-base", "HEAD", since)[0]
    new = _git("ls-files", "--others", "--exclude-standard")
    return {*_git("diff", "--name-only", "--no-renames", base), *new}


def asked_for(path: str) -> Iterator[str]:
    """The tests for a change of a file."""
    parts = path.split("/")
    if parts[0] == "tests":
        if parts[-1].startswith("test_"):
            yield path
        elif len(parts) > 2:  # a part of the tests of a room, or of an engine
            yield "/".join(parts[: 3 if parts[1] == "engines" else 2])
        else:
            yield from (QUICK, *_importers(Path(path).stem))
        return
    for beginning, tests in ASKED.items():
        if path.startswith(beginning):
            yield from (each.replace("{1}", "/".join(parts[1:2])) for each in tests)
            return


def _importers(module: str) -> Iterator[str]:
    """The tests that use a module of the tests."""
    used = re.compile(rf"^(?:from|import) {module}\b", re.M)
    for path in Path("tests").rglob("test_*.py"):
        if used.search(path.read_text(encoding="utf-8")):
            yield str(path)


def runs(paths: Iterable[str]) -> Iterator[list[str]]:
    """The arguments of each run of pytest."""
    asked = {each for path in paths for each in asked_for(path)}
    found = {name for each in asked - {QUICK} for name in glob.glob(each)} | {WALLS}
    # What is in a folder needn't be named besides.
    yield sorted(name for name in found if not {*map(str, Path(name).parents)} & found)
    if QUICK in asked:
        yield [QUICK]


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)  # git has said why
    return done.stdout.splitlines()


if __name__ == "__main__":
    for run in runs(changed(*sys.argv[1:] or ["main"])):
        print(*run)
