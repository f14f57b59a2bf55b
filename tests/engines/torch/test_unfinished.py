"""Runs that the program itself cuts short."""

import re
import textwrap

import pytest
from samples import sample

GUARDED_LOOP = """
    import sys
    import torch

    torch.manual_seed(0)
    model = torch.nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(6):
        output = model(torch.randn(3, 4))
        if step == 3:
            output = output * 0
        loss = torch.log(output.abs()).mean()
        if not torch.isfinite(loss):
            print("not finite in step", step)
            {reaction}
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("reaction", "status"),
    [("sys.exit(3)", 3), ("break", 0), ("raise FloatingPointError('loss')", 1)],
    ids=["exit", "break", "raise"],
)
def test_the_program_stops_at_a_bad_loss_before_we_do(tmp_path, programs, reaction, status):
    script = tmp_path / "guarded.py"
    script.write_text(textwrap.dedent(GUARDED_LOOP.format(reaction=reaction)))
    commands = ["-c", "run -f has_inf_or_nan", "-c", "run_info"]
    done = programs.debugged("--batch", *commands, script)
    assert done.status == status, done.err
    assert "training run #4" in done.out
    assert "log:0" in done.out
    assert "Unfinished:" in done.out
    assert "no tensor passed" not in done.err
    assert ("FloatingPointError: loss" in done.err) == (status == 1)


INTERRUPTED_LOOP = """
    import torch

    torch.manual_seed(0)
    STEP = 0


    class Interrupted(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            if STEP == 1 and {where!r} == "backward":
                raise KeyboardInterrupt
            return gradient


    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(4, 3)

        def forward(self, x):
            if STEP == 1 and {where!r} == "forward":
                raise KeyboardInterrupt
            return Interrupted.apply(self.fc(x))


    def hook(*_):
        if STEP == 1 and {where!r} == "step":
            raise KeyboardInterrupt


    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    optimizer.register_step_pre_hook(hook)
    for STEP in range(3):
        try:
            output = net(torch.randn(3, 4))
            loss = torch.log(output.abs() * (0.0 if STEP == 2 else 1.0)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except KeyboardInterrupt:
            print("CAUGHT")
    print("LEFT", net.fc.weight.sum().item())
"""


@pytest.mark.parametrize("level", [*sample(["values", "ops", "modules"], 2)])
@pytest.mark.parametrize("where", ["forward", "backward", "step"])
def test_what_is_interrupted_is_a_run_of_its_own(where, level, programs, tmp_path):
    script = tmp_path / "interrupted.py"
    script.write_text(textwrap.dedent(INTERRUPTED_LOOP.format(where=where)))
    waiting = ["-c", f"config set level {level}", "-c", "run -f has_inf_or_nan", "-c", "exit"]
    done = programs.debugged("--batch", "--engine", "torch", *waiting, script)
    printed = re.compile("^(?:CAUGHT|LEFT.*)$", re.MULTILINE)
    plain = printed.findall(programs.plain(script).out)
    assert printed.findall(done.out) == plain and len(plain) == 2, done.out
    # It was no part of the next one, and nobody takes it for an error.
    assert "run-end: training run #3" in done.out
    assert "KeyboardInterrupt" not in done.out + done.err
    seen = [part for _ in range(3) for part in ("-c", "run", "-c", "run_info")]
    done = programs.debugged("--batch", "--engine", "torch", *seen, script)
    assert done.out.count("run-end: ") == 3
    assert done.out.count("Unfinished: the program raised KeyboardInterrupt") == 1
