"""The language of the command line: ``;``, ``#``, ``!``, ``>>``, ``|``, aliases and scripts."""

import gc
import io
import json
import os
import sys
import time
import warnings

import pytest
from command_kit import Shell
from hypothesis import example, given
from hypothesis import strategies as st

from tfdbg_cli.commands.shell.history import History
from tfdbg_cli.commands.shell.parsing import (
    OutputTarget,
    last_command,
    quoted,
    split_command,
    split_output,
    split_words,
)
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.ui.base import CommandQueue
from tfdbg_cli.ui.plain import PlainUI


def play(shell, *commands):
    """Run command lines as a UI does that nobody sits at; returns whether all went well."""
    queue = CommandQueue(commands, batch=True)
    shell.service.initial_command = ""
    PlainUI(stdin=io.StringIO()).interact(shell.service, queue)
    return not queue.failed


@pytest.fixture
def shell(dump):
    return Shell(dump)


# -- the grammar


@pytest.mark.parametrize(
    ("line", "first", "rest"),
    [
        ("lt", "lt", ""),
        ("lt; pt x:0", "lt", "pt x:0"),
        ("lt ;; pt x", "lt", "; pt x"),
        ("; lt", "", "lt"),
        ("lt;", "lt", ""),
        ('lt -n "a;b"; ri', 'lt -n "a;b"', "ri"),
        ("pt x:0[_ > 3; 4]; ri", "pt x:0[_ > 3; 4]", "ri"),
        ("eval `a;b`; ri", "eval `a;b`", "ri"),
        ("lt # all; of them", "lt", ""),
        ("# nothing", "", ""),
        ("lt -n a#b", "lt -n a#b", ""),
        ('lt -n "a # b"', 'lt -n "a # b"', ""),
        ("lt -n it's; ri", "lt -n it's", "ri"),
    ],
)
def test_commands_of_a_line(line, first, rest):
    assert split_command(line) == (first, rest)


@pytest.mark.parametrize(
    ("line", "command", "output"),
    [
        ("lt >> a.txt", "lt", OutputTarget(">>", "a.txt")),
        ("lt >>a.txt", "lt", OutputTarget(">>", "a.txt")),
        ("lt>> a.txt", "lt", OutputTarget(">>", "a.txt")),
        ("lt -n a>>b", "lt -n a>>b", None),
        ("lt | head -3", "lt", OutputTarget("|", "head -3")),
        ("lt |head -3 > x", "lt", OutputTarget("|", "head -3 > x")),
        ("lt | grep a | wc -l", "lt", OutputTarget("|", "grep a | wc -l")),
        ("lt -n a|b", "lt -n a|b", None),
        ("lt -n 'a | b' > c", "lt -n 'a | b'", OutputTarget(">", "c")),
        ("eval '`x:0` | 3'", "eval '`x:0` | 3'", None),
        ("lp -e >=100us | cat", "lp -e >=100us", OutputTarget("|", "cat")),
    ],
)
def test_outputs(line, command, output):
    assert split_output(line) == (command, output)


@pytest.mark.parametrize("line", ["lt |", "lt >", "lt >>", "lt > a | cat"])
def test_an_output_that_goes_nowhere_is_refused(line):
    with pytest.raises(UserError):
        split_output(line)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"])), max_size=4))
@example(["(", ")"])
@example(["[(", ")]"])
def test_quoted_words_survive_the_whole_grammar(words):
    words = [word for word in words if not ('"' in word and "'" in word)]
    line = " ".join(["lt", *map(quoted, words)])
    first, rest = split_command(line + " ; ri")
    assert (split_words(split_output(first)[0])[1:], rest) == (words, "ri")


@given(st.text(alphabet="ab ;#|>'\"`[]\\/!@-0", max_size=30))
@example(">''")
def test_no_line_breaks_the_grammar(line):
    first, rest = split_command(line)
    assert len(first) + len(rest) <= len(line)
    try:
        command, output = split_output(first)
    except UserError:
        return
    assert first.startswith(command.rstrip())
    assert output is None or output.target
    assert line.endswith(last_command(line))


