"""How closely `run -f` looks at runs: what each level finds, and which one is chosen."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
import torch
from program_server import Done

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.kit.levels import FULL, MODULES, RECORDS
from tfdbg_cli.engines.torch.names.scopes import Names
from tfdbg_cli.engines.torch.runs.capture_policy import TorchCapturePolicy
from tfdbg_cli.engines.torch.runs.exact_check import Verdicts, is_nonfinite

TRAINING = "training run"
#: Settings -> the level that they lead to.
FORCED = {
    ("config set level values",): FULL,
    ("config set level ops",): RECORDS,
    ("config set level modules",): MODULES,
    ("config set overhead 1",): MODULES,
    ("config set overhead inf",): FULL,
}
EVERY_LEVEL = pytest.mark.parametrize("settings", FORCED, ids=[" ".join(each) for each in FORCED])

HEAD = """
import torch
import torch.nn.functional as F
torch.manual_seed(0)


class Masked(torch.nn.Module):
    def forward(self, x):
        return x.masked_fill(torch.ones_like(x).triu(1).bool(), {mask})


net = torch.nn.Sequential(torch.nn.Linear(4, 4), Masked())
opt = torch.optim.SGD(net.parameters(), 0.1)
for step in range(4):
    x = torch.randn(4, 4)
"""
TAIL = """
    opt.zero_grad()
    loss.backward()
    opt.step()
