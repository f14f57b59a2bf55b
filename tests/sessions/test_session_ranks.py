"""What the debuggers of several ranks agree on, over real sockets, without a framework."""

import _thread
import errno
import json
import socket
import threading
import time

import pytest

from tfdbg_cli.commands.run.choices import ExitChoice, RunChoice
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.dumps.dump import RunError
from tfdbg_cli.dumps.joined import JoinedDump
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import Meeting
from tfdbg_cli.net.wire import introduce
from tfdbg_cli.sessions.debugger.storage import DumpStore
from tfdbg_cli.sessions.ranks import follower as rank_follower
from tfdbg_cli.sessions.ranks import group as rank_group
from tfdbg_cli.sessions.ranks import leader as rank_leader
from tfdbg_cli.sessions.ranks.group import RankGroup
from tfdbg_cli.sessions.ranks.interface import RankPlace, SingleRank, Verdict, find_place
from tfdbg_cli.sessions.ranks.messages import RankLink


class Board(Meeting):
    """A store in memory."""

    def __init__(self, rank, shared):
        self.rank, self.size, self._shared = rank, 2, shared

    def put(self, name, text):
        self._shared[name] = text

    def look(self, name):
        return self._shared.get(name)

    def where(self):
        return f"in op_{self.rank}, at train.py:{self.rank + 1}"


class Adapter:
    """Knows the board from the beginning."""

    def __init__(self, rank, shared):
        self._board = Board(rank, shared)

    def meeting(self):
        return self._board


class Ranks:
    """Rank 0 leads, rank 1 follows; both in this process."""

    def __init__(self, tmp_path):
        self.shared = shared = {}
        self.notes = []
        self.hurries = False
        self.teams = []
        self.settings = [Settings(), Settings()]
        for rank in (0, 1):
            store = DumpStore(str(tmp_path / "root"), rank=rank)
            store.number = 7
            team = RankGroup(
                RankPlace(rank, 2),
                store,
                self.settings[rank],
                self.notes.append,
                lambda: self.hurries,
            )
            team.meet(Adapter(rank, shared))
            self.teams.append(team)
        self.leader, self.follower = self.teams
        self._threads = []

    def together(self, *calls):
        """Call functions at the same time; their results."""
        results = [None] * len(calls)

        def call(at):
            results[at] = calls[at]()

        threads = [threading.Thread(target=call, args=(at,)) for at in range(len(calls))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        return results

    def agree(self, run, *verdicts):
        for team in self.teams:
            team.opened(run)
        return self.together(
            *(
                lambda team=team, verdict=verdict: team.agree(run, verdict)
                for team, verdict in zip(self.teams, verdicts, strict=True)
            )
        )


@pytest.fixture
def ranks(tmp_path):
    made = Ranks(tmp_path)
    yield made
    for team in made.teams:
        team.leave()


def dump_of(value):
    dump = MemoryDump()
    dump.add("x", 0, value, timestamp=1)
    return dump


# Who is who.


def cluster(kind, index, **jobs):
    places = {job: ["host:1"] * count for job, count in jobs.items()}
    return {"TF_CONFIG": json.dumps({"cluster": places, "task": {"type": kind, "index": index}})}


@pytest.mark.parametrize(
    "environment",
    [
        {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"},
        {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"},
        {"PMI_RANK": "1", "PMI_SIZE": "2"},
        {"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0"},
        cluster("worker", 1, worker=2),
        cluster("worker", 0, chief=1, worker=1),
    ],
)
def test_launchers_say_which_rank_this_is(environment):
    assert find_place(environment, 1) == RankPlace(1, 2, 1)
    assert find_place(environment, 1).leads
    assert not find_place(environment, 0).leads


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"RANK": "0", "WORLD_SIZE": "1"},
        {"RANK": "2", "WORLD_SIZE": "2"},
        {"RANK": "x", "WORLD_SIZE": "2"},
        {"SLURM_PROCID": "0", "SLURM_NTASKS": "2"},  # a script of sbatch: one process
        {"TF_CONFIG": "{}"},
        {"TF_CONFIG": "nothing"},
        {"TF_CONFIG": "[1, 2]"},
        cluster("worker", 0, worker=1),
        cluster("worker", 2, worker=2),
        cluster("evaluator", 0, worker=2),
        cluster("worker", 0, worker=2, ps=1),  # workers that don't compute together
    ],
)
def test_a_program_of_one_process_has_no_ranks(environment):
    assert find_place(environment) is None


