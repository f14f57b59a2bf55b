"""The current place: what commands without a name mean."""

from __future__ import annotations

import pytest
from command_kit import Shell


@pytest.fixture
def at_log(dump):
    shell = Shell(dump)
    shell.document("pt bad/Log:0")
    return shell


@pytest.mark.parametrize(
    ("command", "named"),
    [
        ("pt", "pt bad/Log:0"),
        ("pt [0]", "pt bad/Log:0[0]"),
        ("pt --map", "pt bad/Log:0 --map"),
        ("ni", "ni bad/Log"),
        ("ni -t", "ni -t bad/Log"),
        ("li", "li bad/Log"),
        ("lo", "lo bad/Log"),
        ("graph", "graph bad/Log"),
        ("why", "why bad/Log:0"),
        ("eval np.isinf(_).sum()", "eval np.isinf(`bad/Log:0`).sum()"),
    ],
)
def test_a_command_without_a_name_means_the_current_place(at_log, dump, command, named):
    shown, meant = at_log.lines(command), Shell(dump).lines(named)
    if command.startswith("eval"):  # the expression is repeated on its screen
        shown, meant = shown[1:], meant[1:]
    if command == "graph":  # the marks of the others come when they are counted
        shown, meant = shown[:1], meant[:1]
    assert shown == meant


def test_print_source_without_a_name_is_at_the_line_of_the_place(at_log):
    document = at_log.document("ps")
    assert "tf.log(relu" in document.lines(document.initial_line, document.initial_line + 1)[0].text


def test_the_verdict_is_a_place(dump):
    shell = Shell(dump)
    assert shell.service.prompt == "tfdbg> "
    shell.document("why")
    assert shell.service.prompt == "bad/Log:0 › "


def test_a_node_that_is_looked_at_leaves_its_tensor_the_place(at_log):
    at_log.document("ni bad/Log")
    assert at_log.service.prompt == "bad/Log:0 › "
    at_log.document("li bad/Mul")
    assert at_log.service.prompt == "bad/Mul › "


@pytest.mark.parametrize("command", ["here", "frame"])
def test_here_chooses_and_shows_the_place(dump, command):
    shell = Shell(dump)
    assert any("bad/Mul:0" in text for text in shell.lines(f"{command} bad/Mul"))
    assert shell.lines(command) == Shell(dump).lines("here bad/Mul")
    assert "nope" in shell.reply(f"{command} nope").message.text
    assert shell.service.prompt == "bad/Mul › "


@pytest.mark.parametrize("command", ["pt ", "ni ", "li "])
def test_completion_offers_the_place_first(at_log, command):
    assert at_log.complete(command)[0].startswith(f"{command}bad/Log")


def test_one_of_several_dumps_is_a_place(dump):
    shell = Shell(dump)
    shell.document("pt loop/body:0 -n 2")
    assert shell.lines("pt") == Shell(dump).lines("pt loop/body:0 -n 2")
    assert "(#2)" in shell.service.prompt
