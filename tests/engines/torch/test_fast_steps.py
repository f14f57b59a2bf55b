"""Steps of optimizers that nobody looks into: what is found is what looking into each finds."""

from __future__ import annotations

import gc
import itertools

import pytest
from samples import sample
from stops_kit import Collector, program_file

from tfdbg_cli.common.settings import all_fields
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.torch.engine import TorchEngine
from tfdbg_cli.engines.torch.record import fast_steps
from tfdbg_cli.filters.builtin import has_inf_or_nan
from tfdbg_cli.sessions.wrappers.framework import OnRunEndResponse

DEFAULTS = {field.name: field.default for field in all_fields()}
LEVELS = ("ops", "values")

PROGRAM = """
import torch
result, kept = [], []
for bad in {bad}:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    opt = torch.optim.{optimizer}
    kept.append((net, opt))  # so that names don't depend on when others go
    weight, group = net[2].weight, opt.param_groups[0]
    for step in range(3):
        loss = net(torch.randn(2, 5)).square().mean()
        opt.zero_grad()
        loss.backward()
        state = opt.state[weight]
        if step == 1:
            with torch.no_grad():
                exec(bad)
        try:
            opt.step()
        except RuntimeError as error:
            print(error)
            break
    result += [each.detach().clone() for each in net.parameters()]
    result += [each.clone() for state in opt.state.values() for each in state.values()]
"""

OPTIMIZERS = {
    "SGD(net.parameters(), 0.1, momentum=0.9, dampening=1.0)": ("momentum_buffer",),
    "SGD(net.parameters(), 0.1, momentum=0.9, nesterov=True, weight_decay=0.1)": (
        "momentum_buffer",
    ),
    "SGD(net.parameters(), 0.0, maximize=True)": (),
    "Adam(net.parameters(), 0.0)": ("exp_avg", "exp_avg_sq", "step"),
    "Adam(net.parameters(), weight_decay=0.1, betas=(0.0, 0.0), eps=0.0)": (
        "exp_avg",
        "exp_avg_sq",
        "step",
    ),
    "Adam(net.parameters(), amsgrad=True)": ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"),
    "AdamW(net.parameters(), maximize=True)": ("exp_avg", "exp_avg_sq", "step"),
}
# Most of it comes about in ways that no op of the run before the step knows of.
BAD = (
    "weight.grad.numpy()[0, 0] = {}",
    "weight.numpy()[0, 0] = {}",
    "weight.numpy()[:] *= 3e38",
    "weight.grad[0, 0] = {}",
    "weight.grad.mul_(1e20)",
    "weight.grad.mul_(1e38)",
    "group['lr'] = 1e39",
    "group['lr'] = 1e38",
    "group['weight_decay'] = 1e38",
    "pass",
)
STATE_BAD = "state['{}'].numpy().flat[0] = {}"
NUMBERS = ("float('nan')", "-float('inf')")


def cases(states):
    for text in BAD:
        yield from dict.fromkeys(text.format(number) for number in NUMBERS)
    for name in states:
        yield from (STATE_BAD.format(name, f"{sign}float('inf')") for sign in "+-")
    if "exp_avg_sq" in states:
        yield "state['exp_avg_sq'].numpy().flat[0] = -1.0"
        yield "group['betas'] = (0.9, 1.0 - 1e-16)"


class Waiting(Collector):
    """Awaits nan and infinities, and looks at runs without any if it is told to."""

    looks = False

    def expected_watch(self):
        return self.watch["watch"]

    def on_run_end(self, request):
        if request.dump is None and self.looks and request.capture.make_dump is not None:
            request.capture.dump = request.capture.make_dump()
        self.dumps.append(None if request.dump is None else told(request.dump))
        return OnRunEndResponse()


def told(dump):
    """All that a dump says, but for the time of day."""
    dump.settle()
    nodes = {
        name: (node.op_type, node.inputs, node.attributes, (node.frames or ())[-9:])
        for name, node in dump.graph().nodes.items()
    }
    values = [(datum.tensor_name, str(dump.value(datum))) for datum in dump.data()]
    found = [datum.tensor_name for datum in dump.find(has_inf_or_nan)]
    return nodes, values, found, dump.run_info().results, [*dump.warnings]


def runs(path, level, looks=False):
    """What was told of each run of a program, and what that leaves."""
    watch = Watch(filter_name="has_inf_or_nan", predicate=has_inf_or_nan)
    engine = TorchEngine()
    engine.configure({**DEFAULTS, "level": level}.__getitem__)
    session = Waiting(engine.program(), watch=watch)
    session.looks = looks
    undo = engine.install(lambda program: session)
    space = {"__name__": "__main__", "__file__": str(path)}
    try:
        exec(compile(path.read_text(), str(path), "exec"), space)
    finally:
        undo()
        engine.configure(DEFAULTS.__getitem__)
    return session.dumps, left_by(space)


