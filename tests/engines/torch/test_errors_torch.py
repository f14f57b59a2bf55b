"""Errors of ops: the screen with op, inputs and line; then the program's own end, unchanged."""

import pytest
from samples import sample

# What goes wrong -> the failing op, the last of its inputs as they are shown, the line.
CASES = {
    "shapes of F.linear": (
        "y = F.linear(y, torch.zeros(2, 9))",
        "mm",
        ["fc/addmm:0  float32 (5, 6)", "t:0         float32 (9, 2)"],
    ),
    "matmul": ("y = y @ y", "mm", ["fc/addmm:0  float32 (5, 6)", "fc/addmm:0  float32 (5, 6)"]),
    "cat": (
        "y = torch.cat([y, torch.zeros(3, 3)])",
        "cat",
        ["fc/addmm:0  float32 (5, 6)", "zeros_1:0   float32 (3, 3)"],
    ),
    "view": ("y = y.view(7, 7)", "view", ["fc/addmm:0  float32 (5, 6)"]),
    "an index": ("y = y[:, 9]", "getitem", ["fc/addmm:0  float32 (5, 6)"]),
    "an index of an op": (
        "y = y.gather(1, torch.full((5, 1), 77))",
        "gather",
        ["fc/addmm:0  float32 (5, 6)", "full:0      int64 (5, 1)"],
    ),
    "dtypes": (
        "y = F.linear(y, torch.zeros(2, 6, dtype=torch.float64))",
        "mm",
        ["fc/addmm:0  float32 (5, 6)", "t:0         float64 (6, 2)"],
    ),
    "devices": (
        "y = y + torch.zeros(6, device='meta')",
        "add",
        ["fc/addmm:0  float32 (5, 6)", "zeros_1:0   float32 (6,)"],
    ),
    "memory": ("y = torch.empty(1 << 46)", "empty", []),
    "a check of the API": (
        "y = F.cross_entropy(y, torch.zeros(4, dtype=torch.long))",
        "cross_entropy",
        ["fc/addmm:0  float32 (5, 6)", "zeros_1:0   int64 (4,)"],
    ),
    "a truth value": ("y = 1 if y > 0 else 2", "bool", ["gt:0  bool (5, 6)"]),
}

PROGRAM = """\
import torch
from torch import nn
from torch.nn import functional as F
{before}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 6)
    def forward(self, x):
        y = self.fc(x)
        {inside}
        return y

model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
x = torch.zeros(5, 4)
for step in range(2):
    y = model(x)
    {loss}
    loss = y.sum()
    {backward}
    loss.backward()
    {update}
    optimizer.step()
    optimizer.zero_grad()
print("the end")
"""

FUNCTION = """
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x
    @staticmethod
    def backward(ctx, grad):
        return grad @ grad
"""


@pytest.fixture
def write(tmp_path):
    """A program that goes wrong at one of its places, in a file."""

    def make(before="", **places):
        parts = dict.fromkeys(("inside", "loss", "backward", "update"), "pass")
        path = tmp_path / "train.py"
        path.write_text(PROGRAM.format(before=before, **{**parts, **places}))
        return path

    return make


def options(*commands):
    return ["--batch", *(part for command in commands for part in ("-c", command))]


def line_of(path, text):
    lines = path.read_text().splitlines()
    return next(at for at, line in enumerate(lines, 1) if line.strip() == text)


def end_of(text):
    """What a program leaves on its standard error, without what the debugger says."""
    return [line for line in text.splitlines() if not line.startswith("tfdbg: ")]


def ends_as_alone(programs, path, done):
    """Whether a program that was debugged ended as it does alone: status and traceback."""
    alone = programs.plain(path)
    assert alone.status == done.status
    ours = end_of(done.err)
    # Alone, the program is run by `runpy`, whose frames come first.
    theirs = end_of(alone.err)
    at = next(at for at, line in enumerate(theirs) if str(path) in line)
    return ours[1:] == theirs[at:]


@pytest.mark.parametrize("case", [*sample(CASES, 3)])
def test_the_screen_tells_op_inputs_and_line(programs, write, case):
    line, op, inputs = CASES[case]
    path = write(inside=line)
    done = programs.debugged(*options("run"), path)
    shown = done.out.splitlines()
    assert "--- An error occurred: " in done.out
    name = next(text for text in shown if text.startswith("Op name:")).split()[2]
    assert name == op
    place = f"{path}:{line_of(path, line)}"
    assert f"Line:       {place}" in shown and f"            {line}" in shown
    at = next((at for at, text in enumerate(shown) if text.startswith("Inputs:")), len(shown))
    assert [text.removeprefix("Inputs:").strip() for text in shown[at : at + len(inputs)]] == inputs
    assert f"  * ps {path} -b {line_of(path, line)}  the line that made it" in shown
    assert ends_as_alone(programs, path, done)


