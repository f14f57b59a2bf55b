"""``graph``: what is drawn, where it comes to lie, and that it stays small."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from command_kit import Shell, debug_run
from hypothesis import given, settings
from hypothesis import strategies as st

from tfdbg_cli.commands.graph.drawing.layers import BOX_ROWS, Net, lay_out
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines import numpy as tf

SVG = "{http://www.w3.org/2000/svg}"


def boxes(text):
    """The names in the boxes of a picture, from above to below."""
    # A character in each column: a wide one takes two.
    text = re.sub("[\u3000-\u9fff]", "\\g<0>\0", re.sub("[\u0300-\u036f]", "", text))
    lines = text.split("\n")
    found = []
    for above, here in pairwise(lines):
        for match in re.finditer(r"[│║] (\S.*?) *[│║](?= |$)", here):
            if match.start() < len(above) and above[match.start()] in "┌╔":
                assert above[match.end() - 1] in "┐╗"
                found.append(match[1].replace("\0", ""))
    return found


def test_inputs_stand_above_and_recipients_below(shell):
    text = shell.text("graph hidden/Relu -d 1")
    assert boxes(text) == ["hidden/MatMul", "hidden/Relu", "bad/Log", "last"]
    assert "║ hidden/Relu" in text
    assert "│ MatMul" in text
    assert boxes(shell.text("graph hidden/Relu:0")) == boxes(shell.text("g hidden/Relu -d 2"))
    assert "input/x" in boxes(shell.text("graph hidden/Relu -d 2"))


def test_what_is_bad_is_marked_and_drawn_in_heavy_lines(shell):
    text = shell.text("graph bad/Log -d 1")
    assert "┬ ✗ 2 -inf " in text
    assert "━" in text or "┃" in text
    assert "┬ ✓ " in text
    document = shell.document("graph bad/Log -d 1")
    spans = [span for line in document for span in line.spans]
    bad = next(span for span in spans if span.text == "✗ 2 -inf")
    assert (bad.role, bad.link.command) == ("inf", "pt bad/Log:0 --bad")
    # What nobody reads has a state as well.
    assert "✗ 2 nan" in shell.text("graph bad/Mul -d 1")


def test_control_edges_are_dashed_and_only_drawn_if_asked_for(shell):
    assert "after" not in boxes(shell.text("graph hidden/MatMul -d 1"))
    text = shell.text("graph hidden/MatMul -d 1 -c")
    assert "after" in boxes(text)
    assert "┆" in text or "┄" in text
    assert "control edge" in text


def test_a_loop_goes_back_up(shell):
    text = shell.text("graph loop/Merge -d 4")
    assert "▲" in text
    names = boxes(text)
    assert names.index("loop/Merge") < names.index("loop/NextIteration")
    assert names.count("loop/Merge") == 1


def test_more_beyond_the_depth_is_a_link(shell):
    assert "graph bad/Mul -d 2" in shell.links("graph bad/Mul -d 1")
    assert not any("There is more" in text for text in shell.lines("graph bad/Mul -d 100"))


def test_a_node_with_ten_thousand_recipients_shows_some():
    nodes = [Node("x", "Const"), *(Node(f"use{at}", "Neg", ["x:0"]) for at in range(10_000))]
    shell = Shell(MemoryDump(Graph(nodes)))
    document = shell.document("graph x")
    assert boxes(document.text)[:3] == ["x", "use0", "use1"]
    assert document.line_count < 30
    (more,) = (
        span for line in document for span in line.spans if re.fullmatch("and .* more", span.text)
    )
    assert more.text == "and 9,994 more"
    assert more.link.command == "lo x"
    assert "○ not dumped" in document.text


def test_a_picture_holds_so_many_nodes_and_no_more():
    nodes = [Node("n0", "Const")]
    nodes += [Node(f"n{at}", "Add", [f"n{(at - 1) // 3}:0"]) for at in range(1, 3000)]
    shell = Shell(MemoryDump(Graph(nodes)))
    names = boxes(shell.text("graph n0 -d 1000000"))
    assert len([name for name in names if name.startswith("n")]) == 40


def test_the_cursor_goes_from_node_to_node(shell):
    document = shell.document("graph hidden/Relu -d 1")
    at = document.initial_element
    row = document.locate(at)
    (cell,) = document.cells(row)
    assert cell.indices == at
    assert document.lines(row, row + 1)[0].text[cell.start : cell.stop] == "hidden/Relu"
    told = document.element(at).text
    assert told == "[Relu] hidden/Relu  ✓"
    both = [cells for cells in map(document.cells, range(document.line_count)) if len(cells) == 2]
    assert len(both) == 1  # bad/Log and last


def test_names_of_any_width_keep_the_boxes_whole():
    names = ["日本語/テンソル", "é" * 5 + "e\u0301", "a/" * 40 + "end", "esc\x1b[31m", "<script>"]
    nodes = [Node(name, "Op") for name in names]
    nodes.append(Node("all", "<b>Op</b>", [f"{name}:0" for name in names]))
    shell = Shell(MemoryDump(Graph(nodes)))
    document = shell.document("graph all")
    shown = "\n".join(boxes(document.text))
    assert "日本語/テンソル" in shown
    assert "\\x1b[31m" in shown
    assert re.search("…[a/]+end", shown)
    for number in range(document.line_count):
        text = document.lines(number, number + 1)[0].text
        for cell in document.cells(number):
            assert text[cell.start : cell.stop].replace("\u0301", "") in shown


def test_it_becomes_an_svg_file(shell, tmp_path):
    path = tmp_path / "a picture.SVG"
    reply = shell.reply(f'graph bad/Mul > "{path}"')
    assert re.fullmatch(r"[\d.]+k?B written to .*", reply.message.text)
    root = ElementTree.parse(path).getroot()
    assert root.tag == f"{SVG}svg"
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert {"bad/Log", "Log", "✗ 2 -inf"} <= set(texts)
    assert root.find(f"{SVG}title").text == "The graph around bad/Mul"
    plain = tmp_path / "picture.txt"
    shell.reply(f"graph bad/Mul > {plain}")
    assert "│ bad/Log" in plain.read_text()


def test_an_svg_file_that_can_not_be_written_is_one_line(shell, tmp_path):
    assert "can't be written" in shell.error(f"graph bad/Mul > {tmp_path}/no/such.svg")


def test_hostile_names_stay_text_in_an_svg_file(tmp_path):
    name = "</text><script>alert(1)</script>&'\"\x00\ufffe"
    shell = Shell(MemoryDump(Graph([Node(name, name), Node("b", "B", [f"{name}:0"])])))
    path = tmp_path / "x.svg"
    reply = shell.reply(f"graph b > {path}")
    assert not reply.failed, reply
    root = ElementTree.parse(path).getroot()
    assert not list(root.iter(f"{SVG}script"))
    assert any("<script>" in (title.text or "") for title in root.iter(f"{SVG}title"))


def test_a_run_that_was_timed_has_a_graph_without_health(dump):
    shell = Shell(dump, "profile")
    text = shell.text("graph hidden/Relu -d 1")
    assert boxes(text) == ["hidden/MatMul", "hidden/Relu", "bad/Log", "last"]
    assert "✓" not in text


def test_a_mistake_is_one_line(shell):
    assert 'no node named "nope"' in shell.error("graph nope")
    assert "1 or more" in shell.error("graph last -d 0")


def test_a_node_that_reads_itself_says_so():
    shell = Shell(MemoryDump(Graph([Node("a", "A", ["a:0", "gone:0"])])))
    assert "│ A ↺" in shell.text("graph a") or "║ A ↺" in shell.text("graph a")


def test_of_many_recipients_the_bad_ones_come_first():
    with tf.Graph().as_default():
        x = tf.constant(np.array([1.0, 0.0], np.float32), name="x")
        fine = [tf.negative(x, name=f"neg{at}") for at in range(20)]
        bad = tf.log(x, name="late/Log")
        with tf.Session() as session:
            dump = debug_run(session, [*fine, bad])
    shell = Shell(dump)
    shell.text("lt")  # each is looked through
    assert "late/Log" in boxes(shell.text("graph x"))
    assert "and 15 more" in boxes(shell.text("graph x"))


# -- the layout, of any graph


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 12))
    number = st.integers(0, count - 1)
    widths = draw(st.lists(st.integers(6, 24), min_size=count, max_size=count))
    nets = draw(
        st.lists(
            st.tuples(number, st.lists(number, min_size=1, max_size=4, unique=True)), max_size=16
        )
    )
    room = draw(st.integers(0, 12))
    return widths, [
        Net(source, [sink for sink in sinks if sink != source], room) for source, sinks in nets
    ]


def cells_of(segment):
    _, column, row, to_column, to_row = segment
    return {(x, y) for x in range(column, to_column + 1) for y in range(row, to_row + 1)}


@settings(max_examples=300, deadline=None)
@given(graphs())
def test_boxes_and_wires_keep_apart_and_wires_arrive(graph):
    widths, nets = graph
    layout = lay_out(widths, nets)
    inside = {}
    for box, place in enumerate(layout.places):
        assert place.width >= widths[box]
        assert 0 <= place.column <= layout.width - place.width
        for x in range(place.column, place.column + place.width):
            for y in range(place.row, place.row + BOX_ROWS):
                assert inside.setdefault((x, y), box) == box
    for segment in layout.segments:
        assert segment.column == segment.to_column or segment.row == segment.to_row
        for cell in cells_of(segment):
            if cell in inside:  # at a border, where it begins or ends
                place = layout.places[inside[cell]]
                assert cell[1] in (place.row, place.row + BOX_ROWS - 1)
    for number, net in enumerate(nets):
        ports = [port for port in layout.ports if port.net == number]
        assert {port.box for port in ports if port.is_sink} == set(net.sinks)
        for port in ports:
            place = layout.places[port.box]
            assert place.column < port.column < place.column + place.width - 1
    # Each end of a wire is reached from its beginning.
    for number in range(len(nets)):
        near = {}
        for segment in layout.segments:
            if segment.net == number:
                ends = [(segment.column, segment.row), (segment.to_column, segment.to_row)]
                for cell in cells_of(segment):
                    near.setdefault(cell, set()).update(cells_of(segment))
                assert set(ends) <= near.keys()
        seen, waiting = set(), []
        for port in layout.ports:
            if port.net == number and not port.is_sink:
                place = layout.places[port.box]
                row = place.row if port.is_top else place.row + BOX_ROWS - 1
                waiting.append((port.column, row))
        while waiting:
            cell = waiting.pop()
            if cell not in seen:
                seen.add(cell)
                waiting += near.get(cell, ())
        for port in layout.ports:
            if port.net == number and port.is_sink:
                place = layout.places[port.box]
                row = place.row if port.is_top else place.row + BOX_ROWS - 1
                assert (port.column, row) in seen


@settings(max_examples=300, deadline=None)
@given(graphs())
def test_no_wire_lies_on_another(graph):
    layout = lay_out(*graph)
    taken = {}
    for segment in layout.segments:
        net, column, row, to_column, to_row = segment
        is_level = row == to_row
        for cell in cells_of(segment):
            if is_level and column == to_column:
                continue
            assert taken.setdefault((cell, is_level), net) == net


def test_a_chain_is_drawn_straight():
    layout = lay_out([10, 10, 10], [Net(0, [1]), Net(1, [2])])
    assert {segment.column for segment in layout.segments} == {
        segment.to_column for segment in layout.segments
    }
    assert [place.layer for place in layout.places] == [0, 1, 2]


@pytest.mark.parametrize("count", [1, 40])
def test_a_large_fan_keeps_its_wires(count):
    layout = lay_out([8] * (count + 1), [Net(at, [count], 5) for at in range(count)])
    assert len({port.column for port in layout.ports if port.is_sink}) == count
