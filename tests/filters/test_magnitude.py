"""Filters about magnitudes: exploding, vanishing, dead, near the limit of the dtype."""

import ml_dtypes
import numpy as np
import pytest
from filter_kit import INF, NAN, Op, dump_of, passing

from tfdbg_cli.common.settings import Settings
from tfdbg_cli.dumps.dump import Datum, InconvertibleTensorProto
from tfdbg_cli.filters.magnitude import dead, exploding, largest_number, overflow_risk, vanishing
from tfdbg_cli.filters.registry import FilterRegistry

GRADIENT = "gradients/fc/addmm_grad/mm"
SMALL = ["bfloat16", "float8_e5m2", "float8_e5m2fnuz", "float8_e4m3fn", "float8_e4m3fnuz"]
SMALL += ["float8_e4m3", "float8_e3m4", "float8_e4m3b11fnuz"]


def passes(predicate, value, dtype=np.float32, name="fc/addmm", **given):
    value = np.asarray(value, dtype) if dtype is not None else value
    return predicate(Datum(name, 0, lambda: value), value, **given)


@pytest.mark.parametrize("name", ["float16", "float32", "float64", *SMALL])
def test_the_largest_numbers_are_those_of_the_dtypes(name):
    assert largest_number(name) == float(ml_dtypes.finfo(name).max)


def test_no_largest_number_of_other_types():
    assert largest_number("int8") is None
    assert largest_number("string") is None


def test_exploding():
    assert not passes(exploding, [1.0, -1e4])
    assert passes(exploding, [1.0, -10001.0])
    assert passes(exploding, [[1.0], [1e5]], name=GRADIENT)
    assert passes(exploding, [3e4], np.float16)
    assert passes(exploding, [2e4], ml_dtypes.bfloat16)
    assert passes(exploding, [complex(8000, 8000)], np.complex64)
    assert not passes(exploding, [complex(3, 4)], np.complex64)
    assert passes(exploding, [100.0], above=99)


@pytest.mark.parametrize("predicate", [exploding, overflow_risk])
def test_only_finite_floating_point_numbers_explode(predicate):
    assert not passes(predicate, [INF, -INF, NAN, 1.0])
    assert not passes(predicate, [])
    assert not passes(predicate, [10**9], np.int64)
    assert not passes(predicate, [b"abc"], object)
    assert not passes(predicate, InconvertibleTensorProto(), None)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, ml_dtypes.bfloat16])
def test_numbers_of_masks_do_not_explode(dtype):
    lowest = ml_dtypes.finfo(dtype).min
    mask = np.array([0, lowest, 3], dtype)
    for predicate in (exploding, overflow_risk):
        assert not passes(predicate, mask, None)
        assert not passes(predicate, mask[1:2], None)
        assert passes(predicate, -mask, None)
    assert passes(exploding, np.array([lowest, 20000.0], dtype), None)


def test_how_near_to_the_lowest_number_those_of_masks_are():
    border = -0.99 * np.finfo(np.float64).max
    for value, is_mask in ((border, True), (np.nextafter(border, 0), False)):
        assert passes(overflow_risk, [value], np.float64) is not is_mask


def test_overflow_risk():
    assert passes(overflow_risk, [17000.0], np.float16)
    assert passes(overflow_risk, [-17000.0], np.float16)
    assert not passes(overflow_risk, [16000.0], np.float16)
    assert not passes(overflow_risk, [1e6], ml_dtypes.bfloat16)
    assert passes(overflow_risk, [1e38], ml_dtypes.bfloat16)
    assert passes(overflow_risk, [1e38])
    assert not passes(overflow_risk, [8e37])
    assert passes(overflow_risk, [120.0], ml_dtypes.float8_e4m3fn)
    assert not passes(overflow_risk, [112.0], ml_dtypes.float8_e4m3fn)
    assert passes(overflow_risk, [8e37], share=0.1)
    # Without ml_dtypes the values are float32, and only the dump knows what they are.
    told = Datum("a", 0, lambda: None, dtype="float8_e4m3fn", shape=(1,), nbytes=1)
    assert overflow_risk(told, np.float32([120.0]))
    assert passes(overflow_risk, [complex(1e38, 0)], np.complex64)