def twice(path, level, monkeypatch, looks=False):
    """The same as it is, and with a look at each op of each step."""
    made = []
    for known in (fast_steps._STATES, {}):
        with monkeypatch.context() as patches:
            patches.setattr(fast_steps, "_STATES", known)
            made.append(runs(path, level, looks))
    return made


def left_by(space):
    """What a program has computed, to the bit."""
    return [str(each.tolist()) for each in space["result"]]


def plainly(path):
    """What it computes without a debugger."""
    exec(path.read_text(), space := {"__name__": "__main__"})
    return left_by(space)


@pytest.fixture
def fast(monkeypatch):
    """Counts steps that were made without a look, and those that were made again."""
    counts = {"fast": 0, "again": 0}
    of, put_back = fast_steps.FastStep.of, fast_steps.FastStep.put_back

    def counted(*arguments):
        found = of(*arguments)
        counts["fast"] += found is not None
        return found

    def back(self):
        counts["again"] += 1
        put_back(self)

    monkeypatch.setattr(fast_steps.FastStep, "of", counted)
    monkeypatch.setattr(fast_steps.FastStep, "put_back", back)
    return counts


@pytest.mark.parametrize(
    ("optimizer", "level"), [*sample(itertools.product(OPTIMIZERS, LEVELS), 7)]
)
def test_what_is_bad_in_a_step_is_found_as_if_each_op_had_been_looked_at(
    optimizer, level, tmp_path, monkeypatch, fast
):
    bad = [*cases(OPTIMIZERS[optimizer])]
    path = program_file(tmp_path, PROGRAM.format(optimizer=optimizer, bad=bad))
    (found, left), (closely, expected) = twice(path, level, monkeypatch)
    assert left == expected == plainly(path)
    assert [each is None for each in found] == [each is None for each in closely]
    for one, other in zip(found, closely, strict=True):
        assert one == other
    assert fast["fast"] > fast["again"] > 2


def test_a_run_without_anything_bad_has_its_step_when_somebody_looks(tmp_path, monkeypatch, fast):
    text = PROGRAM.format(optimizer="Adam(net.parameters())", bad=["pass"])
    path = program_file(tmp_path, text)
    found, expected = twice(path, "values", monkeypatch, looks=True)
    assert fast["fast"] == fast["again"] > 0
    assert found == expected
    assert any("addcdiv_" in name for name in found[0][-1][0])


@pytest.mark.parametrize(
    "optimizer",
    [
        "Adam(net.parameters(), foreach=True)",
        "Adam(net.parameters(), lr=torch.tensor(0.1))",
        "RMSprop(net.parameters())",
    ],
)
def test_other_steps_are_looked_into(optimizer, tmp_path, fast):
    path = program_file(tmp_path, PROGRAM.format(optimizer=optimizer, bad=["pass"]))
    runs(path, "ops")
    assert not fast["fast"]


MODE = """
from torch.utils._python_dispatch import TorchDispatchMode
seen = []
class Seen(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        seen.append(func)
        return func(*args, **(kwargs or {}))
"""


def test_modes_of_the_program_see_a_step_once(tmp_path, fast):
    text = PROGRAM.format(optimizer="SGD(net.parameters(), 0.1)", bad=["weight[0] = float('nan')"])
    text = text.replace("opt.step()", "with Seen(): opt.step()")
    path = program_file(tmp_path, f"{MODE}{text}result = [torch.tensor(len(seen))]\n")
    _, left = runs(path, "ops")
    assert left == plainly(path) != ["0"]
    assert not fast["fast"]


STOPPING = """
class Stop(Exception):
    pass


class Group(dict):
    def __getitem__(self, key):
        if key == "lr" and step == 1:
            raise Stop
        return super().__getitem__(key)


def update():
    opt.param_groups[0] = Group(opt.param_groups[0])
    try:
        opt.step()
    except Stop:
        pass
"""


def test_what_the_program_raises_in_a_step_is_raised_once(tmp_path, fast):
    text = PROGRAM.format(optimizer="SGD(net.parameters(), 0.1)", bad=["pass"])
    path = program_file(tmp_path, STOPPING + text.replace("opt.step()", "update()"))
    _, left = runs(path, "ops")
    assert fast["fast"] and not fast["again"]
    assert left == plainly(path)


@pytest.mark.parametrize("level", ["ops", "values", "modules"])
def test_a_run_is_let_go_of_before_the_garbage_collector_comes(level, tmp_path):
    path = program_file(tmp_path, PROGRAM.format(optimizer="SGD(net.parameters(), 0.1)", bad=[""]))
    gc.collect()
    gc.disable()
    try:
        runs(path, level)
        gc.set_debug(gc.DEBUG_SAVEALL)  # what only the collector has found is in `garbage`
        gc.collect()
        kinds = {type(each).__module__ for each in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not {kind for kind in kinds if ".torch.record" in kind or ".torch.modules" in kind}
