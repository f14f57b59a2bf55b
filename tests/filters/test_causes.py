"""Why a tensor is bad, op by op: what its inputs show, in words, and nothing that they don't."""

import numpy as np
import pytest
from filter_kit import INF, NAN, Op, dump_of, op_of, why

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.filters.causes.find import cause_of
from tfdbg_cli.filters.lineage import TensorLineage

LIMIT32, LIMIT16 = "its limit is 3.4028e+38", "its limit is 65504"
FLOAT32 = f"{LIMIT32}, the largest input"
NOT_THESE = (
    "inputs",
    "not from the inputs shown below: they were overwritten since, or the op computes in "
    "another precision",
)
LARGEST = np.finfo(np.float32).max


@pytest.mark.parametrize(
    ("what", "given", "made", "cause"),
    [
        ("log", [[1, 0, 2]], [0, -INF, 0.7], ("log", "the logarithm of 0 at [1]")),
        (
            "log",
            [[0, -1, 0]],
            [-INF, NAN, -INF],
            (
                "log",
                "the logarithm of 0 at 2 elements, the first at [0], and the logarithm of a"
                " negative number at [1]",
            ),
        ),
        (
            "log",
            [[-1, 0, -1]],
            [NAN, -INF, NAN],
            (
                "log",
                "the logarithm of a negative number at 2 elements, the first at [0], and the"
                " logarithm of 0 at [1]",
            ),
        ),
        (
            "log1p",
            [[-1, -3]],
            [-INF, NAN],
            (
                "log",
                "the logarithm of 1 + (-1) at [0], and the logarithm of a number below 1 + (-1)"
                " at [1]",
            ),
        ),
        ("log", [[INF]], [INF], None),
        ("rsqrt", [[0, 4]], [INF, 0.5], ("division", "the inverse square root of 0 at [0]")),
        (
            "rsqrt",
            [[4, -1]],
            [0.5, NAN],
            ("sqrt", "the inverse square root of a negative number at [1]"),
        ),
        ("sqrt", [[4, -4]], [2, NAN], ("sqrt", "the square root of a negative number at [1]")),
        ("sqrt", [[INF]], [INF], None),
        ("asin", [[1, 2]], [1.6, NAN], ("domain", "asin of a number outside of [-1, 1] at [1]")),
        ("acos", [[-1, -2]], [3.1, NAN], ("domain", "acos of a number outside of [-1, 1] at [1]")),
        ("atanh", [[1, 0]], [INF, 0], ("domain", "atanh at the end of its domain at [0]")),
        ("atanh", [[-2, 0]], [NAN, 0], ("domain", "atanh of a number outside of [-1, 1] at [0]")),
        ("acosh", [[1, 0.5]], [0, NAN], ("domain", "acosh of a number outside of [1, inf] at [1]")),
        (
            "div",
            [[1, 0], [0, 0]],
            [INF, NAN],
            ("division", "0 / 0 at [1], and a division by 0 at [0]"),
        ),
        (
            "div",
            [[INF, 1], [INF, 1]],
            [NAN, 1],
            ("difference", "an infinity divided by an infinity at [0]"),
        ),
        (
            "div",
            [[3e38, 1], [0.1, 1]],
            [INF, 1],
            ("overflow", f"a quotient beyond the range of float32 at [0]: {LIMIT32}"),
        ),
        (
            "div",
            [[[1, 2], [3, 4]], [[0], [1]]],
            [[INF, INF], [3, 4]],
            ("division", "a division by 0 at 2 elements, the first at [0, 0]"),
        ),
        ("div", [[1, 2], [0, 0, 0]], [INF, INF], None),
        ("div", [[INF, 1], [2, 1]], [INF, 1], None),
        ("mod", [[3, 1], [0, 2]], [NAN, 1], ("division", "a remainder of a division by 0 at [0]")),
        ("reciprocal", [[0, 2]], [INF, 0.5], ("division", "a division by 0 at [0]")),
        (
            "reciprocal",
            [[1e-39]],
            [INF],
            ("overflow", f"a quotient beyond the range of float32 at [0]: {LIMIT32}"),
        ),
        (
            "pow",
            [[-2, 4], [0.5, 0.5]],
            [NAN, 2],
            ("power", "a power of a negative number whose exponent isn't whole at [0]"),
        ),
        ("pow", [[0.5], [NAN]], [NAN], None),
        ("pow", [[0, 2], [-1, 1]], [INF, 2], ("division", "0 to a negative power at [0]")),
        (
            "pow",
            [[1e30, 3], [2, 1]],
            [INF, 3],
            ("overflow", f"float32 overflows at [0]: {LIMIT32}"),
        ),
        (
            "pow",
            [[1e-30, 3], [-2, 1]],
            [INF, 3],
            ("overflow", f"float32 overflows at [0]: {LIMIT32}"),
        ),
        (
            "exp",
            [[100, 1]],
            [INF, 2.7],
            ("exp", "exp of 100 at [0], and exp ends at 88.72 in float32"),
        ),
        (
            "exp",
            [[100, 1, 200]],
            [INF, 2.7, INF],
            ("exp", "exp of 200 at 2 elements, the first at [0], and exp ends at 88.72 in float32"),
        ),
        (
            "exp2",
            [[130, 1]],
            [INF, 2],
            ("exp", "exp2 of 130 at [0], and exp2 ends at 128 in float32"),
        ),
        ("exp", [[INF]], [INF], None),
        (
            "add",
            [[INF, 1], [-INF, 1]],
            [NAN, 2],
            ("difference", "an infinity minus an infinity at [0]"),
        ),
        (
            "sub",
            [[INF, 1], [INF, 1]],
            [NAN, 0],
            ("difference", "an infinity minus an infinity at [0]"),
        ),
        ("add", [[INF], [INF]], [INF], None),
        ("sub", [[INF], [-INF]], [INF], None),
        ("sub", [[INF], [1]], [INF], None),
        (
            "add",
            [[3e38, 1], [3e38, 1]],
            [INF, 2],
            ("overflow", f"float32 overflows at [0]: {LIMIT32}"),
        ),
        (
            "sub",
            [[-3e38], [2e38]],
            [-INF],
            ("overflow", f"float32 overflows at [0]: {FLOAT32} 3e+38"),
        ),
        # These don't give it, or not all of it.
        ("sub", [[3e38], [2e38]], [INF], NOT_THESE),
        ("sub", [[1, INF], [1, INF]], [NAN, NAN], NOT_THESE),
        ("exp", [[1, 100]], [INF, INF], NOT_THESE),
        ("log", [[0.5]], [-INF], NOT_THESE),
        ("linear", [[[1, 2]], [[3], [4]]], [[INF]], NOT_THESE),
        ("norm", [[0, 0]], INF, NOT_THESE),
        # The largest number of a type is none beyond it.
        ("add", [[LARGEST, 1], [0, 1]], [INF, 2], None),
        ("mul", [[0, 1], [INF, 1]], [NAN, 1], ("product", "0 times an infinity at [0]")),
        ("mul", [[-INF, 1], [0, 1]], [NAN, 1], ("product", "0 times an infinity at [0]")),
        (
            "mul",
            [[1e30, 2], [1e30, 2]],
            [INF, 4],
            ("overflow", f"float32 overflows at [0]: {LIMIT32}"),
        ),
        ("square", [[1e30, 2]], [INF, 4], ("overflow", f"float32 overflows at [0]: {LIMIT32}")),
        (
            "linear",
            [[[1e30]], [[1e30]]],
            [[INF]],
            ("overflow", f"float32 overflows at [0, 0]: {FLOAT32} 1e+30"),
        ),
        (
            "linear",
            [[[1e30]], [[1e30]]],
            [[NAN]],
            ("overflow", f"float32 overflows at [0, 0]: {FLOAT32} 1e+30"),
        ),
        ("linear", [[[INF]], [[1]]], [[INF]], None),
        ("sum", [[3e38, 2e38]], INF, ("overflow", f"float32 overflows: {FLOAT32} 3e+38")),
        ("norm", [[3e38, 2e38]], INF, ("overflow", f"float32 overflows: {FLOAT32} 3e+38")),
        (
            "sqrt_grad",
            [[0, 1], [1, 1]],
            [INF, 1],
            ("gradient", "the gradient of a square root at 0 at [0]"),
        ),
        (
            "sqrt_backward",
            [[1, 1], [0, 1]],
            [INF, 1],
            ("gradient", "the gradient of a square root at 0 at [0]"),
        ),
        (
            "mul_backward",
            [[INF, 1], [1, 1], [0, 1]],
            [NAN, 1],
            ("product", "0 times an infinity at [0]"),
        ),
        (
            "softmax",
            [[[0, 0], [-INF, -INF], [-INF, -INF]]],
            [[0.5, 0.5], [NAN, NAN], [NAN, NAN]],
            ("masked", "2 row(s) of softmax are -inf as a whole, the first [1]"),
        ),
        (
            "softmax",
            [[[-INF, 0], [-INF, 0]]],
            [[NAN, 1], [NAN, 1]],
            ("masked", "1 row(s) of softmax are -inf as a whole, the first [0]"),
        ),
        ("softmax", [[[INF, 0], [-INF, 0]]], [[NAN, 0], [0, 1]], None),
        ("mean", [[]], NAN, ("nothing", "the mean of nothing: no element is left")),
        ("mean", [[1, 2]], NAN, None),
        (
            "mean",
            [[[3e38, 3e38, 0], [1, 1, 1]]],
            [INF, 1],
            (
                "overflow",
                "the sum inside of the mean leaves float32: its limit is 3.4028e+38, and numbers "
                "are added up to 6e+38",
            ),
        ),
        (
            "variance",
            [[5]],
            [NAN],
            ("one", "the variance of one element: it divides by n - 1, which is 0"),
        ),
        ("variance", [[5, 6]], NAN, None),
        ("variance", [[5]], [1, NAN], None),
    ],
)
def test_what_an_op_and_its_inputs_show(what, given, made, cause):
    inputs = [Op(f"x{at}", "Input", (), value) for at, value in enumerate(given)]
    assert why(*inputs, Op("y", op_of(what), [each.name for each in inputs], made)) == cause


