"""Facts about ops: the search that goes by them, and the suite that tries them."""

import numpy as np
import pytest

from tfdbg_cli.engines.kit.op_facts import (
    ALL,
    BOUNDED,
    FIRST,
    MOVED,
    PICKED,
    ROUNDED,
    SPREAD,
    SPREAD_FIRST,
    Fact,
    Op,
    SameDtype,
    Search,
    Value,
    always,
    fits,
    has_elements,
    is_real,
    keeps_bad,
)
from tfdbg_cli.testing.op_facts_contract import Call, Computed, Given, OpFactsContract, Unsupported

X, LINE = Given((2, 3)), Given((6,))
OPS = {
    "abs": (np.abs, X),
    "add": (np.add, X, X),
    "cast": (lambda x: x.real.astype(np.float32), LINE),
    "divide": (np.divide, X, X),
    "fill": (lambda x: np.full_like(x, 2), X),
    "first": (lambda x: x[:1], X),
    "join": (lambda *both: np.concatenate(both), X, X),
    "largest": (lambda x: np.max(x, initial=-np.inf), X),
    "log": (np.log, X),
    "parts": (lambda x: (x[:1], x[1:]), X),
    "scale": (lambda x: x * x.dtype.type(0.5), X),
    "sum": (np.sum, X),
    "tanh": (np.tanh, X),
    "tell": (np.isnan, X),
    "turn": (np.transpose, X),
}


class TestNumpyFacts(OpFactsContract):
    """NumPy's functions as a framework."""

    facts = {  # noqa: RUF012
        "abs": ROUNDED,
        "add": SPREAD,
        "cast": Fact(fits, spreads=FIRST, when=keeps_bad),
        "divide": SPREAD_FIRST,
        "fill": PICKED._replace(absorbs=True),
        "first": PICKED,
        "join": MOVED,
        "largest": Fact(has_elements),
        "log": SPREAD,
        "parts": MOVED,
        "scale": Fact(SameDtype(), spreads=ALL),
        "sum": SPREAD,
        "tanh": BOUNDED,
        "tell": PICKED._replace(absorbs=True),
        "turn": MOVED,
    }
    dtypes = ("float16", "float64", "complex64")

    def calls(self, name):
        return [Call(OPS[name][1:])]

    @np.errstate(all="ignore")
    def compute(self, name, call, operands):
        try:
            made = OPS[name][0](*operands)
        except ValueError as error:
            raise Unsupported from error
        outputs = [*map(np.asarray, made if isinstance(made, tuple) else (made,))]
        inputs, given = (
            tuple(Value((side, at), a.dtype.name, a.shape) for at, a in enumerate(arrays))
            for side, arrays in (("in", operands), ("out", outputs))
        )
        return Computed(Op(name, inputs, given), [each.key for each in inputs], outputs)


FALSE = {
    ("abs", "clean"): PICKED,  # of large complex numbers
    ("add", "clean"): BOUNDED,
    ("cast", "clean"): PICKED,
    ("cast", "spreads"): SPREAD_FIRST,  # imaginary parts
    ("divide", "spreads"): SPREAD,
    ("first", "absorbs"): PICKED._replace(absorbs=True),
    ("first", "spreads"): MOVED,
    ("largest", "clean"): PICKED,  # of none
    ("log", "clean"): BOUNDED,
    ("parts", "spreads"): Fact(spreads=ALL, into=FIRST),
    ("sum", "clean"): PICKED,
    ("tanh", "spreads"): SPREAD,
    ("tanh", "absorbs"): BOUNDED._replace(absorbs=True),
}


@pytest.mark.parametrize(("name", "claim"), FALSE)
def test_a_false_claim_fails(name, claim):
    suite = TestNumpyFacts()
    suite.facts = {**suite.facts, name: FALSE[name, claim]}
    with pytest.raises(AssertionError, match=f"{name}: of "):
        suite.test_the_framework_does_what_the_table_says(name, claim)


def test_a_claim_that_nothing_has_tried_fails():
    suite = TestNumpyFacts()
    suite.facts = {**suite.facts, "log": Fact(lambda op: False)}
    with pytest.raises(AssertionError, match="no call has tried"):
        suite.test_the_framework_does_what_the_table_says("log", "clean")
    suite.facts = {**suite.facts, "log": Fact()}
    with pytest.raises(AssertionError):
        suite.test_each_entry_claims_something()


def op(kind, inputs, outputs, dtype="float32", shape=(2,)):
    values = (tuple(Value(key, dtype, shape) for key in keys.split()) for keys in (inputs, outputs))
    return Op(kind, *values)


@pytest.mark.parametrize(
    ("facts", "ops", "told", "expected"),
    [
        ({}, [op("a", "x", "y"), op("b", "y", "z")], "", "y z"),
        ({"b": SPREAD}, [op("a", "x", "y"), op("b", "y", "z")], "", "z"),
        ({"b": PICKED}, [op("a", "x", "y"), op("b", "y", "z")], "", "y"),
        # What is clean and shows all tells of it only if somebody looks.
        ({"b": MOVED}, [op("a", "x", "y"), op("b", "y", "z")], "", "y"),
        ({"b": MOVED}, [op("a", "x", "y"), op("b", "y", "z")], "z", ""),
        ({"b": SPREAD_FIRST}, [op("a", "", "x y"), op("b", "x y", "z")], "", "y z"),
        ({"b": MOVED}, [op("a", "", "y"), op("b", "y", "u v")], "u", "y"),
        ({"b": MOVED}, [op("a", "", "y"), op("b", "y", "u v")], "u v", ""),
        ({"b": SPREAD._replace(into=FIRST)}, [op("a", "", "y"), op("b", "y", "u v")], "", "u v"),
        ({"b": SPREAD}, [op("a", "", "y"), op("b", "y", "z", shape=(0,))], "", "y z"),
        ({"b": SPREAD}, [op("a", "", "y"), op("b", "y", "z", "int32")], "", "y"),
        (
            {"b": SPREAD._replace(when=is_real)},
            [op("a", "", "y"), op("b", "y", "z", "")],
            "",
            "y z",
        ),
        ({"b": Fact(always)}, [op("b", "y", "z", "")], "", ""),
    ],
)
def test_few_tensors_tell_of_all_others(facts, ops, told, expected):
    search = Search(facts, told.split())
    found = [each.outputs[slot].key for each in reversed(ops) for slot in search.check(each)]
    assert sorted(found) == expected.split()
