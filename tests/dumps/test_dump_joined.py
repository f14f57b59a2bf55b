"""Several dumps of one run seen as one."""

import copy
import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from tfdbg_cli.commands.graph.verdict import verdict
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import InconvertibleTensorProto, RunError, RunInfo
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.joined import JoinedDump, part_of
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.dumps.profile import CodeLine, Profile, ProfileEntry
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump
from tfdbg_cli.dumps.run_folder.writer import write_run_folder
from tfdbg_cli.dumps.series.tracks import LOSS, Tracks
from tfdbg_cli.dumps.sources import Sources
from tfdbg_cli.filters.builtin import has_inf_or_nan

DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"


TENSORS = ("x", "log", "sync", "step")


def rank_dump(
    start, bad=False, collective="c10d.allreduce_", host="here", error=None, dumped=TENSORS
):
    """Two ops and a collective; the second op's value may be bad."""
    nodes = [
        Node("x", "Input"),
        Node("log", "log", ["x:0"]),
        Node("sync", collective, ["log:0"]),
        Node("step", "add_", ["sync:0"]),
    ]
    info = RunInfo(
        call_count=3,
        kind="training run",
        runner="Net(x)",
        feeds={"x": np.ones(2)},
        outputs={"loss": "log:0"},
        details=[("Step", "3"), ("Rank", "?"), ("Host", host)],
        error=error,
    )
    dump = MemoryDump(Graph(nodes), run_info=info)
    for at, name in enumerate(TENSORS):
        value = np.full(2, -np.inf if bad and name != "x" else at, np.float32)
        if name in dumped:
            dump.add(name, 0, value, timestamp=start + at, device_name=DEVICE)
    return dump


def names(dump):
    return [datum.tensor_name for datum in dump.data()]


def test_names_devices_and_the_order_of_time_tell_the_ranks_apart():
    joined = JoinedDump({1: rank_dump(1_000), 0: rank_dump(1_001)})
    assert names(joined)[:4] == ["rank_1/x:0", "rank_0/x:0", "rank_1/log:0", "rank_0/log:0"]
    assert {d.device_name for d in joined.by_tensor("rank_1/log:0")} == {
        DEVICE.replace("task:0", "task:1")
    }
    assert copy.copy(joined.data()[0]).tensor_name == joined.data()[0].tensor_name
    assert not hasattr(joined.data()[0], "nothing_that_a_tensor_knows")
    assert (joined.op_type("rank_1/log"), joined.op_type("rank_7/log")) == ("log", "")
    assert joined.by_tensor("log:0") == []
    assert part_of("rank_12/a/b:0") == (12, "a/b:0")
    assert part_of("a/b") == (None, "a/b")


@pytest.mark.parametrize("dumped", [TENSORS, ("log", "step")])
def test_the_first_bad_tensor_is_on_the_rank_where_it_began(dumped):
    # Rank 0 begins its collective long before rank 1 gives it the bad value, be the collective
    # itself among what rank 1 has kept or not.
    joined = JoinedDump({0: rank_dump(1_000), 1: rank_dump(2_000, bad=True, dumped=dumped)})
    clean = joined.parts[0]
    clean.by_tensor("sync:0")[0]._load = lambda: np.full(2, -np.inf, np.float32)
    found = joined.find(has_inf_or_nan)
    assert found[0].tensor_name == "rank_1/log:0"
    assert {each.tensor_name for each in found} >= {"rank_0/sync:0", "rank_1/step:0"}


def test_a_collective_has_the_inputs_of_all_ranks():
    graph = JoinedDump({0: rank_dump(1), 1: rank_dump(1)}).graph()
    assert graph is not None
    assert graph.nodes["rank_0/sync"].inputs == ("rank_0/log:0", "rank_1/log:0")
    assert graph.nodes["rank_1/sync"].inputs == ("rank_1/log:0", "rank_0/log:0")
    assert graph.path("rank_1/x", "rank_0/step") == [
        *("rank_1/x", "rank_1/log", "rank_0/sync", "rank_0/step")
    ]


