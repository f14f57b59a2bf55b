"""What leaves the screen: the clipboard, the pager, the editor; and keys of two."""

from __future__ import annotations

import base64
import shlex
from pathlib import Path

import pytest
from ui_player import Input, Player, enter, play
from ui_service import SmallService

Keys = list[Input]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMUX", "PAGER", "VISUAL", "EDITOR"):
        monkeypatch.delenv(name, raising=False)


def clipboard(screen: Player) -> str:
    prefix = "\x1b]52;c;"
    assert screen.sent[-1].startswith(prefix)
    assert screen.sent[-1].endswith("\x07")
    return base64.b64decode(screen.sent[-1].removeprefix(prefix)[:-1]).decode()


def test_copying_by_osc_52():
    def script(screen: Player):
        yield enter("numbers 50")
        yield ["esc", "y"]
        assert clipboard(screen) == "line 0 first second"
        assert 'Copied "line 0 first second".' in screen.text
        yield ["tab", "tab", "y"]
        assert clipboard(screen) == "second"
        yield ["Y"]
        assert clipboard(screen).splitlines()[0] == "line 0 first second"
        assert clipboard(screen).count("\n") == len(screen.page) - 2
        yield [":", *"wide", "enter"]
        yield ["esc", "y"]
        assert clipboard(screen).startswith("日本語")

    play(script)


def test_too_much_for_a_clipboard_is_refused():
    class Service(SmallService):
        def do_long(self, text, rest):
            reply = self.do_wide(text, rest)
            reply.document._lines[0] = type(reply.document._lines[0])(
                [reply.document._lines[0].spans[0]._replace(text="x" * 60_000)]
            )
            return reply

    def script(screen: Player):
        yield enter("long")
        yield ["esc", "y"]
        assert screen.sent == []
        assert "writes it to a file" in screen.text

    play(script, Service())


def test_the_pager_gets_every_line(monkeypatch):
    monkeypatch.setenv("PAGER", "my-pager -x")

    def script(screen: Player):
        yield enter("numbers 500")
        yield ["esc", "V"]
        command, text = screen.programs[-1]
        assert command == "my-pager -x"
        assert text.splitlines()[-1] == "line 499 first second"
        assert "line 0 first" in screen.text

    play(script)


def test_the_editor_edits_the_line(monkeypatch):
    monkeypatch.setenv("EDITOR", "my-editor")
    seen = []

    def script(screen: Player):
        def edit(command: str) -> int:
            name, path = shlex.split(command)
            seen.append((name, Path(path).read_text()))
            Path(path).write_text("pick 1 1\n\n  pick 2 1\n")
            return 0

        screen.run_program = edit
        yield [*"numbers", "ctrl x"]
        assert "Ctrl-X …" in screen.text
        yield ["ctrl e"]
        assert screen.rows[-1] == "tfdbg> pick 1 1; pick 2 1"
        screen.run_program = lambda command: 1
        yield ["ctrl x", "ctrl e"]
        assert "as it was" in screen.text
        assert screen.rows[-1] == "tfdbg> pick 1 1; pick 2 1"
        assert not Path(seen[0][1]).exists()

    play(script)
    assert seen == [("my-editor", "numbers\n")]


def test_a_key_behind_ctrl_x_that_means_nothing():
    def script(screen: Player):
        yield ["ctrl x", "z"]
        yield [*"pick 1 1", "enter"]
        assert "picked 1 1" in screen.text

    play(script)


def test_m_toggles_the_mouse():
    def script(screen: Player):
        assert screen.mouse
        yield ["esc", "m"]
        assert not screen.mouse
        assert "drag selects" in screen.text
        yield ["m"]
        assert screen.mouse

    play(script)
