"""Why a tensor is bad where several ops compute together what a framework has no op for."""

import pytest
from filter_kit import INF, NAN, Op, op_of, why


def root():
    """The square root of a sum of squares."""
    return [
        Op("square", op_of("mul"), ["x", "x"], [0, 0]),
        Op("total", op_of("sum"), ["square"], [0]),
        Op("root", op_of("sqrt"), ["total"], [0]),
    ]


ZERO, ONE = Op("x", "Input", (), [0, 0]), Op("g", "Input", (), [1])
SAME = op_of("same")
ONE_LEFT = ("one", "the variance of one element: it divides by n - 1, which is 0")
ZERO_BY_ZERO = ("division", "0 / 0 at [0]")
LESS = [
    Op("x", "Input", (), [5]),
    Op("mean", op_of("mean"), ["x"], 5),
    Op("less", op_of("sub"), ["x", "mean"], [0]),
]
BY_NOTHING = [
    Op("count", "Input", (), [0]),
    Op("y", op_of("div"), ["total", "count"], [NAN]),
]


@pytest.mark.parametrize(
    ("ops", "cause"),
    [
        # A vector by its norm.
        (
            [ZERO, *root(), Op("y", op_of("div"), ["x", "root"], [NAN, NAN])],
            (
                "norm",
                "0 / 0 at 2 elements, the first at [0]: it is root, the norm of a zero vector",
            ),
        ),
        (
            [
                ZERO,
                Op("n", op_of("norm"), ["x"], [0]),
                Op("s", SAME, ["n"], [0]),
                Op("y", op_of("div"), ["x", "s"], [NAN, NAN]),
            ],
            ("norm", "0 / 0 at 2 elements, the first at [0]: it is n, the norm of a zero vector"),
        ),
        (
            [
                ZERO,
                *root(),
                Op("half", op_of("mul"), ["root"], [0], other=0.5),
                Op("y", op_of("div"), ["x", "half"], [NAN, NAN]),
            ],
            ("division", "0 / 0 at 2 elements, the first at [0]"),
        ),
        # The gradient of a root, by the op of the backward pass or by what the forward pass did.
        (
            [ZERO, *root(), ONE, Op("y", op_of("sqrt_grad"), ["root", "g"], [INF])],
            ("gradient", "the gradient of a square root at 0 at [0], the norm of a zero vector"),
        ),
        (
            [
                Op("r", op_of("sqrt"), ["g"], [0]),
                ONE,
                Op("y", op_of("sqrt_grad"), ["r", "g"], [INF]),
            ],
            ("gradient", "the gradient of a square root at 0 at [0]"),
        ),
        # The mean and the variance of what is left, written out.
        (
            [
                Op("x", "Input", (), []),
                Op("total", op_of("sum"), ["x"], 0.0),
                Op("count", "Input", (), 0.0),
                Op("y", op_of("div"), ["total", "count"], NAN),
            ],
            ("nothing", "the mean of nothing: no element is left"),
        ),
        (
            [
                *LESS,
                Op("square", op_of("square"), ["less"], [0]),
                Op("total", op_of("sum"), ["square"], [0]),
                *BY_NOTHING,
            ],
            ONE_LEFT,
        ),
        (
            [
                Op("x", "Input", (), [5]),
                Op("other", "Input", (), [5]),
                Op("mean", op_of("mean"), ["other"], 5),
                Op("less", op_of("sub"), ["x", "mean"], [0]),
                Op("square", op_of("pow"), ["less"], [0], exponent=2),
                Op("total", op_of("sum"), ["square"], [0]),
                *BY_NOTHING,
            ],
            ZERO_BY_ZERO,
        ),
        # The beginning of a softmax.
        (
            [
                Op("x", "Input", (), [[-INF, -INF]]),
                Op("top", op_of("max"), ["x"], [[-INF]]),
                Op("wide", SAME, ["top"], [[-INF]]),
                Op("e", op_of("exp"), ["y"]),
                Op("y", op_of("sub"), ["x", "wide"], [[NAN, NAN]]),
            ],
            ("masked", "1 row(s) of softmax are -inf as a whole, the first [0]"),
        ),
        (
            [
                Op("x", "Input", (), [[-INF, -INF]]),
                Op("top", op_of("max"), ["x"], [[-INF]]),
                Op("y", op_of("sub"), ["x", "top"], [[NAN, NAN]]),
            ],
            ("difference", "an infinity minus an infinity at 2 elements, the first at [0, 0]"),
        ),
        (
            [
                Op("x", "Input", (), [[-INF, -INF]]),
                Op("wide", SAME, ["wide"], [[-INF]]),
                Op("e", op_of("exp"), ["y"]),
                Op("y", op_of("sub"), ["x", "wide"], [[NAN, NAN]]),
            ],
            ("difference", "an infinity minus an infinity at 2 elements, the first at [0, 0]"),
        ),
        (
            [
                Op("x", "Input", (), [[-INF, -INF]]),
                Op("other", "Input", (), [[-INF]]),
                Op("e", op_of("exp"), ["y"]),
                Op("y", op_of("sub"), ["x", "other"], [[NAN, NAN]]),
            ],
            ("difference", "an infinity minus an infinity at 2 elements, the first at [0, 0]"),
        ),
        (
            [
                Op("x", "Input", (), [[-INF, -INF]]),
                Op("top", op_of("max"), ["x"], [[-INF]]),
                Op("e", op_of("exp"), ["x"], waits=["y"]),
                Op("y", op_of("sub"), ["x", "top"], [[NAN, NAN]]),
            ],
            ("difference", "an infinity minus an infinity at 2 elements, the first at [0, 0]"),
        ),
        # The variance, with a mean that is written out.
        (
            [
                Op("x", "Input", (), [5]),
                Op("whole", op_of("sum"), ["x"], 5),
                Op("one", "Input", (), 1),
                Op("mean", op_of("div"), ["whole", "one"], 5),
                Op("less", op_of("sub"), ["x", "mean"], [0]),
                Op("square", op_of("square"), ["less"], [0]),
                Op("total", op_of("sum"), ["square"], [0]),
                *BY_NOTHING,
            ],
            ONE_LEFT,
        ),
        # The square is a power whose exponent is a tensor; one of several numbers says nothing.
        *(
            (
                [
                    *LESS,
                    Op("two", "Input", (), exponent),
                    Op("square", op_of("pow"), ["less", "two"], [0]),
                    Op("total", op_of("sum"), ["square"], [0]),
                    *BY_NOTHING,
                ],
                cause,
            )
            for exponent, cause in [(2, ONE_LEFT), (3, ZERO_BY_ZERO), ([2], ZERO_BY_ZERO)]
        ),
        # What a sum is told besides is not what is summed.
        (
            [
                *LESS,
                Op("square", op_of("square"), ["less"], [0]),
                Op("total", op_of("sum"), ["x", "square"], [0]),
                *BY_NOTHING,
            ],
            ZERO_BY_ZERO,
        ),
        # Only a division is the mean of nothing.
        (
            [
                Op("x", "Input", (), []),
                Op("total", op_of("sum"), ["x"], 0.0),
                Op("count", "Input", (), 0.0),
                Op("y", op_of("mod"), ["total", "count"], NAN),
            ],
            ("division", "a remainder of a division by 0"),
        ),
        # Two that hand each other on are no norm.
        (
            [
                ZERO,
                Op("s", SAME, ["t"], [0]),
                Op("t", SAME, ["s"], [0]),
                Op("u", SAME, ["s"], [0]),
                Op("y", op_of("div"), ["x", "u"], [NAN, NAN]),
            ],
            ("division", "0 / 0 at 2 elements, the first at [0]"),
        ),
    ],
)
def test_what_several_ops_compute_together(ops, cause):
    assert why(*ops) == cause


