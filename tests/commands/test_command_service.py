"""The service: command lines, redirects, help, settings, history, completion."""

import argparse
import json
import os
import stat
import sys

import pytest
from command_kit import Shell

from tfdbg_cli.commands.builtin import make_registry
from tfdbg_cli.commands.reply import Reply, UiRequest
from tfdbg_cli.commands.shell.history import History, default_history_path
from tfdbg_cli.commands.shell.parsing import OutputTarget, quoted, split_output, split_words
from tfdbg_cli.commands.tensors.columns import COLUMNS
from tfdbg_cli.common.settings import Settings, default_config_path
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump

# Command lines.


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("", []),
        ("   ", []),
        ("lt -n  a", ["lt", "-n", "a"]),
        ("pt a:0[0, :] -s", ["pt", "a:0[0, :]", "-s"]),
        ("pt x -r [[1, 2], [3, 4]]", ["pt", "x", "-r", "[[1, 2], [3, 4]]"]),
        ("pt 'a b' \"c d\"", ["pt", "a b", "c d"]),
        ("eval `a b:0`*2", ["eval", "`a b:0`*2"]),
        ("lt -n it's", ["lt", "-n", "it's"]),
        ("lt -n [a", ["lt", "-n", "[a"]),
        ("lt -n a]b", ["lt", "-n", "a]b"]),
        ("eval \"f('x')\"", ["eval", "f('x')"]),
        ("lt -n ''", ["lt", "-n", ""]),
    ],
)
def test_words(line, words):
    assert split_words(line) == words


@pytest.mark.parametrize(
    ("line", "command", "path"),
    [
        ("lt", "lt", None),
        ("lt > a.txt", "lt", "a.txt"),
        ("lt >a.txt", "lt", "a.txt"),
        ("lt> a.txt", "lt", "a.txt"),
        ('lt > "a b.txt"', "lt", "a b.txt"),
        ('eval "`y:0` > 3"', 'eval "`y:0` > 3"', None),
        ('eval "`y:0` > 3" > out', 'eval "`y:0` > 3"', "out"),
        ("eval 'a > b'", "eval 'a > b'", None),
        ("lt -n x>y", "lt -n x>y", None),
        ("lt -n [a > b]", "lt -n [a > b]", None),
        ("lp -e >100us", "lp -e >100us", None),
        ("lp -e >100us > out", "lp -e >100us", "out"),
    ],
)
def test_redirects_stand_outside_quotes(line, command, path):
    assert split_output(line) == (command, OutputTarget(">", path) if path else None)


@pytest.mark.parametrize(
    "text", ["a", "a b", "", 'a"b', "it's", "a[", "a]b", "a`b", "a > b", ">x", "-x", "a[0, 1]", "ü"]
)
def test_a_quoted_word_is_read_back_wherever_it_stands(text):
    for line in (f"lt {quoted(text)}", f'lt {quoted(text)} -t "]\'` x" > out'):
        assert split_words(line)[1] == text


def test_words_in_quotes_are_no_options(shell):
    assert shell.lines('lt -n "-s"')[0] == "0 dumped tensor(s):"
    assert shell.lines("eval '-1'")[-1] == "-1"
    assert "invalid int value: '-x'" in shell.error('pt ints:0 -n "-x"')
    assert "-s" in shell.error("lt -n -s")


def test_an_empty_line_does_nothing(shell):
    assert shell.reply("") == Reply() == shell.reply("  \t ")


def test_search_and_scroll_are_left_to_the_screen(shell):
    assert shell.reply("/a > b").request == UiRequest("search", "a > b")
    assert shell.reply("/").request == UiRequest("search", "")
    assert shell.reply("@[1, 0]").request == UiRequest("scroll", "[1, 0]")
    assert shell.reply("@ 1,0").request == UiRequest("scroll", "1,0")
    assert shell.reply("prev").request == UiRequest("prev")
    assert shell.reply("next").request == UiRequest("next")
    assert shell.reply("mouse").request == UiRequest("mouse", "")
    assert shell.reply("m off").request == UiRequest("mouse", "off")
    assert "'maybe'" in shell.error("mouse maybe")


def test_long_options_may_be_abbreviated_where_they_are_unique(shell):
    assert shell.lines("lt --node hidden/Relu") == shell.lines("lt -n hidden/Relu")
    assert "ambiguous" in Shell(None).error("run --t 3")