@pytest.mark.parametrize("other", ["c10d.broadcast_", "_c10d_functional.wait_tensor", "mul"])
def test_ranks_that_do_different_things_are_not_connected(other):
    graph = JoinedDump({0: rank_dump(1), 1: rank_dump(1, collective=other)}).graph()
    assert graph is not None
    assert graph.nodes["rank_0/sync"].inputs == ("rank_0/log:0",)


def test_the_run_is_told_with_the_inputs_and_outputs_of_all():
    info = JoinedDump({0: rank_dump(1), 1: rank_dump(1)}, own=1).run_info()
    assert info is not None
    assert list(info.feeds) == ["rank_0/x", "rank_1/x"]
    np.testing.assert_array_equal(info.feeds["rank_1/x"], [1, 1])
    assert info.outputs == {"rank_0/loss": "rank_0/log:0", "rank_1/loss": "rank_1/log:0"}
    assert list(info.details) == [("Step", "3"), ("Ranks", "0, 1")]
    assert info.call_count == 3


def test_the_error_that_names_an_op_comes_before_those_that_follow_from_it():
    gone = RunError("RuntimeError", "Connection closed by peer", "c10d.allreduce_")
    wrong = RunError("RuntimeError", "bad shapes", "log")
    info = JoinedDump({0: rank_dump(1, error=gone), 1: rank_dump(1, error=wrong)}).run_info()
    assert info is not None
    assert info.error is not None
    assert info.error.op_name == "rank_1/log"
    vague = RunError("RuntimeError", "no")
    told = JoinedDump({0: rank_dump(1, error=vague)}).run_info()
    assert told is not None and told.error is not None and told.error.op_name == ""
    assert info.error.message.splitlines() == [
        "On rank 1: bad shapes",
        "On rank 0: RuntimeError: Connection closed by peer",
    ]


def test_warnings_say_whose_they_are_and_that_clocks_may_differ():
    parts = {0: rank_dump(1), 1: rank_dump(1, host="there")}
    parts[1].warnings.append("Something is missing.")
    first, second = JoinedDump(parts).warnings
    assert "2 machines" in first
    assert second == "Rank 1: Something is missing."


def test_a_folder_of_ranks_opens_as_the_last_run_of_all(tmp_path):
    for rank in (0, 1):
        for number in (1, 2):
            path = tmp_path / f"rank_{rank}" / f"run_{number:06d}"
            path.parent.mkdir(exist_ok=True)
            write_run_folder(rank_dump(number * 1_000, bad=number == 2 and rank == 1), path)
    joined = open_dump(tmp_path)
    assert isinstance(joined, JoinedDump)
    found = joined.find(has_inf_or_nan, first_n=1)
    assert [each.tensor_name for each in found] == ["rank_1/log:0"]
    alone = open_dump(tmp_path / "rank_1" / "run_000001")
    assert names(alone) == ["x:0", "log:0", "sync:0", "step:0"]


def test_a_rank_that_has_written_nothing_of_the_run_is_left_out(tmp_path):
    for rank, number in ((0, 1), (0, 2), (1, 1)):
        path = tmp_path / f"rank_{rank}" / f"run_{number:06d}"
        path.parent.mkdir(exist_ok=True)
        write_run_folder(rank_dump(1), path)
    empty = tmp_path / "rank_1" / "run_000002"
    empty.mkdir()
    joined = open_dump(tmp_path)
    assert {name.partition("/")[0] for name in names(joined)} == {"rank_0"}
    assert joined.warnings[0].startswith(f"Rank 1 can't be opened: {empty} is empty")
    for path in (tmp_path / "rank_0" / "run_000002").iterdir():
        path.unlink()
    with pytest.raises(UserError, match="is empty"):
        open_dump(tmp_path)


def test_a_part_that_is_damaged_leaves_the_others(tmp_path):
    for rank in (0, 1):
        path = tmp_path / f"rank_{rank}" / "run_000001"
        path.parent.mkdir()
        write_run_folder(rank_dump(1_000), path)
    (tmp_path / "rank_0" / "run_000001" / "run.json").unlink()
    joined = open_dump(tmp_path)
    assert any("Rank 0" in text and "run.json" in text for text in joined.warnings)
    assert joined.by_tensor("rank_1/log:0")


