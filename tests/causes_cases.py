"""What `why` is to say of a run's first bad tensor: one table of cases for all engines.

Each engine computes a case in its own words, with what all of them have: ``w``, a float32 of
``[[1, 4, 2], [3, 0.5, 2]]``; ``one_zero``, ones with a 0 at ``[1, 2]``; ``zero``, their product;
``bad``, which comes in with a nan at ``[0, 1]``; ``weights``, a parameter with one; ``mask``, a row
of zeros and one of -inf.
"""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["CASES", "LOCAL", "Case", "table"]


class Case(NamedTuple):
    """One way to get something bad.

    Attributes:
        name: of it.
        says: the reason that is to be given, as a regex; empty: none may be claimed.
        numpy, torch, tensorflow, jax: how to compute it, as an expression; empty: there is no way.
        onnx: the same, as nodes with a semicolon between, the last of which makes ``y``.
        otherwise: engine -> what it says instead, where it computes by other ops.
    """

    name: str
    says: str
    numpy: str = ""
    torch: str = ""
    tensorflow: str = ""
    jax: str = ""
    onnx: str = ""
    otherwise: dict[str, str] = {}  # noqa: RUF012 (nobody writes to it)

    def expected(self, engine: str) -> str:
        """The reason that is to be given for an engine."""
        return self.otherwise.get(engine, self.says)


_AT = r" at \[1, 2\]$"
_FLOAT32 = r"float32 overflows at {}: its limit is 3.4028e\+38"
_HALF = (
    r"float16 overflows at \[0, 1\]: its limit is 65504, the largest finite number beside it 60000$"
)
_MASKED = r"1 row\(s\) of softmax are -inf as a whole, the first \[1\]$"
_NORM = (
    r"a division by 0 at 6 elements, the first at \[0, 0\]: it is .*, the norm of a zero vector$"
)