print("END", sum(float(p.sum()) for p in net.parameters()))
"""


@pytest.fixture
def program(tmp_path):
    """Writes a loop: what its masks are made with, and its loss."""

    def write(loss: str, mask: str = "-1e30") -> Path:
        path = tmp_path / "program.py"
        path.write_text(f"{HEAD.format(mask=mask)}    loss = {loss}{TAIL}")
        return path

    return write


def watched(programs, path, settings, name="has_inf_or_nan", options=()) -> Done:
    """A program under `run -f` with these settings and no others."""
    fresh = ("config set overhead 1.5", "config set level auto")
    commands = [*fresh, *settings, f"run -f {name}", "run_info", "exit"]
    given = [part for command in commands for part in ("-c", command)]
    return programs.debugged("--batch", "--engine", "torch", *options, *given, path)


def level(done: Done) -> str:
    found = re.search(r"^Level: +(.*)$", done.out, re.MULTILINE)
    return found[1] if found else ""


BAD = "F.softmax(net(x), -1).sum() + (torch.log(x[0, 0] * 0.0) if step == 2 else 0.0)"


@EVERY_LEVEL
def test_each_level_stops_at_the_bad_run_and_at_the_op(settings, programs, program):
    path = program(BAD)
    done = watched(programs, path, settings)
    assert "run-end: training run #3" in done.out
    assert re.search(r"\b1 -inf +log:0", done.out), done.out
    assert level(done).startswith(FORCED[settings])
    assert re.findall(r"^END.*", done.out, re.M) == re.findall(
        r"^END.*", programs.plain(path).out, re.M
    )


@EVERY_LEVEL
def test_a_sum_that_overflows_is_no_infinity(settings, programs, program):
    # Twelve times the lowest number there is.
    path = program("F.softmax(net(x), -1).sum()", "torch.finfo(torch.float32).min")
    done = watched(programs, path, settings)
    assert "no tensor passed has_inf_or_nan up to the program's end, run 4" in done.out + done.err


@EVERY_LEVEL
def test_infinite_masks_are_no_origin(settings, programs, program):
    mask = "-float('inf')"
    good = program("F.softmax(net(x), -1).sum()", mask)
    done = watched(programs, good, settings, "origin_of_nonfinite")
    assert "no tensor passed origin_of_nonfinite" in done.out + done.err
    done = watched(programs, program(BAD, mask), settings, "origin_of_nonfinite")
    assert "run-end: training run #3" in done.out
    assert re.search(r"\b1 -inf +log:0", done.out), done.out


def test_nodes_that_do_not_count_do_not_stop_modules(programs, program):
    path = program("F.softmax(net(x), -1).sum() + torch.log(x[0, 0] * 0.0)")
    name = "has_inf_or_nan -fenn 'log|add'"
    done = watched(programs, path, ("config set level modules",), name)
    assert "no tensor passed has_inf_or_nan" in done.out + done.err


@pytest.mark.parametrize("name", ["exploding", "overflows:float16"])
def test_other_filters_need_all_values(programs, program, name):
    path = program("F.softmax(net(x), -1).sum() * (1e6 if step == 2 else 1.0)", mask="-1.0")
    done = watched(programs, path, ("config set level modules",), name)
    assert "run-end: training run #3" in done.out
    assert level(done) == FULL


def test_values_that_do_not_fit_in_memory_are_not_held(programs, program):
    path = program(BAD.replace("step == 2", "step == 1"))
    done = watched(programs, path, (), options=["--dump-limit", "500"])
    assert level(done) == f"{RECORDS} (the values take too much memory)"
    assert re.search(r"\b1 -inf +log:0", done.out), done.out


def levels_of(levels, count, kind=TRAINING, name="has_inf_or_nan", is_bare=False, **seconds):
    """The levels of the next runs, if one takes as long as told, with or without modules."""
    chosen = []
    for _ in range(count):
        watcher = levels.watcher(Watch(filter_name=name), kind, None)
        watcher.is_bare = is_bare
        watcher.seconds = seconds.get(watcher.level.replace(" ", "_"), 0.0)
        levels.ended(watcher, kind)
        chosen.append(watcher.level)
    return chosen


def make(**settings):
    known = {"overhead": 1.5, "level": "auto", **settings}
    return TorchCapturePolicy(known.__getitem__, Names(), [], lambda: None, lambda visitor: None)


def test_without_modules_ops_are_recorded():
    levels = make()
    assert levels_of(levels, 5, is_bare=True) == [FULL] * 2 + [RECORDS] * 3
    watcher = levels.watcher(Watch(filter_name="has_inf_or_nan"), TRAINING, None)
    assert levels.reason(watcher, TRAINING) == "op records (no module is called in it)"


@pytest.mark.parametrize(
    ("everything", "op_records", "expected", "told"),
    [
        (1.4, 1.3, FULL, "everything takes 1.4x, op records take 1.3x"),
        (1.6, 1.3, RECORDS, "everything takes 1.6x, op records take 1.3x"),
        (2.6, 2.3, MODULES, "op records take 2.3x"),
    ],
)
def test_the_level_is_the_closest_that_costs_no_more_than_allowed(
    everything, op_records, expected, told
):
    levels = make()
    chosen = levels_of(levels, 40, everything=everything, op_records=op_records, modules=1.0)
    # The first runs don't count; then as many of both, in twos.
    assert chosen[:10] == [FULL] * 2 + [MODULES] * 2 + [RECORDS] * 2 + [MODULES] * 2 + [RECORDS] * 2
    assert set(chosen[20:]) == {expected}
    last = levels.watcher(Watch(filter_name="has_inf_or_nan"), TRAINING, None)
    assert levels.reason(last, TRAINING) == f"{expected} ({told}; setting overhead 1.5)"


def test_what_is_looked_at_before_a_run_counts():
    levels = make()
    for _ in range(20):
        watcher = levels.watcher(Watch(filter_name="has_inf_or_nan"), TRAINING, None)
        watcher.is_bare = False
        watcher.seconds = 1.0
        watcher.seconds_before = {MODULES: 0.5}.get(watcher.level, 2.0)
        levels.ended(watcher, TRAINING)
    assert levels_of(levels, 1) == [MODULES]


def test_kinds_of_runs_are_measured_on_their_own():
    levels = make()
    levels_of(levels, 30, everything=9.0, op_records=9.0, modules=1.0)
    assert levels_of(levels, 1) == [MODULES]
    assert levels_of(levels, 1, "inference run") == [FULL]


def test_what_was_seen_before_a_run_of_another_kind_is_kept():
    levels, watch = make(), Watch(filter_name="has_inf_or_nan")
    levels_of(levels, 30, everything=1.2, op_records=1.1, modules=1.0)
    levels_of(levels, 30, "inference run", everything=9.0, op_records=9.0, modules=1.0)
    ahead = levels.ahead(watch)
    assert ahead.level == MODULES
    assert levels.watcher(watch, TRAINING, ahead) is ahead
    assert levels_of(levels, 1, "inference run") == [MODULES]
    assert levels.ahead(watch).level == FULL  # a training run came behind the last of these
    levels.costs[TRAINING].refusal = "fc1: it was written to"
    assert levels.watcher(watch, TRAINING, ahead) is not ahead


def test_what_could_not_be_done_again_is_watched_op_by_op_from_then_on():
    levels = make(level="modules")
    watcher = levels.watcher(Watch(filter_name="has_inf_or_nan"), TRAINING, None)
    assert watcher.level == MODULES
    watcher.refusal = "fc1: an input was written to, by the module itself or later"
    levels.ended(watcher, TRAINING)
    watcher = levels.watcher(Watch(filter_name="has_inf_or_nan"), TRAINING, None)
    assert watcher.level == RECORDS
    assert "fc1: an input was written to" in levels.reason(watcher, TRAINING)
    assert levels_of(levels, 1, "inference run") == [MODULES]
    levels = make()
    levels_of(levels, 30, everything=9.0, op_records=9.0, modules=1.0)
    levels.costs[TRAINING].refusal = "fc1: an input was written to, by the module itself or later"
    assert levels_of(levels, 1) == [RECORDS]


def test_settings_that_leave_nothing_to_measure():
    slow = {"everything": 9.0, "op_records": 9.0, "modules": 1.0}
    assert set(levels_of(make(overhead=1.0), 3)) == {MODULES}
    assert set(levels_of(make(overhead=math.inf), 12, **slow)) == {FULL}
    for asked, expected in (("values", FULL), ("ops", RECORDS), ("modules", MODULES)):
        assert set(levels_of(make(level=asked), 12, **slow)) == {expected}


@pytest.mark.parametrize(
    ("values", "is_bad"),
    [
        (torch.tensor([3e38, 3e38, 3e38]), False),
        (torch.tensor([6e4, 6e4], dtype=torch.float16), False),
        (torch.tensor([1.0, math.nan]), True),
        (torch.tensor([-math.inf, math.inf], dtype=torch.bfloat16), True),
        (torch.tensor([complex(0, math.inf)]), True),
        (torch.tensor([1, 2]), False),
        (torch.tensor([]), False),
        (torch.tensor([[1.0, math.nan]]).to_sparse(), True),
        (torch.tensor([1.0, math.inf]).to(torch.float8_e5m2), True),
    ],
)
def test_verdicts_are_exact(values, is_bad):
    verdicts: Verdicts[str] = Verdicts()
    verdicts.add("x", 3, values)
    assert verdicts.bad() == ([("x", 3)] if is_bad else [])
    assert is_nonfinite(values) is is_bad


def test_verdicts_leave_no_trace_in_autograd():
    x = torch.tensor([math.nan], requires_grad=True)
    y = x * 2
    kept = []
    verdicts: Verdicts[str] = Verdicts(lambda key, slot, tensor: kept.append(tensor))
    verdicts.add("y", 0, y)
    assert kept == [y] and y.grad_fn.name() == "MulBackward0" and y._version == 0


def test_the_closing_line_says_what_no_run_has(programs, tmp_path):
    path = tmp_path / "after.py"
    model = "import torch\nnet = torch.nn.Linear(2, 2)\n"
    path.write_text(
        f"{model}with torch.no_grad():\n    print(torch.log(net(torch.ones(2)) * 0 - 1))\n"
    )
    told = watched(programs, path, ()).err
    assert "no tensor passed has_inf_or_nan" in told
    assert "ops outside of the runs weren't looked at" in told
    path.write_text(
        f"{model}loss = net(torch.ones(2)).sum()\nloss.backward()\n"
        "torch.optim.SGD(net.parameters(), 0.1).step()\n"
    )
    told = watched(programs, path, ()).err
    assert "no tensor passed has_inf_or_nan" in told
    assert "outside" not in told


WRITES = {
    "op": ("h = h - 10; h.log_()", "[log_] log_:0", "[sub] sub:0"),
    "view": ("h = h - 10; h[:, :1].log_()", "[log_] log_:0", "[slice] slice:0"),
    "alias": ("h = h - 10; h.detach().log_()", "[log_] log_:0", "[detach] detach:0"),
}


@pytest.mark.parametrize("kind", WRITES)
@pytest.mark.parametrize("level_name", ["ops", "values"])
def test_what_an_op_has_written_over_is_not_what_it_was_given(programs, tmp_path, level_name, kind):
    line, began, given = WRITES[kind]
    path = tmp_path / "writes.py"
    path.write_text(
        "import torch\nmodel = torch.nn.Linear(4, 2)\nfor step in range(2):\n"
        f"    h = model(torch.ones(3, 4))\n    {line}\n    h.sum().backward()\n"
    )
    told = watched(programs, path, (f"config set level {level_name}",)).out
    assert f"It began in {began}" in told
    assert re.search(rf"^From: +{re.escape(given)} .*clean", told, re.MULTILINE)
    assert "logarithm of a negative number" in told


@pytest.mark.parametrize("level_name", ["ops", "values", "modules"])
def test_a_weight_written_between_runs_has_brought_it_in(programs, tmp_path, level_name):
    path = tmp_path / "weights.py"
    path.write_text(
        "import torch\ntorch.manual_seed(0)\nmodel = torch.nn.Linear(4, 2)\n"
        "for step in range(2):\n    model.weight.data.mul_(1e30).mul_(1e30)\n"
        "    model(torch.ones(3, 4)).sum().backward()\n"
    )
    told = watched(programs, path, (f"config set level {level_name}",)).out
    assert "It began in [Parameter] weight:0" in told
    assert "it came in with the weights" in told


LONG = """
import torch

