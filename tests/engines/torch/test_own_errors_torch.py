"""Errors of a program's own hooks and checks: the run that they are about is shown with them."""

import pytest

PROGRAM = """
import sys

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
optimizer = torch.optim.SGD(model.parameters(), 0.1)
step = 0


class Mine(ValueError):
    pass


def check(*_):
    if step == 2:
        raise Mine("my check")


where = sys.argv[1]
if where == "module":
    model.register_forward_hook(check)
elif where == "optimizer":
    optimizer.register_step_post_hook(check)
elif where == "gradient":
    model[1].weight.register_hook(check)

for step in range(4):
    x = torch.randn(3, 4)
    if step == 2:
        x[0, 0] = float("nan")
    try:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
    except Mine as error:
        if "caught" not in sys.argv:
            raise
        print("caught", error, flush=True)
    else:
        print("done", step, flush=True)
"""
EVENTS = {
    "module": "forward",
    "optimizer": "forward, backward, step",
    "gradient": "forward, backward",
}


@pytest.mark.parametrize("where", EVENTS)
@pytest.mark.parametrize("is_caught", [False, True], ids=["uncaught", "caught"])
def test_the_run_is_shown_with_the_error(programs, tmp_path, where, is_caught):
    path = tmp_path / "hooked.py"
    path.write_text(PROGRAM)
    arguments = [path, where, *(["caught"] if is_caught else [])]
    plain = programs.plain(*arguments)
    commands = ["run -f has_inf_or_nan", "run_info", "lt -f has_inf_or_nan", "exit"]
    words = [word for command in commands for word in ("-c", command)]
    done = programs.debugged("--batch", *words, *arguments)
    assert done.status == plain.status == (0 if is_caught else 1)
    assert [line for line in done.out.splitlines() if line.startswith(("done", "caught"))] == (
        plain.out.splitlines()
    )
    shown = done.out.partition("--- run_info ---")[2]
    assert f"Events:     {EVENTS[where]}\n" in shown or f"Events:    {EVENTS[where]}\n" in shown
    if where == "module":  # what of it is still used nobody knows until something else begins
        assert "Mine: my check" in shown.partition("---")[0]
    else:
        stop = done.out.partition("--- run_info ---")[0]
        assert "run-end: training run #3" in stop and "Error type: Mine" in stop
        assert stop.count("run-end") == 1
        assert "caught" not in stop  # the error goes on after the stop
    assert "Linear" in shown or "addmm:0" in shown
    assert ("Traceback" in done.err) != is_caught


def test_what_a_block_raises_is_said(programs, tmp_path):
    path = tmp_path / "block.py"
    path.write_text(
        "import torch, tfdbg_cli\n"
        "try:\n"
        "    with tfdbg_cli.run('mine'):\n"
        "        y = torch.ones(2).log()\n"
        "        raise KeyError('where')\n"
        "except KeyError:\n"
        "    print('went on')\n"
    )
    done = programs.debugged("--batch", "-c", "run", "-c", "ri", "-c", "lt", path)
    assert "Unfinished: the program raised KeyError: 'where'" in done.out
    assert "log:0" in done.out and "went on" in done.out


ACCELERATED = """
import math
import sys

import torch
from accelerate import Accelerator
from accelerate.tracking import GeneralTracker
from torch import nn

where = sys.argv[1]


class Mine(ValueError):
    pass


class Tracker(GeneralTracker):
    name = "mine"
    requires_logging_directory = False
    main_process_only = True

    @property
    def tracker(self):
        return self

    def store_init_configuration(self, values):
        pass

    def log(self, values, step, **_):
        check("tracker", values["loss"])


def check(place, *numbers):
    if place == where and not all(map(math.isfinite, numbers)):
        raise Mine("my check")


torch.manual_seed(0)
accelerator = Accelerator(cpu=True, log_with=Tracker())
accelerator.init_trackers("it")
model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), 0.1))
plain_step = optimizer.step


def step():
    plain_step()
    check("optimizer", *model[0].weight.flatten().tolist())


optimizer.step = step
for number in range(4):
    x = torch.randn(3, 4)
    if number == 2:
        x = x.sqrt()
    optimizer.zero_grad()
    loss = model(x).square().mean()
    accelerator.backward(loss)
    check("backward", loss.item())
    check("norm", accelerator.clip_grad_norm_(model.parameters(), 1.0).item())
    optimizer.step()
    accelerator.log({"loss": loss.item()}, step=number)
    print("done", number, flush=True)
"""


@pytest.mark.parametrize("where", ["backward", "norm", "optimizer", "tracker"])
def test_what_a_program_of_accelerate_raises_because_of_a_nan(programs, tmp_path, where):
    pytest.importorskip("accelerate")
    path = tmp_path / "accelerated.py"
    path.write_text(ACCELERATED)
    plain = programs.plain(path, where)
    commands = ["run -f origin_of_nonfinite", "run_info", "exit"]
    words = [word for command in commands for word in ("-c", command)]
    done = programs.debugged("--batch", *words, path, where)
    assert done.status == plain.status == 1
    assert [line for line in done.out.splitlines() if line.startswith("done")] == [
        "done 0",
        "done 1",
    ]
    assert "Mine: my check" in done.err
    stop, _, info = done.out.partition("--- run_info ---")
    assert "run-end: training run #3" in stop and "sqrt:0" in stop
    assert ("the program ends with Mine: my check" in info) == (where in ("backward", "norm"))
