"""Programs that compute the same in other ways pass, and what makes them differ is told."""

import numpy as np
import pytest
from comparing_kit import compared, floats, run, said

from tfdbg_cli.comparing.alignment import align
from tfdbg_cli.comparing.comparison import Comparison
from tfdbg_cli.comparing.left import Left
from tfdbg_cli.comparing.signals import signals
from tfdbg_cli.comparing.verdicts import is_rounding, rounding, verdict
from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_info import RunInfo
from tfdbg_cli.engines import registry

assert registry  # the roles of ops are known

RANDOM = np.random.default_rng(0)


def made(nodes, values, engine="tensorflow", **info):
    """A run of nodes, of which those that have values were dumped."""
    dump = MemoryDump(Graph(nodes), run_info=RunInfo(1, engine=engine, **info))
    for at, (name, value) in enumerate(values.items()):
        dump.add_datum(Datum(name, 0, lambda value=value: value, timestamp=at))
    return dump


# What a run has written.


def written(op, after, *, reads=("w:0",), waits=("group",), variable="VarHandleOp", kind="Read"):
    kinds = {"Read": "ReadVariableOp", "Identity": "Identity"}
    nodes = [
        Node("w", variable),
        Node("x", "Placeholder"),
        Node("update", op, ("w:0", "x:0")),
        Node("group", "NoOp", (), ("update",)),
        Node("w/read", kinds[kind], reads, waits),
        Node("y", "Mul", ("w/read:0",)),
    ]
    return made(nodes, {"x": floats(1, 2), "w/read": after, "y": after * 2})


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"variable": "VariableV2", "kind": "Identity"},
        {"reads": ("w:0", "x:0"), "waits": ("update",)},
    ],
)
def test_a_variable_read_behind_an_update_is_made_here(how):
    one = written("AssignSubVariableOp", floats(1, 1), **how)
    other = written("AssignAddVariableOp", floats(3, 5), **how)
    comparison = compared(one, other)
    assert said(comparison) == {"w/read": "made here", "y": "inputs differ"}
    row = comparison.first_apart()
    if "kind" not in how:
        told = verdict(comparison, row)
        assert told.ops == ("AssignSubVariableOp", "AssignAddVariableOp")
        assert told.said.endswith("written by AssignSubVariableOp in A, AssignAddVariableOp in B")


def test_a_variable_read_before_its_update_was_different_at_the_start():
    one, other = (
        written("AssignSubVariableOp", value, waits=()) for value in (floats(1, 1), floats(3, 5))
    )
    assert said(compared(one, other)) == {"w/read": "at the start", "y": "inputs differ"}


def test_what_a_variable_held_before_the_same_update_may_have_been_different():
    one, other = (written("AssignSubVariableOp", value) for value in (floats(1, 1), floats(3, 5)))
    comparison = compared(one, other)
    told = verdict(comparison, comparison.first_apart()).said
    assert told.endswith("by AssignSubVariableOp, and what it held before wasn't kept")


# Summands.


def summed(values, total, op="sum"):
    return run(
        ("x", "Input", (), values),
        ("h", "mul", ["x:0"], values),
        ("s", op, ["h:0"], total),
        engine="torch",
    )


def test_a_sum_that_is_zero_but_for_rounding_is_no_difference():
    values = RANDOM.normal(size=1000).astype(np.float32)
    values -= values.mean()
    noise = (RANDOM.normal(size=1000) * 1e-7).astype(np.float32)
    sums = [np.float32(each.astype(np.float64).sum()) for each in (values, values + noise)]
    assert abs(sums[1] - sums[0]) > 0
    one, other = (summed(v, s) for v, s in zip((values, values + noise), sums, strict=True))
    assert said(compared(one, other)) == {}
    # The same summands, added in another order.
    assert said(compared(one, summed(values, sums[0] + np.float32(1e-5)))) == {}
    assert said(compared(one, summed(values, sums[0] + np.float32(0.01)))) == {"s": "made here"}


def cast(offset, dtype):
    x = np.linspace(-1, 1, 64, dtype=np.float32)
    low = (x.astype(dtype) * dtype(3)).astype(np.float32)
    return run(
        ("x", "Input", (), x),
        ("h", "mul", ["x:0"], (x.astype(dtype) * dtype(3))),
        ("c", "_to_copy", ["h:0"], low),
        ("y", "gelu", ["c:0"], np.tanh(low) + offset),
        engine="torch",
    )


def test_the_coarsest_dtype_before_a_cast_counts():
    comparison = compared(cast(0, np.float32), cast(0, np.float16))
    assert said(comparison) == {}
    row = comparison.row_of("y:0")
    assert is_rounding(row)
    assert rounding(row) == "within what float16 does here"
    assert said(compared(cast(0, np.float32), cast(0.3, np.float16))) == {"y": "made here"}
    # Not where nothing is rounded: both computed so.
    again = compared(cast(0, np.float16), cast(1e-4, np.float16))
    assert said(again) == {"y": "made here"}


