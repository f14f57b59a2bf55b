"""``run -p``: the stop after a timed run, and that the run is the program's own."""

import json

import numpy as np
import pytest
from session_kit import Script, make_debugger, wrap

from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_folder.dump import write_run_folder
from tfdbg_cli.sessions.offline.look import look


def rows(stop, command="lp"):
    lines = stop.service.run(f"{command} --json").document.text.splitlines()
    return [json.loads(text) for text in lines]


def nodes(stop, command="lp"):
    return [row["node"] for row in rows(stop, command)]


def test_the_stop_after_a_timed_run(program):
    def inspect(stop):
        assert {"add", "ratio/left", "ratio/div"} <= set(nodes(stop))
        (row,) = (r for r in rows(stop, "lp -n ratio/div$") if r["kernel"] == r["op_type"])
        assert row["op_type"] == "RealDiv"
        assert row["file"].endswith("conftest.py")
        assert 0 <= row["op_time_us"] <= row["exec_time_us"]
        menu = stop.service.run("ri").document.menu
        assert [item.command for item in menu] == ["list_profile", "run", "exit"]
        for item in menu[:1]:
            assert not stop.service.run(item.command).failed
        assert "6." in stop.service.run("pf x:0").document.text
        for command, text in (
            ("lt", "run -p keeps no tensors; run does."),
            ("pt add:0", "print_tensor is not available after a run that was timed."),
        ):
            reply = stop.service.run(command)
            assert reply.failed
            assert text in reply.message.text

    sess, ui = wrap(program.session, "run -p", [inspect, "run"])
    assert sess.run(program.ratio, program.feed).tolist() == [3.0, 1.5]
    assert sess.run(program.ratio, program.feed).tolist() == [6.0, 3.0]
    assert ui.modes == "spe"
    stop = ui.stops[1]
    assert stop.initial == "lp"
    assert stop.role == "end"
    assert stop.title.startswith("run-end: profile of run #1: 1 fetch (ratio/div:0); 1 feed (x:0)")
    assert stop.names == []
    assert stop.first_screen.splitlines()[0].endswith("op execution(s) on 1 device(s):")
    assert "Device Total" in stop.first_screen


def test_the_next_run_may_be_timed_and_the_one_after_it(program):
    sess, ui = wrap(program.session, "run", "run -p", "run -p", "run", "run -n")
    results = [sess.run(program.ratio, program.feed).tolist() for _ in range(5)]
    assert results == [[3.0, 1.5], [6.0, 3.0], [np.inf, np.inf], [-6.0, -3.0], [-3.0, -1.5]]
    assert ui.modes == "seppe"
    assert [stop.title.split("#")[1][0] for stop in ui.stops] == ["1", "1", "2", "3", "4"]


def test_runs_may_pass_before_the_one_that_is_timed(program):
    sess, ui = wrap(program.session, "run -t 3 -p", "run -p -t 2")
    for _ in range(5):
        sess.run(program.add)
    assert ui.modes == "spp"
    assert [stop.title.split("#")[1][0] for stop in ui.stops] == ["1", "3", "5"]


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("run -p -n", "-n runs without the debugger"),
        ("run -p -f has_inf_or_nan", "the filter of -f would see nothing"),
        ("run -p -fenn a", "the filter of -f would see nothing"),
        ("run -p --node_name_filter a", "--node_name_filter has nothing to choose from"),
        ("run --profile --op_type_filter a", "--op_type_filter has nothing to choose from"),
        ("run -p --tensor_dtype_filter a", "--tensor_dtype_filter has nothing to choose from"),
        ("run -p -t 0", "invalid number of runs (1 or more)"),
    ],
)
def test_what_cannot_go_together_is_refused(program, command, reason):
    sess, ui = wrap(program.session, [command, "run"])
    sess.run(program.add)
    reply = ui.stops[0].replies[command]
    assert reply.failed
    assert reply.leave is None
    assert reason in reply.message.text
    assert ui.modes == "se"


