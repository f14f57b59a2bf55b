"""Updates and weights at the level of modules: the answer is that of the level `values`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from modules_kit import all_bad, first_bad, line_of, lines_left, watched
from samples import sample

STEPS = Path(__file__).resolve().parent / "watched_steps.py"
AGAIN = ["attributes", "states", "replaces", "gradients", "noise", "around", "counts", "closure"]
REFUSED = {"elsewhere": "it writes to more than the optimizer has", "writes": "it writes to /"}


@pytest.mark.parametrize("name", [*sample([*AGAIN, "adam", "scaled"], 2)])
def test_the_op_of_a_step_that_made_something_bad_is_told(name, programs, tmp_path):
    program = (STEPS, name)
    plain = programs.plain(*program)
    exact = watched(programs, *program, level="values", name="origin_of_nonfinite")
    done = watched(programs, *program, name="origin_of_nonfinite")
    assert lines_left(plain) == lines_left(done) != [], done.out + done.err
    counted = re.compile(r"^STEP \d", re.MULTILINE)
    assert counted.findall(plain.out) == counted.findall(done.out)
    assert first_bad(done) == first_bad(exact)
    assert "optimizer/" in first_bad(done), done.out
    assert line_of(done) == line_of(exact) != "", done.out


@pytest.mark.parametrize("name", REFUSED)
def test_a_step_that_does_something_else_as_well_isnt_made_twice(name, programs, tmp_path):
    (tmp_path / "plain").mkdir()
    (tmp_path / "watched").mkdir()
    plain = programs.plain(STEPS, name, tmp_path / "plain")
    done = watched(programs, STEPS, name, tmp_path / "watched", name="origin_of_nonfinite")
    assert lines_left(plain) == lines_left(done) != [], done.out + done.err
    found = [(tmp_path / each / "steps") for each in ("plain", "watched")]
    if name == "writes":
        assert found[0].read_text() == found[1].read_text() == "xxxx"
    assert re.search(rf"Not replayed: \w+\.step\(\): {REFUSED[name]}", done.out), done.out
    assert f"{STEPS.name}:" in line_of(done), done.out  # where the step was called
    assert re.search(r"From: +\[Gradient\] gradients/0.weight:0 .* clean", done.out), done.out


ROW = """
import torch
from torch import nn

torch.manual_seed(0)
table = nn.EmbeddingBag(50, 4)
with torch.no_grad():
    table.weight[41] = float("nan")
net = nn.Sequential(table, nn.Linear(4, 1))
opt = torch.optim.SGD(net.parameters(), 0.1)
for i in range(4):
    ids = torch.randint(0, 40, (12,))
    if i == 2:
        ids[5] = 41
    loss = net(ids.view(3, 4)).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize("name", ["has_inf_or_nan", "origin_of_nonfinite"])