# Forms of one computation.


X = RANDOM.normal(size=(4, 6)).astype(np.float32)
Q, K = (RANDOM.normal(size=(6, 6)).astype(np.float32) for _ in range(2))


def split(bug=0.0):
    return run(
        ("x", "Input", (), X),
        ("q", "Parameter", (), Q),
        ("k", "Parameter", (), K),
        ("one/mm", "mm", ["x:0", "q:0"], X @ Q),
        ("two/mm", "mm", ["x:0", "k:0"], X @ K),
        ("scores", "mul", ["one/mm:0", "two/mm:0"], (X @ Q) * (X @ K) + bug),
        ("loss", "sum", ["scores:0"], ((X @ Q) * (X @ K) + bug).sum()),
        engine="torch",
    )


def fused(swapped=False):
    both = np.concatenate([K, Q] if swapped else [Q, K], 1)
    scores = (X @ both)[:, :6] * (X @ (both if not swapped else both + 1))[:, 6:]
    return run(
        ("x", "Input", (), X),
        ("qk", "Parameter", (), both),
        ("fused/mm", "mm", ["x:0", "qk:0"], X @ both),
        ("scores", "mul", ["fused/mm:0"], scores),
        ("loss", "sum", ["scores:0"], scores.sum()),
        engine="torch",
    )


def test_fused_and_split_forms_are_compared_at_their_border():
    assert said(compared(split(), fused()))["fused/mm"] == "only in B"
    assert compared(split(), fused()).first_apart() is None
    comparison = compared(split(), fused(swapped=True))
    row = comparison.first_apart()
    assert (row.datum.node_name, row.said) == ("scores", "other inputs")
    told = verdict(comparison, row).said
    assert told == "made here: only A computes it from one/mm:0, two/mm:0, only B from fused/mm:0"


def test_tensors_of_one_name_and_other_shapes_and_inputs_are_no_pair():
    def with_h(value, inputs, more):
        return run(("x", "Input", (), X), *more, ("h", "mm", inputs, value), engine="torch")

    one = with_h(X[:, :3], ["x:0", "a:0"], [("a", "relu", ["x:0"], Q)])
    other = with_h(X, ["b:0"], [("b", "tanh", ["x:0"], X)])
    assert compared(one, other).first_apart() is None
    # Computed from the same it is one: another shape is a difference.
    one, other = with_h(X[:, :3], ["x:0"], []), with_h(X, ["x:0"], [])
    assert said(compared(one, other)) == {"h": "made here"}


def test_a_batch_of_another_name_and_size_is_given_differently():
    def fed(name, value):
        read = ("emb", "embedding", [f"{name}:0"], value @ K)
        return run((name, "Input", (), value), read, ("sum", "sum", ["emb:0"], 1.0), engine="torch")

    comparison = compared(fed("input/x", X), fed("input/i", X[:1]))
    assert said(comparison)["input/x"] == "given"
    assert comparison.first_apart().datum.node_name == "input/x"


def scaled(first):
    """Scores are scaled after a product, or the queries before it."""
    q = X / 2 if first else X
    steps = [("x", "Input", (), X), ("k", "Parameter", (), K)]
    if first:
        steps += [("div", "div", ["x:0"], X / 2), ("clone", "mul", ["div:0"], q)]
        steps += [("mm", "mm", ["clone:0", "k:0"], q @ K)]
    else:
        steps += [("clone", "mul", ["x:0"], q), ("mm", "mm", ["clone:0", "k:0"], q @ K)]
        steps += [("div", "div", ["mm:0"], X @ K / 2)]
    last = "mm:0" if first else "div:0"
    steps.append(("softmax", "_softmax", [last], np.exp(X @ K / 2)))
    return run(*steps, engine="torch")


def test_pairs_inside_of_what_ends_in_the_same_are_taken_apart():
    assert compared(scaled(first=False), scaled(first=True)).first_apart() is None


def test_a_result_is_told_whatever_comes_of_it():
    def with_loss(factor):
        info = {"outputs": {"loss": "half:0" if factor else "loss:0"}}
        nodes = [Node("x", "Input"), Node("loss", "sum", ["x:0"])]
        values = {"x": X, "loss": X.sum()}
        if factor:
            nodes.append(Node("half", "div", ["loss:0"]))
            values["half"] = X.sum() / 2
        nodes.append(Node("sign", "sign", [nodes[-1].name + ":0"]))
        values["sign"] = np.sign(X.sum())
        return made(nodes, values, "torch", **info)

    comparison = compared(with_loss(factor=True), with_loss(factor=False))
    row = comparison.first_apart()
    assert (row.datum.node_name, row.pair.second.node_name) == ("half", "loss")
    assert row.pair.matched_by == "output"


def test_parameters_of_other_names_are_matched_by_content():
    one = run(("a/w", "Parameter", (), Q), ("a/b", "Parameter", (), K))
    other = run(("b/v", "Weight", (), K), ("b/w", "Weight", (), Q))
    pairs = {p.first.node_name: p.second.node_name for p in align(one, other) if p.first}
    assert pairs == {"a/w": "b/w", "a/b": "b/v"}


