"""Bad steps are run once more under full capture, and the program doesn't notice."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from program_server import Done, Programs

HERE = Path(__file__).resolve().parent
LOOPS = HERE / "guarded_loops.py"
#: Shape of the loop -> the first and the last line that run once more.
AGAIN = {
    "function": ("x = net(x * 0.5)", "update(loss, opt)"),
    "method": ("logits = self.net(x)", "loss.backward()"),
    "inherited": ("loss: torch.Tensor = criterion(", "loss.backward()"),
    "autocast": ("with torch.autocast(", "scaler.scale(loss).backward()"),
    "accumulation": ("loss = criterion(net(x), y, n == 4) / 3", "loss.backward()"),
    "closure": ("loss = criterion(net(x), y, n == 2)", "loss.backward()"),
    "unrolled": ("for x in xs:", "loss.backward()"),
    "skipping": ("logits = net(x)", "loss.backward()"),
    "traced": ("x = net(x * 0.5)", "update(loss, opt)"),
    "module_level": ("logits = net(x)", "loss.backward()"),
}
#: Shape of the loop -> why its lines can't run once more.
REFUSED = {
    "generator": "yield or await",
    "iterator": "calls next()",
    "dispatch_mode": "a dispatch mode of the program",
    "in_backward": "the updates are made during the backward pass",
}


@pytest.fixture(scope="module")
def left(programs: Programs) -> dict[str, str]:
    """What each loop leaves when nobody watches."""
    shapes = [*AGAIN, *REFUSED, "inference", "passing", "bad_update"]
    done = programs.plain(LOOPS, *shapes)
    assert done.status == 0, done.err
    return {line.split()[1]: line for line in lines_left(done)}


def lines_left(done: Done) -> list[str]:
    return [line for line in done.out.splitlines() if line.startswith("LEFT")]


def watched(programs: Programs, *program: str | Path, name: str = "has_inf_or_nan") -> Done:
    """A program under `run -f`, by signals from the first run on, to the first bad run."""
    settings = ["config set guard on", "config set overhead 1"]
    commands = [*settings, f"run -f {name}", "run_info", "ni -t log", "exit"]
    options = [part for command in commands for part in ("-c", command)]
    return programs.debugged("--batch", "--engine", "torch", *options, *program)


def source_lines(path: Path, told: str) -> tuple[str, str]:
    """The text of the first and the last line that ``lines 3-5`` or ``line 3`` names."""
    numbers = [int(number) for number in re.findall(r"\d+", told)]
    text = path.read_text(encoding="utf-8").splitlines()
    return text[numbers[0] - 1].strip(), text[numbers[-1] - 1].strip()


@pytest.mark.parametrize("shape", AGAIN)
def test_the_lines_of_a_bad_step_run_once_more(shape, programs, left):
    done = watched(programs, LOOPS, shape)
    assert lines_left(done) == [left[shape]], done.out + done.err
    told = re.search(
        r"Warning: Signals were bad \(.*\): (lines? [\d-]+) of \S+ ran once more\.", done.out
    )
    assert told is not None, done.out
    first, last = AGAIN[shape]
    path = HERE / "guarded_module.py" if shape == "module_level" else LOOPS
    starts, ends = source_lines(path, told[1])
    assert starts.startswith(first) and ends == last
    assert "not the same again" not in done.out
    # The op that has made it, with its value, and the line that has called it, once.
    assert re.search(r"\b1 -inf +log:0", done.out), done.out
    stack = done.out.partition("Traceback of the call")[2]
    functions = re.findall(r"Function: (\S+)", stack)
    assert functions[-1] == "criterion" and functions.count("criterion") == 1
    assert functions.count("step") <= 1 and functions.count(shape) <= 1
    assert re.search(r"^Level: +signals \(setting overhead 1\)", done.out, re.MULTILINE)


@pytest.mark.parametrize("shape", REFUSED)
def test_what_cannot_run_once_more_is_watched_op_by_op_and_why_is_told(shape, programs, left):
    done = watched(programs, LOOPS, shape)
    assert lines_left(done) == [left[shape]], done.out + done.err
    assert "ran once more" not in done.out
    level = re.search(r"^Level: +op records \(setting overhead 1, no guard: (.*)\)", done.out, re.M)
    assert level is not None, done.out
    assert REFUSED[shape] in level[1]
    assert re.search(r"\b1 -inf +log:0", done.out), done.out


def test_a_call_without_a_backward_pass_is_made_once_more(programs, left):
    done = watched(programs, LOOPS, "inference", name="origin_of_nonfinite")
    assert lines_left(done) == [left["inference"]]
    assert "the call ran once more." in done.out
    assert re.search(r"inf +input/x:0", done.out), done.out


def test_what_does_not_come_again_is_told_from_the_first_time(programs, left):
    done = watched(programs, LOOPS, "passing")
    assert lines_left(done) == [left["passing"]]
    assert "It was not the same again: what was bad at first is in signals/." in done.out
    assert re.search(r"1 -inf +signals/loss:0", done.out), done.out


def test_an_update_that_makes_it_is_told(programs, left):
    done = watched(programs, LOOPS, "bad_update")
    assert lines_left(done) == [left["bad_update"]]
    assert "Warning: The update made it (new value of fc1.weight," in done.out
    assert re.search(r"inf +signals/fc1.weight.updated:0", done.out), done.out


def test_printing_happens_twice_and_nothing_else(programs, tmp_path):
    script = tmp_path / "printing.py"
    script.write_text(
        "import torch\n"
        "net = torch.nn.Linear(2, 1)\n"
        "opt = torch.optim.SGD(net.parameters(), 0.1)\n"
        "for step in range(3):\n"
        "    opt.zero_grad()\n"
        "    loss = net(torch.ones(1, 2)).sum() * (float('nan') if step == 1 else 1.0)\n"
        "    print('STEP', step)\n"
        "    loss.backward()\n"
        "    opt.step()\n"
    )
    done = watched(programs, script)
    assert re.findall(r"^STEP \d", done.out, re.MULTILINE) == [
        "STEP 0",
        "STEP 1",
        "STEP 1",
        "STEP 2",
    ]
    assert "lines 6-8 of " in done.out


@pytest.mark.parametrize("package", ["transformers", "lightning"])
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
    assert "ran once more" in done.out
    assert re.search(r"\b1 -inf +log:0", done.out), done.out
