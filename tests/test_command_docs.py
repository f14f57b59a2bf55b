"""Every command is documented, and docs/commands.md is what the registry says."""

import subprocess
import sys
from pathlib import Path

import pytest

from tfdbg_cli.commands.builtin import make_registry
from tfdbg_cli.commands.context import ALL_MODES

ROOT = Path(__file__).parent.parent

# What nobody can enumerate.
FREE = {
    "K", "N", "X", "RE", "REGEX", "RANGES", "INTERVAL", "NAME", "EXPRESSION",
    "R,C", "NUM", "LOWER", "UPPER",
}  # fmt: skip


@pytest.mark.parametrize("script", ["command_docs", "man_page"])
def test_the_document_is_not_stale(script):
    done = subprocess.run(
        [sys.executable, f"scripts/{script}.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("command", make_registry().commands, ids=lambda command: command.name)
def test_a_command_has_summary_help_completion_and_examples(command):
    assert command.summary.endswith(".")
    assert command.group
    assert command.examples
    for text, what in command.examples:
        assert text.split()[0] in (command.name, *command.aliases)
        assert what, text
    for argument in command.arguments:
        assert argument.summary, argument.flags
        if argument.takes_value and argument.kind is not int:
            completes = argument.complete is not None or argument.choices
            assert completes or argument.metavar in FREE, argument.flags


def test_names_are_used_once_at_each_stop():
    for mode in ALL_MODES:
        names = [
            name
            for command in make_registry().commands
            if mode in command.modes
            for name in (command.name, *command.aliases)
        ]
        assert len(names) == len(set(names)), mode
