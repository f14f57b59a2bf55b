"""What the original's own tests covered and no other test here does: screens, words, settings.

The numbers in the docstrings are those of the cases in the list of the original's tests; cases
that stand elsewhere are in the tests of the commands, the tensors, the sessions and the screens.
"""

import json
import os
import re

import numpy as np
import pytest
from command_kit import Shell, debug_run, link_of

from tfdbg_cli.commands.reply import Leave, UiRequest
from tfdbg_cli.commands.run.choices import RunChoice
from tfdbg_cli.commands.shell.history import History
from tfdbg_cli.commands.shell.parsing import split_words
from tfdbg_cli.common.documents import ChainDocument, LazyDocument, TextDocument, line
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.dumps.dump import RunError, RunInfo
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines import numpy as tf

# 6.3: screens, registry, history, menu.


def test_a_screen_is_made_of_any_lines():
    """6.3: from a list, with spans, and clipped like a slice"""
    document = TextDocument(["plain", line(("bold", "bold"), " and link"), ""])
    assert [row.text for row in document] == ["plain", "bold and link", ""]
    assert [row.text for row in document.lines(1, 99)] == ["bold and link", ""]
    assert document.lines(5, 9) == []
    assert document.text == "plain\nbold and link\n"


def test_control_characters_do_not_reach_the_screen():
    """6.3: a line stays a line"""
    assert line("a\nb\x1b[31mc").text == "a\\x0ab\\x1b[31mc"
    assert line("a\tb").text == "a       b"


def test_searching_a_screen():
    """6.3: one match, many, none, upwards, with spans in between"""
    documents = [
        TextDocument([line(f"row {n} ", ("of", "bold"), " ten") for n in range(10)]),
        LazyDocument(10, lambda n: line(f"row {n} ", ("of", "bold"), " ten")),
        ChainDocument(
            [
                TextDocument(["row 0 of ten"]),
                LazyDocument(9, lambda n: line(f"row {n + 1} of ten")),
            ]
        ),
    ]
    for document in documents:
        assert document.find(re.compile("row 7 of"), 0) == 7
        assert document.find(re.compile("of ten"), 3) == 3
        assert document.find(re.compile("row [25]"), 3) == 5
        assert document.find(re.compile("row [25]"), 4, -1) == 2
        assert document.find(re.compile("row [25]"), 6) is None
        assert document.find(re.compile("nothing"), 0) is None
        assert document.find(re.compile("nothing"), 9, -1) is None


def test_an_invalid_search_is_left_to_the_screen(shell):
    """6.3: the pattern arrives as it was typed"""
    assert shell.reply("/[a").request == UiRequest("search", "[a")


def test_what_a_handler_returns_ends_the_stop(start):
    """6.3: the exit token passes through"""
    assert start.reply("run").leave == Leave(RunChoice())


def test_every_alias_is_the_command(shell, start):
    """6.3: dispatch by alias; section 1.2 names them"""
    pairs = {
        "ri": "run_info",
        "lt": "list_tensors",
        "pt ints:0": "print_tensor ints:0",
        "ni last": "node_info last",
        "li -c last": "list_inputs -c last",
        "lo last": "list_outputs last",
        "ls": "list_source",
        "ps command_kit.py": "print_source command_kit.py",
        "ev 1+1": "eval 1+1",
        "cfg": "config",
        "h lt": "help lt",
        "ver": "version",
        "pf input/x:0": "print_feed input/x:0",
    }
    for alias, name in pairs.items():
        assert shell.lines(alias) == shell.lines(name), alias
    assert start.reply("r -t 3").leave == start.reply("run --times 3").leave
    assert shell.reply("m on").request == shell.reply("mouse on").request
    assert shell.reply("quit").question == shell.reply("exit").question


def test_commands_are_not_abbreviated(shell):
    """6.3: only names and aliases are commands"""
    assert "list_tensors" in shell.error("list_t")


def test_the_width_of_the_screen_reaches_the_command(shell):
    """6.3: screen_info is passed on"""
    narrow, wide = (shell.lines("pt big:0[0]", width) for width in (40, 200))
    assert max(map(len, narrow[4:])) <= 40 < max(map(len, wide[4:]))


def test_a_screen_is_written_without_its_colours_and_links(shell, tmp_path):
    """6.3: write to a file"""
    path = tmp_path / "out"
    shell.reply(f"pt -r [5,10] hidden/MatMul:0 > {path}")
    assert path.read_text().splitlines() == shell.lines("pt -r [5,10] hidden/MatMul:0")
    for bad in (tmp_path, tmp_path / "no" / "where"):
        assert str(bad) in shell.error(f"lt > {bad}")


def test_recent_commands_by_their_beginning(tmp_path):
    """6.3: history with a prefix"""
    history = History(tmp_path / "history")
    for text in ("lt", "pt a:0", "lt -r", "pt b:0"):
        history.add(text)
    assert history.matching("pt") == ["pt b:0", "pt a:0"]
    assert history.matching("") == ["pt b:0", "lt -r", "pt a:0", "lt"]
    assert history.matching("zz") == []


