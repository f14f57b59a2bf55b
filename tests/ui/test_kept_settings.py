"""What outlives a session: what a person says so of, and no script does."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from test_hyperlinks import PROGRAM
from test_terminal import terminal  # noqa: F401 (a fixture)


@pytest.mark.parametrize("ui", ["screen", "line", "plain"])
def test_at_a_prompt_looks_are_kept_and_all_else_when_asked(terminal, tmp_path, ui):  # noqa: F811
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    kept = tmp_path / "tfdbg_cli" / "config.json"
    command = (sys.executable, "-m", "tfdbg_cli", "--ui", ui, str(program))
    seen = terminal(size=(110, 60), command=command, XDG_CONFIG_HOME=str(tmp_path))
    seen.until("invoke_stepper")
    seen.child.send("config set level ops\r")
    seen.until("level: ops, in this session. config save keeps")
    assert not kept.exists()
    seen.child.send("config set theme dark\r")
    seen.until("theme: dark, in this session and later ones.")
    assert json.loads(kept.read_text()) == {"theme": "dark"}
    seen.child.send("config save\r")
    seen.until("Kept: level.")
    assert json.loads(kept.read_text()) == {"theme": "dark", "level": "ops"}
    seen.child.send("run_info\r")
    seen.until("Set by the settings file: level ops")


@pytest.mark.parametrize("way", ["-c", "pipe", "source", "alias"])
def test_what_a_script_sets_holds_for_its_session(tmp_path, way):
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    commands = ["config set level ops", "config set theme dark", "alias mine = lt"]
    (tmp_path / "script").write_text("\n".join(commands))
    options, typed = ["--batch"], ""
    if way == "pipe":
        options, typed = ["--ui", "plain"], "\n".join([*commands, "config", "exit"])
    elif way == "source":
        options += ["-c", f"source {tmp_path / 'script'}", "-c", "config"]
    elif way == "alias":
        options += ["-c", f"alias all = {'; '.join(commands[:2])}", "-c", "all", "-c", "config"]
    else:
        options += [word for command in [*commands, "config"] for word in ("-c", command)]
    done = subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", *options, program],
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)},
        input=typed,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "ERROR" not in done.stderr and done.returncode == 0, done.stderr
    shown = done.stdout.rpartition("--- config ---")[2] or done.stdout
    assert "level: ops                  session" in shown
    assert "theme: dark                 session" in shown
    assert not (tmp_path / "tfdbg_cli" / "config.json").exists()
