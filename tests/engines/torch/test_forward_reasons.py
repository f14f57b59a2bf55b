"""What is bad in the forward pass isn't told as a gradient of what else reads the same tensors."""

import re
from pathlib import Path

import pytest
from program_server import Programs, environment

pytest.importorskip("torch")

PROGRAM = """
import torch
torch.manual_seed(0)
net = torch.nn.Linear(2, 1)
for value in (0.25, 0.5, VALUE):
    c = torch.tensor([0.75, value])
    other = OTHER
    bad = BAD
    net(torch.stack([other, bad], 1)).pow(2).mean().backward()
"""
CASES = {
    "a root that is read as well": ("(c * c).sqrt()", "c / torch.sqrt(c * c)", 0, "0 / 0 at"),
    "an arc of the same number": ("c.acos()", "1 / torch.sqrt(1 - c * c)", 1, "a division by 0"),
    "a power of the same base": ("c**0.5", "c**-0.5", 0, "0 to a negative power"),
    "a logarithm of the same number": ("c.log1p()", "c / (c * c).sqrt()", 0, "0 / 0 at"),
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(environment(tmp_path_factory.mktemp("forward")), ("torch",))


@pytest.mark.parametrize("level", ["auto", "ops"])
@pytest.mark.parametrize("name", CASES)
def test_the_reason_and_its_line(programs: Programs, tmp_path: Path, name: str, level: str) -> None:
    other, bad, value, reason = CASES[name]
    text = PROGRAM.replace("OTHER", other).replace("BAD", bad).replace("VALUE", str(value))
    path = tmp_path / "train.py"
    path.write_text(text)
    done = programs.debugged("--batch", "-c", f"config set level {level}", "-c", "run -f", path)
    assert re.search(rf"Why: +{re.escape(reason)}", done.out), done
    assert re.search(r"Line: .*train\.py:8\n", done.out), done
