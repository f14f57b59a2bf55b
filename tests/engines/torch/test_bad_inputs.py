"""A nan that comes in with the batch is told of in the same way at every level."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import dedent

import pytest
from program_server import debugger_in
from samples import sample

pytest.importorskip("torch")

PROGRAM = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = torch.randn(64, 4)
data[40, 2] = float("nan")
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    def forward(self, x, *, other=None):
        x = x["data"] if isinstance(x, dict) else x
        return self.body(x if other is None else other)
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in BATCHES:
    loss = LOSS.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
FORMS = {
    "views": ("data.split(16)", "model(x)"),
    "copies": ("map(torch.clone, data.split(16))", "model(x)"),
    "keyword": ("data.split(16)", "model(None, other=x)"),
    "dictionary": ("data.split(16)", "model({'data': x})"),
    "loader": ("DataLoader(TensorDataset(data), 16)", "model(x[0])"),
    "alone": ("data.split(16)", "model.body[0](x)"),
    "no module first": ("data.split(16)", "model(x * 2)"),
}


@pytest.mark.parametrize("form", [*sample(FORMS, 3)])
def test_levels_agree(form: str, tmp_path: Path) -> None:
    batches, loss = FORMS[form]
    (tmp_path / "train.py").write_text(
        dedent(PROGRAM).replace("BATCHES", batches).replace("LOSS", loss)
    )
    told = {}
    for level in ("auto", "modules", "ops", "values"):
        commands = ("-c", f"config set level {level}") if level != "auto" else ()
        done = debugger_in(tmp_path, "--batch", *commands, "-c", "run -f", "train.py")
        begin = re.search(r"^It began in (.*)\nWhy: +(.*)$", done.stdout, re.MULTILINE)
        assert begin, done.stdout
        told[level] = begin[1], re.sub(r"input/[\w.]+", "it", begin[2])
    assert all("[Input]" in begin for begin, _ in told.values()), told
    # Where the loader's ops are part of the run, the table that it reads came in.
    rows = {re.sub("row 40", "row 8", why) if form == "loader" else why for _, why in told.values()}
    assert rows == {"it came in from outside (it:0, row 8)"}


def test_a_bad_input_that_nothing_reads_is_not_the_reason(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        dedent(
            """
            import torch
            class Root(torch.nn.Module):
                def forward(self, unused, x):
                    return torch.rsqrt(x)
            ones = torch.ones(3)
            bad = torch.tensor([1, float("inf"), 1]), torch.tensor([0.0, 1, 1])
            pairs = [(ones, ones), (ones, ones), bad]
            model = Root()
            with torch.no_grad():
                for pair in pairs:
                    model(*pair)
            """
        )
    )
    for level in ("modules", "ops", "values"):
        commands = (f"config set level {level}", "run -f has_inf_or_nan")
        flags = [part for each in commands for part in ("-c", each)]
        out = debugger_in(tmp_path, "--batch", *flags, "train.py").stdout
        assert re.search(r"^It began in \[rsqrt\] .*\nWhy: +the inverse", out, re.MULTILINE), out