def test_a_weight_that_was_bad_from_the_start_isnt_blamed_on_the_update(name, programs, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(ROW)
    exact = watched(programs, path, level="values", name=name)
    done = watched(programs, path, name=name)
    number = re.compile(r"run-end: training run #(\d+)")
    assert number.findall(done.out) == number.findall(exact.out) != []
    assert first_bad(done) == first_bad(exact) == "nan 0.weight:0"
    assert "it came in with the weights (0.weight:0, row 41)" in done.out
    assert "The update made it" not in done.out
    if name == "origin_of_nonfinite":
        assert all_bad(done) == all_bad(exact)


def test_a_bad_weight_that_nothing_reads_is_told_at_no_level(programs, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(2, 2), nn.Linear(2, 2)
        with torch.no_grad():
            self.unused.weight[0] = float("nan")

    def forward(self, x):
        return self.used(x)


net = Net()
opt = torch.optim.SGD(net.parameters(), 0.1)
for _ in range(3):
    opt.zero_grad()
    net(torch.ones(1, 2)).sum().backward()
    opt.step()
"""
    )
    for level in ("values", "modules"):
        done = watched(programs, path, level=level)
        assert "no tensor passed has_inf_or_nan" in done.err, done.out


BEFORE = """
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.linear = nn.Embedding(5, 2), nn.Linear(2, 2)
        self.register_buffer("mean", torch.zeros(2))

    def forward(self, x):
        return self.linear(self.table(x))


net = Net()
opt = {optimizer}
bad = torch.full((2, 2), float("nan"))
for number in range(1, 6):
    if number == 4:
        {plant}
    opt.zero_grad()
    net(torch.tensor([1, 2])).sum().backward()
    opt.step()
    {after}
"""
_SGD, _ADAM = (
    "torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)",
    "torch.optim.Adam(net.parameters())",
)
_STATE = "opt.state[net.linear.weight]"
#: Optimizer, what goes bad before run 4, what the program does after its update.
PLANTED = {
    "momentum": (_SGD, f"{_STATE}['momentum_buffer'].numpy()[:] = float('nan')", ""),
    "momentum of Adam": (_ADAM, f"{_STATE}['exp_avg'].numpy()[:] = float('nan')", ""),
    "another tensor": (_ADAM, f"{_STATE}['exp_avg_sq'] = bad.clone()", ""),
    "a row that nobody reads": (_SGD, "net.table.weight.detach().numpy()[4] = float('inf')", ""),
    "a buffer": (_SGD, "net.mean.numpy()[:] = float('nan')", "net.mean.mul_(0.9)"),
    "by hand": (
        _SGD,
        "net.table.weight.detach().numpy()[4] = float('nan')",
        "net.table.weight.data[3:].mul_(0.99)",
    ),
}


@pytest.mark.parametrize("name", [*sample(PLANTED, 2)])
@pytest.mark.parametrize("filter_name", ["has_inf_or_nan", "origin_of_nonfinite"])
def test_what_was_bad_before_an_op_writes_to_it_isnt_clean(name, filter_name, programs, tmp_path):
    optimizer, plant, after = PLANTED[name]
    path = tmp_path / "program.py"
    path.write_text(BEFORE.format(optimizer=optimizer, plant=plant, after=after))
    exact = watched(programs, path, level="values", name=filter_name)
    done = watched(programs, path, level="ops", name=filter_name)
    number = re.compile(r"run-end: .*? #(\d+)|no tensor passed")
    assert number.findall(done.out + done.err) == number.findall(exact.out + exact.err) != []
    if "run-end" in exact.out:
        assert first_bad(done) == first_bad(exact)
    for level in ("modules", "auto"):  # which may not lead to the op, and say so
        said = watched(programs, path, level=level, name=filter_name).out
        assert "everything before was clean" not in said
        if "[Update]" in said:
            assert "or found it in the optimizer's state" in said
        elif "run-end" in said:
            assert first_bad(exact).split()[-1] in said


@pytest.mark.parametrize("level", ["ops", "values"])
def test_a_gradient_that_was_bad_before_isnt_one_of_this_run(level, programs, tmp_path):
    path = tmp_path / "program.py"
    plant = "net.linear.weight.grad.numpy()[:] = float('nan')"
    text = BEFORE.format(optimizer=_SGD, plant=plant, after="").replace("opt.zero_grad()", "pass")
    path.write_text(text)
    done = watched(programs, path, level=level, name="origin_of_nonfinite")
    assert "It began in [Input] input/linear.weight.grad:0" in done.out, done.out
    assert "it was in the gradient before this backward pass added to it" in done.out
    assert "began with a backward pass" not in done.out


#: The body of a module's forward, under inference mode; bad in the third call.
INFERENCE = {
    "fresh": "return torch.log(x) + 1",
    "in_place": "return x.log_() * 2",
    "first": "return (x * 0).log_()",
}
HEAD = """
import torch
from torch import nn


class Log(nn.Module):
    def forward(self, x):
        {body}


first, net = nn.Identity(), {net}
with torch.inference_mode():
    for step in range(4):
        x = torch.full((3,), 2.0 - step)
        y = net({given})
        {after}
        print("LEFT", x.tolist(), y.tolist())
"""


@pytest.mark.parametrize("given", [*sample(["x", "first(x)"], 2)])
@pytest.mark.parametrize("after", [*sample(["", "x.zero_()", "y.mul_(2)"], 2)])
@pytest.mark.parametrize("body", INFERENCE)
def test_inference_mode(body, after, given, programs, tmp_path):
    path = tmp_path / "program.py"
    net = "Log()" if given == "x" else "nn.Sequential(nn.Identity(), Log())"
    path.write_text(HEAD.format(body=INFERENCE[body], after=after, given=given, net=net))
    exact = watched(programs, path, level="values", name="origin_of_nonfinite")
    done = watched(programs, path, name="origin_of_nonfinite")
    assert lines_left(done) == lines_left(programs.plain(path)) != []
    assert first_bad(done) == first_bad(exact)
    assert line_of(done) == line_of(exact) != ""


SCALED = """
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
opt = torch.optim.Adam(net.parameters(), 0.01)
for step in range(5):
    x = torch.randn(8, 3)
    loss = (net(x) - (net(x).detach() if step == 3 else 1)).square().mean()
    opt.zero_grad()
    loss.backward()
    total = sum(p.grad.square().sum() for p in net.parameters()).sqrt()
    for p in net.parameters():
        p.grad.mul_(1 / total)
    opt.step()
    print("LEFT", loss.item())
"""


def test_gradients_that_the_program_makes_bad_before_the_update(programs, tmp_path):
    path = tmp_path / "scaled.py"
    path.write_text(SCALED)
    plain, done = programs.plain(path), watched(programs, path, name="origin_of_nonfinite")
    assert lines_left(plain) == lines_left(done) != [], done.out + done.err
    assert first_bad(done).endswith("inf reciprocal:0"), done.out
    assert re.search(r"Then: .*optimizer/0\.weight:0", done.out), done.out
    assert "Gradients became bad between the backward pass and the update." in done.out
    assert "stayed local" not in done.out
    assert "gradients were clean" not in done.out
