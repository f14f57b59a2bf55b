"""`why` gives the reason for a run's first bad tensor, in sessions and in functions."""

from __future__ import annotations

import re

import pytest
from causes_kit import reason_of
from tf2_kit import Both, both, server

__all__ = ["both", "server"]

_FUNCTION = """
@tf.function
def compute(w):
    one_zero = tf.constant([[1.0, 1, 1], [1, 1, 0]])
    zero = w * one_zero
    return {expression}

tell(compute(tf.constant([[1.0, 4.0, 2.0], [3.0, 0.5, 2.0]])).shape)
"""
_SESSION = """
tf = tf.compat.v1
tf.disable_eager_execution()
w = tf.placeholder(tf.float32, (2, 3), name="w")
one_zero = tf.constant([[1.0, 1, 1], [1, 1, 0]])
zero = w * one_zero
made = {expression}
with tf.Session() as session:
    tell(session.run(made, {{w: [[1.0, 4.0, 2.0], [3.0, 0.5, 2.0]]}}).shape)
"""
# Expression -> the reason, as a regex; empty: none may be claimed.
_CAUSES = {
    "tf.math.log(zero)": r"the logarithm of 0 at \[1, 2\]",
    "tf.math.log1p(zero - 1)": r"the logarithm of 1 \+ \(-1\) at \[1, 2\]",
    "tf.math.log(w - 1.5)": r"the logarithm of a negative number at 2 elements",
    "w / zero": r"a division by 0 at \[1, 2\]",
    "zero / zero": r"0 / 0 at \[1, 2\]",
    "tf.math.reciprocal(zero)": r"a division by 0 at \[1, 2\]",
    "tf.sqrt(w - 1)": r"the square root of a negative number at \[1, 1\]",
    "tf.math.rsqrt(zero)": r"the inverse square root of 0 at \[1, 2\]",
    "tf.pow(w - 3, 0.5)": r"a power of a negative number whose exponent isn't whole at 4 elements",
    "tf.pow(zero, -1.5)": r"0 to a negative power at \[1, 2\]",
    "tf.exp(w * 30)": r"exp of 120 at 2 elements, .*exp ends at 88.72",
    "tf.asin(w - 2.5)": r"asin of a number outside of \[-1, 1\] at 3 elements",
    "tf.cast(w, tf.float16) * 20000": r"float16 overflows at \[0, 1\]: its limit is 65504",
    "tf.cast(w * 20000, tf.float16)": r"float16 overflows at \[0, 1\]: its limit is 65504",
    "w * 1e38": r"float32 overflows at \[0, 1\]: its limit is 3.4028e\+38",
    "tf.gradients(tf.sqrt(zero), w)[0]": r"the gradient of a square root at 0 at \[1, 2\]",
    "tf.nn.softmax(tf.where(w[:, :1] + 0 * w < 2, w * 0 - float('inf'), w))": r"1 row\(s\)",
    "w / tf.norm(w * 0, axis=-1, keepdims=True)": r"a division by 0 at 6 elements",
    "zero * tf.where(tf.equal(one_zero, 0), float('inf') * w, w)": r"0 times an infinity at",
    "tf.reduce_mean(tf.boolean_mask(w, w > 9))": r"the mean of nothing: no element is left",
    "tf.matmul(w * 1e25, w * 1e25, transpose_b=True)": r"float32 overflows at 4 elements",
    "tf.math.lgamma(zero)": "",
}


@pytest.mark.parametrize("program", [_FUNCTION, _SESSION], ids=["function", "session"])
@pytest.mark.parametrize("expression", _CAUSES)
def test_the_reason(both: Both, expression: str, program: str):
    path = both.write(program.format(expression=expression))
    done = both.debugged(path, "run -f has_inf_or_nan", "why")
    expected, told = _CAUSES[expression], reason_of(done.out)
    assert bool(told) == bool(expected), done.out
    assert re.match(expected, told), done.out
