"""`why` gives the reasons that ops of PyTorch show, and without values fewer of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from causes_cases import LOCAL, Case
from causes_kit import Told, cases_of, reason_of, told
from program_server import Programs
from samples import night

_PROGRAM = """
import numpy as np
import torch
import torch.nn.functional as F

import tfdbg_cli

torch.manual_seed(0)
torch.use_deterministic_algorithms(True)  # memory that nobody has written to is nan
inf = float("inf")
BAD = np.float32([[1, np.nan, 2], [3, 0.5, 2]])
one = torch.ones(2, 3)
one_zero = one.clone()
one_zero[1, 2] = 0
mask = torch.zeros(2, 3)
mask[1] = -inf
bad = torch.from_numpy(BAD)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = torch.nn.Parameter(torch.from_numpy(BAD))

    def forward(self, x):
        return x + self.weights


@torch.library.custom_op("mine::broken", mutates_args=())
def broken(x: torch.Tensor) -> torch.Tensor:
    return torch.full_like(x, float("nan"))


def gradient(made):
    return torch.autograd.grad(made.sum(), w)[0]


def step(optimizer, **options):
    parameter = torch.nn.Parameter(one.clone())
    parameter.grad = one_zero.clone()
    optimizer([parameter], fused=True, **options).step()
    return parameter


model = Model()
for name, compute in [
{cases}]:
    print("case:", name, flush=True)
    w = torch.tensor([[1.0, 4.0, 2.0], [3.0, 0.5, 2.0]], requires_grad=True)
    with tfdbg_cli.run(name):
        x, zero = w * one, w * one_zero
        made = compute(w, bad)
"""


#: Nothing is decomposed there: what is several ops to autograd is seen as one.
_INFERENCE = {
    "with tfdbg_cli.run(name)": "with torch.inference_mode(), tfdbg_cli.run(name)",
    "requires_grad=True": "requires_grad=False",
    "torch.autograd.grad(made.sum(), w)[0]": "made",
}


@pytest.fixture(
    scope="module",
    params=[
        "values",
        pytest.param("ops", marks=night),
        "modules",
        pytest.param("inference", marks=night),
    ],
)
def level(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def answers(programs: Programs, tmp_path_factory: pytest.TempPathFactory, level: str) -> Told:
    folder = tmp_path_factory.mktemp("causes")
    if level != "inference":
        return told(programs, folder, "torch", _PROGRAM, f"config set level {level}")
    text = _PROGRAM
    for plain, inside in _INFERENCE.items():
        assert plain in text
        text = text.replace(plain, inside)
    return told(programs, folder, "torch", text, "config set level values")


def _skip_gradients(level: str, case: Case) -> None:
    if level == "inference" and "gradient(" in case.torch:
        pytest.skip("inference mode has no gradients")


@pytest.mark.parametrize("case", cases_of("torch"))
def test_the_reason(answers: Told, case: Case, level: str) -> None:
    _skip_gradients(level, case)
    answers.check(case)


@pytest.mark.parametrize("case", cases_of("torch", LOCAL))
def test_nothing_began(answers: Told, case: Case, level: str) -> None:
    _skip_gradients(level, case)
    answers.check_local(case)


@pytest.mark.parametrize("level", ["values", "inference"], indirect=True)  # others keep less
def test_remedies_make_most_of_them_clean(answers: Told) -> None:
    answers.check_remedies()


_OVERWRITTEN = """
import numpy as np
import torch
import tfdbg_cli

memory = np.float32([1e30, 2e30, 3e30])
with tfdbg_cli.run("product"):
    x = torch.from_numpy(memory)
    y = torch.cumprod(x, 0)
    memory[:] = 1
"""


def test_an_input_that_does_not_give_the_result_again_is_no_reason(
    programs: Programs, tmp_path: Path
) -> None:
    path = tmp_path / "overwritten.py"
    path.write_text(_OVERWRITTEN)
    done = programs.debugged("--batch", "-c", "run -f has_inf_or_nan", path)
    assert reason_of(done.out).startswith("not from the inputs shown below"), done.out
