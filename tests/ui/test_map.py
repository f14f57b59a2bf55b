"""Maps of tensors on the screen: the way there and back, closer, other slices, by key and mouse."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from stop_kit import stop_over
from ui_player import Input, Player, enter, play

from tfdbg_cli.commands.service import CommandService
from tfdbg_cli.common.documents import Document, Span
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.tensors.pictures.document import Look, PictureDocument
from tfdbg_cli.tensors.pictures.source import Source

Keys = list[Input]

WAVES = np.outer(np.sin(np.arange(200) / 9), np.cos(np.arange(300) / 9)).astype(np.float32)
WAVES[50, 61] = np.nan
WAVES[150, 10] = np.inf
HEADS = np.random.default_rng(1).standard_normal((12, 32, 32)).astype(np.float32)
HEADS[3, 7, 9] = -np.inf
LARGE = np.zeros((3000, 1000), np.float32)
LARGE[1234, 567] = np.nan

VALUES: dict[str, Any] = {
    "waves": WAVES,
    "heads": HEADS,
    "large": LARGE,
    "small": np.arange(6.0).reshape(2, 3),
    "line": np.arange(1000),
    "words": np.array([b"a", b"b"], object),
    "none": np.zeros((0, 3), np.float32),
    "one": np.float32(2),
    "flags": np.eye(9, dtype=bool),
    "all_nan": np.full((3, 3), np.nan),
}


def service() -> CommandService:
    dump = MemoryDump()
    for number, (name, value) in enumerate(VALUES.items()):
        dump.add(name, 0, value, timestamp=1_000_000 + number)
    return stop_over(dump, info=RunInfo(1, ["waves:0"], {}, "numpy"), title="run-end: run #1")


def map_of(name: str, options: str = "", rows: int = 19, width: int = 79) -> Document:
    reply = service().run(f"pt {name}:0 --map {options}", width)
    assert reply.message is None, reply.message
    assert reply.document is not None
    return reply.document.paged(rows)


@pytest.mark.parametrize("size", [(80, 24), (50, 12), (160, 50), (20, 6)])
def test_v_shows_the_map_and_v_the_numbers_again(size: tuple[int, int]) -> None:
    def script(screen: Player):
        yield enter("pt waves:0 -a")
        yield enter("@50,61")
        yield ["esc", "v"]
        assert "Tensor" in screen.text
        if size[1] > 6:  # beside the legend
            assert sum(row.count("N") for row in screen.page[2:]) == 1 + 3
        if size[0] >= 80:  # which elements the cursor is on, and what they are
            assert re.search(r"\[\d+:\d+,\d+:\d+\] = 1 NaN, mean", screen.rows[-2])
        if size == (160, 50):
            assert "min to max" in screen.text
        yield ["v"]
        # The very element, not the first one of its cell.
        assert "array([[" not in screen.text  # it is far down
        if size[0] >= 50:
            assert "[50,61] = nan" in screen.rows[-2]

    play(script, service(), size=size)


def test_from_a_cell_with_something_bad_v_leads_to_that() -> None:
    def script(screen: Player):
        yield enter("pt waves:0 --map")
        yield ["esc", "c"]
        while "NaN" not in screen.rows[-2]:
            yield ["n"]
        yield ["v"]
        assert "[50,61] = nan" in screen.rows[-2]
        yield ["v", "n"]
        yield ["v"]
        assert "[150,10] = inf" in screen.rows[-2]

    play(script, service(), size=(120, 24))


def test_closer_and_farther_about_the_cursor() -> None:
    def script(screen: Player):
        yield enter("pt waves:0 --map")
        yield ["esc"]
        assert "[0:200, 0:300]" in screen.rows[-2]
        yield ["n"]
        yield ["+"]
        yield ["+", "+", "+"]
        assert "N" in "".join(screen.page[3:])
        yield ["v"]
        assert "[50,61] = nan" in screen.rows[-2]
        yield ["v"]
        assert "[0:200, 0:300]" not in screen.rows[-2]
        yield ["esc", "0"]
        assert "[0:200, 0:300]" in screen.rows[-2]
        yield ["z"]
        assert "[50:150, 75:225]" in screen.rows[-2]
        yield ["right"]
        assert "[50:150, 112:262]" in screen.rows[-2]
        yield ["k", "k", "k"]
        assert "[0:100, 112:262]" in screen.rows[-2]
        yield ["-"]
        assert "[0:200, 0:300]" in screen.rows[-2]

    play(script, service(), size=(130, 24))


def test_the_cursor_goes_on_beyond_the_edge() -> None:
    def script(screen: Player):
        yield enter("pt waves:0 --map")
        yield ["esc", *"zzzzz", "c"]
        shown = screen.rows[-2]
        for _ in range(250):
            yield ["l"]
        assert screen.rows[-2] != shown
        assert re.search(r"\[\d+,299\] =", screen.rows[-2])
        for _ in range(300):
            yield ["down"]
        assert "[199,299] =" in screen.rows[-2]

    play(script, service(), size=(130, 24))


def test_other_slices_side_by_side_and_one_by_one() -> None:
    def script(screen: Player):
        yield enter("pt heads:0 --map")
        yield ["esc"]
        assert "[0, 0:32, 0:32]" in screen.rows[-2]
        yield ["]", "]", "]"]
        assert "[3, 0:32, 0:32]" in screen.rows[-2]
        assert sum(row.count("-") for row in screen.page[4:-1]) == 1
        yield ["["]
        assert "[2, 0:32, 0:32]" in screen.rows[-2]
        yield ["t"]
        assert "12 of 12 slices" in screen.text
        assert "[11]" in screen.text
        yield ["n"]
        assert "1 -inf" in screen.rows[-2]
        yield ["t"]
        assert "[3,7,9]" in screen.rows[-2] or "[3," in screen.rows[-2]
        yield ["esc", "[", "[", "[", "["]
        assert "[11, 0:32, 0:32]" in screen.rows[-2]

    play(script, service(), size=(140, 40))


def test_more_slices_than_a_page_holds_come_page_by_page() -> None:
    source = Source(np.zeros((300, 4, 4)))
    document: Document = PictureDocument(source, [Span("x")], Look(tiles=True), 79, 19)
    seen: list[str] = []
    for _ in range(40):
        labels = re.findall(r"\[(\d+)\]", document.text)
        assert labels
        if seen and labels[0] == "0":
            break
        seen += labels
        document = document.turned("next slice").document
    assert [*map(int, seen)] == [*range(300)]
    back = document.turned("next slice").document.turned("previous slice").document
    assert "[0]" in back.text


def test_slices_without_end_are_not_counted_one_by_one() -> None:
    values = np.broadcast_to(np.float32(1), (10**9, 10**3, 2, 2))
    look = Look(tiles=True)
    document: Document = PictureDocument(Source(values), [Span("x")], look, 79, 19)
    assert "of 1000000000000 slices" in document.text
    one = document.turned("tiles", (10**9 - 1, 999, 1, 1))
    assert one.document.turned("next slice").document.status(0, 9) == "[0, 0, 0:2, 0:2]"


def test_other_dimensions_are_rows_and_columns() -> None:
    values = np.arange(2.0 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    values[1, 2, 3, 4] = np.nan
    document: Document = PictureDocument(Source(values), [Span("x")], Look(), 79, 19)
    assert document.status(0, 9) == "[0, 0, 0:4, 0:5]"
    seen = set()
    for _ in range(6):
        turned = document.turned("axes", (1, 2, 3, 4))
        document = turned.document
        assert turned.indices == (1, 2, 3, 4)
        seen.add(document.status(0, 9))
        assert "N" in document.lines(document.locate((1, 2, 3, 4)), 99)[0].text
        found = document.element((1, 2, 3, 4))
        assert found is not None
        assert "nan" in found.lines(0, 1)[0].text
        bad = document.turned("next bad")
        assert bad.indices == (1, 2, 3, 4)
    assert seen == {
        *("[1, 0:3, 3, 0:5]", "[1, 0:3, 0:4, 4]", "[0:2, 2, 3, 0:5]"),
        *("[0:2, 2, 0:4, 4]", "[0:2, 0:3, 3, 4]", "[1, 2, 0:4, 0:5]"),
    }
    matrix = Source(np.arange(6.0).reshape(2, 3))
    flat = PictureDocument(matrix, [Span("x")], Look(), 79, 19).turned("axes", (1, 2))
    assert "rows: axis 1, columns: axis 0" in flat.document.text
    element = flat.document.element((1, 2))
    assert element is not None
    assert element.lines(0, 1)[0].text == "[1,2] = 5.0"
    line = PictureDocument(Source(np.arange(6.0)), [Span("x")], Look(), 79, 19)
    with pytest.raises(UserError, match="one dimension"):
        line.turned("axes")


def test_a_transposed_cell_lists_what_is_bad_in_it() -> None:
    values = np.zeros((300, 400))
    values[17, 23] = np.inf
    look = Look(axes=(1, 0))
    document = PictureDocument(Source(values), [Span("x")], look, 79, 19)
    found = document.element((17, 23))
    assert found is not None
    assert "[17,23]  inf" in found.text
    assert document.cells(document.locate((17, 23)))


def test_scales_and_what_cells_show() -> None:
    def script(screen: Player):
        yield enter("pt waves:0 --map")
        yield ["esc"]
        for text in ("quantiles 2% to 98%", "symmetric about 0", "log of the magnitude"):
            yield ["s"]
            assert text in screen.text
        yield ["s", "r"]
        assert "min to max, a cell: extreme of" in screen.text

    play(script, service(), size=(100, 30))


def test_the_wheel_and_a_drag() -> None:
    def script(screen: Player):
        yield enter("pt waves:0 --map")
        yield [("mouse press", 4, 30, 10)]
        assert "[0:200, 0:300]" not in screen.text
        yield [("mouse press", 4, 30, 10)]
        yield [("mouse press", 1, 30, 10)]
        before = screen.rows[-2]
        grabbed = re.search(r"\[(\d+)", before)
        assert grabbed is not None
        yield [("mouse drag", 1, 20, 8), ("mouse release", 0, 20, 8)]
        yield [("mouse press", 1, 20, 8), ("mouse release", 0, 20, 8)]
        after = re.search(r"\[(\d+)", screen.rows[-2])
        assert after is not None
        assert abs(int(after[1]) - int(grabbed[1])) <= 8  # the same cell, about
        yield [("mouse press", 5, 30, 10), ("mouse press", 5, 30, 10)]
        yield [("mouse press", 5, 30, 10), "esc", "esc"]
        assert "[0:200, 0:300]" in screen.text

    play(script, service(), size=(100, 30))


def test_a_large_map_is_a_sample_first_and_says_when_it_is_exact() -> None:
    # A thread would look at these for hours; it ends at the next piece when nobody asks for it.
    values = np.broadcast_to(np.float32(0), (1 << 20, 1 << 20))
    endless = PictureDocument(Source(values), [Span("x")], Look(), 79)
    assert "by a sample; exact follows" in endless.lines(0, 99)[2].text
    assert endless.pending
    del endless
    document = map_of("large")
    document.settle(0, 99)
    exact = document.lines(0, 99)
    assert "exact" in exact[2].text
    assert "sample" not in exact[2].text
    assert sum(made.text.count("N") for made in exact[3:]) == 1

    def script(screen: Player):
        yield enter("pt large:0 --map")
        while ", exact" not in screen.text:
            yield []
        assert sum(row.count("N") for row in screen.page[3:]) == 1

    play(script, service(), size=(100, 30))


def test_what_can_be_drawn_and_what_cannot() -> None:
    assert "@" in map_of("flags").text
    assert "no finite element  N NaN" in map_of("all_nan").text
    assert map_of("line").text.count("\n") < 12
    assert "2" in map_of("small").text

    def script(screen: Player):
        for name, text in (
            ("words", "Elements of type string make no picture"),
            ("none", "An empty tensor of shape (0, 3) makes no picture"),
            ("one", "A single element makes no picture"),
        ):
            yield enter(f"pt {name}:0 --map")
            assert text in screen.text
            yield enter(f"pt {name}:0")
            yield ["esc", "v", ":"]  # the pager's, as on every other page
            assert "array" in screen.text or "Tensor" in screen.text
        yield enter("pt waves:0 --map -s")
        assert "--map shows a picture, -s numbers" in screen.text
        yield enter("pt waves:0 --scale log")
        assert "go with --map" in screen.text
        yield enter("pt waves:0 --map --scale sideways")
        assert "sideways" in screen.text

    play(script, service(), size=(100, 30))


def test_a_resized_terminal_gets_another_map() -> None:
    document = map_of("waves", rows=19, width=79)
    small = document.resized(49).paged(7)
    assert small.line_count <= 7
    assert max(len(made.text) for made in small.lines(1, 99)) <= 49
    assert document.resized(79) is document
    assert small.locate((50, 61)) < small.line_count
    with pytest.raises(UserError, match="There is no element"):
        small.locate((500, 1))
    with pytest.raises(UserError, match="has no other view"):
        small.turned("inside out")


def test_the_cursor_stays_where_it_is_when_the_terminal_is_resized() -> None:
    def script(screen: Player):
        yield enter("pt waves:0 --map")
        yield ["esc", "n"]
        assert "1 NaN" in screen.rows[-2]
        for size in ((100, 20), (60, 14), (50, 12), (140, 40)):
            screen.size = size
            yield ["window resize"]
            assert "1 NaN" in screen.rows[-2]
            assert not any(">" in row for row in screen.page[3:])

    play(script, service(), size=(120, 30))


def test_every_character_of_the_map_knows_its_elements() -> None:
    for name, options in (("waves", ""), ("heads", "--multiples"), ("line", ""), ("small", "")):
        document = map_of(name, options)
        seen = np.zeros(VALUES[name].shape, int)
        for number, made in enumerate(document):
            for cell in document.cells(number):
                assert cell.stop <= len(made.text)
                last = cell.last or cell.indices
                block = tuple(slice(a, b + 1) for a, b in zip(cell.indices, last, strict=True))
                seen[block] = 1
                found = document.element(cell.indices)
                assert found is not None
                assert found.lines(0, 1)[0].text.startswith("[")
        assert seen.all()


def test_a_part_of_one_picture_stays_what_it_is() -> None:
    source = Source(np.arange(64.0).reshape(8, 8))
    document = PictureDocument(source, [Span("x")], Look(region=(2, 2, 4, 4)), 79, 19)
    assert document.status(0, 9) == "[2:6, 2:6]"
    with pytest.raises(UserError, match="isn't in this part"):
        document.locate((0, 0))
    with pytest.raises(UserError, match="no numbers"):
        document.turned("picture")
    with pytest.raises(UserError, match="one picture"):
        document.turned("tiles")
    with pytest.raises(UserError, match="one picture"):
        document.turned("next slice")
    with pytest.raises(UserError, match="nan or infinite"):
        document.turned("next bad")
    moved = document.turned("drag:-1,1", (5, 5))
    assert moved.document.status(0, 9) == "[1:5, 3:7]"
    assert moved.indices == (4, 5)


def test_names_that_would_act_on_a_terminal_dont() -> None:
    source = Source(np.ones((2, 2)))
    document = PictureDocument(source, [Span("evil\x1b]0;x\x07")], Look(), 79, 19)
    assert "\x1b" not in document.text
