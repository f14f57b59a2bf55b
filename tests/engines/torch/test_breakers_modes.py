"""Modes, settings and tracers of the program's own: they see and do what they would alone."""

import pytest
from breakers_kit import EVERY_RUN, Both, nodes

MODES = """
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

class Log(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))

class ApiLog(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.names.append(func.__name__)
        return func(*args, **(kwargs or {}))

def tell_stacks():
    count = torch._C._len_torch_dispatch_stack()
    found = [torch._C._get_dispatch_stack_at(index) for index in range(count)]
    tell([type(mode).__name__ for mode in found if isinstance(mode, Log)])
"""


@pytest.mark.parametrize("kind", ["Log", "ApiLog"])
def test_modes_across_the_boundaries_of_runs(both: Both, kind: str) -> None:
    """Around all runs, inside of one, from before one into it, and from one into the next."""
    out = both(
        f"""{MODES}
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
modes = [{kind}() for _ in range(5)]

def step(x, enter=None, leave=None):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    if leave is not None:
        leave.__exit__(None, None, None)
    if enter is not None:
        enter.__enter__()
    loss.backward()
    optimizer.step()

with modes[0]:
    step(torch.randn(3, 4))
    step(torch.randn(3, 4))
    tell_stacks()
with modes[1]:
    loss = model(torch.randn(3, 4)).sum()
loss.backward()
optimizer.step()
modes[2].__enter__()
step(torch.randn(3, 4), leave=modes[2])
step(torch.randn(3, 4), enter=modes[3])
step(torch.randn(3, 4), leave=modes[3])
with modes[4], torch.no_grad():
    model(torch.randn(3, 4))
    tell_stacks()
tell_stacks()
for mode in modes:
    tell(len(mode.names), mode.names)
tell(digest(model))
"""
    )
    assert out.count("run-end") == 7
    full = {"first/addmm", "gradients/first/addmm_grad/mm", "optimizer/SGD/first.weight/add_"}
    assert all(full <= set(nodes(out, number)) for number in range(6))


def test_counters_and_recorders_of_pytorch(both: Both) -> None:
    both(
        f"""{MODES}
from torch.utils._debug_mode import DebugMode

model = Net()
with FlopCounterMode(display=False) as flops:
    train(model, 2)
tell(flops.get_total_flops(), {{str(k): v for k, v in flops.get_flop_counts()["Net"].items()}})
with DebugMode() as debug:
    train(model, 1)
tell(debug.debug_string().count("aten::"), debug.debug_string()[:400])
tell(digest(model))
"""
    )


def test_the_profiler_of_pytorch(both: Both) -> None:
    """It counts an op once more where a mode passes it on, as it does with any mode."""
    path = both.write(
        """
        model = Net()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            train(model, 2)
        tell(digest(model))
        found = {each.key: each.count for each in profile.key_averages()}
        print("addmm", found["aten::addmm"])
        """
    )
    alone = both.alone(path)
    for commands, count in ((EVERY_RUN, 8), (("run -t 1000",), 4)):
        done = both.debugged(path, *commands)
        assert alone.out.splitlines()[0] in done.out.splitlines()
        assert f"addmm {count}" in done.out.splitlines()


def test_devices_and_element_types_by_default(both: Both) -> None:
    out = both(
        """
        with torch.device("meta"):
            empty = Net()
            tell(empty.first.weight.device, empty(torch.ones(2, 4)).shape)
        model = Net()
        torch.set_default_dtype(torch.float64)
        tell(train(Net(), 1).dtype)
        torch.set_default_dtype(torch.float32)
        torch.set_default_device("cpu")
        train(model, 1)
        torch.set_default_device(None)
        torch.use_deterministic_algorithms(True)
        train(model, 1)
        tell(digest(model), torch.empty(3).isnan().all().item())
        """
    )
    assert out.count("run-end") == 4


def test_anomaly_mode(both: Both) -> None:
    path = both.write(
        """
        import warnings

        warnings.simplefilter("error", DeprecationWarning)
        model = Net()
        with torch.autograd.set_detect_anomaly(True):
            train(model, 2)
        tell(digest(model))
        with torch.autograd.set_detect_anomaly(True):
            try:
                (model(torch.ones(2, 4)) * 0).sqrt().sum().backward()
            except RuntimeError as error:
                tell(str(error))
        """
    )
    alone, done = both.alone(path), both.debugged(path, *EVERY_RUN)
    assert done.status == 0
    assert done.out.count("returned nan values in its 0th output") >= 1
    told = [line for line in alone.out.splitlines() if line.startswith("program:")]
    assert set(told) <= set(done.out.splitlines())


