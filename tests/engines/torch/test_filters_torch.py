"""The built-in filters on runs of real programs: what stops them, and what doesn't."""

import json
import re

# Each run is looked at in full: what is cheaper is for the tests of the levels.
FULL = ("config set level values",)

HEAD = """
import torch
from torch.nn import functional as F

torch.manual_seed(0)
NEG = float("-inf")
EYE = torch.eye(3, 4).bool()


class Net(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))
        self.register_buffer("causal", torch.full((3, 3), NEG).triu(1))
        self.function = function

    def forward(self, x):
        return self.function(self, x * self.weight)


def train(function, x):
    print("case", function.__name__, flush=True)
    net = Net(function)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    net(x).float().square().mean().backward()
    optimizer.step()


def case(function):
    train(function, torch.randn(3, 4))

"""

#: Function -> its body, and the node where it goes wrong (the first that the filter finds).
BUGS = {
    "log_of_zero": ("(x * 0).abs().log()", "log"),
    "zero_by_zero": ("(x - x) / (x - x)", "div"),
    "exp_overflow": ("(x.abs() * 1000).exp()", "exp"),
    "half_matmul": ("(x.abs() * 300 + 300).half() @ torch.full((4, 2), 300.).half()", "mm"),
    "sqrt_of_negative": ("(-x.abs() - 1).sqrt()", "sqrt"),
    "gradient_of_norm": ("(x * 0).pow(2).sum(-1).sqrt()", "gradients/sqrt_grad/div"),
    "masked_row": ("x.masked_fill(x == x, NEG).softmax(-1)", "softmax"),
    "python_nan": ("x * float('nan')", "mul_1"),
    "std_of_one": ("x[:1].std(0)", "std"),
    "bfloat16": ("(x.bfloat16() * 1e30) * 1e30", "mul_2"),
}

MASKS = {
    "buffer": "x[:, :3] + net.causal",
    "masked_fill": "x.masked_fill(EYE, NEG)",
    "tensor_value": "x.masked_fill(EYE, torch.tensor(NEG))",
    "where_number": "torch.where(EYE, NEG, x)",
    "where_tensor": "torch.where(EYE, torch.tensor(NEG), x)",
    "full_triu": "x[:, :3] + torch.full((3, 3), NEG).triu(1)",
    "lowest_twice": "x + 2 * torch.tensor([0, 0, 0, torch.finfo(torch.float32).min])",
    "lowest_in_half": "x.half() + torch.tensor([0, 0, 0, torch.finfo(torch.float32).min]).half()",
    "large_in_half": "x.half() + torch.tensor([0, 0, 0, 1.0]).half() * -1e9",
    "transformer": "x[:, :3] + torch.nn.Transformer.generate_square_subsequent_mask(3)",
    "pad": "F.pad(x[:, :3], (0, 1), value=NEG)",
    "assigned": "torch.cat([x[:, :3], torch.full((3, 1), NEG)], -1)",
    "filled": "torch.maximum(x, torch.empty(3, 4).fill_(NEG))",
    "index_fill": "x.index_fill(-1, torch.tensor([2]), NEG)",
}


def debug(programs, path, *commands):
    """The output of a program under the debugger."""
    words = [word for command in (*FULL, *commands) for word in ("-c", command)]
    done = programs.debugged("--batch", *words, path)
    assert done.status == 0, done.err
    assert "failed" not in done.err, done.err
    return done


def script(path, bodies, after=""):
    """A program with one training run for each body."""
    text = HEAD
    for name, body in bodies.items():
        text += f"@case\ndef {name}(net, x):\n    return ({body}){after}\n\n\n"
    path.write_text(text)
    return path


def test_every_bug_stops_where_it_began(programs, tmp_path):
    path = script(tmp_path / "bugs.py", {name: body for name, (body, _) in BUGS.items()})
    out = debug(programs, path, *["run -f origin_of_nonfinite"] * len(BUGS)).out
    parts = re.split(r"^case (\w+)$", out, flags=re.MULTILINE)[1:]
    found = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        tensors = re.findall(r"^\[.*\s(\S+):0$", text, flags=re.MULTILINE)
        found[name] = tensors[0] if tensors else None
    assert found == {name: node for name, (_, node) in BUGS.items()}


def test_masks_stop_nobody(programs, tmp_path):
    path = script(tmp_path / "masks.py", MASKS, ".softmax(-1)")
    done = debug(programs, path, "run -f origin_of_nonfinite")
    assert "run-end" not in done.out
    assert "no tensor passed origin_of_nonfinite" in done.err
    stopped = debug(programs, path, *["run -f has_inf_or_nan"] * len(MASKS)).out
    assert stopped.count("run-end") == len(MASKS)


def test_the_other_filters(programs, tmp_path):
    bodies = {
        "large": "x.exp() * 1e5",
        "nearly_half": "(x * 0 + 30000).half()",
        "dying": "F.relu(-x.abs() - 1) + 1",
    }
    path = script(tmp_path / "others.py", bodies)
    commands = [
        *("run -t 1", "lt -f exploding --json"),
        *("run", "lt -f overflow_risk --json"),
        *("run", "lt -f dead --json", "config set vanishing_below 1e6", "lt -f vanishing --json"),
    ]
    out = debug(programs, path, *commands).out
    rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
    names = [row["tensor"] for row in rows]
    assert "mul_1:0" in names  # exploding: the product with 1e5
    assert "to_copy:0" in names  # overflow_risk: 30000 in float16
    assert "relu:0" in names  # dead
    assert any(name.startswith("gradients/weight") for name in names)  # vanishing, as it is set


def test_filters_change_nothing(programs, tmp_path):
    path = script(tmp_path / "same.py", MASKS, ".softmax(-1)")
    with path.open("a") as file:
        file.write("print(torch.random.get_rng_state().sum(), flush=True)\n")
    plain = programs.plain(path)
    for name in ("origin_of_nonfinite", "dead", "vanishing", "overflow_risk"):
        done = debug(programs, path, f"run -f {name}", "exit")
        assert plain.out.splitlines()[-1] in done.out, name
