"""The cursor on an element of a tensor."""

from __future__ import annotations

import numpy as np
from ui_player import Input, Player, enter, play
from ui_service import SmallService

from tfdbg_cli.commands.reply import Reply
from tfdbg_cli.common.documents import ChainDocument, TextDocument
from tfdbg_cli.tensors.formatting import TensorView

Keys = list[Input]

VALUES = (np.arange(400).reshape(100, 4) / 7).astype(np.float32)
VALUES[50, 3] = np.nan
VALUES[70, 1] = np.inf


class TensorService(SmallService):
    """The small service with a real tensor."""

    def do_tensor(self, text: str, rest: str) -> Reply:
        """a tensor of 100 x 4 with a nan and an infinity"""
        view = TensorView(VALUES, 79, threshold=0)
        document = ChainDocument([TextDocument(["Tensor:", ""]), view])
        document.initial_search = rest
        return Reply(text, document)

    def do_text(self, text: str, rest: str) -> Reply:
        """a long string"""
        return Reply(text, TensorView(np.array([b"x" * 500, b"short"], object)))


def test_it_moves_and_tells_the_exact_value() -> None:
    def script(screen: Player):
        yield enter("tensor")
        yield ["esc", "c"]
        assert "[0,0] = 0.0" in screen.rows[-2]
        yield ["l", "down"]
        assert "[1,1] = 0.71428573" in screen.rows[-2]
        yield ["right", "right"]
        assert "[1,3] = 1.0" in screen.rows[-2]
        yield ["right"]
        assert "[2,0] = 1.1428572" in screen.rows[-2]
        yield ["h", "k", "k", "k"]
        assert "[0,3] = 0.42857143" in screen.rows[-2]
        assert screen.attribute("0.42857143") == "link-focus"
        yield ["esc", "j", "j", "j"]
        assert "[1,0]-" in screen.rows[-2]

    play(script, TensorService())


def test_enter_opens_all_about_it() -> None:
    def script(screen: Player):
        yield enter("tensor")
        yield enter("@[70,1]")
        assert "[70,1] = inf" in screen.rows[-2]
        yield ["esc", "enter"]
        assert "dtype:   float32" in screen.text
        assert "0x7f800000" in screen.text
        yield ["backspace"]
        assert "[70,1] = inf" in screen.rows[-2]
        yield [":", *"text", "enter"]
        yield ["esc", "c", "enter"]
        assert "500 bytes" in screen.text

    play(script, TensorService())


def test_it_follows_the_bad_elements() -> None:
    def script(screen: Player):
        yield enter("tensor nan|inf")
        yield ["esc"]
        assert "[50,3] = nan" in screen.rows[-2]
        yield ["n", "l", "h"]
        assert "[70,1] = inf" in screen.rows[-2]

    play(script, TensorService())


def test_a_click_and_a_copy(monkeypatch) -> None:
    monkeypatch.delenv("TMUX", raising=False)

    def script(screen: Player):
        yield enter("tensor")
        yield screen.click("0.2857143")
        assert "[0,2] = 0.2857143" in screen.rows[-2]
        yield ["esc", "y"]
        assert 'Copied "0.2857143"' in screen.text
        yield enter(":numbers 5")
        yield ["esc", "c"]
        assert "no elements" in screen.text

    play(script, TensorService())


def test_the_arrows_move_a_clicked_element() -> None:
    def script(screen: Player):
        yield enter("numbers 5")
        yield enter("tensor")
        yield screen.click("0.2857143")
        yield ["right", "down"]
        assert "[1,3] = 1.0" in screen.rows[-2]
        yield ["left", "up"]
        assert "[0,2] = 0.2857143" in screen.rows[-2]
        # A letter begins a command; the arrows are those of the prompt again.
        yield ["h", "left"]
        assert "[0,2] = 0.2857143" in screen.rows[-2]
        assert screen.rows[-1] == "tfdbg> h"
        yield ["ctrl k", "up"]
        assert screen.rows[-1] == "tfdbg> tensor"
        yield ["ctrl u"]
        yield screen.click("0.14285715")
        yield ["down", "enter"]
        assert "dtype:   float32" in screen.text
        yield ["up"]
        assert screen.rows[-1] == "tfdbg> tensor"

    play(script, TensorService())


def test_a_small_screen_has_room_for_its_value() -> None:
    def script(screen: Player):
        yield enter("tensor")
        yield screen.click("0.14285715")
        assert "[0,1] = 0.14285715" in screen.rows[-2]

    for width in (50, 46, 45, 44):
        play(script, TensorService(), size=(width, 12))


def test_n_steps_from_bad_element_to_bad_element() -> None:
    values = VALUES.copy()
    values[50, 0] = -np.inf

    class Service(TensorService):
        def do_tensor(self, text: str, rest: str) -> Reply:
            document = ChainDocument(
                [TextDocument(["| -inf nan | total |"]), TensorView(values, 79, threshold=0)]
            )
            document.initial_search = "nan|-?inf"
            return Reply(text, document)

    def script(screen: Player):
        yield enter("tensor")
        assert "[50,0] = -inf" in screen.text
        seen = []
        for key in ["esc", "n", "n", "N", "N"]:
            yield [key]
            yield ["Y"] if key == "esc" else []
            seen.append(screen.text)
        assert "[50,3] = nan" in seen[1]
        assert "[70,1] = inf" in seen[2]
        assert "[50,3] = nan" in seen[3]
        assert "[50,0] = -inf" in seen[4]

    play(script, Service())


def test_a_search_begun_on_the_page_goes_on_there() -> None:
    def script(screen: Player):
        yield enter("numbers 300")
        yield ["esc", "/", *"line 1?50 ", "enter"]
        yield ["n"]
        assert "line 151, matching line 2 of 2" in screen.text
        yield ["&", *"line 2", "enter"]
        yield ["G"]
        assert screen.rows[-1] == "tfdbg>"
        assert "line 299" in screen.text
        yield [":", *"tensor", "enter"]
        yield ["esc", "@", "enter"]
        assert "Which element?" in screen.text

    play(script, TensorService())


def test_esc_and_a_key_in_quick_succession() -> None:
    def script(screen: Player):
        yield enter("numbers 300")
        yield ["meta G"]
        assert "line 299" in screen.text
        assert "PAGE" in screen.text

    play(script)