def test_a_lone_debugger_decides_alone():
    alone = SingleRank()
    assert alone.may_stop()
    assert alone.agree("run 1", Verdict(True)).stops
    assert not alone.agree("run 1", Verdict(False)).stops
    assert alone.share("run 1", None, alone.agree("run 1", Verdict(True))) is None


# Runs.


def test_a_filter_that_passes_on_one_rank_stops_all(ranks):
    calm, excited = Verdict(False), Verdict(True, passes=True)
    first = ranks.agree("training run 1", calm, calm)
    assert [each.stops for each in first] == [False, False]
    leader, follower = ranks.agree("training run 2", calm, excited)
    assert leader.stops
    assert follower.stops
    assert leader.passing == [1]
    assert leader.describe() == "on rank 1: "


def test_the_leader_sees_the_tensors_of_all(ranks, tmp_path):
    agreed = ranks.agree("training run 1", Verdict(True), Verdict(True))
    own, theirs = dump_of(1.0), dump_of(2.0)
    dump, kept = ranks.together(
        lambda: ranks.leader.share("training run 1", own, agreed[0]),
        lambda: ranks.follower.share("training run 1", theirs, agreed[1]),
    )
    assert isinstance(dump, JoinedDump)
    values = {datum.tensor_name: float(datum.get_tensor()) for datum in dump.data()}
    assert values == {"rank_0/x:0": 1.0, "rank_1/x:0": 2.0}
    assert kept is theirs
    # The parts of one run have the number that the leader gives it.
    assert (tmp_path / "root" / "rank_1" / "run_000007" / "run.json").exists()


def test_nobody_without_the_token_is_a_rank(ranks):
    ranks.agree("training run 1", Verdict(False), Verdict(False))
    place = json.loads(ranks.shared[rank_leader.ADDRESS])
    where = "127.0.0.1", place["port"]
    for data in (b"", b"GET / HTTP/1.0\r\n\r\n", b"{}\n" * 99):
        with socket.create_connection(where) as stranger:
            stranger.sendall(data)
    with socket.create_connection(where) as stranger, pytest.raises(UserError, match="token"):
        introduce(stranger, "0" * len(place["token"]))
    calm, excited = Verdict(False), Verdict(True, passes=True)
    assert all(each.stops for each in ranks.agree("training run 2", calm, excited))


def test_a_rank_without_tensors_is_told_of(ranks):
    agreed = ranks.agree("training run 1", Verdict(True), Verdict(True))
    dump, _ = ranks.together(
        lambda: ranks.leader.share("training run 1", dump_of(1.0), agreed[0]),
        lambda: ranks.follower.share("training run 1", None, agreed[1]),
    )
    assert any("dump of rank 1 has no tensors" in text for text in dump.warnings)


def test_followers_do_what_the_leader_chooses(ranks):
    choice = RunChoice(times=3, filter_name="has_inf_or_nan", exclude="mask", kind="training")
    ranks.settings[0].override("overhead", 3.0)
    ranks.leader.stopping()
    assert ranks.follower.may_stop()
    followed, _ = ranks.together(ranks.follower.follow, lambda: ranks.leader.chosen(choice))
    assert followed == choice
    assert ranks.settings[1].get("overhead") == 3.0
    assert not ranks.follower.news()
    ranks.leader.stopping()
    ranks.leader.chosen(ExitChoice(ends_program=True))
    assert ranks.follower.may_stop()
    assert ranks.follower.follow().ends_program


def test_a_late_follower_takes_the_choice_that_holds(ranks):
    ranks.leader.stopping()
    ranks.leader.chosen(RunChoice(times=2))
    assert ranks.follower.may_stop()
    assert ranks.follower.follow() == RunChoice(times=2)


# What goes wrong.


def test_an_error_of_a_follower_stops_the_leader(ranks):
    error = RunError("RuntimeError", "bad shapes", "fc1/addmm")
    failed = Verdict(True, error=error)
    leader, follower = ranks.agree("training run 1", Verdict(False), failed)
    assert leader.stops
    assert leader.errors == {1: error}
    assert leader.describe() == "on rank 1: "
    assert follower.stops  # so that it writes its dump
    assert (
        "Rank 1 failed in training run 1 in fc1/addmm: RuntimeError: bad shapes" in (ranks.notes[0])
    )


def test_a_leader_that_leaves_lets_the_others_go_on(ranks):
    ranks.leader.stopping()
    assert ranks.follower.may_stop()
    followed, _ = ranks.together(ranks.follower.follow, ranks.leader.leave)
    assert followed == ExitChoice()
    assert not ranks.follower.agree("training run 1", Verdict(True)).stops


