"""The full screen: commands at work, their questions, messages and errors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from ui_player import Input, PlayedTerminal, Player, enter, play
from ui_service import SmallService

from tfdbg_cli.commands.reply import Leave, Reply, Toast
from tfdbg_cli.common.documents import LazyDocument, Line, line
from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.ui.base import CommandQueue
from tfdbg_cli.ui.bindings import COMMAND
from tfdbg_cli.ui.keys import KEYS, Where
from tfdbg_cli.ui.screen import ScreenUI
from tfdbg_cli.ui.screen.app import App
from tfdbg_cli.ui.screen.input.controls import Controls
from tfdbg_cli.ui.screen.stack import ViewStack

Keys = Iterator[list[Input]]


def test_a_question_waits_for_its_answer() -> None:
    service = SmallService()

    def script(screen: Player) -> Keys:
        yield enter("ask")
        assert "Really?" in screen.text
        assert "[y] yes" in screen.text
        assert screen.cursor is None
        yield ["x", "enter"]
        assert "Really?" in screen.text
        yield ["esc"]
        assert "Really?" not in screen.text
        yield enter("ask")
        yield enter("yonder")  # a command of somebody who didn't look is not an answer
        assert "Really?" in screen.text
        yield enter("n")
        assert "Really?" not in screen.text
        assert service.ran[-1] == "ask"
        yield enter("ask")
        yield [*"nx", "backspace", "backspace"]
        yield enter("yes")
        assert service.ran[-1] == "say yes it is"
        assert "yes it is" in screen.text
        yield enter("ask")
        yield screen.click("[y] yes")
        assert service.ran[-1] == "say yes it is"

    play(script, service)


def test_leaving_asks_first() -> None:
    def script(screen: Player) -> Keys:
        yield ["ctrl d"]
        assert "Leave the debugger?" in screen.text
        yield enter("e")
        raise AssertionError("still there")

    assert play(script) == Leave("end")


def test_a_shorter_message_leaves_nothing_of_a_longer_one() -> None:
    def script(screen: Player) -> Keys:
        yield enter("say " + "a-message-that-needs-more-than-one-row-of-the-screen " * 3)
        assert screen.text.count("a-message") == 3
        yield enter("say short")
        assert screen.rows[-2] == " short"
        assert "a-message" not in screen.text
        yield ["x"]
        assert "short" not in screen.text
        assert "F1: keys" in screen.rows[-2]

    play(script)


def test_errors_and_their_details() -> None:
    def script(screen: Player) -> Keys:
        yield ["f2"]
        assert "no error with details" in screen.text
        yield enter("nonsense")
        assert 'ERROR: There is no command "nonsense".' in screen.text
        assert screen.attribute("ERROR") == "toast-error"
        assert "details" not in screen.text
        yield ["f2"]
        assert screen.page[0] == 'There is no command "nonsense".'
        yield enter("fail")
        assert "It failed. Try again.  (F2: details)" in screen.text
        yield ["f2"]
        assert screen.page[0] == "Traceback (most recent call last):"
        yield ["meta left", "esc", "e"]
        assert "ValueError: no" in screen.text

    play(script)


def test_the_message_while_a_command_is_at_work() -> None:
    def script(screen: Player) -> Keys:
        screen.seen.clear()
        yield enter("pick 1 1")
        assert any(" Processing…" in rows for rows in screen.seen[:-1])
        assert "Processing" not in screen.text

    play(script)


def test_the_help_of_the_keys_names_every_key() -> None:
    def script(screen: Player) -> Keys:
        yield ["f1"]
        assert screen.rows[0].startswith("--- Keys of this screen ---")
        yield ["f1"]  # again: all of them
        assert screen.rows[0].startswith("--- Keys ---")
        yield ["meta left", "?", "?"]
        assert screen.rows[1].endswith("| (keys)")
        yield enter("/half a page up")
        assert "u Ctrl-U" in screen.text

    play(script, size=(100, 30))


def test_every_key_of_the_table_does_something() -> None:
    app = App(SmallService(), CommandQueue(), ViewStack(), True, (80, 24))
    actions = Controls(app).actions
    assert {key.action for key in KEYS if not key.action.startswith(COMMAND)} == actions
    names = [(key.where, name) for key in KEYS for name in key.keys]
    assert len(names) == len(set(names))
    assert {key.where for key in KEYS} == set(Where)


def test_queued_commands_run_before_the_screen_is_shown() -> None:
    def script(screen: Player) -> Keys:
        assert screen.rows[1].endswith("3/3 | wide")
        yield ["meta left"]
        assert screen.rows[1].endswith("2/3 | numbers 300")

    queue = CommandQueue(["numbers 300", "bogus", "wide"])
    play(script, queue=queue)
    assert queue.failed


def test_a_queue_that_leaves_never_opens_the_terminal() -> None:
    def script(screen: Player) -> Keys:
        raise AssertionError("the screen was drawn")
        yield []

    queue = CommandQueue(["run -t 5", "pick 1 1"])
    assert play(script, queue=queue) == Leave("run -t 5")
    assert queue.take() == "pick 1 1"


def test_the_queue_goes_on_after_a_question() -> None:
    service = SmallService()

    def script(screen: Player) -> Keys:
        assert "Really?" in screen.text
        assert service.ran == ["info", "ask"]
        yield enter("n")
        assert service.ran == ["info", "ask", "pick 1 1"]

    play(script, service, queue=CommandQueue(["ask", "pick 1 1"]))


def test_a_bug_in_a_command_reaches_the_caller_as_it_is() -> None:
    def script(screen: Player) -> Keys:
        yield enter("crash now")

    with pytest.raises(RuntimeError, match=r"^crash now$"):
        play(script)


def test_a_stop_inside_a_command_of_a_stop_is_passed_over() -> None:
    service = SmallService()

    def script(screen: Player) -> Keys:
        yield enter("nested")
        assert "inner left with detach" in screen.text

    ui = ScreenUI(service.settings, open_terminal=lambda: PlayedTerminal(script, (80, 24)))

    def nested(text: str, rest: str) -> Reply:
        leave = ui.interact(SmallService(), CommandQueue())
        return Reply(text, message=Toast(f"inner left with {leave.action}"))

    service.do_nested = nested  # type: ignore[attr-defined]
    ui.interact(service, CommandQueue())


def test_a_document_that_breaks_spoils_its_own_screen_only() -> None:
    service = SmallService()

    def broken(text: str, rest: str) -> Reply:
        def make(number: int) -> Line:
            if number >= 30:
                raise DumpError("The file a_0 is damaged.")
            return line(f"line {number} ", ("link", "link", "pick 1 1"))

        return Reply(text, LazyDocument(100, make))

    service.do_broken = broken  # type: ignore[attr-defined]

    def script(screen: Player) -> Keys:
        yield enter("broken")
        yield ["end", "tab"]
        assert "This part can't be shown: The file a_0 is damaged." in screen.text
        yield enter("/nowhere")
        assert "ERROR: The file a_0 is damaged." in screen.text
        yield ["home", "tab", "enter"]
        assert service.ran[-1] == "pick 1 1"

    play(script, service)


@pytest.mark.parametrize("size", [(20, 5), (28, 8), (50, 12)])
def test_all_answers_of_a_question_can_be_seen_and_clicked(size: tuple[int, int]) -> None:
    def script(screen: Player) -> Keys:
        yield enter("exit")
        for key in ("[c]", "[e]", "[s]", "[Esc]"):
            column, row = screen.place(key)
            target = screen.rows[row][column : column + len(key)]
            assert target == key
        yield screen.click("[e]")
        raise AssertionError("still there")

    assert play(script, size=size) == Leave("end")


def test_a_message_without_room_is_a_key_away() -> None:
    text = " ".join(f"word-{number}" for number in range(60))

    def script(screen: Player) -> Keys:
        yield enter(f"say {text}")
        assert "… (F2: all of it)" in screen.text
        yield ["f2"]
        assert screen.page[0].startswith("word-0 word-1 ")
        yield enter("/word-59")
        assert screen.attribute("word-59") == "match-current"

    play(script, size=(40, 12))