# -- several commands


def test_several_commands_on_a_line(shell, capfd):
    assert play(shell, "version; eval 1 + 1; eval 7", "")
    out = capfd.readouterr().out
    assert out.index("NumPy") < out.index("1 + 1") < out.index("expression '7'")


def test_an_error_ends_its_line_and_says_what_was_not_run(shell, capfd):
    assert not play(shell, "version; pt nowhere:0; eval 1; eval 2", "eval 41 + 1")
    out, err = capfd.readouterr()
    assert "nowhere" in err
    assert "Not run: eval 1; eval 2" in err
    assert "type: int" in out
    assert out.count("type: int") == 1
    assert "42" in out


def test_a_search_takes_the_whole_line(shell):
    assert shell.reply("/a; b # c").request.argument == "a; b # c"


def test_comments(shell):
    reply = shell.reply("# nothing at all")
    assert not reply.failed
    assert reply.document is None
    assert shell.lines("version # of what")[0].startswith("tfdbg_cli")


# -- output


def test_appending(shell, tmp_path):
    path = tmp_path / "out.txt"
    shell.reply(f"version >> {path}")
    once = path.read_text()
    reply = shell.reply(f"version >> {path}")
    assert path.read_text() == once + once
    assert "appended" in reply.message.text


def test_a_pipe_shows_what_the_command_printed(shell):
    code = "import sys; print(sum(1 for _ in sys.stdin))"
    lines = shell.lines(f'lt | {sys.executable} -c "{code}"')
    assert lines == [str(len(shell.lines("lt")))]


@pytest.mark.skipif(os.name == "nt", reason="POSIX shell commands")
def test_pipes_of_the_shell(shell, tmp_path):
    assert shell.lines("lt | grep -c MatMul | tr 1-9 x") == ["x"]
    assert "no output" in shell.reply("lt | grep nothing-like-this").message.text
    assert shell.lines("lt | sh -c 'cat > /dev/null; echo bad >&2; exit 3'") == [
        "bad",
        "(exit status 3)",
    ]
    assert "no-such-command" in shell.error("lt | no-such-command")
    shell.reply(f"lt | head -1 > {tmp_path / 'x'}")
    assert (tmp_path / "x").read_text().endswith("dumped tensor(s):\n")


@pytest.mark.skipif(os.name == "nt", reason="POSIX shell commands")
@pytest.mark.parametrize("command", ["cat", "no-such-command", "exit 3", "a\x00b"])
def test_what_a_pipe_has_written_is_closed_with_what_shows_it(dump, command):
    shell = Shell(dump)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        shell.service.run(f"lt | {command}")
        del shell
        gc.collect()
    assert [str(each.message) for each in told] == []


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="POSIX shell commands")
def test_a_pipe_that_is_read_in_part_costs_only_that_part(shell):
    shell.reply("eval -o huge np.zeros(100_000_000)")
    assert shell.lines("eval huge -a | head -2")[0].startswith("Tensor")


def test_what_has_no_output_is_not_sent_anywhere(shell, tmp_path):
    assert "no output" in shell.error("run | cat")
    assert "no output" in shell.error(f"run >> {tmp_path / 'x'}")


# -- history


def test_events_of_the_history():
    history = History(None)
    for text in ("lt", "pt a:0", "lt -r", "ni x"):
        history.add(text)
    assert history.add("!!") == "ni x"
    assert history.expand("!1") == "lt"
    assert history.expand("!2 -s") == "pt a:0 -s"
    assert history.expand("!-2") == "lt -r"
    assert history.expand("!lt") == "lt -r"
    assert history.expand("!?a:0") == "pt a:0"
    assert history.expand("lt") == "lt"
    for missing in ("!9", "!0", "!zz", "!?zz", "!", "!-9"):
        with pytest.raises(UserError):
            history.expand(missing)