@pytest.mark.parametrize("half", [0.5, 0.25])
@pytest.mark.parametrize("phase", ["backward", "forward"])
def test_half_by_a_root_that_only_the_backward_pass_reads(half, phase):
    back = Op("back", op_of("mul"), ["y", "g"])
    back.attributes["_phase"] = phase
    ops = [
        ONE,
        Op("r", op_of("sqrt"), ["g"], [0]),
        back,
        Op("y", op_of("div"), ["r"], [INF], self=half),
    ]
    is_gradient = (half, phase) == (0.5, "backward")
    gradient = ("gradient", "the gradient of a square root at 0 at [0]")
    assert why(*ops) == (gradient if is_gradient else ("division", "a division by 0 at [0]"))


def test_a_gradient_is_that_of_what_the_forward_pass_has_computed():
    for op, is_root in (("sqrt", True), ("exp", False)):
        forward = Op("r", op_of(op), ["g"], [1])
        y = Op("y", op_of("div"), ["g", "zero"], [INF])
        y.attributes["_forward_node"] = "r"
        found = why(ONE, Op("zero", "Input", (), [0]), forward, y)
        gradient = ("gradient", "the gradient of a square root at 0 at [0]")
        assert found == (gradient if is_root else ("division", "a division by 0 at [0]"))
