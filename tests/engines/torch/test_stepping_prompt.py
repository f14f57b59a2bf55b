"""Stepping through the runs of a program that goes on by itself, at a prompt."""

import contextlib

import pytest
import torch
import torch.nn.functional as F
from stepping_kit import state_of
from torch import nn
from torch_kit import Mlp

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.torch.engine import TorchEngine
from tfdbg_cli.filters.builtin import has_inf_or_nan
from tfdbg_cli.sessions.wrappers.framework import (
    BaseDebugWrapperSession,
    OnRunEndResponse,
    OnRunStartAction,
    OnRunStartResponse,
    OnSessionInitAction,
    OnSessionInitResponse,
)
from tfdbg_cli.stepping.walk import Walk


class Wrapper(BaseDebugWrapperSession):
    """Steps through every run with a function."""

    def __init__(self, program, conduct):
        self.conduct = conduct
        self.ends = []
        super().__init__(program)

    def on_session_init(self, request):
        return OnSessionInitResponse(OnSessionInitAction.PROCEED)

    def on_run_start(self, request):
        return OnRunStartResponse(OnRunStartAction.INVOKE_STEPPER)

    def on_run_end(self, request):
        self.ends.append(request)
        return OnRunEndResponse()

    def open_run(self, run):
        opened = super().open_run(run)
        opened.conduct = self.conduct
        return opened


@contextlib.contextmanager
def stepped(conduct):
    """Step through the runs of what is done inside; how they ended."""
    engine = TorchEngine()
    wrapper = Wrapper(engine.program(), conduct)
    undo = engine.install(lambda program: wrapper)
    try:
        yield wrapper.ends
    finally:
        undo()


def program(steps=2):
    torch.manual_seed(11)
    model = Mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(steps):
        x, y = torch.randn(5, 6), torch.arange(5) % 3
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return state_of([losses, model, optimizer, torch.get_rng_state()])


def every_step(stepper):
    while stepper.next is not None:
        stepper.advance()


@pytest.mark.parametrize("count", [0, 1, 15, 1000])
def test_the_program_is_what_it_is_without(count):
    plain = program()
    done = []

    def conduct(stepper):
        while stepper.next is not None and len(done) < count:
            done.append(stepper.advance().step.node)

    with stepped(conduct) as ends:
        assert program() == plain
    assert len(ends) == 2
    nodes = ends[0].dump.graph().nodes
    assert "fc1/addmm" in nodes
    assert any(name.startswith("optimizer/Adam/") for name in nodes)
    assert len(ends[0].dump.data()) == len(ends[1].dump.data()) or count
    assert ends[0].performed_action == OnRunStartAction.INVOKE_STEPPER
    if count:
        assert done[0] == "fc1/t"


def test_values_and_overrides():
    model = nn.Linear(2, 2)
    seen = {}

    def conduct(stepper):
        stepper.override("softmax:0", [[0.5, 0.5]])
        while stepper.next.op_type != "mul":
            stepper.advance()
        seen["softmax"] = stepper.value("softmax:0").tolist()
        seen["names"] = [datum.tensor_name for datum in stepper.dump().data()]
        stepper.advance()
        seen["mul"] = stepper.value("mul:0").tolist()

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            return torch.softmax(self.inner(x), -1) * 4

    with stepped(conduct) as ends, torch.no_grad():
        result = Outer()(torch.ones(1, 2))

    assert result.tolist() == [[2.0, 2.0]]
    assert seen["softmax"] == [[0.5, 0.5]]
    assert seen["mul"] == [[2.0, 2.0]]
    assert "inner/addmm:0" in seen["names"]
    (end,) = ends
    assert any("softmax:0" in warning for warning in end.dump.warnings)


def test_what_is_done_at_the_prompt_is_no_part_of_the_run():
    def conduct(stepper):
        while stepper.next is not None:
            torch.rand(3).exp()
            nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()
            stepper.advance()

    plain = nn.Linear(2, 2)
    with stepped(every_step) as without, torch.no_grad():
        plain(torch.ones(1, 2))
    with stepped(conduct) as ends, torch.no_grad():
        plain(torch.ones(1, 2))
    assert len(ends) == 1
    assert list(ends[0].dump.graph().nodes) == list(without[0].dump.graph().nodes)


def test_the_end_of_the_run_is_seen_at_the_prompt():
    seen = []

    def conduct(stepper):
        every_step(stepper)
        seen.append((stepper.next, stepper.position, len(stepper.dump().data())))
        capture = stepper.finish()
        seen.append(capture.error)

    with stepped(conduct) as ends, torch.no_grad():
        nn.Linear(2, 2)(torch.ones(1, 2))
        nn.Linear(2, 2)(torch.ones(1, 2))
    assert len(ends) == 2
    assert seen[0][0] is None
    assert seen[0][1] > 0
    assert seen[1] is None


def test_finishing_from_the_prompt():
    seen = []

    def conduct(stepper):
        stepper.advance()
        capture = stepper.finish()
        seen.append((stepper.next, len(capture.dump.data())))

    with stepped(conduct) as ends, torch.no_grad():
        nn.Linear(2, 2)(torch.ones(1, 2))
    assert seen == [(None, len(ends[0].dump.data()))]