def test_an_event_runs_and_is_remembered_as_what_it_stands_for(shell):
    history = shell.service.history
    history.add("eval 40 + 2")
    assert "42" in shell.lines(history.add("!!"))[-1]
    assert "84" in shell.lines(history.add("!eval * 1 + 42"))[-1]
    assert history.items == ["eval 40 + 2", "eval 40 + 2 * 1 + 42"]
    assert "no" in shell.error(history.add("!nothing"))
    assert len(history.items) == 2


def test_the_history_command_numbers_and_links(shell):
    for text in ("lt", "ri", "version"):
        shell.service.history.add(text)
    assert [line.split() for line in shell.lines("history 2")] == [["2", "ri"], ["3", "version"]]
    assert shell.links("history 2") == ["ri", "version"]
    assert "number" in shell.error("history x")


def test_only_what_was_typed_is_kept(tmp_path):
    history = History(tmp_path / "history")
    for note, text in ((history.play, "lt"), (history.add, "ri"), (history.add, "nope")):
        assert note(text) == text
        history.done(text == "nope")
    assert (tmp_path / "history").read_text() == "ri\nnope\n"
    assert history.items == ["ri", "nope"]
    assert history.session == ["lt", "ri"]


def test_of_very_many_commands_the_last_ones_are_remembered():
    history = History(None)
    for number in range(45_000):
        history.play(f"pt x{number}")
        history.done(failed=False)
    assert 10_000 <= len(history.session) <= 20_000
    assert history.session[-10_000:] == [f"pt x{number}" for number in range(35_000, 45_000)]
    assert history.play("!!") == "pt x44999"


def test_events_of_a_pipe_mean_its_own_commands(tmp_path, shell):
    (tmp_path / "history").write_text("exit\n")
    history = History(tmp_path / "history")
    history.play("lt -n y")
    history.play("ri")
    assert history.play("!lt") == "lt -n y"
    assert history.play("!!") == "lt -n y"
    assert history.play("!2") == "ri"
    assert history.play("!exit") == "!exit"


def test_failed_commands_are_not_played_again(shell, tmp_path, capfd):
    assert not play(shell, "version", "nope", "eval 40 + 2", f"save {tmp_path / 's'}")
    assert (tmp_path / "s").read_text().splitlines()[1:] == ["version", "eval 40 + 2"]


# -- aliases


def test_an_alias_is_kept_and_takes_words(dump, tmp_path, capfd):
    path = tmp_path / "config.json"
    shell = Shell(dump, settings=Settings(path))
    assert "success" in shell.typed("alias two = eval %1 + %1; eval '%*'").message.role
    again = Shell(dump, settings=Settings(path))
    assert play(again, "two 21")
    out = capfd.readouterr().out
    assert "42" in out
    assert json.loads(path.read_text())["aliases"] == {"two": "eval %1 + %1; eval '%*'"}
    assert "two = eval" in again.text("alias")
    assert "1 word" in again.error("two")
    again.typed("unalias two")
    assert "no command" in Shell(dump, settings=Settings(path)).error("two 21")


def test_an_alias_of_a_script_is_kept_when_somebody_says_so(dump, tmp_path, capfd):
    path = tmp_path / "config.json"
    path.write_text('{"aliases": {"old": "lt", "other": "ni"}}')
    shell = Shell(dump, settings=Settings(path))
    for command in ("alias two = eval %1 + %1", "unalias old"):
        shell.reply(command)
    assert play(shell, "two 21") and "42" in capfd.readouterr().out
    shell.typed("alias three = eval 3")  # keeps itself alone
    assert json.loads(path.read_text())["aliases"] == {
        **{"old": "lt", "other": "ni"},
        "three": "eval 3",
    }
    assert "Kept: alias old, alias two." in shell.text("config save")
    assert json.loads(path.read_text())["aliases"] == {
        **{"other": "ni", "three": "eval 3"},
        "two": "eval %1 + %1",
    }


