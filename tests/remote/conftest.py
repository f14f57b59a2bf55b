"""Programs and terminals that end with the test."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from terminal_kit import terminals

if sys.platform == "win32":
    collect_ignore_glob = ["test_*.py"]
else:
    from remote_kit import Job, Screen


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """Starts a program; it listens at a free port unless something else is said."""
    started: list[Job] = []

    def start(*arguments: str, **options: object) -> Job:
        listens = options.pop("listens", True)
        if listens and options.get("launcher", True) and "--listen" not in arguments:
            arguments = ("--listen", "0", *arguments)
        started.append(Job(tmp_path, *arguments, **options))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for made in started:
        with contextlib.suppress(OSError):
            made.process.kill()
        made.process.wait()


@pytest.fixture
def screen() -> Iterator[Callable[..., Screen]]:
    """Attaches on a terminal."""
    with terminals(Screen) as attach:
        yield attach