torch.manual_seed(0)
weight = torch.nn.Parameter(torch.randn(SIZE))
optimizer = torch.optim.SGD([weight], 0.1)
for step in range(3):
    x = torch.log(weight.detach() * 0) + weight if step == 1 else weight + 0.0
    for _ in range(120):
        x = x * 1.0
    loss = (x * x).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("END", float(weight.detach().double().sum()))
"""


BY_HAND = """
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
for i in range(7):
    loss = net(torch.randn(16, 8)).pow(2).mean() * (0.0 if i == 5 else 1.0)
    net.zero_grad()
    loss.backward()
    with torch.no_grad():
        for p in net.parameters():
            p -= 0.01 * p.grad / p.grad.norm()
"""


@EVERY_LEVEL
def test_an_update_by_hand_is_where_it_began(settings, programs, tmp_path):
    (tmp_path / "program.py").write_text(BY_HAND)
    done = watched(programs, tmp_path / "program.py", settings, "origin_of_nonfinite")
    assert "It began in [div] div:0" in done.out
    assert "program.py:11" in done.out


@pytest.mark.parametrize("size", [4, 30_000])
def test_at_the_level_of_ops_the_screen_says_how_far_it_spread(programs, tmp_path, size):
    path = tmp_path / "program.py"
    path.write_text(LONG.replace("SIZE", str(size)))
    then = {}
    for each in ("ops", "values"):
        done = watched(programs, path, (f"config set level {each}",), "origin_of_nonfinite")
        assert done.out.splitlines()[-1:] == programs.plain(path).out.splitlines(), done.err
        assert "It began in [log] log:0" in done.out, done.out
        then[each] = re.search(r"^Then: +(.*)", done.out, re.MULTILINE)[1]
    if size == 4:
        assert then["ops"] == then["values"] != ""
    else:  # more than is kept
        assert re.search(r"; \d+ more bad tensors weren't kept$", then["ops"]), then
        assert "more bad" not in then["values"]


def test_a_nested_tensor_that_is_bad_is_no_clean_input(programs, tmp_path):
    path = tmp_path / "program.py"
    path.write_text("""