def test_words_are_appended_where_an_alias_has_no_places(shell, capfd):
    shell.reply('alias mine "eval 40 +"')
    assert play(shell, "mine 2")
    assert "42" in capfd.readouterr().out


def test_aliases_that_cannot_be(shell):
    assert "is a command" in shell.error("alias lt = ri")
    assert "is a command" in shell.error("alias q = ri")
    assert "not a name" in shell.error("alias 1x = ri")
    assert "no alias" in shell.error("alias nothing")
    assert "no alias" in shell.error("unalias nothing")


def test_an_alias_of_itself_ends(shell, capfd):
    shell.reply("alias again = again")
    assert not play(shell, "again", "version")
    out, err = capfd.readouterr()
    assert "without end" in err
    assert "NumPy" in out


def test_settings_keep_the_aliases(tmp_path):
    path = tmp_path / "config.json"
    Settings(path).set_alias("a", "lt", keeps=True)
    settings = Settings(path)
    settings.set("mouse_mode", "off", keeps=True)
    assert dict(Settings(path).aliases) == {"a": "lt"}
    path.write_text('{"aliases": [1], "mouse_mode": false, "max_elements": "x"}')
    settings = Settings(path)
    assert '"aliases" is not an object' in settings.warning
    assert '"x" is not a value for max_elements' in settings.warning
    assert settings.get("mouse_mode") is False