def test_trace_functions_and_coverage_tools(both: Both) -> None:
    both(
        """
        import faulthandler
        import threading

        faulthandler.enable()
        seen = {"line": 0, "call": 0}
        own = __file__

        def trace(frame, event, argument):
            if frame.f_code.co_filename != own:
                return None
            seen[event] = seen.get(event, 0) + 1
            return trace

        model = Net()
        def step():
            loss = train(model, 1)
            return loss

        sys.settrace(trace)
        for _ in range(3):
            step()
        found = sys.gettrace() is trace
        sys.settrace(None)
        tell(found, seen, digest(model))

        calls = []
        def profile(frame, event, argument):
            if frame.f_code.co_filename == own:
                calls.append((event, frame.f_code.co_name))
        sys.setprofile(profile)
        step()
        sys.setprofile(None)
        tell(calls, faulthandler.is_enabled())
        """
    )


def test_warnings_of_the_program_stay_as_they_are(both: Both) -> None:
    both(
        """
        import warnings

        class Loud(Net):
            def forward(self, x):
                warnings.warn("as ever")
                return super().forward(x)

        model = Loud()
        train(model)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            train(model)
        tell(len(caught), [str(each.message) for each in caught])
        warnings.simplefilter("error")
        try:
            train(model)
        except UserWarning as error:
            tell("raised", error)
        """
    )


def test_tracing_exporting_and_scripting(both: Both) -> None:
    """While the debugger waits, and inside of a run that is recorded."""
    out = both(
        """
        import io, warnings
        model = Net()

        def work():
            x = torch.ones(2, 4)
            graph = torch.fx.symbolic_trace(model)
            tell([node.name for node in graph.graph.nodes])
            program = torch.export.export(model, (x,))
            tell([node.name for node in program.graph.nodes])
            tell(torch.equal(program.module()(x), graph(x)))
            traced = torch.jit.trace(model, (x,))
            scripted = torch.jit.script(model)
            tell(str(traced.inlined_graph).count("aten::linear"), digest(traced(x).detach()))
            tell(digest(scripted(x).detach()))
            # Of convolutions a trace has what is below the op, which a mode would hide.
            images = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2)).eval()
            traced = torch.jit.trace(images, torch.ones(1, 1, 4, 4))
            tell(sorted(node.kind() for node in traced.inlined_graph.nodes()))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                given = torch.ones(1, 1, 4, 4)
                torch.onnx.export(images, (given,), file := io.BytesIO(), dynamo=False)
            tell(file.getvalue().count(b"Conv"))
            found = torch.func.functional_call(model, dict(model.named_parameters()), (x,))
            tell(digest(found.detach()))
            compiled = torch.compile(model, backend="eager")
            tell(digest(compiled(x).detach()))
            try:
                torch._dynamo.explain(model)(x)
            except RuntimeError as error:
                tell("error", type(error).__name__)

        import contextlib, io
        with torch.no_grad():
            work()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(2):
            loss = model(torch.ones(3, 4)).sum()
            work()
            loss.backward()
            optimizer.step()
        train(model, 1)
        tell(digest(model))
        """
    )
    assert "Warning: An op could not be recorded" not in out
    last = nodes(out, out.count("--- lt ---") - 1)
    assert any(name.endswith("first/addmm_grad/mm") for name in last)


def test_subclasses_see_what_the_program_asks_of_them(both: Both) -> None:
    """Nothing is asked of what a model hands out, or of what a backward pass begins with."""
    out = both(
        """
class Named(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})

calls = []
model = Net()
for _ in range(2):
    model(torch.randn(3, 4).as_subclass(Named)).sum().backward()
tell(calls, digest(model))
"""
    )
    assert "run-end" in out


@pytest.mark.parametrize("wraps", ["lambda f: f", "functools.wraps(kept)"])
def test_replaced_functions_keep_their_defaults(both: Both, wraps: str) -> None:
    """PyTorch hands itself over without some of its arguments."""
    out = both(
        f"""
import functools

kept = torch.autograd.backward

@{wraps}
def backward(*args, **kwargs):
    tell("called", len(args), sorted(kwargs))
    return kept(*args, **kwargs)

torch.autograd.backward = backward
model = Net()
for _ in range(2):
    out = model(torch.ones(3, 4))
    torch.autograd.backward([out.sum(), out], [None, torch.ones(3, 2)])
tell(digest(model.first.weight.grad, model.second.bias.grad))
"""
    )
    assert "run-end" in out
