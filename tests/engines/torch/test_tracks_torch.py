"""The loss of PyTorch's runs: what is followed without being asked for, and that nobody sees it."""

from __future__ import annotations

import re

import pytest
from samples import sample

PROGRAM = """
import torch

torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
opt = torch.optim.SGD(net.parameters(), 0.1)
x = torch.ones(3, 4)
SETUP
for step in range(30):
    loss = net(x).square().mean()
    if step == 20:
        loss = loss + torch.log(x[0, 0] * 0)
    opt.zero_grad()
    BACKWARD
print("program:", loss.item(), sum(p.sum().item() for p in net.parameters()))
"""
STEP = "loss.backward(); opt.step()"


@pytest.fixture
def ask(programs, tmp_path):
    def ask(*commands, setup="", backward=STEP, engine="torch"):
        path = tmp_path / "program.py"
        path.write_text(PROGRAM.replace("SETUP", setup).replace("BACKWARD", backward))
        alone = programs.plain(path)
        done = programs.debugged("--batch", *(f"-c{each}" for each in commands), path)
        told = [line for line in alone.out.splitlines() if line.startswith("program:")]
        assert told, alone.err
        assert [line for line in done.out.splitlines() if line.startswith("program:")] == told
        return done.out

    return ask


@pytest.mark.parametrize("level", ["values", "ops", "modules"])
def test_the_loss_up_to_a_stop_is_told_at_each_level(ask, level):
    told = ask(f"config set level {level}", "run -f origin_of_nonfinite", "plot")
    assert re.search(r"Loss:  █\S*×  (nan|-inf) at run 21, \S+ at run 20  plot", told) or re.search(
        r"Loss:  █\S*∞  -inf at run 21, \S+ at run 20  plot", told
    )
    assert "highest" in told


@pytest.mark.parametrize("level", ["ops", "modules"])
def test_a_step_in_evaluation_mode_is_a_run_like_those_before(ask, level):
    """It looks like an evaluation, of which the first is no. 1, until its backward pass begins."""
    backward = f"{STEP}; net.train(step < 10)"
    told = ask(f"config set level {level}", "run -f", "track", backward=backward)
    assert "training run #21" in told
    assert re.search(r"Loss:  █\S+  \S+ at run 21, \S+ at run 20  plot", told)


def test_runs_that_are_counted_apart_are_not_told_on_one_line(ask):
    """The backward passes before the training are runs of another kind."""
    setup = """
del opt
for _ in range(9):
    net(x).mean().backward()
x = x * float("nan")
opt = torch.optim.SGD(net.parameters(), 0.1)
"""
    told = ask("run -f", "track", setup=setup)
    assert "training run #1" in told
    assert re.search(r"Loss:  \S+  nan at run 1  plot", told)


def test_runs_that_nobody_watches_tell_it_too(ask):
    assert re.search(r"Loss:  █\S+  \S+ at run 15  plot", ask("run -t 15", "lt"))


def test_a_scaled_loss_is_told_as_it_was(ask):
    setup = "scaler = torch.amp.GradScaler('cpu', init_scale=1024.0)"
    backward = "scaler.scale(loss).backward(); scaler.step(opt); scaler.update()"
    plain = ask("run -t 5", "track")
    told = ask("run -t 5", "track", setup=setup, backward=backward)
    number = re.search(r"loss  \S+ +(\S+) at run 5", plain)[1]
    assert f"{number} at run 5" in told


@pytest.mark.parametrize(
    "backward",
    [
        *sample(
            [
                "torch.autograd.backward([loss]); opt.step()",
                "torch.autograd.backward(tensors=loss); opt.step()",
                "loss.backward(retain_graph=True); opt.step()",
                "loss.reshape(1).backward(); opt.step()",
                "(loss.double() * 1).backward(); opt.step()",
            ],
            2,
        )
    ],
)
def test_however_the_backward_pass_is_asked_for(ask, backward):
    assert re.search(r"Loss: .* at run 5  plot", ask("run -t 5", "lt", backward=backward))


@pytest.mark.parametrize(
    "backward",
    [
        "net(x).backward(torch.ones(3, 1)); opt.step()",
        "torch.autograd.grad(loss, net[0].weight); opt.step()",
        "loss.to('meta').backward() if False else None; opt.step()",
    ],
)
def test_what_is_no_loss_is_not_taken_for_one(ask, backward):
    assert "Loss:" not in ask("run -t 5", "lt", backward=backward)


MODES = """
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
seen = []
class Api(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        seen.append(getattr(function, "__name__", "?"))
        return function(*args, **(kwargs or {}))
class Ops(TorchDispatchMode):
    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        seen.append(str(op))
        return op(*args, **(kwargs or {}))
"""


@pytest.mark.parametrize("mode", ["Api", "Ops"])
def test_no_mode_of_the_program_sees_that_it_is_read(ask, mode):
    backward = (
        f"with {mode}():\n        loss.backward()\n    opt.step()\n    x = x + len(seen) * 1e-4"
    )
    assert re.search(
        r"Loss: .* at run 9  plot", ask("run -t 9", "lt", setup=MODES, backward=backward)
    )


def test_nothing_of_the_graph_is_kept(ask):
    setup = "import gc, weakref; kept = []"
    backward = (
        "loss.backward(); opt.step(); kept.append(weakref.ref(loss)); del loss\n"
        "    loss = torch.zeros(()); net[0].bias.data += sum(r() is not None for r in kept)"
    )
    ask("run -t 25", "lt", setup=setup, backward=backward)


