"""The parts of several ranks beside a run that was not shared out."""

import warnings

import numpy as np
import pytest
from program_server import Programs, debugger_in, environment
from samples import night

from tfdbg_cli.comparing.alignment import align
from tfdbg_cli.comparing.comparison import Comparison
from tfdbg_cli.comparing.shards import WholeDump, side_by_side
from tfdbg_cli.dumps.datum import Datum, InconvertibleTensorProto
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.joined import JoinedDump
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_info import RunInfo
from tfdbg_cli.dumps.shard_place import ShardPlace, is_complete
from tfdbg_cli.dumps.sources import Sources


def dump_of(**tensors):
    dump = MemoryDump()
    for at, (name, value) in enumerate(tensors.items()):
        dump.add(name, 0, value, timestamp=at)
    return dump


FULL = np.arange(24, dtype=np.float32).reshape(4, 6)
PARTS = {
    "rows": (FULL, [FULL[:1], FULL[1:]]),
    "columns": (FULL, [FULL[:, :4], FULL[:, 4:]]),
    "replicas": (FULL, [FULL, FULL]),
    "sums": (FULL, [FULL * 0.25, FULL * 0.75]),
    "scalar": (np.float32(3), [np.float32(1), np.float32(2)]),
    "numbers": (np.arange(4), [np.arange(2), np.arange(2, 4)]),
}


@pytest.fixture(params=[False, True], ids=["A", "B"])
def joined(request):
    whole = dump_of(**{name: full for name, (full, _) in PARTS.items()})
    ranks = {
        rank: dump_of(**{name: parts[rank] for name, (_, parts) in PARTS.items()}, alone=FULL)
        for rank in (1, 0)
    }
    both = side_by_side(whole, JoinedDump(ranks))
    if request.param:
        both = side_by_side(JoinedDump(ranks), whole)[::-1]
    return both


def test_parts_are_joined_as_their_shapes_say(joined):
    whole, found = joined
    assert isinstance(found, WholeDump)
    for name, (full, _) in PARTS.items():
        (datum,) = found.by_tensor(f"{name}:0")
        value = found.value(datum)
        assert datum.shape == np.shape(value) == np.shape(full)
        np.testing.assert_array_equal(value, full)
    (alone,) = found.by_tensor("alone:0")
    assert "side by side" not in alone.note
    rows = list(Comparison(whole, found, align(whole, found)).rows())
    assert [row.datum.tensor_name for row in rows if not row.is_pair] == ["alone:0"]
    assert not any(row.is_beyond for row in rows if row.is_pair)


def test_parts_that_do_not_fit_are_told():
    whole = dump_of(x=FULL)
    ranks = JoinedDump({0: dump_of(x=FULL[:2]), 1: dump_of(x=FULL[:1])})
    first, second = side_by_side(whole, ranks)
    (row,) = Comparison(first, second, align(first, second)).beyond()
    assert "the shapes differ: [4, 6] and [2, 6]" in row.gap.problem


def test_a_part_that_is_wrong_is_beyond_the_bar():
    whole = dump_of(x=FULL, y=FULL)
    ranks = JoinedDump({0: dump_of(x=FULL[:2], y=FULL), 1: dump_of(x=FULL[2:] + 1, y=FULL + 0.5)})
    first, second = side_by_side(whole, ranks)
    (row,) = Comparison(first, second, align(first, second)).beyond()
    # Of replicas the first counts: compare rank_0 with rank_1 tells more.
    assert (row.datum.node_name, row.gap.max_abs) == ("x", 1)


def test_runs_of_one_kind_stay_as_they_are():
    one, other = dump_of(x=FULL), dump_of(x=FULL)
    ranks = [JoinedDump({0: one, 1: other}) for _ in range(2)]
    assert side_by_side(one, other) == (one, other)
    assert side_by_side(*ranks) == (*ranks,)


def placed(full, ways, mesh, part_of):
    """A run of several ranks whose parts say where they belong."""
    ranks = {}
    for rank, at in enumerate(np.ndindex(*mesh)):
        place = ShardPlace(full.shape, ways, at, mesh)
        assert ShardPlace.read(f"quantized; {place.note}") == place
        dump = ranks[rank] = MemoryDump()
        value = part_of(*at)
        dump.add_datum(Datum("x", 0, lambda value=value: value, note=place.note))
    return JoinedDump(ranks)


