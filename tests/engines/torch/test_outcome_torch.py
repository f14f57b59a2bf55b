"""Which bad tensors of programs stop `run -f origin_of_nonfinite`: those that get somewhere."""

import re

import pytest

FULL = ("config set level values",)
RECORDS = ("config set level ops",)

HEAD = """
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
NAN, INF = float("nan"), float("inf")


class Net(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("least", torch.tensor(INF))
        self.register_buffer("state", torch.zeros(4, 4))
        self.register_buffer("rows", torch.full((4, 4), NAN))
        self.function = function

    def forward(self, x):
        return self.function(self, x * self.weight)


def case(function):
    print("case", function.__name__, flush=True)
    net = Net(function)
    optimizer = torch.optim.SGD(net.parameters(), 1e-3)
    x = torch.arange(12.0).reshape(3, 4)
    out = net(x)
    loss = out.float().square().mean()
    loss.backward()
    optimizer.step()

"""

#: Function -> its body. Something bad comes out of clean inputs, and comes to nothing.
LOCAL = {
    "log_that_a_where_drops": """
        found = (x.detach() / 4).log()
        return torch.where(x > 0, (found * 2).long(), 0) * x""",
    "nan_that_a_where_drops": """
        return torch.where(x.detach() >= 0, x, (x.detach() - x.detach()) / 0.0)""",
    "dropped_beside_one_that_is_meant": """
        found = torch.where(x.detach() < 0, x.detach().log(), -INF)
        return found.exp() + x""",
    "swallowed": "return x + (x.detach() * 0).log().exp()",
    "a_buffer_that_a_minimum_starts_with": """
        self.least.copy_(torch.minimum(self.least, x.detach().min()))
        return x - self.least""",
    "masked_in_the_gradient_of_a_gradient": """
        point = torch.zeros(4, requires_grad=True)
        self.bend = torch.func.hessian(torch.linalg.norm)(point)
        return x + self.bend.detach().sum()""",
    "rows_that_nobody_reads": """
        self.rows[1] = x.detach()[0]
        self.rows[torch.tensor([0, 2])] = x.detach()[1:]
        return x + self.rows[:3]""",
    "rows_of_new_memory": """
        rows = torch.full((4, 4), 1.0).log().div_(0)  # nan
        rows[:3] = x
        return rows[:3] * 2""",
    "overwritten_before_it_is_read": """
        found = x.detach() / 0
        found.copy_(x.detach())
        return found + x""",
    "of_no_use": "y = (x.detach() * 0).log(); return x",
    "gradient_that_is_zeroed": """
        y = x * 1
        y.register_hook(lambda g: torch.nan_to_num(g / 0.0 * 0.0))
        return y""",
    "loss_of_ctc": """
        p = torch.stack([x, x]).permute(1, 0, 2).log_softmax(-1)
        return F.ctc_loss(p, torch.tensor([[1, 2], [2, 1]]), torch.tensor([3, 3]),
                          torch.tensor([2, 2]))""",
}

#: Function -> its body, and the node where it begins.
HARMFUL = {
    "output": ("return x.log()", "log"),
    "output_beside_the_loss": (
        "self.seen = (x.detach() - x.detach()) / 0.0; return x",
        "div",
    ),
    "gradient_only": ("return x.sqrt()", "gradients/sqrt_grad/div"),
    "into_a_buffer": ("self.state[1] = x.detach()[0] / 0; return x", "div"),
    "into_a_buffer_at_once": ("self.state.sub_(1).log_(); return x", "log_"),
    "out_of_a_buffer": ("return x + self.rows[:3]", "add"),
    "number": ("y = (x.detach().sum() * 0 / 0).item(); return x", "div"),
    "a_condition": (
        "y = (x.detach() * 0).log().mean(); return x if torch.isfinite(y) else x * 2",
        "log",
    ),
    "several_conditions": (
        "y = x.detach().sum() * 0; y = y.log(); return x if y.isnan() or y.isinf() else x",
        "log",
    ),
    "the_gradient_of_a_gradient": (
        "point = torch.zeros(4, requires_grad=True); "
        "self.bend = torch.func.jacrev(torch.func.jacfwd(torch.linalg.norm))(point); return x",
        "gradients/DivBackward0/div",
    ),
    "in_a_list": ("self.seen = [x.detach()[0] / 0]; return x", "div"),
    "infinite_output": ("return (x + 100).exp()", "exp"),
    "where_keeps_it": ("return torch.where(x > 5, x, x.detach() / 0.0)", "div"),
}


def stops(programs, path, bodies, settings):
    """Case -> the first tensor that `run -f origin_of_nonfinite` names; ``None``: no stop."""
    text = HEAD
    for name, body in bodies.items():
        text += f"@case\ndef {name}(self, x):\n    {body.strip()}\n\n\n".replace("        ", "    ")
    path.write_text(text)
    commands = [*settings, *["run -f origin_of_nonfinite"] * len(bodies)]
    words = [word for command in commands for word in ("-c", command)]
    done = programs.debugged("--batch", *words, path)
    assert done.status == 0, done.err
    assert "failed" not in done.err, done.err
    parts = re.split(r"^case (\w+)$", done.out, flags=re.MULTILINE)[1:]
    found = {}
    for name, shown in zip(parts[::2], parts[1::2], strict=True):
        tensors = re.findall(r"^\[.*\s(\S+):\d+$", shown, flags=re.MULTILINE)
        found[name] = tensors[0] if tensors else None
    return found


@pytest.mark.parametrize("settings", [FULL, RECORDS], ids=["everything", "records"])
def test_what_stays_local_stops_nobody(programs, tmp_path, settings):
    found = stops(programs, tmp_path / "local.py", LOCAL, settings)
    assert found == dict.fromkeys(LOCAL)


@pytest.mark.parametrize("settings", [FULL, RECORDS], ids=["everything", "records"])
def test_what_gets_somewhere_stops(programs, tmp_path, settings):
    bodies = {name: body for name, (body, _) in HARMFUL.items()}
    found = stops(programs, tmp_path / "harmful.py", bodies, settings)
    assert found == {name: node for name, (_, node) in HARMFUL.items()}


@pytest.mark.parametrize("settings", [FULL, RECORDS], ids=["everything", "records"])
def test_what_anomaly_mode_refuses_got_somewhere(programs, tmp_path, settings):
    """The last ops are those that find the nan."""
    path = tmp_path / "refused.py"
    path.write_text(
        f"{HEAD}\n"
        "net = nn.Linear(3, 4, bias=False)\n"
        "with torch.autograd.set_detect_anomaly(True):\n"
        "    h = net(torch.zeros(1, 3))\n"
        "    torch.where(h != 0, torch.sqrt(h * h), h).sum().backward()\n"
    )
    words = [word for command in (*settings, "run -f") for word in ("-c", command)]
    done = programs.debugged("--batch", *words, path)
    assert "It began in [div] gradients/sqrt_grad/div:0" in done.out, done.out