def test_codes_are_no_counterparts_of_numbers():
    one = run(("w", "Parameter", (), floats(1, 2)))
    other = run(("w", "Parameter", (), np.int8([1, 2])))
    assert [bool(p.first and p.second) for p in align(one, other)] == [False, False]


# Arguments.


def stepped(**arguments):
    nodes = [
        Node("w", "Parameter"),
        Node("g", "mul", ["w:0"]),
        Node("step", "add_", ["w:0", "g:0"], attributes=arguments),
    ]
    step = Q + K * float(arguments["_arg_alpha"])
    return made(nodes, {"w": Q, "g": K, "step": step}, "torch")


def test_the_argument_that_differs_is_named():
    same = {"_output_shapes": "[[6, 6]]", "_arg_generator": "<Generator at 0x1>"}
    other = {"_output_shapes": "[[6]]", "_arg_generator": "<Generator at 0x2>"}
    comparison = compared(stepped(_arg_alpha="-0.025", **same), stepped(_arg_alpha="0.5", **other))
    told = verdict(comparison, comparison.first_apart())
    assert told.differing() == "its argument differs: alpha -0.025 in A, 0.5 in B"
    assert told.said == "made here: its inputs agree"


def test_inputs_agree_only_where_all_were_kept():
    def with_y(value):
        nodes = [Node("x", "Input"), Node("h", "Input"), Node("y", "mul", ["x:0", "h:0"])]
        return made(nodes, {"x": floats(1, 2), "y": value}, "torch")

    comparison = compared(with_y(floats(1, 2)), with_y(floats(1, 3)))
    told = verdict(comparison, comparison.first_apart()).said
    assert told == "made here: its inputs weren't all kept or matched"


# Runs one after the other.


def test_what_a_run_has_left_within_the_bar_is_within_it_at_the_next_start():
    gradient = (RANDOM.normal(size=64) * 1e-9).astype(np.float32)
    start = np.ones(64, np.float32)

    def step(gradient):
        moved = start - np.float32(1e-2) * np.sign(gradient)
        divided = np.sign(gradient).astype(np.float32)
        root = np.abs(gradient)
        nodes = [
            Node("x", "Input"),
            Node("w", "Parameter"),
            Node("g", "sum", ["x:0"]),
            Node("root", "sqrt", ["g:0"]),
            Node("q", "div", ["g:0", "root:0"]),
            Node(
                "new", "sub_", ["w:0", "q:0"], attributes={"_arg_alpha": "0.01", "_writes": "w:0"}
            ),
        ]
        x = RANDOM.normal(size=(2, 64)).astype(np.float32)
        x = np.stack([x[0], gradient - x[0]])
        values = {"x": X[:1], "w": start, "g": gradient, "root": root, "q": divided, "new": moved}
        return made(nodes, values | {"x": x * 0 + 1}, "torch"), moved

    (one, left), (other, other_left) = step(gradient), step(-gradient)
    before = Left()
    first = Comparison(one, other, align(one, other), None, before)
    assert first.first_apart() is None
    starts = [run(("w", "Parameter", (), each), engine="torch") for each in (left, other_left)]
    assert said(compared(*starts)) == {"w": "at the start"}
    assert Comparison(*starts, align(*starts), None, before).first_apart() is None
    changed = run(("w", "Parameter", (), other_left * 1.5), engine="torch")
    assert Comparison(starts[0], changed, align(starts[0], changed), None, before).first_apart()


# Codes.


def coded(scale):
    codes = np.clip((X / scale).round(), -128, 127).astype(np.int8)
    nodes = [
        Node("x", "Input", attributes={"tensor:0": "x"}),
        Node("x_q", "QuantizeLinear", ["x:0"], attributes={"tensor:0": "x_QuantizeLinear_Output"}),
        Node(
            "x_d",
            "DequantizeLinear",
            ["x_q:0"],
            attributes={"tensor:0": "y_DequantizeLinear_Output"},
        ),
    ]
    values = {"x": X, "x_q": codes, "x_d": codes * np.float32(scale)}
    return made(nodes, values, "onnx")


def test_numbers_are_matched_with_what_codes_stand_for():
    nodes = [
        Node("x", "Input", attributes={"tensor:0": "x"}),
        Node("y", "Identity", ["x:0"], attributes={"tensor:0": "y"}),
    ]
    one = made(nodes, {"x": X, "y": X}, "onnx", fetches=["y"])
    comparison = compared(one, coded(0.02))
    assert comparison.first_apart() is None
    found = {each.row.pair.second.node_name: each for each in signals(comparison)}
    assert 30 < found["x_d"].decibels < 60
    # Codes so coarse that all are 0 leave nothing.
    lost = compared(one, coded(100.0))
    assert lost.first_apart().pair.second.node_name == "x_d"