def test_a_timed_run_that_fails_shows_its_error_and_raises_it(program):
    def inspect(stop):
        for item in stop.service.run("error").document.menu:
            assert not stop.service.run(item.command).failed
        links = [
            s.link.command
            for line in stop.service.run("error").document
            for s in line.spans
            if s.link
        ]
        assert "lp" in links
        for command in links:
            assert not stop.service.run(command).failed, command

    sess, ui = wrap(program.session, "run -t 3", "run -p", [inspect, "run"])
    sess.run(program.ratio, program.feed)
    sess.run(program.ratio, program.feed)
    sess.run(program.add)
    with pytest.raises(program.tf.errors.InvalidArgumentError):
        sess.run(program.checked, {program.x: [np.inf, 1.0]})
    assert ui.modes == "sep"
    stop = ui.stops[2]
    assert (stop.initial, stop.role) == ("error", "error")
    assert stop.title.startswith("run-end: profile of run #4")
    assert "checked" in stop.first_screen
    assert sess.run(program.add) == 5.0


def test_callables_are_timed_too(program):
    sess, ui = wrap(program.session, "run -p", "run -p")
    call = sess.make_callable(program.ratio, [program.x])
    assert call([6.0, 3.0]).tolist() == [3.0, 1.5]
    assert "ratio/div" in nodes(ui.stops[1])
    # A runner that nobody can look into has no timings, and says so.
    assert sess.run(callable_runner=lambda: "done") == "done"
    assert ui.modes == "spp"
    assert "There are no op timings of this run." in ui.stops[2].first_screen


def test_nothing_is_timed_after_the_user_has_gone(program):
    sess, ui = wrap(program.session, "run -p", ["exit --detach"])
    for _ in range(3):
        sess.run(program.add)
    assert ui.modes == "sp"


@pytest.fixture
def kept(program, tmp_path):
    """The folder of a timed run and a debugged one, and what was seen of the first."""
    sess, ui = wrap(program.session, "run -p", "run", keep_dumps=True, dump_root=str(tmp_path))
    sess.run(program.ratio, program.feed)
    live = ui.stops[1]
    sess.run(program.ratio, program.feed)
    return tmp_path, live


def offline(path, *script):
    ui = Script(*script)
    look(str(path), make_debugger(ui))
    return ui.stops


def test_a_kept_profile_opens_offline(kept):
    folder, live = kept
    source = rows(live)[0]["file"]
    commands = ["lp -s exec_time -r", f"ps {source}", "ni -a -t ratio/div", "ri", "ls", "pf x:0"]
    (stop,) = offline(folder / "run_000001", [*commands, "lt", "run", "exit"])
    assert stop.mode == "offline-profile"
    assert (stop.initial, stop.role) == ("lp", "offline")
    assert "profile of run #1: 1 fetch (ratio/div:0)" in stop.title
    assert rows(stop) == rows(live)
    for command in commands:
        assert not stop.replies[command].failed, stop.replies[command]
    assert "[|" in stop.replies[f"ps {source}"].document.text
    assert [item.command for item in stop.replies["ri"].document.menu] == ["list_profile"]
    for command in ("lt", "run"):
        assert stop.replies[command].failed
        assert "is not available offline after a run that was timed" in (
            stop.replies[command].message.text
        )


def test_a_folder_of_runs_may_hold_both_kinds(kept):
    folder, _ = kept
    stops = offline(folder, ["lt", "runs 0"], ["runs", "runs 1"], ["exit"])
    assert [stop.mode for stop in stops] == ["offline", "offline-profile", "offline"]


def test_a_profile_that_is_lost_is_told(kept):
    folder, _ = kept
    (folder / "run_000001" / "profile.jsonl").unlink()
    (stop,) = offline(folder / "run_000001", ["exit"])
    assert stop.mode == "offline-profile"
    assert "Warning: " in stop.first_screen
    assert "profile.jsonl is gone." in stop.first_screen
    assert "There are no op timings of this run." in stop.first_screen


def test_a_dump_of_nothing_is_no_profile(tmp_path):
    write_run_folder(MemoryDump(), tmp_path / "run")
    (stop,) = offline(tmp_path / "run", ["exit"])
    assert (stop.mode, stop.initial) == ("offline", "lt")
