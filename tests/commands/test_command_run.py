"""``run``, ``run_info``, ``error``, ``exit``: what a stop shows and how it ends."""

import pytest
from command_kit import Shell

from tfdbg_cli.commands.reply import Leave
from tfdbg_cli.commands.run.choices import ExitChoice, RunChoice
from tfdbg_cli.commands.units import describe_run
from tfdbg_cli.dumps.dump import RunError, RunInfo
from tfdbg_cli.dumps.memory import MemoryDump


@pytest.mark.parametrize(
    ("command", "choice"),
    [
        ("run", RunChoice()),
        ("r", RunChoice()),
        ("run -t 10", RunChoice(times=10)),
        ("run --times 2 -n", RunChoice(times=2, is_debug=False)),
        ("run --no_debug", RunChoice(is_debug=False)),
        ("run -f", RunChoice(filter_name="origin_of_nonfinite")),
        ("run -f has_inf_or_nan", RunChoice(filter_name="has_inf_or_nan")),
        (
            "run --till_filter_pass has_inf_or_nan -t 3 -fenn a.b",
            RunChoice(3, filter_name="has_inf_or_nan", exclude="a.b"),
        ),
        (
            "run --node_name_filter n --op_type_filter 'o p' --tensor_dtype_filter float",
            RunChoice(node_name="n", op_type="o p", tensor_dtype="float"),
        ),
        ("run --node n", RunChoice(node_name="n")),
    ],
)
def test_run_says_what_the_session_is_to_do(start, shell, command, choice):
    for at in (start, shell):
        reply = at.reply(command)
        assert reply.leave == Leave(choice)
        assert reply.document is None


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("run -n -f has_inf_or_nan", ["-n runs without the debugger", "-t N with -f"]),
        ("run -fenn a", ["-fenn", "-f FILTER"]),
        ("run -f has_inf", ['"has_inf"', "Did you mean has_inf_or_nan?"]),
        ("run -t 0", ["-t/--times", "number of runs (1 or more)", "'0'"]),
        ("run -t soon", ["-t/--times", "'soon'"]),
        ("run -t", ["-t/--times", "expected one argument"]),
        ("run --node_name_filter (", ["--node_name_filter", "not a regular expression"]),
        ("run --op_type_filter (", ["--op_type_filter", "not a regular expression"]),
        ("run --tensor_dtype_filter (", ["--tensor_dtype_filter", "not a regular expression"]),
        ("run -f has_inf_or_nan -fenn (", ["-fenn", "not a regular expression"]),
        ("run -n --op_type_filter a", ["--op_type_filter", "no effect", "-n"]),
        ("run now", ['"now" is one word too many']),
        ("run > file.txt", ["run has no output", "file.txt"]),
        ("lt", ["list_tensors is not available at run-start", "run executes the run"]),
        ("pt a:0", ["print_tensor is not available at run-start"]),
        ("error", ["error is not available at run-start"]),
        ("rnu", ['no command "rnu"', "Did you mean run"]),
    ],
)
def test_mistakes_are_one_line_with_cause_and_fix(start, capfd, command, parts):
    text = start.error(command)
    for part in parts:
        assert part in text
    assert capfd.readouterr() == ("", "")


def test_the_first_stop_has_every_way_on(start):
    lines = start.lines("run_info")
    assert "Session.run() call #2:" in lines
    at = lines.index("Fetch(es):")
    assert lines[at + 1 : at + 3] == ["  bad/Mul:0", "  last:0"]
    at = lines.index("Feed dict:")
    assert lines[at + 1 : at + 3] == ["  input/x:0", "  input/words:0"]
    assert "  run -t <T>" in lines
    assert "      * run -f has_inf_or_nan" in lines
    assert [item.caption for item in start.document("ri").menu] == ["run", "exit"]