DEVICE = """
import torch._lazy.metrics as metrics
import torch._lazy.ts_backend

torch._lazy.ts_backend.init()
net, x = net.to("lazy"), x.to("lazy")
opt = torch.optim.SGD(net.parameters(), 0.1)
def waits():
    return sum(metrics.counter_value(n) for n in metrics.counter_names() if n.startswith("Synced"))
"""


def test_no_device_is_waited_for_until_somebody_looks(ask):
    pytest.importorskip("torch._lazy.ts_backend")
    backward = (
        "metrics.reset(); loss.backward(); opt.step()\n"
        "    if step < 8: print('program: waits', waits())"
    )
    told = ask("run -t 9", "plot", setup=DEVICE, backward=backward)
    assert re.search(r"loss  \S+ at run 9, lowest", told)


def test_no_device_is_waited_for_because_of_clipping(ask):
    pytest.importorskip("torch._lazy.ts_backend")
    backward = (
        "metrics.reset(); loss.backward()\n"
        "    torch.nn.utils.clip_grad_norm_(net.parameters(), 1e-3); opt.step()\n"
        "    if step < 8: print('program: waits', waits())\n"
        "    if step == 9: break"  # each step computes those before it once more
    )
    told = ask("run -t 9", "run_info", setup=DEVICE, backward=backward)
    assert "Clipped:   at norm 0.001 in all of 9 runs; the norm of this one was " in told


def test_numbers_of_expressions_in_runs_that_are_debugged_and_others(ask, tmp_path):
    files = [tmp_path / f"{name}.csv" for name in ("weight", "grad", "out", "back")]
    told = ask(
        "config set level auto",  # settings stay from test to test
        "track np.linalg.norm(`0.weight:0`) --as weight",
        "track `0.weight.grad`.sum() --as grad",
        "track `2/addmm:0`.max() --as out",
        "track `gradients/2/addmm_grad/mm:0`.max() --as back",
        "track `nothing:0`",
        "run -t 10",
        "run -f origin_of_nonfinite",
        *(f"plot {path.stem} --save {path}" for path in files),
        "track",
    )
    for path in files:
        rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
        assert [int(row[1]) for row in rows] == [*range(1, 22)], path
    assert "nothing: This run had no such node." in told


def test_what_is_read_is_what_the_program_has(ask):
    backward = (
        f"{STEP}\n    if step == 4: print('program: has',"
        " round(net[0].weight.norm().item(), 4), round(net[0].weight.grad.sum().item(), 4))"
    )
    told = ask(
        "track np.linalg.norm(`0.weight`).round(4) --as weight",
        "track `0.weight.grad`.sum().round(4) --as grad",
        "run -t 5",
        "track",
        backward=backward,
    )
    weight, grad = re.search(r"program: has (\S+) (\S+)", told).groups()
    assert f"{weight} at run 5" in told
    assert f"{grad} at run 5" in told


def test_levels_without_values_say_so(ask):
    commands = ("config set level modules", "track `2/addmm:0`.max()", "run -f has_inf_or_nan")
    assert "This run held no values: config set level values." in ask(*commands, "track")


NORMS = (
    "{step}\n    if step == 5:\n        for n, m in [('', net), ('.0', net[0]), ('.2', net[2])]:\n"
    "            ps = list(m.parameters())\n"
    "            g = torch.stack([p.grad.norm() for p in ps]).norm().item()\n"
    "            w = torch.stack([p.norm() for p in before[n]]).norm().item()\n"
    "            print('program: norms', n, round(w, 3), round(g, 3))\n"
    "    before = {{n: [p.detach().clone() for p in m.parameters()]"
    " for n, m in [('', net), ('.0', net[0]), ('.2', net[2])]}}"
)


def rounded(text):
    return {
        name: round(float(number), 3)
        for name, number in re.findall(r"^  (\w+_norm\S*) +\S+ +(\S+) at run 6", text, re.M)
    }


@pytest.mark.parametrize("is_scaled", [False, True])
def test_norms_of_gradients_and_parameters_by_module(ask, is_scaled):
    setup, step = "", STEP
    if is_scaled:
        setup = "scaler = torch.amp.GradScaler('cpu', init_scale=256.0)"
        step = (
            "scaler.scale(loss).backward(); scaler.step(opt); scaler.update()\n"
            "    [p.grad.div_(1) for p in net.parameters()]"
        )
    told = ask("track --norms", "run -t 6", "track", setup=setup, backward=NORMS.format(step=step))
    found = rounded(told)
    for name, weight, grad in re.findall(r"program: norms *(\.?\S*) (\S+) (\S+)", told):
        assert found[f"param_norm{name}"] == pytest.approx(float(weight), abs=2e-3)
        assert found[f"grad_norm{name}"] == pytest.approx(float(grad), abs=2e-3)
        # Nothing is clipped, and a scaler has divided by its factor before the step.
        assert found[f"step_norm{name}"] == pytest.approx(float(grad), abs=2e-3)
    assert len(found) == 9


def test_norms_on_a_device_are_read_many_runs_at_a_time(ask):
    pytest.importorskip("torch._lazy.ts_backend")
    backward = (
        "metrics.reset(); loss.backward(); opt.step()\n"
        "    if step < 8: print('program: waits', waits())"
    )
    told = ask("track --norms", "run -t 9", "track", setup=DEVICE, backward=backward)
    assert re.search(r"grad_norm\.2 +\S+ +\S+ at run 9", told)


def test_norms_that_nobody_wants_any_more_are_gone(ask):
    told = ask("track --norms", "run -t 3", "track -d norms", "run -t 3", "track")
    assert "Norms are no longer followed." in told
    assert "grad_norm" not in told