ROWS = FULL.reshape(4, 1, 6)
PLACED = {
    "rows, then columns": (
        ("S(0)", "S(1)"),
        lambda a, b: FULL[2 * a : 2 * a + 2, 3 * b : 3 * b + 3],
    ),
    "rows, then rows": (("S(0)", "S(0)"), lambda a, b: ROWS[2 * a + b]),
    # FSDP on top of tensor parallelism: what the later dimension has split is split again.
    "rows after rows": (("_S(0, 2)", "S(0)"), lambda a, b: ROWS[2 * b + a]),
    "replicas": (("R", "S(1)"), lambda a, b: FULL[:, 3 * b : 3 * b + 3]),
    "sums": (("P(sum)", "R"), lambda a, b: FULL * (0.25, 0.75)[a]),
    "means": (("P(avg)", "R"), lambda a, b: FULL * (0.5, 1.5)[a]),
    "largest": (("P(max)", "S(1)"), lambda a, b: FULL[:, 3 * b : 3 * b + 3] - a),
}


@pytest.mark.parametrize("name", PLACED)
def test_parts_that_say_where_they_belong_are_joined_so(name):
    ways, part_of = PLACED[name]
    whole, found = side_by_side(dump_of(x=FULL), placed(FULL, ways, (2, 2), part_of))
    (datum,) = found.by_tensor("x:0")
    assert datum.shape == FULL.shape
    np.testing.assert_array_equal(found.value(datum), FULL)
    assert f"placed {', '.join(ways)}" in datum.note
    assert not Comparison(whole, found, align(whole, found)).beyond()


@pytest.mark.parametrize(
    "note",
    [
        "",
        "this rank's shard of [4], placed S(0)",
        "this rank's shard of [4], placed S(0), at [0] of a mesh of [2, 2]",
        f"this rank's shard of [{'9' * 5000}], placed S(0), at [0] of a mesh of [2]",
    ],
)
def test_notes_that_tell_no_place(note):
    assert ShardPlace.read(note) is None


def test_a_mesh_that_is_larger_than_what_is_there_is_not_complete():
    place = ShardPlace((4,), ("S(0)", "S(0)"), (0, 0), (10**9, 10**9))
    assert not is_complete([place])
    assert not is_complete([])


def test_places_that_are_not_known_leave_it_to_the_shapes():
    parts = placed(FULL, ("Q(7)",), (2,), lambda a: FULL[:, 3 * a : 3 * a + 3])
    _, found = side_by_side(dump_of(x=FULL), parts)
    (datum,) = found.by_tensor("x:0")
    assert "side by side in dimension 1" in datum.note
    np.testing.assert_array_equal(found.value(datum), FULL)


TENSOR_PARALLEL = """
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4))
if sys.argv[1] != "alone":
    dist.init_process_group("gloo")
    places = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    net = parallelize_module(net, init_device_mesh("cpu", (2,)), places)
if sys.argv[1] == "bad" and dist.get_rank() == 1:
    with torch.no_grad():
        net[2].weight.to_local()[0, 0] += 0.01
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
torch.manual_seed(1)
x, y = torch.randn(32, 8), torch.randn(32, 4)
for step in range(2):
    loss = (net(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
if dist.is_initialized():
    dist.destroy_process_group()
"""


@night
@pytest.mark.torch
def test_tensor_parallel_shards_beside_an_unsharded_run(tmp_path):
    pytest.importorskip("torch")
    program = tmp_path / "train.py"
    program.write_text(TENSOR_PARALLEL)
    programs = Programs(environment(tmp_path))
    keeps = "-m", "tfdbg_cli", "--batch", "--keep-dumps", "-c", "run -k", "--dump-root"
    for name in ("alone", "good", "bad"):
        words = *keeps, tmp_path / name, program, name
        ranks = [programs.python(*words)] if name == "alone" else programs.ranks(*words)
        assert not any(each.status for each in ranks), ranks

    def run(*arguments):
        done = debugger_in(tmp_path, *map(str, arguments))
        return done.returncode, done.stdout + done.stderr

    look = "--batch", "--dump-dir"
    status, text = run(*look, tmp_path / "alone", "--against", tmp_path / "good")
    assert status == 0, text
    assert "None of 2 runs is beyond the bar" in text
    for pair in (("alone", "bad"), ("bad", "alone")):
        first, second = (tmp_path / name for name in pair)
        status, text = run(*look, first, "--against", second)
        assert status == 1
        assert "They part at 2.weight:0: it was different at the start of this run." in text
    # What a rank has goes by the names of the model, and says where it belongs.
    commands = "-c", "lt -n weight", "-c", "pt 2.weight"
    _, text = run(*look, tmp_path / "good" / "rank_1" / "run_000002", *commands)
    assert "this rank's shard of [4, 16], placed S(1), at [1] of a mesh of [2]" in text
    for name in ("0.weight:0", "gradients/2.weight/Acc", "optimizer/SGD/0.weight/add_:0"):
        assert name in text


class Rank(MemoryDump):
    """One that tells whether it was closed."""

    is_closed = False

    def close(self):
        self.is_closed = True