def test_a_bug_of_ours_is_one_line_with_the_traceback_on_request(shell, monkeypatch, capfd):
    def broken():
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(shell.dump, "t0", broken)
    reply = shell.reply("lt")
    assert reply.failed
    assert reply.message.text == "Error in the debugger: RuntimeError: two lines"
    assert reply.details[0].startswith("Traceback")
    assert capfd.readouterr() == ("", "")


# Redirects.


def test_a_screen_goes_to_a_file_as_plain_text(shell, tmp_path):
    path = tmp_path / "out.txt"
    path.write_text("old")
    reply = shell.reply(f"lt -n hidden > {path}")
    expected = shell.lines("lt -n hidden", 119)  # in a file all columns have room
    assert reply.message.text == f"{len(expected)} line(s) written to {path}"
    assert reply.message.role == "success"
    assert reply.document is None
    assert path.read_text().splitlines() == expected
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_file()] == ["out.txt"]
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~umask


def test_a_link_stays_a_link(shell, tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    assert not shell.reply(f"lt > {link}").failed
    assert link.is_symlink()
    assert target.read_text().splitlines() == shell.lines("lt", 119)


def test_what_is_no_file_is_written_to_directly(shell, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert not shell.reply(f"version > {fifo}").failed
        assert os.read(reader, 1000).decode().splitlines() == shell.lines("version")
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(fifo.stat().st_mode)


def test_a_screen_that_breaks_off_leaves_the_old_file(shell, tmp_path, monkeypatch):
    path = tmp_path / "out.txt"
    path.write_text("old")
    monkeypatch.setattr(type(shell.dump), "op_type", lambda self, name: name.missing)
    assert shell.reply(f"lt > {path}").failed
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_file()] == ["out.txt"]


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("lt >", ["redirect file path is empty", "lt > tensors.txt"]),
        ("lt >>", ["path is empty", "Write"]),
        ("> out", ["no command before the >"]),
        ("lt > /no/such/folder/out", ["/no/such/folder/out can't be written", "No such file"]),
        ("lt > {folder}", ["{folder} can't be written", "directory"]),
        ("mouse > out", ["mouse has no output"]),
        ("list_tensor", ['no command "list_tensor"', "Did you mean list_tensors"]),
        ("xyzzy", ['no command "xyzzy"', "Type help"]),
        ("help lts", ['no command "lts"', "Did you mean"]),
        ("help a b", ['"b" is one word too many']),
        ("version 3", ['"3" is one word too many']),
        ("config set mouse 3", ['no setting named "mouse"', "Did you mean mouse_mode?"]),
        ("config set mouse_mode", ["a name and a value", "config set mouse_mode off"]),
        ("config set mouse_mode maybe", ['"maybe" is not a value for mouse_mode', "on or off"]),
        ("config set graph_recursion_depth x", ['"x" is not a value for graph_recursion_depth']),
        ("config set graph_recursion_depth 0", ["from 1 on"]),
        ("config set theme pink", ['"pink" is not a value for theme', "It can be auto"]),
        ("config drop", ['config has no "drop"', "config show"]),
    ],
)
def test_mistakes_are_one_line_with_cause_and_fix(shell, capfd, tmp_path, command, parts):
    text = shell.error(command.replace("{folder}", str(tmp_path)))
    for part in parts:
        assert part.replace("{folder}", str(tmp_path)) in text
    assert capfd.readouterr() == ("", "")


# Help.


def stop_of(command):
    modes = ("run-end", "profile", "stepper", "post-mortem")
    return next(mode for mode in modes if mode in command.modes)


@pytest.mark.parametrize("command", make_registry().commands, ids=lambda command: command.name)
def test_every_command_has_help_by_every_name(dump, command, capfd):
    shell = Shell(dump, stop_of(command))
    text = shell.text(f"help {command.name}", 400)
    assert command.summary in text  # in one line, where there is room
    assert f"Usage: {command.name}" in text
    for argument in command.arguments:
        assert argument.summary in text
    for name in (command.name, *command.aliases):
        assert shell.text(f"help {name}", 400) == text
        assert shell.text(f"{name} -h", 400) == text
        assert shell.text(f"{name} --help", 400) == text
    assert capfd.readouterr() == ("", "")