# Views in run folders.


def view_dump():
    """A tensor with views of several shapes, one of them a copy elsewhere."""
    whole = np.arange(12, dtype=np.float32).reshape(3, 4)
    views = {
        "t": whole.T,
        "part": whole[1:, ::2],
        "wide": np.broadcast_to(whole[:, None, :], (3, 5, 4)),
        "none": whole[:0],
        "bytes": whole.view(np.int32),
        "elsewhere": whole.copy() + 1,
    }
    # They are views of a view that wasn't dumped.
    nodes = [Node("w", "Parameter"), Node("passed", "view", ["w:0"])]
    nodes += [Node(name, "view", ["passed:0"]) for name in views]
    nodes += [Node("queue", "Queue"), Node("lost", "view", ["queue:0"])]
    dump = MemoryDump(Graph(nodes))
    dump.add("w", 0, whole, timestamp=1)
    for name, value in views.items():
        dump.add(name, 0, value, timestamp=2).is_view = True
    dump.add("queue", 0, InconvertibleTensorProto("a queue"), timestamp=3)
    dump.add("lost", 0, np.arange(3), timestamp=4).is_view = True
    return dump, views | {"lost": np.arange(3)}


def test_views_are_read_back_without_having_been_written(tmp_path):
    dump, views = view_dump()
    write_run_folder(dump, tmp_path / "run")
    found = RunFolderDump(tmp_path / "run")
    assert not found.warnings
    for name, value in views.items():
        (datum,) = found.by_tensor(f"{name}:0")
        assert datum.is_view
        np.testing.assert_array_equal(datum.get_tensor(), value)
        assert datum.dtype == value.dtype.name
    written = sum(path.stat().st_size for path in (tmp_path / "run").glob("tensors-0*"))
    assert written < 1000  # the tensor and the one copy, and not the view of 240 bytes


def test_views_of_a_type_that_numpy_does_not_have(tmp_path, monkeypatch):
    whole = np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16)
    # A bit more than anybody has memory for, as elements of their own.
    views = {"t": whole.T, "part": whole[1:, ::2], "wide": np.broadcast_to(whole[2:, 3], 1 << 45)}
    nodes = [Node("w", "Parameter"), *(Node(name, "view", ["w:0"]) for name in views)]
    dump = MemoryDump(Graph(nodes))
    dump.add("w", 0, whole, timestamp=1)
    for name, value in views.items():
        dump.add(name, 0, value, timestamp=2).is_view = True
    write_run_folder(dump, tmp_path / "run")
    for known in (ml_dtypes, None):
        monkeypatch.setattr("tfdbg_cli.dumps.dtypes._ml_dtypes", lambda known=known: known)
        for name, value in views.items():
            found = RunFolderDump(tmp_path / "run").by_tensor(f"{name}:0")[0].get_tensor()
            assert found.shape == value.shape
            np.testing.assert_array_equal(found[:9].astype("f4"), value[:9].astype("f4"))


def test_a_view_outside_of_its_tensor_is_damage(tmp_path):
    dump, _ = view_dump()
    write_run_folder(dump, tmp_path / "run")
    index = tmp_path / "run" / "tensors.jsonl"
    unsealed = re.sub(',"crc32":"[0-9a-f]{8}"', "", index.read_text())
    index.write_text(unsealed.replace('"offset":16', '"offset":40'))
    found = RunFolderDump(tmp_path / "run")
    with pytest.raises(Exception, match="outside of its tensor"):
        found.by_tensor("part:0")[0].get_tensor()