def test_the_menu_leads_from_each_screen_to_the_others(shell):
    """6.3: captions, enabled and disabled"""
    menu = {item.caption: item for item in shell.document("pt hidden/MatMul:0").menu}
    assert {"node_info", "list_inputs", "list_outputs"} <= set(menu)
    assert "hidden/MatMul" in menu["node_info"].command
    menu = {item.caption: item for item in shell.document("ni hidden/MatMul").menu}
    assert {"print_tensor", "list_inputs", "list_outputs"} <= set(menu)
    assert not menu["node_info"].enabled
    menu = {item.caption: item for item in shell.document("lt").menu}
    assert menu["run_info"].enabled and menu["help"].enabled
    assert not menu["list_tensors"].enabled


def test_version_names_the_engine_and_numpy(shell):
    """6.3: version lines"""
    text = shell.text("version")
    assert np.__version__ in text
    assert "tfdbg_cli" in text


# 6.5: the command line.


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("pt x -r '[[1, 2], [3, 4]]'", ["pt", "x", "-r", "[[1, 2], [3, 4]]"]),
        ('pt "x:0[0, :]" -s', ["pt", "x:0[0, :]", "-s"]),
        ("pt x[0, 'a]']", ["pt", "x[0, 'a]']"]),
        ("lt -n it's", ["lt", "-n", "it's"]),
        ('lt -n "', ["lt", "-n", '"']),
        ("lt\t-n\ta", ["lt", "-n", "a"]),
    ],
)
def test_words_with_quotes_and_brackets(text, words):
    """6.5: nested brackets, quotes, what is never closed"""
    assert split_words(text) == words


# 6.7: settings, and the words about a run.


@pytest.mark.parametrize(
    ("word", "value"),
    [
        *((w, True) for w in ("1", "true", "t", "yes", "y", "on", "True", "ON")),
        *((w, False) for w in ("0", "false", "f", "no", "n", "off", "False", "OFF")),
    ],
)
def test_words_for_on_and_off(word, value):
    """6.7: bool parsing"""
    settings = Settings(None)
    settings.set("mouse_mode", word)
    assert settings.get("mouse_mode") is value


@pytest.mark.parametrize("word", ["x", "1.5", "-1", "", "0"])
def test_words_that_are_no_number(word):
    """6.7: int parsing"""
    shell = Shell(None)
    assert "graph_recursion_depth" in shell.error(f'config set graph_recursion_depth "{word}"')
    assert shell.settings.get("graph_recursion_depth") == 20


def test_settings_tell_who_listens():
    """6.7: callback"""
    settings = Settings(None)
    seen = []
    settings.on_change(lambda name, value: seen.append((name, value)))
    settings.set("graph_recursion_depth", "7")
    assert seen == [("graph_recursion_depth", 7)]


def test_two_programs_share_the_settings_file(tmp_path):
    """6.7: two instances share through the file; each keeps what it doesn't know"""
    path = tmp_path / "config.json"
    first, second = Settings(path), Settings(path)
    first.set("graph_recursion_depth", "5", keeps=True)
    second.set("mouse_mode", "off", keeps=True)
    third = Settings(path)
    assert (third.get("graph_recursion_depth"), third.get("mouse_mode")) == (5, False)
    assert json.loads(path.read_text()) == {"graph_recursion_depth": 5, "mouse_mode": False}
    assert os.listdir(tmp_path) == ["config.json"]


def test_the_depth_of_the_settings_is_the_default_of_li(shell):
    """6.7: changing the depth holds at once"""
    shell.reply("config set graph_recursion_depth 1")
    assert "(Depth limit = 1)" in shell.lines("li -r hidden/Relu")[0]
    assert "(Depth limit = 3)" in shell.lines("li -r -d 3 hidden/Relu")[0]


def test_the_intro_names_filters_and_feeds_as_links():
    """6.7: run intro with filters as links"""
    shell = Shell(None, info=RunInfo(1, ["a:0", "b:0"], {"x y:0": [1.0]}))
    shell.filters.add("mine", lambda datum, tensor: True)
    document = shell.document("run_info")
    assert link_of(document, "run -f mine") == "run -f mine"
    assert link_of(document, "run -f has_inf_or_nan") == "run -f has_inf_or_nan"
    assert shell.lines(link_of(document, "x y:0"))[-1] == "array([1.])"
    assert "  a:0" in shell.lines("ri") and "  b:0" in shell.lines("ri")


def test_fetches_inside_dicts_and_tuples_are_named():
    """6.7: join of fetch names in nested structures"""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None], name="x")
        fetches = {"a": [tf.identity(x, name="y")], "b": (x, {"c": x})}
        with tf.Session() as session:
            dump = debug_run(session, fetches, {x: [1.0]})
    assert dump.run_info().fetches == ["y:0", "x:0", "x:0"]
    lines = Shell(dump).lines("ri")
    at = lines.index("Fetch(es):")
    assert lines[at + 1 : at + 5] == ["  y:0", "  x:0", "  x:0", ""]


def test_the_error_screen_without_an_op():
    """6.7: error intro without op"""
    info = RunInfo(4, ["a:0"], error=RunError("ResourceExhaustedError", "out of memory"))
    shell = Shell(MemoryDump(run_info=info))
    lines = shell.lines("error")
    assert any("ResourceExhaustedError" in text for text in lines)
    assert any("out of memory" in text for text in lines)
    assert not any(c.startswith(("ni ", "li ")) for c in shell.links("error"))