import torch

torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
model = torch.nn.TransformerEncoder(layer, 2).eval()
pad = torch.zeros(3, 5, dtype=torch.bool)
pad[0, 3:] = True
for run in range(3):
    x = torch.randn(3, 5, 8)
    if run == 1:
        x[2, 1, 3] = float("inf")
    with torch.no_grad():
        y = model(x, src_key_padding_mask=pad)
print("END", float(y.sum()))
""")
    for each in ("ops", "values"):
        done = watched(programs, path, (f"config set level {each}",), "origin_of_nonfinite")
        assert "It began in [_transformer_encoder_layer_fwd] layers.0/_" in done.out, done.out


def test_a_gradient_that_a_clamp_drops_stayed_local(programs, tmp_path):
    path = tmp_path / "program.py"
    path.write_text("""
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(4):
    angle = torch.acos((model(torch.randn(6, 4)) * (9 if step == 2 else 1)).clamp(-1, 1))
    loss = (angle * 0.0).sum() if step == 2 else angle.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print("END", float(model.weight.sum()))
""")
    plain = programs.plain(path).out.splitlines()
    for each in ("modules", "ops", "values"):
        done = watched(programs, path, (f"config set level {each}",), "origin_of_nonfinite")
        assert done.out.splitlines()[-1:] == plain, done.out
        assert "run-end" not in done.out, done.out