def test_help_lists_the_commands_of_the_stop(shell, start):
    assert "list_tensors, lt" in shell.text("help")
    assert "list_tensors, lt" not in start.text("h")
    for command in shell.links("help"):
        shell.document(command)


def test_every_example_is_understood(dump, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for command in make_registry().commands:
        shell = Shell(dump, stop_of(command))
        shell.context.extra["uncaught"] = ValueError("an example")
        for text, _ in command.examples:
            words = split_words(split_output(text)[0])
            assert words[0] in (command.name, *command.aliases)
            reply = shell.reply(text)
            if reply.failed:  # it names a node of another program
                assert "Usage" not in reply.message.text, text
                assert "Error in the debugger" not in reply.message.text, text


# Settings and history.


def test_settings_are_kept_when_somebody_says_so(tmp_path):
    path = tmp_path / "deep" / "config.json"
    shell = Shell(None, settings=Settings(path))
    assert "graph_recursion_depth: 20" in shell.text("config")
    assert shell.lines("config show") == shell.lines("cfg")
    document = shell.document("config set graph_recursion_depth 5")
    assert any(s.role == "bold" and "depth: 5" in s.text for line in document for s in line.spans)
    shell.document("config set mouse_mode no")
    assert not path.exists()
    assert "Kept: graph_recursion_depth, mouse_mode." in shell.text("config save")
    again = Shell(None, settings=Settings(path))
    assert "graph_recursion_depth: 5" in again.text("config")
    assert "mouse_mode: False" in again.text("config")
    assert json.loads(path.read_text()) == {"graph_recursion_depth": 5, "mouse_mode": False}
    assert os.listdir(path.parent) == ["config.json"]
    assert "Nothing was set in this session." in shell.text("config save")


@pytest.mark.parametrize(
    "way", ["--keep set overhead 3", "set --keep overhead 3", "set overhead 3 -k"]
)
def test_one_setting_is_kept(tmp_path, way):
    path = tmp_path / "config.json"
    shell = Shell(None, settings=Settings(path))
    shell.reply("config set level ops")
    assert "overhead: 3.0, in this session and later ones." in shell.text(f"config {way}")
    assert json.loads(path.read_text()) == {"overhead": 3.0}
    assert "--keep needs set NAME VALUE" in shell.error("config --keep")


@pytest.mark.parametrize("name", [item.name for item, _ in Settings(None).items()])
def test_what_holds_for_this_session_is_said(tmp_path, name):
    """Only what a person types about the screen is kept without being told to."""
    path = tmp_path / "config.json"
    settings = Settings(path)
    field = next(item for item, _ in settings.items() if item.name == name)
    others = {"overflow_share": "0.5", "run_end": "a.b", "mouse_mode": "off"}
    is_switch = isinstance(field.default, bool)
    value = others.get(name) or ("on" if is_switch else (field.choices or ["7"])[-1])
    shell = Shell(None, settings=settings)
    command = f"config set {name} {value}"
    kept = "in this session and later ones"
    assert "in this session. config save keeps" in shell.text(command)
    assert not path.exists()
    (tmp_path / "script").write_text(command)
    shell.reply(shell.typed(f"source {tmp_path / 'script'}").rest[0])
    assert not path.exists()
    is_look = name in ("mouse_mode", "theme", "hyperlinks", "pane")
    text = "\n".join(line.text for line in shell.typed(command).document)
    assert (kept in text) == is_look == path.exists()
    assert shell.settings.origin(name) == ("file" if is_look else "session")


def test_settings_say_where_they_come_from(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"level": "ops", "overhead": 1.1, "theme": "dark"}')
    shell = Shell(None, settings=Settings(path))
    shell.settings.override("mouse_mode", False)  # as an option of the command line
    shell.reply("config set max_elements 7")
    rows = {line.split(":")[0].strip(): line.split() for line in shell.lines("config")}
    for name, origin in (
        ("level", "file"),
        ("overhead", "file"),
        ("mouse_mode", "session"),
        ("max_elements", "session"),
        ("pane", "default"),
    ):
        assert rows[name][2] == origin
    assert f"Set by the settings file: level ops ({path})" in " ".join(
        shell.text("run_info").split()
    )
    shell.reply("config set level auto")
    assert "Set by" not in shell.text("run_info")


@pytest.mark.parametrize("damage", ["{", "[1]", '{"max_elements": "many"}', "\udcff"])
def test_a_damaged_settings_file_is_reported_and_left_alone(tmp_path, damage):
    path = tmp_path / "config.json"
    data = damage.encode("utf-8", "surrogateescape")
    path.write_bytes(data)
    shell = Shell(None, settings=Settings(path))
    assert str(path) in shell.settings.warning
    assert shell.settings.warning in shell.text("config", 400)
    assert "max_elements: 1000" in shell.text("config", 400)
    assert path.read_bytes() == data
    shell.document("config set --keep max_elements 7")
    assert "max_elements: 7" in Shell(None, settings=Settings(path)).text("config", 400)


def test_settings_that_cannot_be_written_hold_for_the_session(tmp_path):
    (tmp_path / "file").write_text("")
    shell = Shell(None, settings=Settings(tmp_path / "file" / "config.json"))
    shown = shell.text("config set --keep max_elements 7")
    assert "max_elements: 7, in this session" in shown and "can't be written" in shown


def test_the_default_files_follow_the_customs_of_the_platform(tmp_path):
    if sys.platform.startswith("linux"):
        assert default_config_path() == tmp_path / "config" / "tfdbg_cli" / "config.json"
        assert default_history_path() == tmp_path / "state" / "tfdbg_cli" / "history"


def test_history_is_kept_without_repetitions(tmp_path):
    path = tmp_path / "deep" / "history"
    history = History(path)
    for text in ("lt", "lt", "pt a:0", "  ", "lt", "two\nlines"):
        history.add(text)
    assert History(path).items == ["lt", "pt a:0", "lt", "two lines"]
    assert History(path).matching("lt") == ["lt"]
    assert history.matching("") == ["two lines", "lt", "pt a:0"]


def test_history_is_cut_and_bad_files_are_no_error(tmp_path):
    path = tmp_path / "history"
    path.write_text("".join(f"pt a:{n}\n" for n in range(50)))
    history = History(path, limit=10)
    assert history.items == [f"pt a:{n}" for n in range(40, 50)]
    assert len(path.read_text().splitlines()) == 10
    path.write_bytes(b"\xff\xfe")
    assert History(path).items == []
    unwritable = History(path / "below" / "history")
    unwritable.add("lt")
    assert unwritable.items == ["lt"]


# Completion.


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("list_t", ["list_tensors"]),
        ("conf", ["config"]),
        ("pt hidden/M", ["pt hidden/MatMul:0"]),
        ("print_tensor -s hidden/R", ["print_tensor -s hidden/Relu:0"]),
        ("ni -a hidden/M", ["ni -a hidden/MatMul"]),
        ("li hidden/Re", ["li hidden/Relu"]),
        ("lo hidden/Re", ["lo hidden/Relu"]),
        ("lt -f has", ["lt -f has_inf_or_nan"]),
        ("lt --tensor_filter has", ["lt --tensor_filter has_inf_or_nan"]),
        ("run -f has", ["run -f has_inf_or_nan"]),
        ("lt --no", ["lt --node_name_filter"]),
        ("lt -s dump", ["lt -s dump_size"]),
        ("lt -n x -s ti", ["lt -n x -s time", "lt -n x -s timestamp"]),
        ("lt -o time,he", ["lt -o time,health"]),
        ("lt -o op_type,time,d", ["lt -o op_type,time,dtype", "lt -o op_type,time,device"]),
        ("lt -o dtype,d", ["lt -o dtype,device"]),
        ("pf input/w", ["pf input/words:0"]),
        ("eval np.sum(`hidden/M", ["eval np.sum(`hidden/MatMul:0`"]),
        ('eval "np.sum(`hidden/M', ['eval "np.sum(`hidden/MatMul:0`']),
        ("eval `ints:0`+`numb", ["eval `ints:0`+`numbers:0`"]),
        ('pt "hidden/M', ['pt "hidden/MatMul:0']),
        ("config set mouse", ["config set mouse_mode"]),
        ("config sh", ["config show"]),
        ("config set theme da", ["config set theme dark"]),
        ("config set mouse_mode of", ["config set mouse_mode off"]),
        ("help list_t", ["help list_tensors"]),
        ("ps command_k", ["ps command_kit.py"]),
        ("mouse of", ["mouse off"]),
        ("lt -n hidden/Re", ["lt -n hidden/Relu"]),
        ("lt -t MatM", ["lt -t MatMul"]),
        ("nonsense ab", []),
        ("pt 'a' 'b' c", []),
    ],
)
def test_completion_at_every_place(shell, text, expected):
    assert shell.complete(text) == expected


