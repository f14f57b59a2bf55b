"""What the program puts around its ops: modes of its own, transforms, precisions."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode
from torch_kit import capture

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.torch.record.run_recorder import RunRecorder

FLOPS = 2 * 2 * 2 * 2  # of a product of two matrices of two rows


class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        return func(*args, **(kwargs or {}))


class Calls(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


@pytest.fixture
def a():
    return torch.ones(2, 2)


def modes():
    return torch._C._len_torch_dispatch_stack() + torch._C._len_torch_function_stack()


def test_a_mode_inside(a):
    with capture() as run, FlopCounterMode(display=False) as flops:
        a @ a
    assert flops.get_total_flops() == FLOPS
    assert len(run.of_type("mm")) == 1


def test_a_mode_around(a):
    with FlopCounterMode(display=False) as flops:
        with capture() as run:
            a @ a
        a @ a
    assert flops.get_total_flops() == 2 * FLOPS
    assert len(run.of_type("mm")) == 1


@pytest.mark.parametrize("is_function", [False, True])
def test_recording_that_begins_in_a_mode_and_ends_behind_it(a, is_function):
    recorder = RunRecorder(Watch())
    mode = Calls() if is_function else Log()
    with mode:
        recorder.start()
        a.exp()
    a.exp()
    recorder.stop()
    assert len(mode.seen) == 1
    assert recorder.ops.count == 3  # with the input
    assert modes() == 0


@pytest.mark.parametrize("is_function", [False, True])
def test_recording_that_begins_before_a_mode_and_ends_in_it(a, is_function):
    recorder = RunRecorder(Watch())
    mode = Calls() if is_function else Log()
    recorder.start()
    with mode:
        a.exp()
        recorder.stop()
        a.exp()
    a.exp()
    assert len(mode.seen) == 2
    assert recorder.ops.count == 2
    assert modes() == 0


def test_modes_of_the_program_see_nothing_of_the_recorders_work(a):
    class Sub(torch.Tensor):
        calls = 0

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            Sub.calls += 1
            return super().__torch_function__(func, types, args, kwargs)

    x = a.as_subclass(Sub)
    calls = Calls()
    with capture() as run, calls, Log() as log:
        y = x + 1
        y.mul_(2)
        run.recorder.name_inputs(lambda: {"x": x, "other": torch.ones(1)})
        run.recorder.tensor_name(y)
    assert [name for name in calls.seen if name != "ones"] == ["add", "mul_"]
    assert Sub.calls == 2
    assert log.seen == ["add.Tensor", "mul_.Tensor", "ones.default"]
    assert run.nodes["add"].inputs == ("input/x:0",)


def test_what_the_compiler_is_told_of_modes(a):
    def flags():
        return (
            _python_dispatch._is_in_torch_dispatch_mode,
            _python_dispatch.is_in_torch_dispatch_mode(include_infra_modes=False),
        )

    assert flags() == (False, False)
    recorder = RunRecorder(Watch())
    with Log():
        recorder.start()
    assert flags() == (True, True)
    with Log():
        recorder.stop()
        assert flags() == (True, True)
    assert flags() == (False, False)


def test_the_default_device_is_in_force():
    try:
        torch.set_default_device("meta")
        with capture() as run:
            made = torch.ones(3)
            assert made.is_meta
    finally:
        torch.set_default_device(None)
    assert not run.dump.data()
    assert not run.dump.warnings


def test_tensors_without_data(a):
    with capture() as run:
        with FakeTensorMode():
            fake = torch.randn(3, 3)
            fake @ fake
        torch.ones(3, device="meta") + 1
        a + 1
    assert [datum.tensor_name for datum in run.dump.data()] == ["input/a:0", "add_1:0"]
    assert "mm" not in run.nodes
    assert not run.dump.warnings


def test_tracing_is_not_recorded(a):
    from torch.fx.experimental.proxy_tensor import make_fx

    with capture() as run:
        traced = make_fx(lambda x: x.exp() + 1)(a)
        traced(a)
    assert [node.target.__name__ for node in traced.graph.nodes if node.op == "call_function"] == [
        "exp.default",
        "add.Tensor",
    ]
    assert len(run.of_type("exp")) == 1


def test_without_gradients(a):
    w = torch.ones(2, 2, requires_grad=True)
    with capture() as run:
        with torch.no_grad():
            y = w @ a
            w.mul_(2)
        with torch.inference_mode():
            z = F.linear(a, a)
            z.add_(1)
    assert not y.requires_grad
    assert run.value("input/w:0").tolist() == [[1, 1], [1, 1]]
    assert run.value("mul_:0").tolist() == [[2, 2], [2, 2]]
    assert run.nodes["linear"].inputs == ("input/a:0", "input/a:0")
    assert run.value("linear:0").tolist() == [[2, 2], [2, 2]]
    assert run.value("add_:0").tolist() == [[3, 3], [3, 3]]
    assert not run.dump.warnings


def test_autocast_shows_its_copies(a):
    model = nn.Linear(2, 2)
    with capture() as run, torch.autocast("cpu", dtype=torch.bfloat16):
        model(a)
    assert [node.attributes["T"] for node in run.of_type("_to_copy")] == ["bfloat16"] * 3
    assert run.nodes["addmm"].attributes["T"] == "bfloat16"
    assert run.value("addmm:0").dtype.name == "bfloat16"


def test_transforms_of_functions(a):
    with capture() as run:
        rows = torch.vmap(lambda row: (row * 2).sum())(a)
        gradient = torch.func.grad(lambda x: (x**3).sum())(a)
    assert rows.tolist() == [4, 4]
    assert gradient.tolist() == [[3, 3], [3, 3]]
    assert run.nodes["mul"].attributes["_output_shapes"] == "[[2, 2]]"
    assert run.value("sum:0").tolist() == [4, 4]
    assert run.nodes["gradients/pow_grad/mul_1"].attributes["_forward_node"] == "pow"
    assert run.recorder.tensor_name(gradient) == "gradients/pow_grad/mul_1:0"


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_anomaly_mode(a):
    w = torch.ones(2, 2, requires_grad=True)
    with capture() as run, torch.autograd.detect_anomaly(check_nan=False):
        (w @ a).sum().backward()
    assert "gradients/mm_grad/mm" in run.nodes
