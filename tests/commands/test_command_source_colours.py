"""``ps``: syntax colours, what is bad on a line and how one gets there, and folding."""

import gc
import subprocess
import sys
import textwrap
import time
import weakref

import numpy as np
import pytest
from command_kit import Shell

from tfdbg_cli.commands.source.syntax import Syntax, syntax_of
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import Datum, RunInfo
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.profile import CodeLine, Profile, ProfileEntry
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump, write_run_folder
from tfdbg_cli.dumps.sources import Frame, Sources
from tfdbg_cli.tensors.measurements import halt

PATH = "/me/model.py"
SOURCE = '''\
"""Several
def lines(): pass"""
import math
class Net:  # a comment
    @property
    def loss(self, x=1.5):
        return x and "text"
y = make(1)
z = log(y)
w = z * 2
'''


def made_by(values, source=SOURCE, lines=None):
    """The dump of nodes that lines made: name -> value; the lines are 8, 9, 10 one by one."""
    lines = lines or dict(zip(values, range(8, 11), strict=False))
    nodes = [Node(name, "Op", frames=[Frame(PATH, at, "<module>")]) for name, at in lines.items()]
    dump = MemoryDump(Graph(nodes), Sources({PATH: source}, live=False))
    for at, (name, value) in enumerate(values.items()):
        if isinstance(value, Datum):
            dump.add_datum(value)
        elif value is not None:
            dump.add(name, 0, value, timestamp=at)
    return dump


BAD = {
    "y": np.ones(3, np.float32),
    "z": np.array([np.inf, 1, -np.inf]),
    "w": np.array([np.nan, np.nan, np.inf]),
}


def settled(document):
    document.settle(0, document.line_count)
    return document.lines(0, document.line_count)


def row_of(document, number):
    return document.lines(document.locate((number,)), document.locate((number,)) + 1)[0]


# -- syntax


def test_every_part_of_a_line_has_its_role():
    document = Shell(made_by(BAD)).document("ps model.py")
    settled(document)
    found = {}
    for number in range(1, 11):
        for span in row_of(document, number).spans:
            found.setdefault(span.role, set()).add(span.text)
    assert {'"""Several', 'def lines(): pass"""', '"text"'} <= found["string"]
    assert {"import", "class", "def", "return", "and"} <= found["keyword"]
    assert found["comment"] == {"# a comment"}
    assert found["definition"] == {"Net", "loss"}
    assert found["number"] >= {"1.5", "1", "2"}
    assert "@property" in found["builtin"]
    # What has no colour of its own still tells the lines that made nodes.
    assert any("make(" in text for text in found["source"])
    assert any("math" in text for text in found[""])


def test_the_text_of_a_line_is_that_of_the_file():
    source = SOURCE + "if x:\n\treturn\t'a\tb'  # \x1b[31m é\n\f\n    x = '\x07'\n"
    plain = source.splitlines()
    document = Shell(made_by(BAD, source)).document("ps model.py")
    settled(document)
    for number, text in enumerate(plain, 1):
        if text.isprintable() and number < 8:
            assert row_of(document, number).text == f"{f'L{number}':<4}  {text}".rstrip(" ") or (
                row_of(document, number).text.endswith(text)
            )
    tabs = row_of(document, 12)
    assert tabs.text.endswith("        return  'a      b'  # \\x1b[31m é")
    assert [span.role for span in tabs.spans if "a      b" in span.text] == ["string"]
    assert "\x1b" not in document.text and "\x07" not in document.text


def test_a_file_is_read_as_far_as_somebody_looks():
    lines = ["x = 1  # one", '"""', "def f(): pass", '"""'] * 30_000
    syntax = Syntax(lines)
    syntax.want(3)
    assert syntax.knows(3) and not syntax.knows(100_000)
    assert [span.role for span in syntax.spans(3)] == ["string"]
    # Further down it is a matter of the background, and plain until then.
    syntax.want(100_001, lambda: False)
    assert [(span.text, span.role) for span in syntax.spans(100_001, "source")] == [
        ("x = 1  # one", "source")
    ]
    assert syntax.pending
    syntax.settle(100_001)
    assert [span.role for span in syntax.spans(100_001)] == ["", "number", "", "comment"]
    assert [span.role for span in syntax.spans(100_003)] in ([""], ["string"])
    halt(20)


@pytest.mark.parametrize(
    "source",
    [
        "",
        "x = '''never closed\n" * 5,
        "def (:\n  ]]]\n",
        "\x00\x01\ud800 = 1",
        "x = 1\n" + "y" * 10_000,
        "%matplotlib inline\n!ls\nx?",
    ],
)
def test_what_is_no_python_is_shown_all_the_same(source):
    lines = source.splitlines()
    syntax = Syntax(lines)
    syntax.settle(len(lines))
    for number, text in enumerate(lines, 1):
        made = "".join(span.text for span in syntax.spans(number))
        assert made == text or not text.isprintable()


