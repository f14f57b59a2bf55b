"""Links of the terminal's own (OSC 8) on lines of source, in the line UI."""

from __future__ import annotations

import re
import socket
import sys

import pytest
from test_line import Session, session  # noqa: F401 (a fixture)
from test_terminal import terminal  # noqa: F401 (a fixture)

from tfdbg_cli.commands.reply import Reply
from tfdbg_cli.common.documents import TextDocument, line
from tfdbg_cli.ui.hyperlinks import style_of

END = "\x1b]8;;\x1b\\"


def shown(session, command):  # noqa: F811
    """What is printed of a line that leads to a command of the debugger's."""
    made = Reply("show", TextDocument([line("at ", ("train.py:12", "link", command), " and on")]))
    session.service.do_show = lambda text, rest: made
    session.run("exit --detach\r", "show")
    return session.text


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("file", "file://{host}{path}"),
        ("kitty", "file://{host}{path}#12"),
        ("vscode", "vscode://file{path}:12"),
    ],
)
def test_a_line_of_source_is_a_link(session, tmp_path, monkeypatch, style, expected):  # noqa: F811
    monkeypatch.setenv("TERM", "xterm-256color")
    path = tmp_path / "my train.py"
    path.write_text("pass\n")
    session.service.settings.override("hyperlinks", style)
    text = shown(session, f'ps "{path}" -b 12')
    target = expected.format(host=socket.gethostname(), path=str(path).replace(" ", "%20"))
    begin, _, rest = text.partition(f"\x1b]8;;{target}\x1b\\")
    assert rest, text
    linked, _, after = rest.partition(END)
    assert re.sub(r"\x1b\[[\d;]*m", "", linked) == "train.py:12"
    assert "\x1b]8" not in begin + after


@pytest.mark.parametrize("command", ["ps /no/such/file.py -b 12", "pt a:0", "ps train.py -b 3"])
def test_nothing_else_is(session, monkeypatch, command):  # noqa: F811
    monkeypatch.setenv("TERM", "xterm-256color")
    session.service.settings.override("hyperlinks", "file")
    assert "\x1b]8" not in shown(session, command)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"TERM": "xterm-kitty"}, "kitty"),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "vscode"}, "vscode"),
        ({"TERM": "xterm-256color", "VTE_VERSION": "7002"}, "file"),
        ({"TERM": "xterm-256color", "VTE_VERSION": "4200"}, ""),
        ({"TERM": "xterm-256color"}, ""),
        ({"TERM": "dumb", "TERM_PROGRAM": "vscode"}, ""),
        ({"TERM": "xterm-kitty", "NO_HYPERLINK": "1"}, ""),
        ({"TERM": "xterm-kitty", "FORCE_HYPERLINK": "0"}, ""),
        ({"TERM": "screen-256color", "VTE_VERSION": "7002"}, ""),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/x"}, ""),
        ({}, ""),
    ],
)
def test_only_where_they_are_known_to_work(environment, expected):
    assert style_of("auto", environment) == expected


def test_the_setting_comes_first_but_for_a_dumb_terminal():
    assert style_of("off", {"TERM": "xterm-kitty"}) == ""
    assert style_of("file", {"TERM": "xterm-256color", "TMUX": "x"}) == "file"
    assert style_of("file", {"TERM": "dumb"}) == ""


PROGRAM = """
import numpy as np
from tfdbg_cli.engines import numpy as tf

y = tf.log(tf.constant(np.float32(0), name="x"), name="y")
with tf.Session() as session:
    session.run(y)
"""


def test_the_full_screen_has_them_too(terminal, tmp_path):  # noqa: F811
    program = tmp_path / "train.py"
    program.write_text(PROGRAM)
    options = "-m", "tfdbg_cli", "--ui", "screen", "-c", "run", "-c", "ni -t y", str(program)
    command = sys.executable, *options
    seen = terminal(size=(100, 30), command=command, XDG_CONFIG_HOME=str(tmp_path))
    seen.until("Traceback of node construction")
    seen.until("train.py")
    assert "\x1b]8;;" not in seen.raw  # it isn't known of this terminal
    seen.child.send("config set hyperlinks vscode\r")
    seen.until("hyperlinks: vscode")
    before = len(seen.raw)
    seen.child.send("ni -t y\r")
    seen.until("Traceback of node construction")
    target = f"\x1b]8;;vscode://file{program}:5\x1b\\"
    seen.until(lambda: END in seen.raw[before:].partition(target)[2])
    linked = seen.raw[before:].partition(target)[2].partition(END)[0]
    assert re.sub(r"\x1b\[[\d;]*m", "", linked).strip()
    seen.child.send("config set hyperlinks off\r")
    seen.until(lambda: "hyperlinks: off" in seen.text)
    before = len(seen.raw)
    seen.child.send("ni -t y\r")
    seen.until("Traceback of node construction")
    assert "\x1b]8;;v" not in seen.raw[before:]