def test_completion_offers_all_where_nothing_is_typed(shell, dump, start):
    here = [command for command in make_registry().commands if "run-end" in command.modes]
    names = [name for command in here for name in (command.name, *command.aliases)]
    assert sorted(shell.complete("")) == sorted(names)
    assert "lt" not in start.complete("")
    assert shell.complete("pt ") == [f"pt {name}" for name in dump.tensor_names()]
    assert shell.complete("ni ") == [f"ni {name}" for name in dump.graph().nodes]
    assert "lt --sort_by" in shell.complete("lt -")
    assert "lt -f has_inf_or_nan" in shell.complete("lt -f ")
    assert shell.complete("lt -s ") == [f"lt -s {column.name}" for column in COLUMNS]
    assert start.complete("eval `input/") == ["eval `input/x:0`", "eval `input/words:0`"]


def test_completion_in_the_middle_of_the_line(shell):
    assert shell.complete("pt hidden/M -s", 11) == ["pt hidden/MatMul:0 -s"]


def test_files_are_completed_where_a_path_is_expected(shell, tmp_path, monkeypatch):
    (tmp_path / "out folder").mkdir()
    (tmp_path / "out.npy").write_text("")
    (tmp_path / "[odd]*").write_text("")
    monkeypatch.chdir(tmp_path)
    assert shell.complete("pt a:0 -w out.") == ["pt a:0 -w out.npy"]
    assert shell.complete("lt > out.") == ["lt > out.npy"]
    assert shell.complete("lt > out") == [f'lt > "out folder{os.sep}"', "lt > out.npy"]
    assert shell.complete('lt > "out f') == [f'lt > "out folder{os.sep}']
    assert shell.complete("lt > [o") == ["lt > [odd]*"]