def test_what_a_kind_of_dump_knows_besides_is_known_of_each_rank(tmp_path):
    parts = {}
    for rank in (0, 1):
        dump = rank_dump(1_000 + rank, bad=rank == 1)
        dump.add("text", 0, np.array([b"a"], object), timestamp=2_000)
        write_run_folder(dump, tmp_path / f"rank_{rank}")
        parts[rank] = RunFolderDump(tmp_path / f"rank_{rank}")
    joined = JoinedDump(parts)
    (found,) = joined.by_tensor("rank_1/log:0")
    (own,) = parts[1].by_tensor("log:0")
    assert found.file_path == own.file_path
    assert found.file_path.startswith(f"{tmp_path}/rank_1/")
    assert found.health == own.health
    assert found.dump_size_bytes == own.dump_size_bytes
    assert (found.dtype, found.shape, found.nbytes) == ("float32", (2,), 8)
    # Without a look at the value.
    for file in tmp_path.glob("rank_1/tensors-*"):
        file.unlink()
    again = JoinedDump({1: RunFolderDump(tmp_path / "rank_1")}).by_tensor("rank_1/step:0")[0]
    assert (again.dtype, again.shape, again.nbytes) == ("float32", (2,), 8)


def test_sources_are_those_of_whichever_rank_has_them(tmp_path):
    dumps = {}
    for rank in (0, 1):
        dumps[rank] = MemoryDump(
            Graph([]), Sources({f"/job/{rank}.py": f"rank = {rank}\n"}, live=False), RunInfo(1)
        )
    sources = JoinedDump(dumps).sources()
    assert sources.lines("/job/1.py") == ["rank = 1"]
    assert sources.lines("/job/2.py") is None
    assert sources.note("/job/2.py") == ""
    assert list(sources.paths()) == ["/job/0.py", "/job/1.py"]


def test_why_a_tensor_is_absent_is_asked_of_its_rank(tmp_path):
    write_run_folder(rank_dump(1_000), tmp_path / "rank_0", values=False)
    part = RunFolderDump(tmp_path / "rank_0")
    part.absence = lambda name: f"{name} was too large" if name == "log" else ""
    joined = JoinedDump({0: part, 2: rank_dump(1_000)})
    assert joined.why_absent("rank_0/log") == "log was too large"
    for name in ("x", "log", "nowhere"):
        assert joined.why_absent(f"rank_0/{name}") == part.why_absent(name)
    assert joined.why_absent("rank_7/x")


def test_of_errors_that_say_as_much_the_own_rank_s_comes_first():
    def failing(rank):
        return rank_dump(1_000, error=RunError("ValueError", f"rank {rank}", "log"))

    parts = {rank: failing(rank) for rank in range(3)}
    assert (
        JoinedDump(parts, 2).run_info().error.message.startswith("On rank 2: rank 2\nOn rank 0: ")
    )
    joined = JoinedDump(parts)
    first, second, third = joined.run_info().error.message.splitlines()
    assert (first, second) == ("On rank 0: rank 0", "On rank 1: ValueError: rank 1")
    assert third == "On rank 2: ValueError: rank 2"


def test_times_are_those_of_all_ranks():
    entry = ProfileEntry("log", "log", 3, 20, 25, place=CodeLine("train.py", 7, "step"))
    parts = {
        rank: MemoryDump(Graph([]), profile=Profile([("CPU:0", [entry])] if rank else ()))
        for rank in range(2)
    }
    profile = JoinedDump(parts).profile()
    (device,) = profile.devices
    (found,) = device.entries
    assert (device.name, found.node, found.place.line) == ("rank_1/CPU:0", "rank_1/log", 7)
    assert (found.start, found.op_time, found.exec_time) == (3, 20, 25)
    assert JoinedDump({0: rank_dump(0)}).profile() is None


def test_the_verdict_has_the_loss_of_the_rank_in_which_it_began():
    parts = {0: rank_dump(0), 1: rank_dump(10, bad=True)}
    for rank, part in parts.items():
        tracks = Tracks()
        for run in (1, 2):
            tracks.note(LOSS, run, 10.0 * rank + run)
        part.set_run_info(replace(part.run_info(), tracks=tracks))
    joined = JoinedDump(parts, 0)
    (begin,) = joined.by_tensor("rank_1/log:0")
    text = [line.text for line in verdict(joined, begin)]
    assert [line for line in text if line.startswith("Loss")] == [
        "Loss of rank 1:  ▁█  12 at run 2  plot"
    ]
    (own,) = joined.by_tensor("rank_0/log:0")
    assert any(line.text.startswith("Loss of rank 0:  ▁█  2 at") for line in verdict(joined, own))
