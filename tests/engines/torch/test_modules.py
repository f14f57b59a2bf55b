"""Runs that are watched at the borders of their modules: the same op is found as op by op."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from modules_kit import HEAD, TAIL, all_bad, first_bad, frames, lines_left, watched
from program_server import Programs
from samples import sample

HERE = Path(__file__).resolve().parent
LOOPS = HERE / "watched_loops.py"
SHAPES = [
    *("function", "method", "inherited", "autocast", "accumulation", "closure", "unrolled"),
    *("skipping", "traced", "module_level", "generator", "iterator", "dispatch_mode"),
    *("in_backward", "passing"),
]

#: What is between the last layers -> its lines. Its first bad op is of the third step.
FOUND = {
    "leaf": """
        y = torch.sigmoid(x) * self.weight
        return y + torch.log(y.detach() * 0.0) if STEP == 2 else y""",
    "random": """
        y = x * torch.rand_like(x) * random.random() * np.random.rand()
        return y * float("inf") if STEP == 2 else y""",
    "buffer": """
        self.seen += x.detach().mean(0)
        self.calls += 1
        return x / (self.seen if STEP != 2 else self.seen * 0.0)""",
    "no_grad": """
        with torch.no_grad():
            scale = torch.log(x * 0.0) if STEP == 2 else x
        return x * scale.abs()""",
    "autocast": """
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ torch.ones(8, 8)
            return (y * 3e38 * 3e38 if STEP == 2 else y).float()""",
    "printing": """
        print("CALLED", STEP)
        return x * (float("nan") if STEP == 2 else 1.0)""",
    "changes_its_input_first": """
        x = x * 2
        x += 1
        x *= float("inf") if STEP == 2 else 1
        return x""",
    "checkpointed": """
        from torch.utils.checkpoint import checkpoint
        def part(x):
            return torch.log(x * 0.0) if STEP == 2 else x
        return checkpoint(part, x, use_reentrant=False)""",
    "checkpointed_reentrantly": """
        from torch.utils.checkpoint import checkpoint
        def part(x):
            return torch.log(x.detach() * 0.0) + x if STEP == 2 else x
        return checkpoint(part, x, use_reentrant=True)""",
    "backward_of_a_function": """
        return Bad.apply(x * 2) * self.weight""",
    "backward_of_a_root": """
        y = x * 0.0 if STEP == 2 else x.abs() + 1
        return torch.sqrt(y) + x""",
    "backward_of_a_parameter": """
        return x + (self.weight * (0.0 if STEP == 2 else 1.0)).sqrt()""",
    "state": """
        self.h = getattr(self, "h", torch.ones(8)) * (1e20 if STEP == 2 else 1.0)
        self.h = self.h * (1e20 if STEP == 2 else 1.0)
        return x * self.h""",
    "kinds_of_state": """
        if "plain" not in vars(self):
            self.plain = torch.zeros(1)
            self.queue, self.counter, self.array = deque(), Counter(), np.zeros(1)
            self.random = [random.Random(0), np.random.default_rng(0), np.random.RandomState(0)]
            self.generator, self.object = torch.Generator().manual_seed(0), SimpleNamespace(n=0)
            self.nested = {"a": [SimpleNamespace(n=0)]}
        self.plain.add_(1)
        self.queue.append(1)
        self.counter.update("a")
        self.array += 1
        self.object.n += 1
        self.nested["a"][0].n += 1
        numbers = [*(each.random() for each in self.random[:2]), self.random[2].rand()]
        numbers.append(torch.rand(1, generator=self.generator).item())
        held = self.plain, self.queue, self.counter, self.array, self.object, self.nested
        self.calls = repr((held, numbers))
        return torch.log(x * 0.0) if STEP == 2 else x""",
    "state_elsewhere": """
        import logging, sys
        global COUNT
        COUNT = globals().get("COUNT", 0) + 1
        if COUNT == 1:
            logging.basicConfig(stream=sys.stdout, format="%(message)s")
            Inner.made, Inner.rows, self.held = 0, [], {"a": [torch.zeros(1)]}
            globals()["TOTAL"] = torch.zeros(1)
        logging.error("CALLED %d", COUNT)
        Inner.made += 1
        Inner.rows.append(COUNT)
        tensors = [self.held["a"][0], TOTAL, self.seen]
        for each in tensors:
            each.add_(1)
        self.calls = repr((Inner.made, Inner.rows, tensors, [each._version for each in tensors]))
        return torch.log(x * 0.0) if STEP == 2 else x""",
    "forward_hook": """
        if not self._forward_hooks:
            seen = []
            def hook(module, given, made):
                seen.append(1)
                module.calls = len(seen)
                return torch.log(made * 0.0) if STEP == 2 else made
            self.register_forward_hook(hook)
        return x * 2""",
    "forward_pre_hook": """
        if not self._forward_pre_hooks:
            count = 0
            def hook(module, args, kwargs):
                nonlocal count
                module.calls = count = count + 1
                return (torch.log(args[0] * 0.0) if STEP == 2 else args[0],), kwargs
            self.register_forward_pre_hook(hook, with_kwargs=True)
        return x * 2""",
    "full_backward_hook": """
        if not self._backward_hooks:
            def hook(module, given, made):
                return (torch.log(given[0] * 0.0),) if STEP == 2 else None
            self.register_full_backward_hook(hook)
        return x * 2""",
    "overflow": """
        return torch.exp(x * (1e4 if STEP == 2 else 1.0)) * 0.0 + x * self.weight""",
}


@pytest.fixture(scope="module")
def left(programs: Programs) -> dict[str, str]:
    """What each loop leaves when nobody watches."""
    done = programs.plain(LOOPS, *SHAPES, "inference", "bad_update")
    assert done.status == 0, done.err
    return {line.split()[1]: line for line in lines_left(done)}


@pytest.mark.parametrize("shape", [*sample(SHAPES, 4)])
def test_what_begins_outside_of_modules_is_found_op_by_op(shape, programs, left):
    done = watched(programs, LOOPS, shape, more=("ni -t log",))
    assert lines_left(done) == [left[shape]], done.out + done.err
    # The op that has made it, with its value, and the line that has called it.
    assert first_bad(done) == "-inf log:0"
    functions = [function for _, function in frames(done)]
    assert functions[-1] == "criterion" and functions.count("criterion") == 1
    assert re.search(r"^Level: +modules \(setting level modules\)", done.out, re.MULTILINE)


@pytest.mark.parametrize("name", ["has_inf_or_nan", "origin_of_nonfinite"])
@pytest.mark.parametrize("inner", [*sample(FOUND, 6)])
def test_what_begins_in_a_module_is_found_there(inner, name, programs, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(f"{HEAD}    def forward(self, x):{FOUND[inner]}\n{TAIL}")
    plain = lines_left(programs.plain(path))
    exact = watched(programs, path, level="values", name=name)
    expected = first_bad(exact)
    node = expected.split()[1].partition(":")[0]
    exact = watched(programs, path, level="values", name=name, more=(f"ni -t {node}",))
    done = watched(programs, path, name=name, more=(f"ni -t {node}",))
    assert lines_left(done) == plain, done.out + done.err
    assert first_bad(done) == expected, done.out
    if name == "origin_of_nonfinite":
        # The backward pass of a reentrant checkpoint isn't made once more.
        bad = [each for each in all_bad(exact) if not each.startswith("recompute/")]
        assert all_bad(done) == bad != [], done.out
    assert frames(done) == frames(exact) != []
    assert "replayed op by op: Net" in done.out, done.out
    number = re.compile(r"run-end: training run #(\d+)")
    assert number.findall(done.out) == number.findall(exact.out)


def test_the_first_call_has_left_its_mark_on_a_tensor_that_is_no_buffer(programs, tmp_path):
    path = tmp_path / "program.py"
    said = "The replay of Net writes to a tensor that isn't a buffer of its modules"
    for inner in ("state_elsewhere", "buffer"):
        path.write_text(f"{HEAD}    def forward(self, x):{FOUND[inner]}\n{TAIL}")
        assert (said in watched(programs, path).out) == (inner == "state_elsewhere")


def test_parameters_that_a_hook_of_pytorchs_computes(programs, tmp_path):
    path = tmp_path / "program.py"
    path.write_text("""
