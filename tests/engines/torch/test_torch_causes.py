"""`why` gives the reason for a run's first bad tensor, where op, inputs and dtype show it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from causes_kit import reason_of
from program_server import BothWays, Programs, environment

_PROGRAM = """
import torch
import torch.nn.functional as F

import tfdbg_cli

w = torch.tensor([[1.0, 4.0, 2.0], [3.0, 0.5, 2.0]], requires_grad=True)
one = torch.ones(2, 3)
one_zero = one.clone()
one_zero[1, 2] = 0
inf = float("inf")
with tfdbg_cli.run("step"):
    x, zero = w * one, w * one_zero
    made = {expression}
    made.float().sum().backward()
"""
# Expression -> the reason, as a regex; empty: none may be claimed.
_CAUSES = {
    "torch.log(zero)": r"the logarithm of 0 at \[1, 2\]",
    "torch.log2(zero)": r"the logarithm of 0 at \[1, 2\]",
    "torch.log1p(zero - 1)": r"the logarithm of 1 \+ \(-1\) at \[1, 2\]",
    "torch.log(x - 1.5)": r"the logarithm of a negative number at 2 elements",
    "x / zero": r"a division by 0 at \[1, 2\]",
    "zero / zero": r"0 / 0 at \[1, 2\]",
    "1 / zero": r"a division by 0 at \[1, 2\]",
    "torch.remainder(x, zero.detach())": r"a remainder of a division by 0 at \[1, 2\]",
    "torch.sqrt(x - 1)": r"the square root of a negative number at \[1, 1\]",
    "torch.rsqrt(zero)": r"the inverse square root of 0 at \[1, 2\]",
    "torch.pow(x - 3, 0.5)": r"a power of a negative number whose exponent isn't whole at 4 el",
    "torch.pow(zero, -1.0)": r"0 to a negative power at \[1, 2\]|a division by 0 at \[1, 2\]",
    "torch.exp(x * 30)": r"exp of 120 at 2 elements, .*exp ends at 88.72 in float32",
    "torch.asin(x - 2.5)": r"asin of a number outside of \[-1, 1\] at 3 elements",
    "x.half() * 20000": r"float16 overflows at .*its limit is 65504, the largest finite number .*",
    "(x * 20000).half()": r"float16 overflows at .*its limit is 65504",
    "x.bfloat16() * 1e38": r"bfloat16 overflows at 2 elements|bfloat16 overflows at \[0, 1\]",
    "x * 1e38": r"float32 overflows at \[0, 1\]: its limit is 3.4028e\+38",
    "torch.sqrt(zero)": r"the gradient of a square root at 0 at \[1, 2\]",
    "torch.softmax(x.masked_fill(one_zero.amin(1, True) == 0, -inf), -1)": r"1 row\(s\) of softmax",
    "F.log_softmax(x.masked_fill(one_zero.amin(1, True) == 0, -inf), -1)": r"1 row\(s\) of softmax",
    "x / (x * 0).norm(dim=-1, keepdim=True)": r"a division by 0 at 6 .*: it is .*norm.* of a zero",
    "x.masked_fill(one_zero == 0, inf) - torch.zeros(2, 3).masked_fill(one_zero == 0, inf)": (
        r"an infinity minus an infinity at \[1, 2\]"
    ),
    "zero * torch.ones(2, 3).masked_fill(one_zero == 0, inf)": r"0 times an infinity at",
    "x[x > 9].mean()": r"the mean of nothing: no element is left",
    "x[:1, :1].std()": r"the variance of one element",
    "(x * 1e25) @ (x * 1e25).T": r"float32 overflows at 4 elements, the first at \[0, 0\]",
    "w + torch.tensor([float('nan'), 0, 0])": r"it came in from outside \(lift_fresh:0\)",
    "torch.special.ndtri(x)": "",
    "torch.lgamma(zero)": "",
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothWays]:
    home = environment(tmp_path_factory.mktemp("home"))
    programs = Programs(home, ("torch",))
    yield BothWays(programs, tmp_path_factory.mktemp("programs"), "")
    programs.close()


@pytest.mark.parametrize("level", ["values", "ops"])
@pytest.mark.parametrize("expression", _CAUSES)
def test_the_reason(both: BothWays, expression: str, level: str):
    path = both.write(_PROGRAM.format(expression=expression))
    commands = f"config set level {level}", "run -f has_inf_or_nan", "why"
    options = [part for command in commands for part in ("-c", command)]
    done = both.programs.debugged("--batch", *options, path)
    expected = _CAUSES[expression]
    if "It began in " not in done.out:
        assert not expected, done.out + done.err
        return
    told = reason_of(done.out)
    if level == "values" or told:  # without values less can be shown
        assert bool(told) == bool(expected), done.out
        assert re.match(expected, told) or level == "ops", done.out