@pytest.mark.parametrize(("kind", "unit"), [("run", "session"), ("training run", "program")])
def test_the_first_lines_are_what_to_type(kind, unit):
    """A window of 50x12 has seven rows of 48 columns for them."""
    shell = Shell(None, info=RunInfo(1, ["a:0"], {"x:0": [1.0]}, kind=kind, unit=unit))
    document = shell.document("run_info")
    first = document.lines(0, 7)
    assert all(0 < len(made.text) <= 48 for made in first)
    commands = [span.link.command for made in first for span in made.spans if span.link]
    ways = ["run", "run -f", "run -n", "run -p", "invoke_stepper", "help"]
    assert commands == ways


def test_the_run_end_menu_has_the_tensors(shell):
    captions = [item.caption for item in shell.document("ri").menu]
    assert captions == ["list_tensors", "run", "exit"]


def test_offline_there_is_nothing_to_run(dump):
    shell = Shell(dump, "offline")
    assert not any(command.startswith(("run", "exit")) for command in shell.links("ri"))
    assert "run is not available offline" in shell.error("run")
    assert shell.reply("exit").leave == Leave(ExitChoice())


def test_without_feeds_and_through_a_callable():
    assert "  (Empty)" in Shell(None, info=RunInfo(1, ["a:0"])).lines("ri")
    shell = Shell(None, info=RunInfo(1, runner="runner from make_callable()"))
    assert "  runner from make_callable()" in shell.lines("ri")
    assert describe_run(shell.context.run_info) == "run #1: runner from make_callable()"


@pytest.mark.parametrize(
    ("fetches", "feeds", "text"),
    [
        (["a"], {}, "run #3: 1 fetch (a); 0 feeds"),
        (["a", "b"], {"x:0": 1}, "run #3: 2 fetches; 1 feed (x:0)"),
        ([], {"x:0": 1, "y:0": 2}, "run #3: 0 fetches; 2 feeds"),
    ],
)
def test_a_run_in_a_few_words(fetches, feeds, text):
    assert describe_run(RunInfo(3, fetches, feeds)) == text


def test_exit_asks_and_each_answer_is_a_command(start, shell):
    for at in (start, shell):
        for name in ("exit", "quit", "q"):
            question = at.reply(name).question
            assert [choice.key for choice in question.choices] == ["c", "e", "s"]
        go_on, end, stay = question.choices
        assert at.reply(go_on.command).leave == Leave(ExitChoice(ends_program=False))
        assert at.reply(end.command).leave == Leave(ExitChoice(ends_program=True))
        assert at.reply(stay.command).leave is None
    assert "exit has no output" in start.error("exit > /tmp/x")


def test_the_error_screen_names_the_op_and_where_to_look(failed):
    document = failed.document("error")
    lines = [line.text for line in document]
    assert lines[0] == "!!! An error occurred during the run !!!"
    assert "Op name:    check" in lines
    assert "Error type: InvalidArgumentError" in lines
    assert any("not finite" in text for text in lines)
    assert document.title_role == "error"
    assert [c for c in failed.links("err") if c.endswith(" check")] == [
        "ni -a -d -t check",
        "li -r check",
    ]
    for command in failed.links("error"):
        failed.document(command)
    assert any(text.startswith("The run failed: ") for text in failed.lines("run_info"))
    assert "neg:0" in failed.text("lt")


def test_an_error_without_an_op():
    info = RunInfo(1, error=RunError("ResourceExhaustedError", "no memory\n  left"))
    shell = Shell(MemoryDump(run_info=info))
    lines = shell.lines("error")
    assert "Op name:    (unknown)" in lines
    assert lines[-2:] == ["  no memory", "    left"]
    assert any("names no op" in text for text in lines)
    assert shell.links("error") == ["lt", "lt", "run_info"]


def test_an_error_of_an_undebugged_run_offers_nothing_that_is_not_there(failed_dump):
    shell = Shell(None, "run-end", info=failed_dump.run_info())
    lines = shell.lines("error")
    assert "Op name:    check" in lines
    assert any("was not debugged" in text for text in lines)
    for command in shell.links("error"):
        shell.document(command)


def test_a_run_that_did_not_fail_has_no_error(shell):
    assert "did not fail" in shell.error("error")