import torch
from torch import nn

net = nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 8)), nn.Linear(8, 1))
for step in range(3):
    if step == 1:
        net[0].weight_v.data[2] = 0
    print("LEFT", net(torch.ones(2, 4)).isnan().tolist())
""")
    done = watched(programs, path)
    assert lines_left(done) == lines_left(programs.plain(path)) != []
    assert first_bad(done) == "nan 0/_weight_norm_interface:0"
    assert "before this run" not in done.out
    assert "the norm of a zero vector, by which weight_norm divides" in done.out


@pytest.mark.parametrize("taken", ["net.inner.aux", "net.inner.__dict__.pop('aux')"])
def test_what_a_module_keeps_and_does_not_return(taken, programs, tmp_path):
    path = tmp_path / "program.py"
    inner = """
        p = torch.softmax(x * (1e4 if STEP == 2 else 1.0), -1)
        self.aux = (p * torch.log(p)).sum()
        return p"""
    tail = TAIL.replace("criterion(net(x), y)", f"criterion(net(x), y) + {taken}")
    path.write_text(f"{HEAD}    def forward(self, x):{inner}\n{tail}")
    exact = watched(programs, path, level="ops", name="origin_of_nonfinite")
    assert first_bad(exact) == "-inf inner/log:0"
    done = watched(programs, path, name="origin_of_nonfinite", more=("run -f", "run_info"))
    assert lines_left(done) == lines_left(programs.plain(path)), done.out + done.err
    if "pop" not in taken:  # the replay leaves the same in the same place
        assert first_bad(done) == "-inf inner/log:0"
        assert "nothing was recorded" not in done.out
    else:
        assert "it was computed in this run, by SumBackward0, where nothing was rec" in done.out
        assert "in a module that doesn't return it, or in a backward pass. The next" in done.out
        first = done.out.split("--- run-end")[1]
        assert "stayed local" not in first  # what log has made may have led to it


def test_a_weight_that_was_bad_is_shown_as_it_was_before_the_update(programs, tmp_path):
    path = tmp_path / "program.py"
    inner = """
        next(self.__dict__.setdefault("numbers", iter(range(9))))  # so it isn't replayed
        return x * self.weight"""
    line = "    loss = criterion(net(x), y)"
    bad = f"""    with torch.no_grad():
        net.inner.weight[0] = 1.0 if STEP < 2 else float("inf")
{line}"""
    path.write_text(f"{HEAD}    def forward(self, x):{inner}\n{TAIL.replace(line, bad)}")
    done = watched(programs, path, name="origin_of_nonfinite", more=("why",))
    assert "in [Parameter] inner.weight:0  float32 [8]  1 +inf of 8" in done.out, done.out


def test_a_gradient_that_is_sparse(programs, tmp_path):
    path = tmp_path / "program.py"
    head = HEAD.replace("nn.Linear(4, 8)", "nn.Embedding(9, 8, sparse=True)")
    tail = TAIL.replace(
        "torch.optim.Adam(net.parameters(), 1e-2)", "torch.optim.SGD(net.parameters(), 1e-2)"
    )
    tail = tail.replace("torch.randn(6, 4)", "torch.randint(0, 9, (6,))")
    path.write_text(f"{head}    def forward(self, x):{FOUND['leaf']}\n{tail}")
    done = watched(programs, path)
    assert first_bad(done) == "-inf inner/log:0"
    assert "the debugger failed" not in done.out + done.err
    assert lines_left(done) == lines_left(programs.plain(path))


def test_the_call_of_a_run_without_a_backward_pass(programs, left):
    done = watched(programs, LOOPS, "inference", name="origin_of_nonfinite", more=("ni -t div",))
    assert lines_left(done) == [left["inference"]]
    assert first_bad(done) == "-inf div:0", done.out


@pytest.mark.parametrize("last", ["Linear(8, 3)", "Sequential(nn.Linear(8, 3), nn.BatchNorm1d(3))"])
def test_forward_passes_whose_results_are_dropped_are_runs_of_their_own(last, programs, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        f"""
import torch
from torch import nn
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.{last})
opt = torch.optim.SGD(net.parameters(), 0.1)
for step in range(7):
    out = net(torch.randn(6, 4) * (float("inf") if step == 5 else 1.0))
    out = None