def test_a_file_is_read_once_for_a_dump_and_not_kept_beyond_it():
    sources = Sources({PATH: SOURCE}, live=False)
    assert syntax_of(sources, PATH) is syntax_of(sources, PATH)
    gone = weakref.ref(sources)
    del sources
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("what", ["None", "types.ModuleType('pygments')"])
def test_without_pygments_source_is_plain(what):
    code = f"""
    import sys, types
    sys.modules["pygments"] = {what}
    from tfdbg_cli.commands.source.syntax import Syntax
    syntax = Syntax(["def f():", "    return 'x'"])
    syntax.settle(2)
    assert [list(s[:2]) for s in syntax.spans(2, "source")] == [["    return 'x'", "source"]]
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=60)


def test_the_costs_of_a_timed_run_have_the_same_colours():
    place = CodeLine(PATH, 8, "<module>")
    profile = Profile([("CPU", [ProfileEntry("y", "Op", 0.0, 1.0, 2.0, place=place)])])
    graph = Graph([Node("y", "Op", frames=[Frame(PATH, 8, "<module>")])])
    dump = MemoryDump(graph, Sources({PATH: SOURCE}, live=False), RunInfo(1), profile)
    document = Shell(dump, "profile").document("ps model.py")
    document.settle(0, document.line_count)
    found = {span.text: span.role for made in document for span in made.spans}
    assert (found["import"], found["# a comment"]) == ("keyword", "comment")
    assert any("make(" in text and role == "source" for text, role in found.items())


# -- health


def test_a_mark_has_the_colour_of_the_worst_op_of_its_line():
    dump = made_by({**BAD, "u": np.zeros(2)}, lines={"y": 8, "z": 9, "w": 9, "u": 10})
    document = Shell(dump).document("ps model.py")
    settled(document)

    def mark(number):
        return next(span.role for span in row_of(document, number).spans if span.text == "*")

    assert (mark(8), mark(9), mark(10)) == ("success", "nan", "success")
    line = row_of(document, 9)
    # The first bad one, and how many there are; at the number of the line as well.
    assert line.text.endswith("z = log(y)  ◀ z:0 1 -inf, 1 +inf (1 of 2)")
    links = [(span.text, span.role, span.link.command) for span in line.spans if span.link]
    assert links == [
        ("L9", "nan", "pt z:0 --bad"),
        ("◀ z:0 1 -inf, 1 +inf", "nan", "pt z:0 --bad"),
    ]
    names = {span.text: span.role for made in document for span in made.spans if span.link}
    assert (names["y"], names["z"], names["w"]) == ("link", "inf", "nan")
    tensors = Shell(dump).document("ps -t model.py")
    names = {span.text: span.role for made in tensors for span in made.spans if span.link}
    assert (names["y:0"], names["z:0"], names["w:0"]) == ("link", "inf", "nan")


def test_of_several_dumps_the_link_names_the_bad_one():
    dump = made_by({"y": np.ones(2)})
    dump.add("y", 0, np.array([np.nan]), timestamp=10)
    document = Shell(dump).document("ps model.py")
    assert "pt y:0 -n 1 --bad" in {
        s.link.command for m in settled(document) for s in m.spans if s.link
    }


def test_long_names_are_cut_and_hostile_ones_written_out():
    name = "a" * 50 + "\x1b[31m/op"
    document = Shell(made_by({name: np.array([np.nan])})).document("ps model.py")
    settled(document)
    row = row_of(document, 8).text
    assert "\x1b" not in row and "…" in row and len(row) < 80


def test_lines_wait_for_no_tensor():
    def load():
        loads.append(1)
        return np.full(1_000_000, np.nan, np.float32)

    loads = []
    kind = {"dtype": "float32", "shape": (1_000_000,), "nbytes": 4_000_000}
    dump = made_by({"y": Datum("y", 0, load, timestamp=1, **kind)}, lines={"y": 8})
    document = Shell(dump).document("ps model.py")
    at = document.locate((8,))
    first = document.lines(at, at + 1)[0]
    assert "◀" not in first.text
    assert document.pending
    while document.pending:
        pass
    assert "◀ y:0 1000000 nan" in document.lines(at, at + 1)[0].text
    assert not document.pending and len(loads) == 1
    halt()


def test_a_dump_on_disk_shows_the_same(tmp_path):
    dump = made_by(BAD)
    write_run_folder(dump, tmp_path / "run")
    stored = Shell(RunFolderDump(tmp_path / "run"))
    for command in ("ps model.py", "ps -t model.py --fold", "lt -o hist,health", "pt w:0 -s"):
        online, offline = Shell(dump).document(command), stored.document(command)
        assert online.text == offline.text
        assert [made.spans for made in online] == [made.spans for made in offline]


def test_a_line_of_many_ops_is_looked_at_bit_by_bit():
    names = [f"op{number}" for number in range(5000)]
    values = dict.fromkeys(names, np.zeros(2))
    values["op4999"] = np.array([np.inf])
    document = Shell(made_by(values, lines=dict.fromkeys(names, 8))).document("ps model.py")
    at = document.locate((8,))
    document.lines(at, at + 1)
    while document.pending:
        document.lines(at, at + 1)
    assert document.lines(at, at + 1)[0].text.endswith("◀ op4999:0 1 +inf")


@pytest.mark.parametrize("command", ["ps model.py", "lt -o hist", "pt y:0 -s", "pt y:0 --bad"])
def test_no_screen_keeps_a_dump_alive(command):
    dump = made_by({"y": np.full(3_000_000, np.nan, np.float32), "z": np.ones(2)})
    document = Shell(dump).document(command)
    document.lines(0, 60)
    gone, shown = weakref.ref(dump), weakref.ref(document)
    gc.disable()
    try:
        del dump, document
        end = time.monotonic() + 60
        while gone() is not None or shown() is not None:  # the thread ends at the next block
            assert time.monotonic() < end
            time.sleep(0.005)
    finally:
        gc.enable()


def test_what_cannot_be_read_or_be_bad_is_not_bad():
    def fail():
        raise OSError("gone")

    lost = Datum("z", 0, fail, timestamp=1, dtype="float32", shape=(3,), nbytes=12)
    values = {"y": np.array([b"text"], object), "z": lost, "w": np.arange(3)}
    document = Shell(made_by(values)).document("ps model.py")
    assert "◀" not in document.text
    with pytest.raises(UserError, match="No line of this file made a nan or an infinity"):
        document.step(None)


# -- from bad line to bad line


def test_steps_go_from_bad_line_to_bad_line():
    document = Shell(made_by(BAD)).document("ps model.py")
    assert (document.steps, document.initial_search, document.kind) == ("bad line", "", "source")
    first = document.step(None)
    assert (first.indices, first.number, first.total, first.wrapped) == ((9,), 1, 2, False)
    assert document.lines(first.line, first.line + 1)[0].text.startswith("L9")
    second = document.step(first.indices)
    assert (second.indices, second.number, second.wrapped) == ((10,), 2, False)
    assert document.step(second.indices) == first._replace(wrapped=True)
    assert document.step(None, -1).indices == (10,)
    assert document.step((10,), -1).indices == (9,)
    assert document.step((9,), -1) == second._replace(wrapped=True)
    assert document.locate((9,)) == first.line
    assert document.element((9,)).text.startswith("L9")
    with pytest.raises(UserError, match="There is no line 99 here"):
        document.locate((99,))


# -- folding


def test_names_are_folded_and_one_line_is_opened_by_its_link():
    shell = Shell(made_by(BAD))
    lines = shell.lines("ps model.py --fold")
    assert lines[7:10] == [
        "L8  * ▸ y = make(1)  1 op",
        "L9  * ▸ z = log(y)  1 op  ◀ z:0 1 -inf, 1 +inf",
        "L10 * ▸ w = z * 2  1 op  ◀ w:0 2 nan, 1 +inf",
    ]
    assert lines[2] == "L3      import math"
    document = shell.document("ps model.py --fold")
    settled(document)
    command = next(s.link.command for s in row_of(document, 9).spans if s.text == "▸")
    assert command == "ps /me/model.py -b 9 --fold --open 9"
    opened = shell.document(command)
    settled(opened)
    assert row_of(opened, 9).text.startswith("L9  * ▾ z = log(y)")
    assert opened.line_count == document.line_count + 1
    command = next(s.link.command for s in row_of(opened, 9).spans if s.text == "▾")
    assert command == "ps /me/model.py -b 9 --fold"
    other = next(s.link.command for s in row_of(opened, 10).spans if s.text == "▸")
    assert other == "ps /me/model.py -b 10 --fold --open 10"
    both = shell.lines("ps model.py --open 9,10")
    assert [row[4:7] for row in both[8:12:2]] == ["* ▾", "* ▾"]


def test_the_menu_leads_to_other_views_of_the_file():
    shell = Shell(made_by(BAD))
    menu = {item.caption: item for item in shell.document("ps -t -m 3 model.py").menu}
    assert menu["fold"].command == "ps /me/model.py -t --fold"
    assert menu["nodes"].command == "ps /me/model.py -m 3"
    assert not menu["tensors"].enabled
    menu = {item.caption: item for item in shell.document(menu["fold"].command).menu}
    assert menu["unfold"].command == "ps /me/model.py -t"
    assert shell.lines("ps model.py --open 9") == shell.lines("ps model.py --fold --open 9")
    assert "is not a line number" in shell.reply("ps model.py --open x").message.text