def rank_of(number, *tensors, **nodes):
    dump = Rank(
        Graph([Node(name, op) for name, op in nodes.items()]),
        Sources({f"{number}.py": "code"}),
        RunInfo(number, engine="torch"),
    )
    for at, (name, value, *more) in enumerate(tensors):
        options = {"debug_op": "DebugIdentity", **(more[0] if more else {})}
        dump.add_datum(
            Datum(name, 1, lambda value=value: value, timestamp=10 * number + at, **options)
        )
    return dump


def test_the_whole_tells_what_its_first_rank_does():
    count = {"debug_op": "DebugNanCount"}
    ranks = [
        rank_of(1, ("x", FULL[:, :2]), ("x", FULL[0], count), x="MatMul", y=""),
        rank_of(3, ("x", FULL[:, 2:]), ("x", FULL[0], count), x="Other", y="Relu"),
    ]
    ranks[1].warnings.append("a line")
    whole, _ = side_by_side(JoinedDump({3: ranks[1], 1: ranks[0]}), dump_of(x=FULL))
    assert whole.warnings == ["Rank 3: a line"]
    assert whole.graph() is ranks[0].graph()
    assert whole.run_info() is ranks[0].run_info()
    assert [whole.op_type(name) for name in "xyz"] == ["MatMul", "Relu", ""]
    # Of another slot nothing is there to be like: the first rank's.
    found = [(each.watch_key, each.timestamp, each.shape, each.nbytes) for each in whole.data()]
    assert found == [
        ("x:1:DebugIdentity", 10, (4, 2), 32),
        ("x:1:DebugNanCount", 11, (6,), 24),
    ]
    (datum, _) = whole.data()
    np.testing.assert_array_equal(whole.value(datum), FULL[:, :2])
    assert (datum.dtype, datum.note, datum.is_view) == ("float32", "", False)
    assert not any(rank.is_closed for rank in ranks)
    whole.close()
    assert all(rank.is_closed for rank in ranks)
    assert [path for path in ("1.py", "3.py") if whole.sources().lines(path)] == ["1.py", "3.py"]


def test_what_is_joined_tells_of_itself():
    full = FULL.astype(np.float64)
    parts = {rank: rank_of(rank, ("x", full[2 * rank : 2 * rank + 2])) for rank in (0, 1)}
    like = rank_of(7, ("x", full))
    whole, _ = side_by_side(JoinedDump(parts), like)
    (datum,) = whole.data()
    assert (datum.timestamp, datum.dtype, datum.shape, datum.nbytes) == (0, "float64", (4, 6), 192)
    assert datum.note == "the parts of 2 ranks, side by side in dimension 0"
    places = [ShardPlace((4, 6), ("S(0)",), (at,), (2,)).note for at in (0, 1)]
    counted = {"debug_op": "DebugNanCount", "is_view": True}
    parts = {
        rank: rank_of(
            1 + rank, ("x", full[2 * rank : 2 * rank + 2], {"note": places[rank], **counted})
        )
        for rank in (1, 0)
    }
    whole, _ = side_by_side(JoinedDump(parts), like)
    (datum,) = whole.data()
    assert (datum.timestamp, datum.dtype, datum.shape, datum.nbytes) == (10, "float64", (4, 6), 192)
    assert (datum.watch_key, datum.note, datum.is_view) == (
        *("x:1:DebugNanCount", "the parts of 2 ranks, placed S(0)", True),
    )
    views = [rank_of(rank, ("x", full, {"is_view": True})) for rank in (0, 1)]
    whole, _ = side_by_side(JoinedDump(dict(enumerate(views))), like)
    assert [each.is_view for each in whole.data()] == [True]


def test_empty_parts():
    empty = np.zeros((0, 6), np.float32)
    place = ShardPlace((0, 6), ("S(0)",), (0,), (1,))
    part = rank_of(0, ("x", empty, {"note": place.note}))
    whole, _ = side_by_side(JoinedDump({0: part}), rank_of(0, ("x", empty)))
    (datum,) = whole.data()
    assert (datum.shape, datum.nbytes) == ((0, 6), 0)
    assert whole.value(datum).shape == (0, 6)
    both = {rank: rank_of(rank, ("x", empty)) for rank in (0, 1)}
    whole, _ = side_by_side(JoinedDump(both), rank_of(0, ("x", empty)))
    assert whole.value(whole.data()[0]).shape == (0, 6)
    handles = {rank: rank_of(rank, ("x", InconvertibleTensorProto("h"))) for rank in (0, 1)}
    whole, _ = side_by_side(JoinedDump(handles), rank_of(0, ("x", InconvertibleTensorProto("h"))))
    assert str(whole.value(whole.data()[0])) == "h"


def test_sums_of_what_is_infinite_are_told_without_a_warning():
    bad = np.float32([np.inf, 1])
    ranks = JoinedDump({0: dump_of(x=bad), 1: dump_of(x=-bad)})
    whole, _ = side_by_side(ranks, dump_of(x=np.float32([1, 1])))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_array_equal(whole.value(whole.data()[0]), bad)
