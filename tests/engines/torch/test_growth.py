"""What grew before a stop: the largest magnitudes of modules' outputs and of gradients."""

from __future__ import annotations

import json
import math
import re

import pytest

# Prints what its modules return, and the gradients that its optimizer reads, run by run.
PROGRAM = """
import json
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.second = nn.Linear(8, 1)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


net = Net()
seen = {}
for name, module in net.named_modules():
    module.register_forward_hook(
        lambda module, given, output, name=name: seen.update({name: output.abs().max().item()})
    )
optimizer = torch.optim.SGD(net.parameters(), 1e-3)
x = torch.rand(16, 4)
told = []
for run in range(60):
    optimizer.zero_grad()
    out = net(x)
    loss = LOSS
    loss.backward()
    for name, each in net.named_parameters():
        seen["grad " + name] = each.grad.abs().max().item()
    told.append(dict(seen))
    optimizer.step()
    GROW
print("TOLD", json.dumps(told))
"""
GROW = "with torch.no_grad(): net.second.bias.mul_(1.3).add_(0.1)"
BAD = "(out * (1e30 if run == 40 else 1)).square().mean()"


@pytest.fixture
def ask(programs, tmp_path):
    def ask(*commands, loss=BAD, grow=GROW, level="modules"):
        path = tmp_path / "program.py"
        text = PROGRAM.replace("LOSS", loss).replace("GROW", grow)
        path.write_text(text)
        alone = programs.plain(path)
        asked = [f"config set level {level}", *commands]
        done = programs.debugged("--batch", *(f"-c{each}" for each in asked), path)
        before, after = (
            [line for line in each.out.splitlines() if line.startswith("TOLD")]
            for each in (alone, done)
        )
        assert before and before == after, alone.err + done.err
        return done.out, json.loads(before[0][5:])

    return ask


def _items(out):
    found = [json.loads(line) for line in out.splitlines() if line.startswith('{"name"')]
    return {each["name"]: each for each in found}


@pytest.mark.parametrize("level", ["modules", "ops", "values"])
def test_the_magnitudes_are_those_that_the_program_sees_itself(ask, level):
    out, told = ask("run -f", "growth --json", level=level)
    items = _items(out)
    for name, of in (
        ("output of second", "second"),
        ("gradient of first.weight", "grad first.weight"),
        ("gradient of second.bias", "grad second.bias"),
    ):
        item, values = items[name], [row[of] for row in told[:41]]
        assert item["runs"] >= 5
        assert any(item["lowest"] == pytest.approx(each, rel=1e-6) for each in values)
        assert any(float(item["last"]) == pytest.approx(each, rel=1e-6) for each in values[-9:])


def test_a_stop_shows_how_the_nearest_tensor_grew(ask):
    out, told = ask("run -f")
    found = re.search(
        r"Grew:  .*output of (?:Net|second), max \|x\| (\S+) → (\S+) at run (\d+), in (\d+) runs"
        r"( \((\d+) measured\))?, doubling every (\S+) runs  growth",
        out,
    )
    assert found, out
    first, last, at, runs = float(found[1]), float(found[2]), int(found[3]), int(found[4])
    assert last == pytest.approx(told[at - 1][""], rel=1e-3)
    assert first == pytest.approx(told[at - 1 - runs][""], rel=1e-3)
    assert 37 <= at <= 41
    doubling = runs / math.log2(last / first)
    assert float(found[7].rstrip(",")) == pytest.approx(doubling, rel=0.06)


@pytest.mark.parametrize(
    ("grow", "said"),
    [
        ("pass", "it hadn't grown"),
        ("with torch.no_grad(): net.second.bias.sub_(0.003)", "it had hardly grown"),
    ],
)
def test_what_does_not_grow_is_said_not_to(ask, grow, said):
    out, _ = ask("run -f", grow=grow)
    words = rf"Before: .*output of (?:Net|second), max \|x\| \S+ at run \d+, {said}  growth"
    assert re.search(words, out), out


def test_what_has_grown_to_a_small_number_is_not_shown(ask):
    """It is 1,000 times what it was, and says nothing of what has overflown."""
    grow = "net.second.weight.data.zero_(); net.second.bias.data.mul_(1.3 * (run > 0)).add_(1e-9)"
    out, _ = ask("run -f", "growth -n output", grow=grow)
    assert "It began in" in out and "Grew:" not in out and "Before:" not in out, out
    assert re.search(r"^output of Net .*\dx ", out, re.MULTILINE), out


def test_each_run_is_measured_if_somebody_asks(ask):
    out, _ = ask("track --ranges", "run -f", "growth --json", "track -d ranges")
    assert _items(out)["output of second"]["runs"] == 41
    assert "measured in some runs again" in out


def test_fast_growth_is_measured_in_each_run(ask):
    loss = "out.square().mean()"
    grow = "with torch.no_grad(): net.second.bias.add_(0.01).mul_(4.0)"
    out, _ = ask("run -f", "growth --json", loss=loss, grow=grow)
    item = _items(out)["output of second"]
    assert item["runs"] > item["grown_in_runs"] - 8
    assert item["factor"] > 1e9
    assert item["doubling"] < 1


def test_a_filter_that_awaits_something_else_measures_nothing_and_growth_says_so(ask):
    out, _ = ask("run -f exploding", "growth")
    assert "No magnitudes were measured." in out
    assert "Grew:" not in out


def test_the_list_sorts_filters_and_shows_columns(ask):
    out, _ = ask("run -f", "growth -n '^output' -s module --columns module,factor")
    rows = out[out.index("The largest magnitudes") :].splitlines()
    heads = rows[2].split()
    assert heads == ["Module↑", "Grown"]
    assert [row.split()[0] for row in rows[3:6]] == ["-", "first", "second"]


def test_a_curve_is_drawn_by_its_name(ask):
    out, told = ask("run -f", "plot 'output of second' --log")
    head = re.search(r"output of second  (\S+) at run (\d+), .*\(logarithmic\)", out)
    assert float(head[1]) == pytest.approx(told[int(head[2]) - 1]["second"], rel=1e-3)


def test_a_folder_keeps_the_magnitudes(ask, programs, tmp_path):
    kept = tmp_path / "kept"
    path = tmp_path / "again.py"
    path.write_text(PROGRAM.replace("LOSS", BAD).replace("GROW", GROW))
    live = programs.debugged(
        "--batch",
        "--keep-dumps",
        "--dump-root",
        kept,
        "-cconfig set level modules",
        "-crun -f",
        "-cgrowth --json",
        path,
    )
    folder = next(kept.rglob("series.json")).parent
    later = programs.debugged("--batch", "--dump-dir", folder, "-cgrowth --json", "-cwhy")
    assert _items(later.out) == _items(live.out) != {}
    assert "Grew:  " in later.out