@pytest.mark.parametrize(
    ("what", "given", "made", "cause"),
    [
        (
            "log",
            [None],
            [-INF, NAN],
            ("log", "the logarithm of 0 at [0], and the logarithm of a negative number at [1]"),
        ),
        ("sqrt", [None], [NAN], ("sqrt", "the square root of a negative number at [0]")),
        ("acos", [None], [NAN, 1], ("domain", "acos of a number outside of [-1, 1] at [0]")),
        ("div", [[1, 1], None], [NAN, INF], ("division", "0 / 0 at [0]")),
        ("div", [None, [0, 1]], [INF, 1], ("division", "a division by 0 at [0]")),
        ("mod", [None, None], [NAN], ("division", "a remainder of a division by 0 at [0]")),
        ("reciprocal", [None], [INF], None),
        (
            "pow",
            [None, [0.5]],
            [NAN],
            ("power", "a power of a negative number whose exponent isn't whole at [0]"),
        ),
        ("pow", [None, [-1]], [INF], None),
        (
            "exp",
            [None],
            [INF, 1],
            ("exp", "exp beyond the range at [0]: exp ends at 88.72 in float32"),
        ),
        ("mul", [[INF], None], [NAN], ("product", "0 times an infinity at [0]")),
        ("mul", [None, [-INF]], [NAN], ("product", "0 times an infinity at [0]")),
        ("add", [None, None], [INF, 2], ("overflow", f"float32 overflows at [0]: {LIMIT32}")),
        ("add", [None, [INF, 2]], [INF, 2], None),
        (
            "add",
            [None, None],
            [INF],
            ("overflow", "float32 overflows at [0]: its limit is 3.4028e+38"),
        ),
        ("sqrt_backward", [None, None], [INF], None),
        ("mean", [None], NAN, None),
    ],
)
def test_what_is_not_there_was_finite_where_only_bad_tensors_are_kept(what, given, made, cause):
    inputs = [Op(f"x{at}", "Input", (), value) for at, value in enumerate(given)]
    ops = [*inputs, Op("y", op_of(what), [each.name for each in inputs], made)]
    assert why(*ops, is_sparse=True) == cause
    assert why(*ops) is None  # else it isn't known