@pytest.mark.parametrize(
    ("places", "op", "line"),
    [
        ({"loss": "y = y - torch.ones(7)"}, "sub", "y = y - torch.ones(7)"),
        (
            {"before": FUNCTION, "loss": "y = Twice.apply(y)"},
            "gradients/TwiceBackward/mm",
            "return grad @ grad",
        ),
        (
            {"update": "optimizer.state[model.fc.bias]['exp_avg'] = torch.zeros(9)"},
            "optimizer/Adam/fc.bias/lerp_",
            "optimizer.step()",
        ),
    ],
    ids=["loss", "backward", "optimizer"],
)
def test_errors_outside_of_modules(programs, write, places, op, line):
    if "update" in places:
        places = {"update": f"if step: {places['update']}"}
    path = write(**places)
    done = programs.debugged(*options("run -t 2" if "update" in places else "run"), path)
    assert f"Op name:    {op}" in done.out.splitlines()
    assert f"Line:       {path}:{line_of(path, line)}" in done.out.splitlines()
    if "before" in places:
        assert f"Made at:    {path}:{line_of(path, 'return 2 * x')}" in done.out.splitlines()
    assert ends_as_alone(programs, path, done)


@pytest.mark.parametrize("command", ["run", "run -f has_inf_or_nan", "run -n", "run -p"])
def test_every_way_to_run_ends_in_the_same_error(programs, write, command):
    path = write(inside="y = y @ y")
    done = programs.debugged(*options(command), path)
    place = f"{path}:{line_of(path, 'y = y @ y')}"
    assert "--- An error occurred: RuntimeError ---" in done.out
    assert f"Line:       {place}" in done.out.splitlines()
    assert "mat1 and mat2 shapes cannot be multiplied (5x6 and 5x6)" in done.out
    if command == "run -n":
        assert "This run was not debugged, so its ops and tensors are not known." in done.out
        assert "Op name:    (unknown)" in done.out
    else:
        assert "Op name:    mm" in done.out
    assert ends_as_alone(programs, path, done)


def test_an_error_that_the_program_catches_is_shown_and_the_program_goes_on(programs, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "import torch\n"
        "model = torch.nn.Linear(4, 3)\n"
        "for size in 4, 5, 4:\n"
        "    try:\n"
        "        print(tuple(model(torch.zeros(2, size)).shape))\n"
        "    except RuntimeError as error:\n"
        "        print('caught', error)\n"
    )
    done = programs.debugged(*options("run", "run", "run"), path)
    shown = [text for text in done.out.splitlines() if not text.startswith("---")]
    assert done.status == 0 and "Op name:    addmm" in shown
    printed = programs.plain(path).out.splitlines()
    assert [text for text in shown if text in printed] == printed


MUTE = "type('Mute', (Exception,), {'__str__': lambda self: 1 / 0})()"


@pytest.mark.parametrize(
    "text", ["raise RuntimeError('mine')", "int('x')", "{}['key']", f"raise {MUTE}"]
)
def test_errors_of_the_program_itself_are_its_own(programs, write, text):
    path = write(inside=text)
    done = programs.debugged(*options("run"), path)
    assert "An error occurred" not in done.out
    assert ends_as_alone(programs, path, done)


def test_an_error_in_a_worker_of_a_data_loader(programs, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "import torch\n"
        "from torch.utils.data import DataLoader, Dataset\n"
        "class Data(Dataset):\n"
        "    def __len__(self):\n"
        "        return 4\n"
        "    def __getitem__(self, index):\n"
        "        return torch.zeros(4) if index < 2 else torch.zeros(3) + torch.zeros(4)\n"
        "model = torch.nn.Linear(4, 3)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for x in DataLoader(Data(), num_workers=1):\n"
        "    model(x).sum().backward()\n"
        "    optimizer.step()\n"
    )
    done = programs.debugged(*options("run", "run", "run"), path)
    assert "--- An error occurred: RuntimeError ---" in done.out
    assert "Caught RuntimeError in DataLoader worker process 0." in done.out
    assert f"Line:       {path}:10" in done.out.splitlines()
    assert f'File "{path}", line 7, in __getitem__' in done.out
    assert ends_as_alone(programs, path, done)


def test_an_error_of_an_op_that_cannot_say_what_it_is(programs, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "import torch\n"
        "class Twice(torch.autograd.Function):\n"
        "    @staticmethod\n"
        "    def forward(context, x):\n"
        "        return x * 2\n"
        "    @staticmethod\n"
        "    def backward(context, gradient):\n"
        "        (gradient * 2)\n"
        f"        raise {MUTE}\n"
        "model = torch.nn.Linear(4, 3)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "Twice.apply(model(torch.ones(2, 4))).sum().backward()\n"
    )
    done = programs.debugged(*options("run"), path)
    assert "the debugger failed" not in done.err
    assert ends_as_alone(programs, path, done)


def test_a_failure_of_ours_between_two_runs_is_not_the_programs(programs, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "import torch\n"
        "from tfdbg_cli.engines.kit.policy import CapturePolicy\n"
        "def failing(*_):\n"
        "    raise ValueError('planted')\n"
        "CapturePolicy.ahead = failing\n"
        "model = torch.nn.Linear(4, 3)\n"
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "for _ in range(3):\n"
        "    optimizer.zero_grad()\n"
        "    model(torch.ones(2, 4)).sum().backward()\n"
        "    optimizer.step()\n"
        "print('done')\n"
    )
    done = programs.debugged(*options("run -f"), path)
    assert done.out.splitlines()[-1] == "done"
    assert "the debugger failed: ValueError: planted; the program goes on without it." in done.err
