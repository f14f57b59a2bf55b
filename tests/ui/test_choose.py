"""Which UI is made, and what is imported for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tfdbg_cli.common.settings import Settings
from tfdbg_cli.ui.choose import KINDS, make_ui
from tfdbg_cli.ui.plain import PlainUI

ROOT = Path(__file__).parents[2]


def _python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_terminal_every_kind_is_plain_and_imports_nothing(kind: str) -> None:
    program = f"""
import sys
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.ui.choose import make_ui
ui = make_ui({kind!r}, Settings(None))
print(type(ui).__name__, sorted({{"urwid", "prompt_toolkit"}} & set(sys.modules)))
"""
    done = _python(program)
    assert done.stdout == "PlainUI []\n"
    notes = done.stderr.splitlines()
    if kind in {"auto", "plain"}:
        assert notes == []
    else:
        assert len(notes) == 1
        assert "stdin is no terminal" in notes[0]


def test_batch_is_plain() -> None:
    assert isinstance(make_ui("auto", Settings(None), batch=True), PlainUI)


def test_mouse_and_theme_of_the_command_line_hold_for_the_session() -> None:
    settings = Settings(None)
    make_ui("plain", settings, mouse=False, theme="light")
    assert settings.get("mouse_mode") is False
    assert settings.get("theme") == "light"


def test_an_unknown_kind() -> None:
    with pytest.raises(ValueError, match="there are auto, screen"):
        make_ui("gtk", Settings(None))