def test_an_error_is_repaired_or_let_go():
    class Lookup(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(3, 2)

        def forward(self, indices):
            return self.table(indices + 1)

    model = Lookup()
    raised = []

    def conduct(stepper):
        while stepper.next is not None:
            try:
                stepper.advance()
            except IndexError as error:
                raised.append(error)
                if repairs:
                    stepper.override("add:0", [0, 1])
                else:
                    return

    repairs = True
    with stepped(conduct) as ends, torch.no_grad():
        result = model(torch.tensor([0, 2]))
    assert torch.equal(result, model.table.weight[:2])
    assert ends[0].tf_error is None

    repairs = False
    with stepped(conduct) as ends, torch.no_grad(), pytest.raises(IndexError) as seen:
        model(torch.tensor([0, 2]))
    assert seen.value is raised[1]
    assert ends[0].tf_error is raised[1]
    assert ends[0].error.op_name == "table/embedding"


def test_an_error_beside_the_ops_ends_the_run():
    class Broken(nn.Module):
        def forward(self, x):
            y = x + 1
            return torch.cat([y, y], dim=7)

    positions = []

    def conduct(stepper):
        with contextlib.suppress(IndexError):
            every_step(stepper)
        positions.append(stepper.position)

    with stepped(conduct) as ends, torch.no_grad(), pytest.raises(IndexError):
        Broken()(torch.ones(2))
    assert positions == [1]
    assert isinstance(ends[0].tf_error, IndexError)


def test_what_the_run_uses_from_before_it():
    seen = []

    def conduct(stepper):
        every_step(stepper)
        seen.append([name for name in stepper.graph().nodes if "scale" not in name])
        seen.append(stepper.value("mul:0").tolist())

    model = nn.Linear(2, 1)
    engine = TorchEngine()
    wrapper = Wrapper(engine.program(), conduct)
    wrapper.expected_watch = Watch
    undo = engine.install(lambda program: wrapper)
    try:
        with torch.no_grad():
            x = torch.ones(1, 2) * 3
            model(x)
    finally:
        undo()
    assert {"ones", "mul", "t", "addmm"} <= set(seen[0])
    assert seen[1] == [[3.0, 3.0]]
    assert "mul" in wrapper.ends[0].dump.graph().nodes


def test_leaving_the_program_from_the_prompt():
    said = []

    def conduct(stepper):
        stepper.advance()
        raise SystemExit(3)

    def run():
        try:
            nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()
            said.append("never")
        finally:
            said.append("finally")

    with stepped(conduct), pytest.raises(SystemExit) as left:
        run()
    assert left.value.code == 3
    assert said == ["finally"]


def test_a_failure_of_ours_leaves_the_program_alone(capsys):
    def conduct(stepper):
        stepper.advance()
        raise ZeroDivisionError("ours")

    plain = program()
    with stepped(conduct):
        assert program() == plain


def test_leaving_in_the_backward_pass():
    def conduct(stepper):
        while "backward" not in stepper.next.op_type:
            stepper.advance()
        raise SystemExit(4)

    model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def run():
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()

    with stepped(conduct), pytest.raises(SystemExit):
        run()
    # Nothing of it stays.
    plain = torch.ones(2, requires_grad=True)
    plain.exp().sum().backward()
    assert torch.allclose(plain.grad, torch.ones(2).exp())


def test_a_call_is_stepped_through_while_runs_are_debugged():
    engine = TorchEngine()
    wrapper = Wrapper(engine.program(), lambda stepper: None)
    undo = engine.install(lambda program: wrapper)
    model = nn.Linear(2, 2)
    try:
        with torch.no_grad():
            model(torch.ones(1, 2))
            stepper = engine.call_stepper(model, (torch.ones(1, 2),), {})
            names = []
            while stepper.next is not None:
                names.append(stepper.advance().step.node)
                if stepper.next is not None:
                    model(torch.ones(1, 2))  # by the one who steps: no run
            capture = stepper.finish()
            assert len(wrapper.ends) == 1
            model(torch.ones(1, 2))
        assert len(wrapper.ends) == 2
        assert names == ["t", "addmm"]
        assert torch.equal(capture.value, model(torch.ones(1, 2)))
        assert capture.dump.run_info().kind == "block"
    finally:
        undo()


def test_a_call_is_stepped_through_inside_of_a_debugged_run():
    engine = TorchEngine()
    wrapper = Wrapper(engine.program(), lambda stepper: None)
    inner = nn.Linear(2, 2)
    found = []

    class Outer(nn.Module):
        def forward(self, x):
            before = torch.exp(x)
            stepper = engine.call_stepper(inner, (before,), {})
            every_step(stepper)
            found.append(stepper.finish())
            return torch.log(found[-1].value.abs())

    undo = engine.install(lambda program: wrapper)
    try:
        with torch.no_grad():
            Outer()(torch.ones(1, 2))
        types = {node.op_type for node in wrapper.ends[0].dump.graph().nodes.values()}
        assert {"exp", "abs", "log"} <= types
        assert "addmm" not in types
        assert "addmm" in {node.op_type for node in found[0].dump.graph().nodes.values()}
    finally:
        undo()


def test_nothing_is_undone_inside_of_a_transform():
    said = []

    def conduct(stepper):
        every_step(stepper)
        with pytest.raises(UserError) as refused:
            stepper.back()
        said.append(str(refused.value))

    model = nn.Linear(4, 1)
    x = torch.ones(4)
    plain = torch.func.grad(lambda each: model(each).sum())(x)
    with stepped(conduct):
        found = torch.func.grad(lambda each: model(each).sum())(x)
    assert torch.equal(found, plain)
    assert "inside of a transform of torch.func" in said[0]


def test_a_breakpoint_on_a_filter_stops_before_what_would_read_the_result():
    halts = []

    def conduct(stepper):
        walk = Walk(stepper)
        walk.breakpoints.add("", "has_inf_or_nan", has_inf_or_nan)
        while walk.next is not None:
            halts.append(walk.go())

    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    with torch.no_grad():
        model[0].weight.fill_(float("inf"))
        with stepped(conduct):
            model(torch.ones(3, 2))
    said = [halt.why for halt in halts]
    assert any("0/addmm:0 passes has_inf_or_nan, and 1/relu is about to read it" in s for s in said)