HALF = np.float16


@pytest.mark.parametrize(
    ("op", "cause"),
    [
        (
            Op("y", op_of("add"), ["x", "x"], [INF, 2], HALF),
            ("half", f"float16 overflows at [0]: {LIMIT16}"),
        ),
        (
            Op("y", op_of("exp"), ["x"], [INF, 2], HALF),
            ("exp", "exp of 60000 at [0], and exp ends at 11.09 in float16"),
        ),
        (
            Op("y", op_of("cast"), ["large"], [INF, 2], HALF),
            ("half", f"float16 overflows at [0]: {LIMIT16}"),
        ),
        # Whole numbers are numbers, too.
        (Op("y", op_of("div"), ["one", "zero"], [INF]), ("division", "a division by 0 at [0]")),
        # Operands that are numbers and no tensors.
        (Op("y", op_of("div"), ["one"], [INF], other=0), ("division", "a division by 0 at [0]")),
        (Op("y", op_of("div"), ["zero"], [INF], self=1.5), ("division", "a division by 0 at [0]")),
        (Op("y", op_of("div"), ["one"], [INF], other="x"), None),
        (
            Op("y", op_of("div"), ["one"], [INF], **{"1": 0}),
            ("division", "a division by 0 at [0]"),
        ),
        (
            Op("y", op_of("div"), ["zero"], [INF], **{"0": 2}),
            ("division", "a division by 0 at [0]"),
        ),
        (
            Op("y", op_of("mod"), ["one"], [NAN], other=0),
            ("division", "a remainder of a division by 0 at [0]"),
        ),
        (Op("y", op_of("mod"), ["one"], [NAN], other=2), NOT_THESE),
        # A sum's factor of its second operand.
        (
            Op("y", op_of("add"), ["large", "large"], [INF, 2], alpha=3e37),
            ("overflow", f"float32 overflows at [0]: {LIMIT32}, alpha is 3e+37"),
        ),
        (Op("y", op_of("add"), ["large", "large"], [INF, INF]), NOT_THESE),
        (
            Op("y", op_of("pow"), ["minus"], [NAN], exponent=0.5),
            ("power", "a power of a negative number whose exponent isn't whole at [0]"),
        ),
        (
            Op("y", op_of("pow"), ["zero"], [INF], exponent=-1),
            ("division", "0 to a negative power at [0]"),
        ),
        # From outside.
        (Op("y", "Placeholder", (), [NAN]), ("batch", "it came in from outside (y:0)")),
        (Op("y", "Parameter", (), [NAN]), ("weights", "it came in with the weights (y:0)")),
        (Op("y", "SomeOp", ["one"], [NAN]), None),
        (Op("y", op_of("log"), (), [NAN]), None),
    ],
)
def test_types_numbers_and_what_comes_from_outside(op, cause):
    given = [
        Op("x", "Input", (), [60000, 1], HALF),
        Op("large", "Input", (), [1e6, 2]),
        Op("one", "Input", (), [1], np.int32),
        Op("zero", "Input", (), [0], np.int64),
        Op("minus", "Input", (), [-4]),
    ]
    assert why(*given, op) == cause