def test_many_names_are_offered_by_scope():
    names = [f"tower_{t}/layer_{n}/op" for t in range(4) for n in range(200)]
    dump = MemoryDump(Graph(Node(name, "Op") for name in names))
    shell = Shell(dump)
    assert shell.complete("ni ") == [f"ni tower_{t}/" for t in range(4)]
    assert shell.service.complete("ni tow", 6).common_prefix == "tower_"
    assert len(shell.complete("ni tower_1/")) == 200


def test_every_completed_name_is_a_valid_argument(dump):
    odd = MemoryDump(Graph([Node("a b", "Op"), Node("it's", "Op"), Node("x>y", "Op")]))
    for number, name in enumerate(("a b", "it's", "x>y")):
        odd.add(name, 0, b"", timestamp=number)
    for shell in (Shell(dump), Shell(odd)):
        for line in [*shell.complete("ni "), *shell.complete("li ")]:
            shell.document(line)
        for line in shell.complete("pt "):
            shell.document(line)
        for line in shell.complete("eval `"):
            assert not shell.reply(line).failed, line


def test_completion_never_raises(shell):
    for line in ("pt [", "pt \"'", "eval `", "lt -s", "> ", "lt > ", "config set ", "-", "'", "@["):
        for cursor in range(len(line) + 1):
            shell.service.complete(line, cursor)


@pytest.mark.parametrize("text", ["<string>", "a > b", "plain", "-x", "it's", "a b", "x[0, 1]"])
def test_a_quoted_word_is_read_back(text: str) -> None:
    assert split_words(f"ps {quoted(text)} -b 3") == ["ps", text, "-b", "3"]
    assert split_output(f"ps {quoted(text)} -b 3")[1] is None


def test_no_file_with_a_zero_byte_in_its_name_gets_what_stays_in_float32(shell):
    assert "is not a path" in shell.error('precision --keep "a\0b"')


def test_what_a_signal_handler_raises_amid_the_reading_of_a_command_is_not_lost(monkeypatch):
    """Python's argparse makes another error of it, unless the command is prepared for that."""

    def struck(self):
        raise SystemExit("late")

    monkeypatch.setattr(argparse.ArgumentParser, "format_usage", struck)
    for command in make_registry().commands:
        with pytest.raises(SystemExit, match="late"):
            command.parse([])
