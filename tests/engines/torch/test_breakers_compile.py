"""``torch.compile``: debugged runs go op by op, all others use the compiled code as ever."""

import subprocess
import sys

import pytest
from breakers_kit import EVERY_RUN, Both, nodes
from program_server import environment
from samples import night

WAYS = {
    "module": "compiled = torch.compile(model, backend='eager', fullgraph=True)",
    "method": "model.compile(backend='aot_eager', fullgraph=True)\ncompiled = model",
    "function": "compiled = torch.compile(lambda x: model(x), backend='aot_eager', fullgraph=True)",
    "dynamic": "compiled = torch.compile(model, backend='eager', fullgraph=True)\ngrowth = 3",
    "breaks": """
def broken(x):
    hidden = model(x)
    torch._dynamo.graph_break()
    return hidden * 2

compiled = torch.compile(broken, backend='eager')
""",
    "hooks": """
model.first.register_forward_hook(lambda module, arguments, output: output * 2)
model.register_forward_hook(lambda module, arguments, output: output + 1)
compiled = torch.compile(model, backend='eager', fullgraph=True)
""",
    "optimizer": """
compiled = model
torch.optim.SGD.step = torch.compile(torch.optim.SGD.step, backend='eager')
""",
}

# Each way to compile, with five training runs; what the compiler has done is told as well.
WAY = """
torch._dynamo.reset()
counters.clear()
model = Net()
growth = 0
{code}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for index in range(5):
    optimizer.zero_grad()
    loss = compiled(torch.randn(4 + index % 2 * growth, 4)).square().mean()
    loss.backward()
    optimizer.step()
tell({way!r}, "loss", loss.item(), digest(model))
stats = counters["stats"]
breaks = sum(counters["graph_break"].values())
tell("graphs", stats["unique_graphs"], "ops", stats["calls_captured"], "breaks", breaks)
tell("frames", dict(counters["frames"]))
"""


def program(*ways: str) -> str:
    parts = [WAY.format(way=way, code=WAYS[way]) for way in ways]
    return "\n".join(["from torch._dynamo.utils import counters", *parts])


@night
def test_runs_that_nobody_looks_at_are_compiled_as_ever(both: Both) -> None:
    path = both.write(program(*WAYS))
    both.compare(path, "run -t 1000")
    both.compare(path, "run -n", "run -n", "run -t 1000")


def test_a_debugged_run_leaves_nothing_behind_for_the_compiler(both: Both) -> None:
    """The last run of each way is debugged; the compiler has done its work before."""
    out = both.compare(both.write(program(*WAYS)), *("run -t 5", "lt") * len(WAYS))
    for number, way in enumerate(WAYS):
        seen = set(nodes(out, number))
        assert {"mean", "gradients/ones_like"} <= seen or way in ("function", "breaks")
        if way in ("module", "method", "dynamic", "hooks"):
            scope = "compiled." if "compiled.first/addmm" in seen else ""
            assert {f"{scope}first/addmm", f"{scope}second/addmm"} <= seen
            assert f"gradients/{scope}first/addmm_grad/mm" in seen
    assert out.count("Warning: Compiled code ran op by op") == len(WAYS)


def test_a_first_run_that_is_debugged_does_not_keep_the_others_from_being_compiled(
    both: Both,
) -> None:
    ways = [way for way in WAYS if way != "dynamic"]
    both.compare(both.write(program(*ways)), "run", *["run -t 5"] * (len(ways) - 1))


def test_debugged_runs_compile_nothing(both: Both) -> None:
    path = both.write(program("module"))
    alone, done = both.alone(path), both.debugged(path, *EVERY_RUN)
    own = [line for line in done.out.splitlines() if line.startswith("program:")]
    assert own[0] == alone.out.splitlines()[0]
    assert own[1] == "program: graphs 0 ops 0 breaks 0"
    assert nodes(done.out, 3)[1:] == nodes(done.out, 4)[1:]


def test_it_is_said_once_and_only_of_runs_with_compiled_code(both: Both) -> None:
    out = both(
        """
        model = Net()
        compiled = torch.compile(Net(), backend="eager")
        with torch.no_grad():
            for each in (model, compiled, model):
                tell(digest(each(torch.ones(2, 4))))
        """
    )
    parts = out.split("--- lt ---")[1:]
    assert [part.count("op by op") for part in parts] == [0, 1, 0]


def test_compiled_code_as_it_is(both: Both) -> None:
    path = both.write(program("method", "breaks"))
    out = both.compare(path, "config set compiled opaque", *EVERY_RUN)
    assert "Warning: Compiled" not in out
    assert {"addmm", "tanh", "addmm_1"} <= set(nodes(out))
    assert "gradients/CompiledFunctionBackward/mm" in nodes(out)


def test_a_stance_of_the_program_outlives_the_run_in_which_it_begins(both: Both) -> None:
    both(
        """
model = Net()
compiled = torch.compile(model, backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
stances = [torch.compiler.set_stance("force_eager") for _ in range(2)]
for index in range(4):
    optimizer.zero_grad()
    loss = compiled(torch.ones(4, 4)).sum()
    if index < 2:
        stances[index].__enter__()
    loss.backward()
    optimizer.step()
    stances[index % 2].__exit__(None, None, None) if index in (2, 3) else None
compiled(torch.ones(4, 4)).sum()
tell(torch._dynamo.eval_frame._stance.stance, digest(model))
""",
        "run",
        "run",
    )


def test_runs_that_begin_inside_of_compiled_code(both: Both) -> None:
    out = both(
        """
torch._logging.set_logs(all=40)  # of what could not be compiled
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

@torch.compile(backend="eager")
def step(x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss

for _ in range(4):
    loss = step(torch.randn(6, 4))
tell(loss.item(), digest(model))
""",
        *("run", "lt") * 4,
    )
    assert {"first/addmm", "gradients/first/addmm_grad/mm"} <= set(nodes(out, 1))


@night
def test_kernels_of_inductor(both: Both) -> None:
    """Fused kernels round otherwise than the ops that they consist of."""
    path = both.write(
        """
        class Waves(nn.Module):
            def forward(self, x):
                return (torch.sin(x) * 3 + x).exp()

        compiled = torch.compile(Waves())
        with torch.no_grad():
            for _ in range(3):
                y = compiled(torch.linspace(0, 1, 64))
        tell(digest(y))
        print("sum", y.sum().item())
        """
    )
    out = both.compare(path, "config set compiled opaque", *EVERY_RUN)
    assert "exp" not in " ".join(nodes(out, 1))
    alone, done = both.alone(path), both.debugged(path, *EVERY_RUN)
    assert "exp" in " ".join(nodes(done.out, 1))
    total, other = (float(each.out.rpartition("sum ")[2].split()[0]) for each in (alone, done))
    assert total == pytest.approx(other, rel=1e-5)


def test_a_compiler_that_is_imported_by_the_program(both: Both) -> None:
    path = both.write(
        """
        assert "torch._dynamo" not in sys.modules
        model = Net().eval()
        with torch.no_grad():
            tell(digest(model(torch.ones(2, 4))))
            compiled = torch.compile(model, backend="eager", fullgraph=True)
            for _ in range(3):
                tell(digest(compiled(torch.ones(2, 4))))
        """
    )
    done = subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", "--batch", "-c", "run", "-c", "run", "-c", "run", path],
        capture_output=True,
        text=True,
        check=False,
        env=environment(path.parent),
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("program:") == 4
    assert done.stdout.count("run-end") == 3