#: What is to be told, and where there is nothing to be told.
CASES = (
    Case(
        "logarithm of 0",
        f"the logarithm of 0{_AT}",
        numpy="tf.log(zero)",
        torch="torch.log(zero)",
        tensorflow="tf.math.log(zero)",
        jax="jnp.log(zero)",
        onnx="y = Log(zero)",
    ),
    Case(
        "logarithm of 0 and of a negative number",
        r"the logarithm of 0 at \[0, 0\], and the logarithm of a negative number at \[1, 1\]$",
        numpy="tf.log(w - 1)",
        torch="torch.log(x - 1)",
        tensorflow="tf.math.log(w - 1)",
        jax="jnp.log(w - 1)",
        onnx="less = Sub(w, one); y = Log(less)",
    ),
    Case(
        "an index beyond the end",
        "index 3 is outside of axis 1, which has 3 elements: JAX gives nan there$",
        jax="jnp.take(w, jnp.array([0, 3]), axis=1)",
    ),
    Case(
        "labels beyond the end",
        "2 indices are outside of axis 1, which has 3 elements, the first 5: JAX gives nan there$",
        jax="jnp.take_along_axis(w, jnp.array([[5], [7]]), 1)",
    ),
    Case(
        "logarithm of base 2",
        f"the logarithm of 0{_AT}",
        torch="torch.log2(zero)",
        jax="jnp.log2(zero)",
    ),
    Case(
        "log1p",
        rf"the logarithm of 1 \+ \(-1\){_AT}",
        torch="torch.log1p(zero - 1)",
        tensorflow="tf.math.log1p(zero - 1)",
        jax="jnp.log1p(zero - 1)",
    ),
    Case(
        "xlogy",
        f"the logarithm of 0{_AT}",
        torch="torch.special.xlogy(x, zero)",
        tensorflow="tf.math.xlogy(w, zero)",
        jax="jax.scipy.special.xlogy(w, zero)",
    ),
    Case(
        "xlog1py",
        rf"the logarithm of 1 \+ \(-1\){_AT}",
        torch="torch.special.xlog1py(x, zero - 1)",
        tensorflow="tf.math.xlog1py(w, zero - 1)",
        jax="jax.scipy.special.xlog1py(w, zero - 1)",
    ),
    Case(
        "division by 0",
        f"a division by 0{_AT}",
        numpy="w / zero",
        torch="x / zero",
        tensorflow="w / zero",
        jax="w / zero",
        onnx="y = Div(w, zero)",
    ),
    Case(
        "0 by 0",
        f"0 / 0{_AT}",
        numpy="zero / zero",
        torch="zero / zero",
        tensorflow="zero / zero",
        jax="zero / zero",
        onnx="y = Div(zero, zero)",
    ),
    Case(
        "a number by 0",
        f"a division by 0{_AT}",
        numpy="1 / zero",
        torch="1 / zero",
        tensorflow="1 / zero",
        jax="1 / zero",
        onnx="y = Div(one, zero)",
    ),
    Case(
        "division of whole numbers",
        f"a division by 0{_AT}",
        torch="x.int() / one_zero.int()",
        tensorflow="tf.cast(w, tf.int32) / tf.cast(one_zero, tf.int32)",
        jax="w.astype(int) / one_zero.astype(int)",
    ),
    Case(
        "half by a root",
        f"a division by 0{_AT}",
        torch="0.5 / torch.sqrt(zero)",
        tensorflow="0.5 / tf.sqrt(zero)",
        jax="0.5 / jnp.sqrt(zero)",
        onnx="root = Sqrt(zero); y = Div(half, root)",
    ),
    Case(
        "squares of one element by a count of 0",
        "0 / 0$",
        numpy="(lambda n: tf.reduce_sum(tf.square(n - n)) / 0.0)(single)",
        torch="(x[:1, :1] - x[:1, :1]).square().sum() / (x > 9).sum()",
        tensorflow="tf.reduce_sum(tf.square(w[:1, :1] - w[:1, :1])) / tf.reduce_sum(w * 0)",
        jax="jnp.square(w[:1, :1] - w[:1, :1]).sum() / (w > 9).sum()",
    ),
    Case(
        "reciprocal",
        f"a division by 0{_AT}",
        torch="torch.reciprocal(zero)",
        tensorflow="tf.math.reciprocal(zero)",
        jax="jnp.reciprocal(zero)",
        onnx="y = Reciprocal(zero)",
        otherwise={"jax": f"0 to a negative power{_AT}"},
    ),
    Case(
        "whole division",
        f"a division by 0{_AT}",
        numpy="w // zero",
        torch="torch.floor_divide(x, zero)",
        tensorflow="w // zero",
    ),
    Case(
        "logarithm in place",
        f"the logarithm of 0{_AT}",
        torch="zero.log_()",
    ),
    Case(
        "quotient beyond the range",
        r"a quotient beyond the range of float32 at \[0, 1\]",
        numpy="w / 1e-38",
        torch="x / 1e-38",
        tensorflow="w / 1e-38",
        jax="w / 1e-38",
        onnx="y = Div(w, tiny)",
    ),
    Case(
        "remainder",
        f"a remainder of a division by 0{_AT}",
        torch="torch.remainder(x, zero)",
        tensorflow="tf.math.floormod(w, zero)",
        jax="jnp.fmod(w, zero)",
        onnx="y = Mod <fmod = 1> (w, zero)",
    ),
    Case(
        "square root",
        r"the square root of a negative number at \[1, 1\]$",
        torch="torch.sqrt(x - 1)",
        tensorflow="tf.sqrt(w - 1)",
        jax="jnp.sqrt(w - 1)",
        onnx="less = Sub(w, one); y = Sqrt(less)",
    ),
    Case(
        "inverse square root",
        f"the inverse square root of 0{_AT}",
        torch="torch.rsqrt(zero)",
        tensorflow="tf.math.rsqrt(zero)",
        jax="jax.lax.rsqrt(zero)",
    ),
    Case(
        "power",
        r"a power of a negative number whose exponent isn't whole at 4 elements, the first at "
        r"\[0, 0\]$",
        torch="torch.pow(x - 3, 0.5)",
        tensorflow="tf.pow(w - 3, 0.5)",
        jax="jnp.power(w - 3, 0.3)",
        onnx="less = Sub(w, three); y = Pow(less, half)",
    ),
    Case(
        "negative power",
        f"0 to a negative power{_AT}",
        torch="torch.pow(zero, -1.5)",
        tensorflow="tf.pow(zero, -1.5)",
        jax="jnp.power(zero, -1.5)",
        onnx="y = Pow(zero, below)",
    ),
    Case(
        "whole negative power",
        f"0 to a negative power{_AT}",
        torch="zero ** -2",
        tensorflow="zero ** -2",
        jax="zero ** -2",
    ),
    Case(
        "power beyond the range",
        _FLOAT32.format(r"2 elements, the first at \[0, 1\]"),
        torch="x ** 100",
        tensorflow="w ** 100",
        jax="w ** 100",
        onnx="y = Pow(w, hundred)",
    ),
    Case(
        "exp",
        r"exp of 120 at 2 elements, the first at \[0, 1\], and exp ends at 88.72 in float32$",
        torch="torch.exp(x * 30)",
        tensorflow="tf.exp(w * 30)",
        jax="jnp.exp(w * 30)",
        onnx="more = Mul(w, thirty); y = Exp(more)",
    ),
    Case(
        "exp2",
        r"exp2 of 400 at 4 elements, the first at \[0, 1\], and exp2 ends at 128 in float32$",
        torch="torch.exp2(x * 100)",
        jax="jnp.exp2(w * 100)",
    ),
    Case(
        "exp in float16",
        r"exp of 12 at \[0, 1\], and exp ends at 11.09 in float16$",
        torch="torch.exp((x * 3).half())",
        tensorflow="tf.exp(tf.cast(w * 3, tf.float16))",
        jax="jnp.exp((w * 3).astype(jnp.float16))",
        onnx="more = Mul(w, three); small = Cast <to = 10> (more); y = Exp(small)",
    ),
    Case(
        "domain",
        r"asin of a number outside of \[-1, 1\] at 3 elements, the first at \[0, 0\]$",
        torch="torch.asin(x - 2.5)",
        tensorflow="tf.asin(w - 2.5)",
        jax="jax.lax.asin(w - 2.5)",
        onnx="less = Sub(w, two_and_half); y = Asin(less)",
    ),
    Case(
        "end of the domain",
        r"atanh at the end of its domain at \[0, 0\]$",
        torch="torch.atanh(x * (x < 1.5))",
        tensorflow="tf.atanh(w * tf.cast(w < 1.5, tf.float32))",
        jax="jnp.arctanh(w * (w < 1.5))",
    ),
    Case(
        "float16",
        _HALF,
        numpy="tf.cast(w, tf.float16) * 20000",
        torch="x.half() * 20000",
        tensorflow="tf.cast(w, tf.float16) * 20000",
        jax="w.astype(jnp.float16) * 20000",
        onnx="small = Cast <to = 10> (w); much = Cast <to = 10> (twenty_thousand); "
        "y = Mul(small, much)",
    ),
    Case(
        "float16 by a cast",
        _HALF,
        numpy="tf.cast(w * 20000, tf.float16)",
        torch="(x * 20000).half()",
        tensorflow="tf.cast(w * 20000, tf.float16)",
        jax="(w * 20000).astype(jnp.float16)",
        onnx="much = Mul(w, twenty_thousand); y = Cast <to = 10> (much)",
    ),
    Case(
        "bfloat16",
        r"bfloat16 overflows at \[0, 1\]: its limit is 3.3895e\+38, the largest finite number",
        torch="x.bfloat16() * 1e38",
        tensorflow="tf.cast(w, tf.bfloat16) * 1e38",
        jax="w.astype(jnp.bfloat16) * 1e38",
    ),
    Case(
        "bfloat16 by a cast",
        r"bfloat16 overflows at \[0, 1\]: its limit is 3.3895e\+38, the largest finite number",
        torch="(x * 0.85e38).bfloat16()",
        tensorflow="tf.cast(w * 0.85e38, tf.bfloat16)",
        jax="(w * 0.85e38).astype(jnp.bfloat16)",
        onnx="much = Mul(w, nearly); small = Cast <to = 16> (much); y = Cast <to = 1> (small)",
    ),
    Case(
        "float32",
        _FLOAT32.format(r"\[0, 1\]"),
        numpy="w * 1e38",
        torch="x * 1e38",
        tensorflow="w * 1e38",
        jax="w * 1e38",
        onnx="y = Mul(w, huge)",
    ),
    Case(
        "sums of products",
        _FLOAT32.format(r"4 elements, the first at \[0, 0\]"),
        numpy="tf.matmul(w * 1e25, tf.transpose(w * 1e25))",
        torch="(x * 1e25) @ (x * 1e25).T",
        tensorflow="tf.matmul(w * 1e25, w * 1e25, transpose_b=True)",
        jax="(w * 1e25) @ (w * 1e25).T",
        onnx="much = Mul(w, large); other = Transpose(much); y = MatMul(much, other)",
    ),
    Case(
        "square",
        _FLOAT32.format(r"6 elements, the first at \[0, 0\]"),
        numpy="tf.square(w * 1e25)",
        torch="torch.square(x * 1e25)",
        tensorflow="tf.square(w * 1e25)",
        jax="jnp.square(w * 1e25)",
        onnx="much = Mul(w, large); y = Mul(much, much)",
    ),
    Case(
        "a product of many numbers",
        _FLOAT32.format(r"3 elements, the first at \[0\]"),
        torch="torch.prod(x * 1e25, 0)",
        tensorflow="tf.reduce_prod(w * 1e25, 0)",
        jax="jnp.prod(w * 1e25, axis=0)",
    ),
    Case(
        "infinities apart",
        f"an infinity minus an infinity{_AT}",
        numpy="tf.where(tf.equal(zero, 0), infinities, w) - "
        "tf.where(tf.equal(zero, 0), infinities, w)",
        torch="x.masked_fill(one_zero == 0, inf) - one.masked_fill(one_zero == 0, inf)",
        tensorflow="tf.where(one_zero > 0, w, tf.fill([2, 3], inf)) - "
        "tf.where(one_zero > 0, one, tf.fill([2, 3], inf))",
        jax="jnp.where(one_zero > 0, w, inf) - jnp.where(one_zero > 0, one, inf)",
        onnx="is_zero = Equal(zero, nought); first = Where(is_zero, inf, w); "
        "second = Where(is_zero, inf, one); y = Sub(first, second)",
    ),
    Case(
        "0 times an infinity",
        f"0 times an infinity{_AT}",
        numpy="zero * tf.where(tf.equal(zero, 0), infinities, w)",
        torch="zero * one.masked_fill(one_zero == 0, inf)",
        tensorflow="zero * tf.where(one_zero > 0, w, tf.fill([2, 3], inf))",
        jax="zero * jnp.where(one_zero > 0, w, inf)",
        onnx="is_zero = Equal(zero, nought); first = Where(is_zero, inf, w); y = Mul(zero, first)",
    ),
    Case(
        "logit of 1",
        f"logit at the end of its domain{_AT}",
        torch="torch.logit(1 - zero / 8)",
    ),
    Case(
        "erfinv of 1",
        f"erfinv at the end of its domain{_AT}",
        torch="torch.erfinv(1 - zero / 8)",
        tensorflow="tf.math.erfinv(1 - zero / 8)",
        jax="jax.scipy.special.erfinv(1 - zero / 8)",
    ),
    Case(
        "digamma of 0",
        f"the gamma function at 0 or a negative whole number{_AT}",
        torch="torch.digamma(zero)",
        tensorflow="tf.math.digamma(zero)",
        jax="jax.scipy.special.digamma(zero)",
    ),
    Case(
        "sinh beyond the range",
        r"sinh of -1000 at \[1, 2\], and sinh ends at 89.42 in float32$",
        torch="torch.sinh(zero - 1000 * (1 - one_zero))",
        tensorflow="tf.sinh(zero - 1000 * (1 - one_zero))",
        jax="jnp.sinh(zero - 1000 * (1 - one_zero))",
    ),
    Case(
        "division by the spread of equal elements",
        r"0 / 0 at 3 elements, the first at \[0, 0\]: the divisor is the spread of elements that "
        "are equal$",
        torch="(one - one.mean(-1, keepdim=True))[:1] / one.std(-1, keepdim=True)[:1]",
        tensorflow="(lambda x: (x - tf.reduce_mean(x, -1, True))"
        " / tf.math.reduce_std(x, -1, True))(one[:1])",
        jax="(lambda x: (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True))(one[:1])",
    ),
    Case(
        "gradient of a root of 0 in a loop",
        r"the gradient of a square root at 0, the norm of a zero vector$",
        jax="jax.grad(lambda x: jax.lax.scan(lambda c, row: (c, jnp.sqrt(jnp.sum(row * row))),"
        " 0.0, x)[1].sum())(zero * 0)",
    ),
    Case(
        "gradient of logsumexp of a masked row",
        "the gradient of logsumexp where all is -inf$",
        torch="gradient(torch.logsumexp(x + mask, -1))",
    ),
    Case(
        "gradient of binary cross entropy of a probability that is 0",
        "the gradient of binary cross entropy at a probability of exactly 0 or 1$",
        torch="gradient(F.binary_cross_entropy((zero / 8).half(), torch.zeros(2, 3).half()))",
    ),
    Case(
        "softmax of a masked row",
        _MASKED,
        numpy="tf.nn.softmax(w + mask)",
        torch="torch.softmax(x + mask, -1)",
        tensorflow="tf.nn.softmax(w + mask)",
        jax="jax.nn.softmax(w + mask)",
        onnx="masked = Add(w, mask); y = Softmax(masked)",
    ),
    Case(
        "log_softmax of a masked row",
        _MASKED,
        numpy="tf.nn.log_softmax(w + mask)",
        torch="F.log_softmax(x + mask, -1)",
        tensorflow="tf.nn.log_softmax(w + mask)",
        jax="jax.nn.log_softmax(w + mask)",
        onnx="masked = Add(w, mask); y = LogSoftmax(masked)",
    ),
    Case(
        "softmax of a masked column",
        r"1 row\(s\) of softmax are -inf as a whole, the first \[2\]$",
        torch="torch.softmax(x.masked_fill(one_zero.amin(0) == 0, -inf), 0)",
        jax="jax.nn.softmax(jnp.where(one_zero.min(0) == 0, -inf, w), 0)",
    ),
    Case(
        "masked row less its maximum",
        r"an infinity minus an infinity at 3 elements, the first at \[1, 0\]$",
        torch="(x + mask) - (x + mask).amax(-1, keepdim=True)",
        tensorflow="(w + mask) - tf.reduce_max(w + mask, -1, keepdims=True)",
        jax="(w + mask) - (w + mask).max(-1, keepdims=True)",
        onnx="masked = Add(w, mask); most = ReduceMax <axes = [1]> (masked); y = Sub(masked, most)",
    ),
    Case(
        "softmax by hand",
        _MASKED,
        torch="(lambda m: torch.exp(m - m.amax(-1, keepdim=True)))(x + mask)",
        tensorflow="(lambda m: tf.exp(m - tf.reduce_max(m, -1, keepdims=True)))(w + mask)",
        onnx="masked = Add(w, mask); most = ReduceMax <axes = [1]> (masked); "
        "less = Sub(masked, most); y = Exp(less)",
    ),
    Case(
        "norm of a zero vector",
        _NORM,
        torch="x / (x * 0).norm(dim=-1, keepdim=True)",
        tensorflow="w / tf.norm(w * 0, axis=-1, keepdims=True)",
        jax="w / jnp.linalg.norm(w * 0, axis=-1, keepdims=True)",
        onnx="none = Mul(w, nought); norm = ReduceL2 <axes = [1]> (none); y = Div(w, norm)",
    ),
    Case(
        "norm by hand",
        _NORM,
        torch="x / (x * 0).square().sum(-1, keepdim=True).sqrt()",
        tensorflow="w / tf.sqrt(tf.reduce_sum(tf.square(w * 0), -1, keepdims=True))",
        jax="w / jnp.sqrt(jnp.sum((w * 0) ** 2, -1, keepdims=True))",
        onnx="none = Mul(w, nought); square = Mul(none, none); "
        "axes = Constant <value_ints = [1]> (); sum = ReduceSum(square, axes); "
        "norm = Sqrt(sum); y = Div(w, norm)",
    ),
    Case(
        "gradient of acos at 1",
        f"the gradient of acos at -1 or 1{_AT}",
        torch="gradient(torch.acos(1 - zero / 8))",
        tensorflow="tf.gradients(tf.math.acos(1 - zero / 8), w)[0]",
        jax="jax.grad(lambda w: jnp.arccos(1 - w * one_zero / 8).sum())(w)",
    ),
    Case(
        "gradient of asin at 1",
        f"the gradient of asin at -1 or 1{_AT}",
        torch="gradient(torch.asin(1 - zero / 8))",
        tensorflow="tf.gradients(tf.math.asin(1 - zero / 8), w)[0]",
        jax="jax.grad(lambda w: jnp.arcsin(1 - w * one_zero / 8).sum())(w)",
    ),
    Case(
        "gradient of a power at 0",
        f"the gradient of a power below 1 at 0{_AT}",
        torch="gradient(zero ** 0.3)",
        tensorflow="tf.gradients(zero**0.3, w)[0]",
        jax="jax.grad(lambda w: ((w * one_zero) ** 0.3).sum())(w)",
    ),
    Case(
        "gradient of xlogy of 0 and 0",
        f"the gradient of xlogy where its logarithm is of 0{_AT}",
        torch="gradient(torch.special.xlogy(zero, zero))",
    ),
    Case(
        "logarithm of the determinant of a singular matrix",
        "the logarithm of the determinant of a singular matrix$",
        torch="torch.linalg.slogdet(x[:, :2] * 0 + 1)[1]",
        tensorflow="tf.linalg.slogdet(w[:, :2] * 0 + 1)[1]",
        jax="jnp.linalg.slogdet(w[:, :2] * 0 + 1)[1]",
    ),
    Case(
        "logarithm of a negative determinant",
        "the logarithm of a negative determinant$",
        torch="torch.logdet(x[:, :2])",
    ),
    Case(
        "logarithm of a negative determinant of several",
        r"the logarithm of a negative determinant at \[1\]$",
        torch="torch.logdet(torch.stack([torch.eye(2), x[:, :2]])).sum()",
    ),
    Case(
        "gradient of the logarithm of a determinant",
        "the gradient of the logarithm of the determinant of a singular matrix$",
        jax="jax.grad(lambda w: jnp.linalg.slogdet(w[:, :2] * 0 + 1)[1])(w)",
    ),
    Case(
        "Cholesky of a matrix of zeros",
        "Cholesky of a matrix that isn't positive definite: its smallest eigenvalue is 0$",
        tensorflow="tf.linalg.cholesky(w[:, :2] * 0)",
        jax="jnp.linalg.cholesky(w[:, :2] * 0)",
    ),
    Case(
        "Cholesky of a matrix that isn't positive definite",
        r"Cholesky of a matrix that isn't positive definite: its smallest eigenvalue is -1\.54$",
        tensorflow="tf.linalg.cholesky(w[:, :2] * [[1, 0.75], [1, 4]])",
        jax="jnp.linalg.cholesky(w[:, :2] * jnp.array([[1, 0.75], [1, 4]]))",
    ),
    Case(
        "triangular system with a 0",
        r"a division by a 0 on the diagonal: the matrix is singular$",
        torch="torch.linalg.solve_triangular(zero[:, 1:], one[:, :1], upper=True)",
        tensorflow="tf.linalg.triangular_solve(zero[:, 1:], one[:, :1], lower=False)",
        jax="jax.scipy.linalg.solve_triangular(w[:, 1:] * one_zero[:, 1:], one[:, :1])",
    ),
    Case(
        "inverse of a singular matrix",
        "the inverse of a singular matrix$",
        torch="torch.linalg.inv_ex(x[:, :2] * 0 + 1)[0]",
        jax="jnp.linalg.inv(w[:, :2] * 0 + 1)",
        otherwise={"jax": "a division by a 0 on the diagonal: the matrix is singular$"},
    ),
    Case(
        "a system of equations of a singular matrix",
        "the solution of a system of equations of a singular matrix$",
        torch="torch.linalg.solve_ex(x[:, :2] * 0 + 1, x[0, :2])[0]",
        jax="jnp.linalg.solve(w[:, :2] * 0 + 1, w[0, :2])",
        otherwise={"jax": "a division by a 0 on the diagonal: the matrix is singular$"},
    ),
    Case(
        "gradient of arctan2 at the origin",
        rf"the gradient of arctan2 at \(0, 0\){_AT}",
        tensorflow="tf.gradients(tf.math.atan2(zero, zero), w)[0]",
        jax="jax.grad(lambda w: jnp.arctan2(w * one_zero, w * one_zero).sum())(w)",
    ),
    # A division of the program's own, of the same numbers.
    Case(
        "division beside an arctan2",
        f"0 / 0{_AT}",
        tensorflow="tf.math.atan2(zero, zero) + zero / zero",
        torch="torch.atan2(zero, zero) + zero / zero",
        jax="jnp.arctan2(zero, zero) + zero / zero",
    ),
    Case(
        "gradient of a square root",
        f"the gradient of a square root at 0{_AT}",
        torch="gradient(torch.sqrt(zero))",
        tensorflow="tf.gradients(tf.sqrt(zero), w)[0]",
        jax="jax.grad(lambda w: jnp.sqrt(w * one_zero).sum())(w)",
    ),
    Case(
        "gradient of a square root on several devices",
        r"the gradient of a square root at 0 at \[0, 1, 1\]$",
        jax="sharded(jax.grad(lambda w: jnp.sqrt(abs(w - 0.5)).sum()))(w)",
    ),
    Case(
        "gradient of a square root that a where leaves out",
        f"the gradient of a square root at 0{_AT}",
        torch="gradient(torch.where(one_zero > 0, torch.sqrt(zero), 0))",
        jax="jax.grad(lambda w: jnp.where(one_zero > 0, jnp.sqrt(w * one_zero), 0).sum())(w)",
    ),
    Case(
        "gradient of a logarithm that a where leaves out",
        f"the logarithm of 0{_AT}",
        torch="gradient(torch.where(one_zero > 0, torch.log(zero), 0))",
        tensorflow="tf.gradients(tf.where(one_zero > 0, tf.math.log(zero), zero), w)[0]",
        jax="jax.grad(lambda w: jnp.where(one_zero > 0, jnp.log(w * one_zero), 0).sum())(w)",
        otherwise={"tensorflow": f"a division by 0{_AT}"},
    ),
    Case(
        "gradient of a norm",
        r"the gradient of a square root at 0( at \[0, 0\])?, the norm of a zero vector$",
        tensorflow="tf.gradients(tf.norm(w * 0), w)[0]",
        jax="jax.grad(lambda w: jnp.linalg.norm(w * 0))(w)",
        torch="gradient((x * 0).square().sum().sqrt())",
    ),
    Case(
        "gradient of an exp that a where leaves out",
        r"exp of 120 at \[0, 1\], and exp ends at 88.72 in float32$",
        torch="gradient(torch.where(x < 3.5, torch.exp(x * 30 * (x != 3)), 0))",
        tensorflow="tf.gradients(tf.where(w < 3.5, "
        "tf.exp(w * 30 * tf.cast(tf.not_equal(w, 3), tf.float32)), w), w)[0]",
        jax="jax.grad(lambda w: jnp.where(w < 3.5, jnp.exp(w * 30 * (w != 3)), 0).sum())(w)",
    ),
    Case(
        "product in a gradient",
        f"0 times an infinity{_AT}",
        torch="gradient(torch.where(one_zero > 0, x * one.masked_fill(one_zero == 0, inf), 0))",
        tensorflow="tf.gradients("
        "tf.where(one_zero > 0, w * tf.where(one_zero > 0, one, tf.fill([2, 3], inf)), one), w)[0]",
        jax="jax.grad(lambda w: jnp.where("
        "one_zero > 0, w * jnp.where(one_zero > 0, one, inf), 0).sum())(w)",
    ),
    Case(
        "acos in a gradient",
        r"the gradient of acos at -1 or 1 at 6 elements, the first at \[0, 0\]$",
        torch="gradient(torch.acos(x * 0 + 1))",
    ),
    Case(
        "power in a gradient",
        r"the gradient of a power below 1 at 0 at 6 elements, the first at \[0, 0\]$",
        torch="gradient((x * 0) ** 0.5000001)",
    ),
    Case(
        "svd in a gradient",
        "the gradient of svd at equal or zero singular values$",
        torch="gradient(torch.linalg.svd(x * 0 + torch.eye(2, 3), full_matrices=False)[0])",
        jax="jax.grad(lambda w: jnp.linalg.svd(w * 0 + jnp.eye(2, 3), False)[0].sum())(w)",
    ),
    Case(
        "eigenvectors in a gradient",
        "the gradient of eigenvectors at equal eigenvalues$",
        torch="gradient(torch.linalg.eigh(x @ x.T * 0 + torch.eye(2))[1])",
        jax="jax.grad(lambda w: jnp.linalg.eigh(w @ w.T * 0 + jnp.eye(2))[1].sum())(w)",
    ),
    Case(
        "a difference of eigenvalues",
        "a division by 0$",
        jax="1 / jnp.diff(jnp.linalg.eigh(w[:, :2] * 0 + jnp.eye(2))[0])[0]",
    ),
    Case(
        "labels that are all ignored",
        "the mean over labels that are all ignored, or of weight 0$",
        torch="F.cross_entropy(x, torch.tensor([-100, -100]))",
    ),
    Case(
        "squares inside of a norm",
        r"squares of numbers up to .* leave float32 inside of (native_)?layer_norm: its limit",
        torch="F.layer_norm(x * 1e25, (3,))",
    ),
    Case(
        "squares inside of a variance",
        r"squares of numbers up to .* leave float32 inside of var: its limit",
        torch="(x * 1e25).var()",
    ),
    Case(
        "an infinite number",
        "the number inf in the call$",
        torch="x * inf",
        jax="w * jnp.inf",
    ),
    Case(
        "an infinite number as a tensor",
        "grow/y:0 is inf$",
        tensorflow="tf.multiply(w, float('inf'), name='grow')",
    ),
    Case(
        "an infinite rate",
        r"the number -inf in the call \(alpha\)$",
        torch="torch.add(x, zero, alpha=-inf)",
    ),
    Case(
        "a fused step at an infinite rate",
        "the learning rate is inf$",
        torch="step(torch.optim.SGD, lr=inf)",
    ),
    Case(
        "a fused step without an eps",
        r"0 / 0 at \[1, 2\]: the gradient is 0 there, and eps is 0$",
        torch="step(torch.optim.Adam, eps=0.0)",
    ),
    Case(
        "mean of nothing",
        "the mean of nothing: no element is left$",
        numpy="tf.reduce_mean(nothing)",
        torch="x[x > 9].mean()",
        tensorflow="tf.reduce_mean(tf.boolean_mask(w, w > 9))",
        jax="w[:0].mean()",
        onnx="none = Slice(w, at_0, at_0); total = ReduceSum <keepdims = 0> (none); "
        "y = Div(total, nought)",
    ),
    Case(
        "variance of one element",
        "the variance of one element: it divides by n - 1, which is 0$",
        numpy="(lambda n: tf.reduce_sum(tf.square(n - tf.reduce_mean(n))) / 0.0)(single)",
        torch="x[:1, :1].std()",
        tensorflow="(lambda n: tf.reduce_sum(tf.square(n - tf.reduce_mean(n))) / 0.0)(w[:1, :1])",
        jax="w[:1, :1].var(ddof=1)",
        onnx="n = Slice(w, at_00, at_11); mean = ReduceMean(n); apart = Sub(n, mean); "
        "square = Mul(apart, apart); total = ReduceSum <keepdims = 0> (square); "
        "y = Div(total, nought)",
    ),
    Case(
        "nan of the batch",
        r"it came in from outside \((.*bad.*|input/.*):0, row 0\)$",
        numpy="w + bad",
        torch="x + bad",
        tensorflow="w + bad",
        jax="w + bad",
        onnx="y = Add(w, bad)",
    ),
    Case(
        "nan of the batch in a fused op",
        r"it came in from outside \((.*bad.*|input/.*):0, row 0\)$",
        numpy="tf.nn.softmax(bad)",
        torch="F.layer_norm(bad, (3,))",
        tensorflow="tf.nn.softmax(bad)",
        jax="jax.nn.softmax(bad)",
        onnx="y = LayerNormalization(bad, three_ones)",
    ),
    Case(
        "nan of the weights",
        r"it came in with the weights \(.*weights.*:0, row 0\)$",
        numpy="w + weights",
        torch="model(x)",
        tensorflow="w + weights",
        jax='{"weights": jax.grad(lambda p: jnp.sum((w + p) ** 2))(weights)}',
        onnx="y = Add(w, weights)",
        otherwise={
            "tensorflow": r"it came in with the weights "
            r"\((weights/read|.*ReadVariableOp):0, row 0\)$"
        },
    ),
    # Where nothing is to be claimed: what an op does isn't known, or its inputs don't show it.
    Case(
        "op that nobody knows",
        "",
        torch="torch.special.zeta(zero + 1, w)",
        tensorflow="tf.math.zeta(zero + 1, w)",
        jax="jax.lax.zeta(zero + 1, w)",
        onnx="big = Constant <value_float = 1.0e30> (); more = Mul(w, big); "
        "y = ReduceSumSquare(more)",
    ),
    Case(
        "function of the program's own",
        "",
        torch="broken(x)",
        tensorflow="tf.numpy_function(broken, [w], tf.float32)",
        jax="jax.pure_callback(broken, jax.ShapeDtypeStruct((2, 3), jnp.float32), w)",
    ),
    Case(
        "memory that nobody has written to",
        r"it reads memory that was never written \(empty:0\)$",
        torch="torch.empty(2, 3) + x",
    ),
    Case(
        "random numbers",
        "",
        torch="torch.empty(50).normal_(0, 3e38)",
        tensorflow="tf2.raw_ops.RandomGamma("
        "shape=[20], alpha=np.float16([65504]), seed=1, seed2=1)",
        onnx="y = RandomNormal <shape = [50], scale = 3e38, seed = 1.0> ()",
    ),
    Case(
        "bits of whole numbers",
        "",
        torch="torch.full((3,), 0x7FC00000, dtype=torch.int32).view(torch.float32) + 1",
        tensorflow="tf.bitcast(tf.cast(w, tf.int32) * 0 + 0x7FC00000, tf.float32)",
        jax="jax.lax.bitcast_convert_type(w.astype(int) * 0 + 0x7FC00000, jnp.float32)",
    ),
    Case(
        "fused op over a mask",
        "",
        torch="F.layer_norm(x + mask, (3,))",
        tensorflow="tf2.raw_ops.SoftmaxCrossEntropyWithLogits(features=w + mask, labels=w).loss",
        onnx="masked = Add(w, mask); y = LayerNormalization(masked, three_ones)",
        numpy="tf.nn.softmax_cross_entropy_with_logits_v2(labels=w, logits=w + mask)",
    ),
    Case(
        "products with a mask in them",
        "",
        numpy="tf.matmul(mask, tf.transpose(zero * 0))",
        torch="(x + mask) @ (x * 0).T",
        # TensorFlow 2.12 itself makes zeros of a product with ``w * 0``.
        tensorflow="tf.matmul(w + mask, tf.nn.relu(-w), transpose_b=True)",
        jax="(w + mask) @ (w * 0).T",
        onnx="masked = Add(w, mask); none = Mul(w, nought); other = Transpose(none); "
        "y = MatMul(masked, other)",
    ),
    Case(
        "gradient of a loss of a class that is masked",
        "",
        torch="gradient(-x.masked_fill(one_zero == 0, -inf).log_softmax(-1)[:, 2])",
    ),
    Case(
        "a small number added to a divisor, and 0 in float16",
        r"0 / 0 at \[1, 2\]: the (1e-08|small number) that is added to the divisor is 0 in float16",
        torch="zero.half() / (zero.half() + 1e-8)",
        tensorflow="(lambda v: v / (v + 1e-8))(tf.cast(zero, tf.float16))",
        jax="(lambda v: v / (v + 1e-8))(zero.astype(jnp.float16))",
        otherwise={"jax": r"0 / 0 at \[1, 2\]: what is added to the divisor is 0$"},
    ),
    Case(
        "batch norm with a negative running variance",
        r"batch norm takes the root of a negative variance at \[1\]: the smallest is -1$",
        torch="torch.nn.functional.batch_norm(x, one[0], torch.tensor([1.0, -1, 0]))",
        tensorflow="tf.compat.v1.nn.fused_batch_norm(tf.reshape(w, (1, 1, 2, 3)), tf.ones(3), "
        "tf.zeros(3), tf.zeros(3), tf.constant([1.0, -1, 1]), is_training=False)[0]",
        onnx="y = BatchNormalization(w, three_ones, three_ones, three_ones, unlike)",
    ),
    Case(
        "CTC loss of a target that is too long",
        r"a target is too long for its input at \[0\]: it needs 3 steps, and its input has 2$",
        torch="torch.nn.functional.ctc_loss(x[:, None].log_softmax(-1), torch.tensor([[1, 1]]), "
        "torch.tensor([2]), torch.tensor([2]), reduction='none')",
    ),
    Case(
        "gradient of a loss of a nan, times 0",
        "",
        torch="gradient(torch.where(one_zero == 0, torch.nan, x) * 0)",
    ),
)