def test_an_input_that_can_t_be_read_shows_nothing():
    def load():
        raise DumpError("gone")

    dump = dump_of(Op("x", "Input"), Op("y", op_of("log"), ["x"], [-INF]))
    dump.add_datum(Datum("x", 0, load, timestamp=0, dtype="float32", shape=(1,), nbytes=4))
    (y,) = dump.by_node("y")
    assert cause_of(TensorLineage(dump), y) is None


def test_an_input_is_looked_at_as_it_was_when_it_was_read():
    dump = dump_of(Op("x", "Input", (), [5]), Op("y", op_of("log"), ["x"], [-INF]))
    (y,) = dump.by_node("y")
    for value, timestamp in ((0, 0), (7, 2)):  # those of a loop, before and after
        dump.add("x", 0, np.float32([value]), timestamp=timestamp)
    found = cause_of(TensorLineage(dump), y)
    assert found is not None and found.text == "the logarithm of 0 at [0]"


def test_rows_of_a_table_and_the_outputs_of_ops_on_lists():
    table = Op("table", "Parameter", (), [[1, 2], [NAN, 1], [1, INF], [0, 0]])
    text = "it came in with the weights (table:0, rows 1 to 2)"
    assert why(table) == ("weights", text)
    two = [Op("a", "Input", (), [1.0]), Op("b", "Input", (), [6e4])]
    listed = Op("y", "_foreach_mul", ["a", "b", "a", "b"])
    listed.attributes["_output_shapes"] = "[[1], [1]]"
    dump = dump_of(*two, listed)
    value = np.asarray([INF], np.float16)
    dump.add_datum(Datum("y", 1, lambda: value, timestamp=3, dtype="float16", shape=(1,)))
    found = cause_of(TensorLineage(dump), dump.by_node("y")[-1])
    assert found.text.startswith("float16 overflows at [0]")


@pytest.mark.parametrize(
    ("eps", "reason"),
    [
        (1e-8, ": the 1e-08 that is added to the divisor is 0 in float16"),
        (0.0, ": what is added to the divisor is 0"),
        (1e-3, ""),
    ],
)
@pytest.mark.parametrize(
    ("moment", "made", "quotient"), [(1, INF, "a division by 0"), (0, NAN, "0 / 0")]
)
def test_a_small_number_that_is_0_in_the_dtype_of_the_divisor(eps, reason, moment, made, quotient):
    ops = [
        Op("root", "Input", (), [0, 4], HALF),
        Op("safe", op_of("add"), ["root"], [0, 4], HALF, other=eps),
        Op("m", "Input", (), [moment, 1], HALF),
        Op("p", "Parameter", (), [1, 1], HALF),
        Op("y", op_of("addcdiv"), ["p", "m", "safe"], [made, 1], HALF),
    ]
    kind = "eps" if reason else "division"
    assert why(*ops) == (kind, f"{quotient} at [0]{reason}")


def test_an_input_that_was_written_over_since_is_no_reason():
    given = Op("x", "Input", (), [1, 2])
    made = Op("y", op_of("exp"), ["x"], [INF, INF])
    over = Op("z", "clamp_", ["x"], [1, 1])
    over.attributes["_writes"] = "x:0"
    dump = dump_of(given, made, over)
    (datum,) = dump.by_node("y")
    found = cause_of(TensorLineage(dump), datum)
    assert (found.kind, found.text) == (
        "inputs",
        "x:0 isn't kept unchanged: z has overwritten it",
    )