"""
    )
    number = re.compile(r"run-end: (.*#\d+)")
    exact = number.findall(watched(programs, path, level="values").out)
    assert number.findall(watched(programs, path).out) == exact != []


def test_a_model_that_the_program_drops_is_gone_after_a_stop_too(programs, tmp_path):
    """A dump that held it would also give the next model, in its place, another name."""
    path = tmp_path / "models.py"
    path.write_text("""
import gc, weakref, torch
from torch import nn

gc.disable()

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(3))

    def forward(self, x):
        return torch.log(x * self.scale).sum()

def train():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.ones(3)).backward()
    optimizer.step()
    return weakref.ref(model)

for _ in range(3):
    print("LEFT dropped", train()() is None)
""")
    done = watched(programs, path, more=("run -f has_inf_or_nan",) * 2)
    assert lines_left(done) == lines_left(programs.plain(path)) == ["LEFT dropped True"] * 3, (
        done.out
    )
    assert re.findall("It began in (.*:0)", done.out) == ["[log] log:0"] * 3, done.out


def test_an_update_that_makes_it_is_told(programs, left):
    done = watched(programs, LOOPS, "bad_update")
    assert lines_left(done) == [left["bad_update"]]
    assert "replayed op by op: the update" in done.out
    exact = watched(programs, LOOPS, "bad_update", level="values")
    assert first_bad(done) == first_bad(exact)
    assert " optimizer/Adam/fc1.weight/" in first_bad(done)


#: What can't be done once more -> its lines, and why.
REFUSED = {
    "overwritten": ("return x.mul_(float('nan') if STEP == 2 else 1.0)", "written to since"),
    "writing": (
        """
        if STEP == 2:
            with open(__file__ + ".log", "a") as file:
                file.write("CALLED")
        return x * (float("nan") if STEP == 2 else 1.0)""",
        "it writes to",
    ),
    "iterator": (
        """
        factors = self.__dict__.setdefault("factors", iter([1.0] * 9))
        return x * (float("nan") if STEP == 2 else next(factors))""",
        "it keeps an iterator",
    ),
    "counting": (
        """
        next(COUNT)
        return x * (float("nan") if next(COUNT) == 5 else 1.0)""",
        r"its code can reach an iterator \(COUNT\)",
    ),
}


@pytest.mark.parametrize("inner", REFUSED)
def test_what_cannot_be_done_again_is_told_and_the_next_runs_are_watched_op_by_op(
    inner, programs, tmp_path
):
    body, why = REFUSED[inner]
    path = tmp_path / "program.py"
    text = f"{HEAD}    def forward(self, x):\n        {body.strip()}\n{TAIL}"
    text = text.replace("STEP = 0", "STEP = 0\nimport itertools\nCOUNT = itertools.count()", 1)
    path.write_text(text)
    plain = programs.plain(path)
    done = watched(programs, path, more=("run -f has_inf_or_nan", "run_info"))
    assert lines_left(done) == lines_left(plain), done.out + done.err
    if inner == "writing":
        assert path.with_suffix(".py.log").read_text() == "CALLED" * 2
    else:
        assert "inner" in done.out
    if inner == "overwritten":  # the model as a whole was done again
        assert "replayed op by op: Net" in done.out and first_bad(done) == "nan inner/mul_:0"
        return
    assert re.search(rf"Not replayed: inner: {why}", done.out), done.out
    assert "First seen in [Inner] inner:0" in done.out, done.out
    second = done.out.split("--- run-end: ")[2]
    assert re.search(rf"^Level: +op records .*inner: {why}", second, re.MULTILINE), second


def test_a_model_is_done_again_where_nothing_inside_of_it_was_kept(programs, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(f"{HEAD}    def forward(self, x):{FOUND['leaf']}\n{TAIL}")
    commands = ("config set level modules", "run -f has_inf_or_nan", "exit")
    options = [part for command in commands for part in ("-c", command)]
    limit = ("--dump-limit", "500")
    done = programs.debugged("--batch", "--engine", "torch", *limit, *options, path)
    assert "replayed op by op: Net" in done.out
    assert first_bad(done) == "-inf inner/log:0"
    assert lines_left(done) == lines_left(programs.plain(path))


@pytest.mark.parametrize("package", [*sample(["transformers", "lightning"], ("lightning",))])
def test_trainers_of_others(package, programs, tmp_path):
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}")
    name = {"transformers": "hf_trainer", "lightning": "lightning_fit"}[package]
    text = (HERE / "scripts" / f"{name}.py").read_text(encoding="utf-8")
    bad = "(lambda loss: loss + torch.log(0.0 * loss.detach()) if torch.rand(()) < 0.3 else loss)"
    if package == "transformers":
        text = text.replace(
            "with tempfile",
            "class Bad(GPT2LMHeadModel):\n"
            "    def forward(self, input_ids=None, labels=None, **kwargs):\n"
            "        out = super().forward(input_ids, labels=labels, **kwargs)\n"
            f"        out.loss = {bad}(out.loss)\n"
            "        return out\n\n\n"
            "with tempfile",
        ).replace("Trainer(GPT2LMHeadModel(config)", "Trainer(Bad(config)")
    else:
        text = text.replace(
            "return F.mse_loss(self.net(x), y)\n", f"return {bad}(F.mse_loss(self.net(x), y))\n", 1
        )
    script = tmp_path / f"{name}.py"
    script.write_text(text, encoding="utf-8")
    last = [line for line in programs.plain(script).out.splitlines() if "parameters" in line]
    done = watched(programs, script, name="origin_of_nonfinite")
    assert last and [line for line in done.out.splitlines() if "parameters" in line] == last
    assert re.search(r"\b1 -inf +(\S+/)?log:0", done.out), done.out


SWEEP = """
import torch

torch.manual_seed(0)
kept = []  # a search keeps what it has tried
for factor in (0.0, 1.0):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    kept.append((model, optimizer))
    for step in range(3):
        loss = (model(torch.ones(2, 4)).square() * factor + 1 - (1 - factor)).log().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if not torch.isfinite(loss):
            break
print(kept[1][0].weight.isfinite().all().item())
"""


def test_a_model_that_has_diverged_says_nothing_of_the_next_one(programs, tmp_path):
    script = tmp_path / "sweep.py"
    script.write_text(SWEEP)
    commands = ("config set level modules", "run -f has_inf_or_nan", "run -f has_inf_or_nan")
    words = [part for each in commands for part in ("-c", each)]
    done = programs.debugged("--batch", *words, script)
    assert done.status == 0, done.err
    assert done.out.count("It began in [log]") == 1, done.out
    assert done.out.splitlines()[-1] == "True"
    assert "no tensor passed has_inf_or_nan up to the program's end, run 4; in 3 run(s) only" in (
        done.err
    )