def test_a_follower_that_ends_is_not_waited_for(ranks):
    ranks.follower.opened("training run 1")
    ranks.leader.opened("training run 1")
    agreed, _ = ranks.together(
        lambda: ranks.leader.agree("training run 1", Verdict(True)),
        ranks.follower.leave,
    )
    assert agreed.missing == {1: "has ended"}


def said(capfd, text):
    """What was printed until a text came."""
    printed, until = "", time.monotonic() + 20
    while text not in printed:
        assert time.monotonic() < until, printed
        printed += capfd.readouterr().err
        time.sleep(0.01)
    return printed


def test_who_hurries_does_not_wait_for_a_slow_rank(ranks, capfd):
    for team in ranks.teams:
        team.opened("training run 1")

    def hurry():
        printed = said(capfd, "waiting for rank 1")
        ranks.hurries = True
        return printed

    agreed, printed = ranks.together(
        lambda: ranks.leader.agree("training run 1", Verdict(False)), hurry
    )
    assert "still in training run 1; Ctrl-C: not." in printed
    assert agreed.stops
    assert agreed.missing == {1: "is still in training run 1"}


def test_a_ctrl_c_from_before_the_end_of_a_run_waits_for_a_rank_that_is_late(ranks, capfd):
    for team in ranks.teams:
        team.opened("training run 1")
    ranks.hurries = True

    def come_late():
        printed = said(capfd, "waiting for rank 1")
        return printed, ranks.follower.agree("training run 1", Verdict(False))

    leader, (printed, follower) = ranks.together(
        lambda: ranks.leader.agree("training run 1", Verdict(False)), come_late
    )
    assert "Ctrl-C" not in printed  # a second one would be the program's
    assert leader.stops
    assert follower.stops
    assert leader.missing == {}


# Waits have an end.


@pytest.fixture
def hurried(monkeypatch):
    """What takes a minute takes a moment."""
    monkeypatch.setattr(rank_leader, "LONGEST_WAIT", 0.5)
    monkeypatch.setattr(rank_follower, "_LONGEST_WAIT", 0.5)


def test_a_rank_that_can_not_write_its_dump_says_so(ranks):
    class Broken(MemoryDump):
        def data(self):
            raise RuntimeError("storage of size 0")

    agreed = ranks.agree("training run 1", Verdict(True), Verdict(True))
    dump, _ = ranks.together(
        lambda: ranks.leader.share("training run 1", dump_of(1.0), agreed[0]),
        lambda: ranks.follower.share("training run 1", Broken(), agreed[1]),
    )
    assert isinstance(dump, JoinedDump)
    assert any("rank 1 could not be written: RuntimeError: storage" in w for w in dump.warnings)


def test_a_dump_that_never_comes_is_not_waited_for(ranks, hurried):
    agreed = ranks.agree("training run 1", Verdict(True), Verdict(True))
    dump = ranks.leader.share("training run 1", dump_of(1.0), agreed[0])
    assert any("The dump of rank 1 has not come" in warning for warning in dump.warnings)


def test_a_rank_that_stays_in_the_run_is_not_waited_for(ranks, hurried):
    for team in ranks.teams:
        team.opened("training run 1")
    agreed = ranks.leader.agree("training run 1", Verdict(True))
    assert agreed.missing == {1: "is still in training run 1"}
    for team in ranks.teams:
        team.opened("training run 2")
    assert not ranks.follower.agree("training run 2", Verdict(True)).stops
    # It says that it has gone on: nobody waits for its dump.
    agreed = ranks.leader.agree("training run 2", Verdict(True))
    dump = ranks.leader.share("training run 2", dump_of(1.0), agreed)
    assert any("rank 1 was not waited for" in warning for warning in dump.warnings)


def test_a_rank_that_is_not_debugged_any_more_holds_nobody_up(ranks, capfd):
    for team in ranks.teams:
        team.opened("training run 1")
    results = ranks.together(
        lambda: ranks.leader.agree("training run 1", Verdict(True)),
        lambda: ranks.follower.give_up("ValueError: no"),
    )
    assert results[0].missing == {1: "is not debugged any more: ValueError: no"}
    assert "Rank 1 is not debugged any more: ValueError: no." in capfd.readouterr().err
    assert not ranks.follower.is_joined


def test_a_leader_that_is_not_debugged_any_more_lets_the_others_go_on(ranks):
    for team in ranks.teams:
        team.opened("training run 1")
    results = ranks.together(
        lambda: ranks.follower.agree("training run 1", Verdict(True)),
        lambda: ranks.leader.give_up("ValueError: no"),
    )
    assert not results[0].stops
    assert isinstance(ranks.follower.follow(), ExitChoice)