def test_vanishing():
    assert passes(vanishing, [1e-9, 0, -1e-12], name=GRADIENT)
    assert passes(vanishing, [1e-9, NAN], name="train/gradients_1/mul_grad/Mul")
    assert not passes(vanishing, [1e-9], name="fc/addmm")
    assert not passes(vanishing, [1e-9], name="my_gradients/mul")
    assert not passes(vanishing, [1e-9, 2e-8], name=GRADIENT)
    assert not passes(vanishing, [0.0, 0.0], name=GRADIENT)
    assert not passes(vanishing, [NAN], name=GRADIENT)
    assert not passes(vanishing, [0], np.int64, name=GRADIENT)
    assert passes(vanishing, [1e-3], name=GRADIENT, below=1e-2)
    assert not passes(vanishing, InconvertibleTensorProto(), None, name=GRADIENT)


def test_dead_is_where_the_zeros_began():
    dump = dump_of(
        Op("x", "Input", (), [[-1.0, -2.0]]),
        Op("bias", "Parameter", (), [0.0, 0.0]),
        Op("add", "add", ["x", "bias"], [[-1.0, -2.0]]),
        Op("relu", "relu", ["add"], [[0.0, 0.0]]),
        Op("view", "view", ["relu"]),
        Op("mul", "mul", ["view"], [[0.0, 0.0]]),
        Op("sum", "sum", ["relu"], 0.0),
        Op("loss", "sub", ["x"], 0.0),
        Op("again", "relu", ["add"], np.zeros(2), ml_dtypes.bfloat16),
        Op("count", "ne", ["add"], [0, 0], np.int64),
        Op("zeros", "zeros_like", ["x"], [[0.0, 0.0]]),
        Op("zero_", "zero_", ["add"], [[0.0, 0.0]]),
        Op("negative", "mul", ["add"], [[-0.0, 0.0]]),
        Op("empty", "cat", ["x"], np.zeros((0, 3))),
    )
    assert passing(dump, dead) == ["relu", "again", "negative"]


def test_zeros_that_were_asked_for_are_not_dead():
    names = "zeros_like new_full fill_ empty_strided zero_ ZerosLike Fill Const BroadcastTo relu"
    ops = [Op(f"y_{name}", name, ["x"], [0.0, 0.0]) for name in names.split()]
    assert passing(dump_of(Op("x", "Input", (), [1.0, 2.0]), *ops), dead) == ["y_relu"]


def test_dead_without_a_graph():
    ops = [Op("a", "relu", (), [0.0, 0.0]), Op("b", "relu", (), [0.0]), Op("c", "x", (), [NAN, 0])]
    assert passing(dump_of(*ops, graph=False), dead) == ["a"]


def test_the_thresholds_are_settings():
    settings = Settings(None)
    filters = FilterRegistry(settings)
    value = np.float32([50.0])
    datum = Datum(GRADIENT, 0, lambda: value)
    exploded = filters.predicate("exploding")
    assert not exploded(datum, value)
    settings.set("exploding_above", "49")
    settings.set("vanishing_below", "60")
    settings.set("overflow_share", "1e-37")
    assert filters.predicate("exploding")(datum, value)
    assert filters.predicate("vanishing")(datum, value)
    assert filters.predicate("overflow_risk")(datum, value)
    assert not exploded(datum, value)
    mine = filters.get("exploding")
    filters.add("exploding", lambda datum, tensor: tensor[0] == 50)
    assert filters.predicate("exploding")(datum, value)
    assert mine is exploding
    for name, text in (
        ("exploding_above", "0"),
        ("vanishing_below", "inf"),
        ("overflow_share", "1"),
    ):
        with pytest.raises(Exception, match=name):
            settings.set(name, text)
