"""Lines of several commands, searches that come with a Document, and values that come later."""

from __future__ import annotations

import threading

from ui_player import Input, Player, enter, play
from ui_service import SmallService

from tfdbg_cli.commands.reply import Leave, Reply
from tfdbg_cli.commands.shell.parsing import split_command
from tfdbg_cli.common.documents import Document, LazyDocument, Line, line
from tfdbg_cli.ui.base import CommandQueue

Keys = list[Input]


class ScriptService(SmallService):
    """The small service, with ``;`` and Documents that are not ready at once."""

    def __init__(self) -> None:
        super().__init__()
        self.ready = threading.Event()

    def run(self, text: str, width: int = 80) -> Reply:
        first, rest = split_command(text)
        if first.startswith("found "):
            first = text
        reply = super().run(first, width)
        if rest and not reply.failed:
            return Reply(
                reply.command, reply.document, reply.message, leave=reply.leave, rest=(rest,)
            )
        return reply

    def do_found(self, text: str, rest: str) -> Reply:
        """a Document that brings its search"""
        document = LazyDocument(300, lambda number: line(f"line {number}"))
        document.initial_search = rest
        return Reply(text, document)

    def do_later(self, text: str, rest: str) -> Reply:
        """a Document whose second line needs time"""
        return Reply(text, _Later(self.ready))


class _Later(Document):
    line_count = 2

    def __init__(self, ready: threading.Event) -> None:
        self._ready = ready

    @property
    def pending(self) -> bool:
        return not self._ready.is_set()

    def lines(self, start: int, stop: int) -> list[Line]:
        made = [line("name"), line("value" if self._ready.is_set() else "waiting")]
        return made[start:stop]


def test_commands_of_a_line_run_one_after_the_other_and_are_screens() -> None:
    service = ScriptService()

    def script(screen: Player):
        yield enter("numbers 5; pick 1 1; pick 2 1")
        assert "picked 2 1" in screen.text
        yield ["esc", "backspace"]
        assert "picked 1 1" in screen.text

    play(script, service)
    assert service.history.items == ["numbers 5; pick 1 1; pick 2 1"]


def test_an_error_ends_a_line() -> None:
    service = ScriptService()

    def script(screen: Player):
        yield enter("numbers 5; bogus; pick 2 1; pick 3 1")
        assert "bogus" in screen.text
        assert "picked" not in screen.text
        yield enter("pick 4 1")
        assert "picked 4 1" in screen.text

    play(script, service)
    assert service.ran[1:4] == ["numbers 5", "bogus", "pick 4 1"]


def test_what_stands_behind_run_waits_for_the_next_stop() -> None:
    queue = CommandQueue()

    def script(screen: Player):
        yield enter("run; pick 7 1")

    assert play(script, ScriptService(), queue=queue) == Leave("run")

    def next_stop(screen: Player):
        yield []
        assert "picked 7 1" in screen.text

    play(next_stop, ScriptService(), queue=queue)


def test_a_document_brings_its_search() -> None:
    def script(screen: Player):
        yield enter("found line 1?50$")
        assert screen.attribute("line 50") == "match-current"
        assert "matching line 1 of 2" in screen.text
        yield ["esc", "n"]
        assert "line 150" in screen.text
        yield ["N"]
        assert "matching line 1 of 2" in screen.text
        yield enter("found nothing")

    play(script, ScriptService())


def test_what_comes_later_is_drawn_without_a_key() -> None:
    service = ScriptService()

    def script(screen: Player):
        yield enter("later")
        assert "waiting" in screen.text
        service.ready.set()
        while "waiting" in screen.text:
            yield []

    play(script, service)
    assert service.ready.is_set()
