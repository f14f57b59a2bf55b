"""Facts about ops: the search that goes by them, and the suite that tries them."""

import numpy as np
import pytest

from tfdbg_cli.engines.kit.op_facts import (
    ALL,
    FIRST,
    KINDS,
    Fact,
    Op,
    Search,
    Value,
    is_real,
    table,
)
from tfdbg_cli.testing.op_facts_contract import (
    Call,
    ComputedOp,
    Operand,
    OpFactsContract,
    Unsupported,
)

X, LINE = Operand((2, 3)), Operand((6,))
bounded, moved, picked = KINDS["bounded"], KINDS["moved"], KINDS["picked"]
spread, spread_first = KINDS["spread"], KINDS["spread_first"]
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

    facts = table(
        {"scale": Fact(is_real, spreads=ALL)},
        moved="join parts turn",
        picked="first",
        largest="largest",
        rounded="abs",
        bounded="tanh",
        made="fill tell",
        converted="cast",
        spread="add log sum",
        spread_first="divide",
    )
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
        return ComputedOp(Op(name, inputs, given), [each.key for each in inputs], outputs)


FALSE = {
    ("abs", "clean"): picked,  # of large complex numbers
    ("add", "clean"): bounded,
    ("cast", "clean"): picked,
    ("cast", "spreads"): spread_first,  # imaginary parts
    ("divide", "spreads"): spread,
    ("first", "absorbs"): picked._replace(absorbs=True),
    ("first", "spreads"): moved,
    ("largest", "clean"): picked,  # of none
    ("log", "clean"): bounded,
    ("parts", "spreads"): Fact(spreads=ALL, into=FIRST),
    ("sum", "clean"): picked,
    ("tanh", "spreads"): spread,
    ("tanh", "absorbs"): bounded._replace(absorbs=True),
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
        ({"b": spread}, [op("a", "x", "y"), op("b", "y", "z")], "", "z"),
        ({"b": picked}, [op("a", "x", "y"), op("b", "y", "z")], "", "y"),
        # What is clean and shows all tells of it only if somebody looks.
        ({"b": moved}, [op("a", "x", "y"), op("b", "y", "z")], "", "y"),
        ({"b": moved}, [op("a", "x", "y"), op("b", "y", "z")], "z", ""),
        ({"b": spread_first}, [op("a", "", "x y"), op("b", "x y", "z")], "", "y z"),
        ({"b": moved}, [op("a", "", "y"), op("b", "y", "u v")], "u", "y"),
        ({"b": moved}, [op("a", "", "y"), op("b", "y", "u v")], "u v", ""),
        ({"b": moved._replace(into=FIRST)}, [op("a", "", "y"), op("b", "y", "u v")], "u", ""),
        ({"b": spread}, [op("a", "", "y"), op("b", "y", "z", shape=(0,))], "", "y z"),
        ({"b": spread}, [op("a", "", "y"), op("b", "y", "z", "int32")], "", "y"),
        (
            {"b": spread._replace(when=is_real)},
            [op("a", "", "y"), op("b", "y", "z", "")],
            "",
            "y z",
        ),
        ({"b": picked}, [op("b", "y", "z", "")], "", ""),
    ],
)
def test_few_tensors_tell_of_all_others(facts, ops, told, expected):
    search = Search(facts, told.split())
    found = [each.outputs[slot].key for each in reversed(ops) for slot in search.check(each)]
    assert sorted(found) == expected.split()