#: Engine -> what makes something bad that comes to nothing, or nothing bad at all.
LOCAL = (
    Case(
        "logarithm that a where leaves out",
        "",
        numpy="tf.where(tf.equal(zero, 0), w, tf.log(zero))",
        torch="torch.where(one_zero > 0, torch.log(zero), 0.0)",
        tensorflow="tf.where(one_zero > 0, tf.math.log(zero), zero)",
        jax="jnp.where(one_zero > 0, jnp.log(zero), 0)",
        onnx="is_zero = Equal(zero, nought); log = Log(zero); y = Where(is_zero, w, log)",
    ),
    Case(
        "logarithm that is replaced",
        "",
        torch="torch.nan_to_num(torch.log(zero))",
        tensorflow="tf.maximum(tf.math.log(zero), -100.0)",
        jax="jnp.nan_to_num(jnp.log(zero))",
        onnx="log = Log(zero); y = Max(log, one)",
    ),
    Case(
        "mask",
        "",
        numpy="w + mask",
        torch="x + mask",
        tensorflow="w + mask",
        jax="w + mask",
        onnx="y = Add(w, mask)",
    ),
    Case(
        "clipping to no limit, for the norm alone",
        "",
        torch="x * torch.clamp(float('inf') / x.norm(), max=1.0)",
        tensorflow="w * tf.minimum(1.0, float('inf') / tf.norm(w))",
        jax="jnp.where(jnp.linalg.norm(w) < jnp.inf, w, w / jnp.linalg.norm(w) * jnp.inf)",
    ),
    Case(
        "a step made of a sigmoid and an infinity",
        "",
        torch="x * torch.sigmoid((x.abs() + 1) * inf)",
        tensorflow="w * tf.sigmoid((tf.abs(w) + 1.0) * float('inf'))",
        jax="w * jax.nn.sigmoid((jnp.abs(w) + 1) * jnp.inf)",
    ),
    Case(
        "least number so far, which begins at infinity",
        "",
        jax="jax.lax.scan(lambda c, x: (jnp.minimum(c, x), c), jnp.inf, w[0])[1]",
    ),
    Case(
        "whole numbers",
        "",
        torch="x.int() * 2**30 * 4",
        tensorflow="tf.cast(w, tf.int32) * 2**30 * 4",
        jax="w.astype(int) * 2**30 * 4",
    ),
)

ENGINES = ("numpy", "torch", "tensorflow", "jax", "onnx")


def table() -> str:
    """The cases in words, as docs/why.md has them: each a row, with the engines that compute it."""
    rows = [
        "| case | reason | NumPy engine | PyTorch | TensorFlow | JAX | ONNX |",
        f"|{'---|' * 7}",
    ]
    for case in (*CASES, *LOCAL):
        said = re.sub(r"\\(.)", r"\1", case.says.removesuffix("$").replace("(native_)?", ""))
        shown = f"`{said}`" if said else "none" if case in CASES else "it is no origin"
        marks = [" yes |" if getattr(case, engine) else "  |" for engine in ENGINES]
        rows.append(f"| {case.name} | {shown.replace('|', ' or ')} |{''.join(marks)}")
    return "\n".join(rows)


if __name__ == "__main__":
    print(table())