def test_a_rank_that_comes_in_while_the_leader_leaves_is_told(ranks):
    place = json.loads(ranks.shared[rank_leader.ADDRESS])
    with socket.create_connection((place["hosts"][0], place["port"]), 30) as connected:
        introduce(connected, place["token"])
        link = RankLink(connected)
        ranks.leader.give_up("ValueError: no")
        link.send(**{"is": "hello", "rank": 1, "host": "here"})
        assert link.receive(30) == {"is": "bye"}


def test_a_leader_that_can_not_listen_is_not_waited_for(tmp_path, monkeypatch, capfd):
    def refused(*_, **__):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("socket.create_server", refused)
    began = time.monotonic()
    made = Ranks(tmp_path)  # the follower would have the patience of half a minute
    assert time.monotonic() - began < rank_group._FIRST_PATIENCE / 2
    assert not made.follower.is_joined
    assert not made.follower.may_stop()
    assert capfd.readouterr().err.count("tfdbg: ") == 1
    assert made.leader.agree("training run 1", Verdict(True)).stops


@pytest.mark.parametrize("ours", range(3))
def test_threads_that_can_not_be_had(tmp_path, monkeypatch, capfd, ours):
    start, asked = _thread.start_new_thread, []

    def refused(*args):
        asked.append(args)
        if len(asked) == ours + 1:
            raise RuntimeError("can't start new thread")
        return start(*args)

    monkeypatch.setattr("_thread.start_new_thread", refused)
    made = Ranks(tmp_path)
    assert capfd.readouterr().err.count("can't start new thread") == (ours < 2)
    agreed = made.leader.agree("training run 1", Verdict(True))
    assert agreed.stops
    for team in made.teams:
        team.leave()


def test_a_connection_that_breaks_is_told_on_both_sides(ranks, capfd):
    ranks.agree("training run 1", Verdict(False), Verdict(False))
    ranks.follower._follower._link.close()
    assert "Rank 1 is gone" in said(capfd, "or the connection to it.")
    ranks.follower.opened("training run 2")
    assert "rank 1 goes on without stops" in said(capfd, "goes on without stops")
    assert isinstance(ranks.follower.follow(), ExitChoice)


def test_a_leader_that_is_at_its_end_takes_leave(ranks, capfd):
    ranks.agree("training run 1", Verdict(False), Verdict(False))
    ranks.leader.leave()
    assert isinstance(ranks.follower.follow(), ExitChoice)
    assert capfd.readouterr().err == ""


# Runs that take long.


def test_a_run_that_takes_long_is_told_with_the_places_of_all_ranks(ranks, capfd):
    for settings in ranks.settings:
        settings.override("rank_patience", 0.2)
    for team in ranks.teams:
        team.opened("training run 1")
    until = time.monotonic() + 30
    said = ""
    while "takes long" not in said and time.monotonic() < until:
        time.sleep(0.05)
        said += capfd.readouterr().err
    expected = (
        "tfdbg: training run 1 takes long: rank 0 is in op_0, at train.py:1; "
        "rank 1 is in op_1, at train.py:2."
    )
    assert expected in said
    assert expected.removeprefix("tfdbg: ") in ranks.notes


@pytest.mark.parametrize("early", [0, 1])
def test_a_rank_at_the_end_of_a_long_run_is_told_as_being_there(ranks, capfd, early):
    for settings in ranks.settings:
        settings.override("rank_patience", 0.2)
    for team in ranks.teams:
        team.opened("training run 1")
    call = (ranks.teams[early].agree, ranks.teams[1 - early].agree)
    waiting = threading.Thread(target=call[0], args=("training run 1", Verdict(False)))
    waiting.start()
    until = time.monotonic() + 30
    said = ""
    while "takes long" not in said and time.monotonic() < until:
        time.sleep(0.05)
        said += capfd.readouterr().err
    late = 1 - early
    places = {early: "at its end", late: f"in op_{late}, at train.py:{late + 1}"}
    assert f"takes long: rank 0 is {places[0]}; rank 1 is {places[1]}." in said
    call[1]("training run 1", Verdict(False))
    waiting.join(30)
    assert not waiting.is_alive()


def test_the_watch_ends_with_the_program(ranks):
    for team in ranks.teams:
        team.leave()
    names = {thread.name for thread in threading.enumerate()}
    assert "tfdbg-rank-watch" not in names