def test_a_damaged_settings_file_is_put_aside_and_not_lost(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"aliases": {"mine": "lt"')
    settings = Settings(path)
    assert "is not used" in settings.warning
    settings.set("max_elements", "5", keeps=True)
    assert Settings(path).get("max_elements") == 5
    assert "mine" in (tmp_path / "config.json.damaged").read_text()


def test_an_alias_never_hides_a_command(dump, tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"aliases": {"lt": "version"}}')
    assert "dumped tensor(s)" in Shell(dump, settings=Settings(path)).text("lt")


# -- scripts


def test_a_session_is_a_script(dump, tmp_path, capfd):
    script, record = tmp_path / "s.tfdbg", tmp_path / "r.tfdbg"
    shell = Shell(dump)
    assert play(shell, f"record {record}", "eval 1 + 1", "version; ri", "record off", "lt")
    assert play(shell, f"save {script}", "history")
    typed = script.read_text().splitlines()
    assert typed[0].startswith("#")
    assert typed[1:] == ["eval 1 + 1", "version; ri", "lt"]
    assert record.read_text().splitlines()[1:] == ["eval 1 + 1", "version; ri"]
    first = capfd.readouterr().out
    assert play(Shell(dump), f"source {script}")
    for text in ("type: int", "NumPy", "dumped tensor(s)"):
        assert text in first
        assert text in capfd.readouterr().out or text != "type: int"


def test_a_script_ends_at_its_first_error(shell, tmp_path, capfd):
    path = tmp_path / "s"
    path.write_text("# a comment\n\neval 1 + 1\npt nowhere:0\neval 3 + 3\nri\n")
    assert not play(shell, f"source {path}", "eval 4 + 4")
    out, err = capfd.readouterr()
    assert "nowhere" in err
    assert "Not run: 2 more" in err
    assert "\n6\n" not in out
    assert "8" in out


def test_scripts_within_scripts(shell, tmp_path, capfd):
    inner, outer = tmp_path / "inner", tmp_path / "outer"
    inner.write_text("eval 100 + 1\n")
    outer.write_text(f"source {inner}\neval 100 + 2\n")
    assert play(shell, f"source {outer}")
    out = capfd.readouterr().out
    assert out.index("101") < out.index("102")
    inner.write_text(f"source {outer}\n")
    assert not play(shell, f"source {outer}")
    assert "without end" in capfd.readouterr().err


def test_scripts_that_cannot_be_read(shell, tmp_path):
    assert "can't be read" in shell.error(f"source {tmp_path / 'nowhere'}")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    assert "not a text file" in shell.error(f"source {tmp_path / 'bytes'}")
    assert "can't be written" in shell.error(f"save {tmp_path / 'no' / 'where'}")
    assert "can't be written" in shell.error(f"record {tmp_path / 'no' / 'where'}")


# -- completion


def test_completion_knows_the_language(shell):
    assert "lt; print_tensor" in shell.complete("lt; print_t")
    assert "lt -n a; pt hidden/Relu:0" in shell.complete("lt -n a; pt hidden/Re")
    assert shell.complete("lt # pri") == []
    assert shell.complete("lt | gre") == []
    assert shell.complete("!l") == []
    shell.settings.set_alias("mine", "pt -s")
    assert "mine" in shell.complete("mi")
    assert "mine hidden/Relu:0" in shell.complete("mine hidden/Re")
    assert any(found.startswith("lt >> /") for found in shell.complete("lt >> /"))


# -- found by trying to break it


def test_brackets_and_parentheses_protect(shell):
    assert "True" in shell.lines("eval (3 > 2)")[-1]
    assert split_output("eval np.sum(`x:0` > 3)") == ("eval np.sum(`x:0` > 3)", None)
    assert split_command("eval f(a; b); ri") == ("eval f(a; b)", "ri")
    assert split_command("lt -n a(b; ri") == ("lt -n a(b", "ri")
    assert split_command("pt x[(0]; ri") == ("pt x[(0]", "ri")


def test_a_line_of_open_brackets_is_quick(shell):
    began = time.monotonic()
    assert shell.error("pt big:0" + "[" * 5000)
    assert shell.error("pt big:0" + "[" * 5000 + "0" + "]" * 5000)
    assert shell.error("ni " + "x" * 100_000)
    assert time.monotonic() - began < 60  # squared, it would be minutes


@pytest.mark.parametrize("bad", ["a\0b", "\ud800"])
@pytest.mark.parametrize(
    "command", ["lt > {}", "lt >> {}", "lt | cat {}", "pt big:0 -w {}.npy", "save {}", "record {}"]
)
def test_what_no_file_can_be_called(shell, command, bad, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "Error in the debugger" not in shell.error(command.format(bad))


def test_a_folder_is_no_file(shell, tmp_path):
    assert "is a folder" in shell.error(f"pt big:0 -w {tmp_path}/new/")


def test_bad_elements_are_not_a_flood_on_paper(dump, tmp_path):
    shell = Shell(dump)
    shell.reply("eval -o much np.where(np.arange(100_000) == 77_777, np.nan, 1.0)")
    document = shell.document("pt much --bad")
    assert document.line_count > 5000
    assert document.initial_search
    shell.reply(f"pt much --bad > {tmp_path / 'out'}")
    text = (tmp_path / "out").read_text()
    assert text.count("\n") < 20
    assert "@[77777]" in text
    assert shell.lines("pt much --bad | wc -l")[0].strip() == str(text.count("\n"))


def test_a_masked_array_keeps_its_mask(shell):
    assert "--" in shell.text("eval np.ma.array([1,2,3], mask=[0,1,0])")


@pytest.mark.parametrize("command", ["lt", "lt -o mean,module", "pt big:0", "eval `big:0`", "err"])
def test_files_and_programs_get_the_same_in_every_window(command, shell, failed, tmp_path):
    asked = failed if command == "err" else shell
    texts = set()
    for width in (40, 79, 80, 119, 120, 300):
        path = tmp_path / f"{width}.txt"
        assert not asked.reply(f"{command} > {path}", width).failed
        texts.add(path.read_text())
        piped = asked.document(f"{command} | cat", width)
        assert piped.text + "\n" == path.read_text()
    assert len(texts) == 1
    # The screen has its own width again.
    assert asked.context.is_printed is False
    if command == "pt big:0":
        assert asked.text(command, 40) != asked.text(command, 300)
