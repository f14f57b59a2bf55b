"""Names that frameworks give by counting, where one program has an op more than the other."""

import numpy as np
import pytest

from tfdbg_cli.comparing.alignment import align
from tfdbg_cli.comparing.comparison import OTHER_INPUTS, Comparison
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_info import RunInfo


def program(text, engine="numpy", **sizes):
    """A run of ``id=op(id, id) …``, whose nodes are called as frameworks count: op, op_1, op_2.

    Tensors have 4 elements, or as many as ``sizes`` says.

    Returns:
        The run, and the id of each node.
    """
    counts, names, ids, nodes, values = {}, {}, {}, [], {}
    for part in text.split():
        label, _, call = part.partition("=")
        op, _, given = call.rstrip(")").partition("(")
        number = counts[op] = counts.get(op, -1) + 1
        names[label] = name = f"{op}_{number}" if number else op
        ids[name] = label
        inputs = [names[each] for each in given.split(",") if each]
        nodes.append(Node(name, op, [f"{each}:0" for each in inputs]))
        here = {"mul": 2.0, "tanh": 0.5}.get(op, 1.0)
        values[name] = here + sum(values[each] for each in inputs)
    dump = MemoryDump(Graph(nodes), run_info=RunInfo(engine=engine))
    for at, (name, value) in enumerate(values.items()):
        dump.add(name, 0, np.full(sizes.get(ids[name], 4), value, np.float32), timestamp=at)
    return dump, ids


PLAIN = (
    "x=input w=input a=mm(x,w) b=tanh(a) c=mm(b,w) d=tanh(c) e=tanh(d) f=mm(e,w) g=tanh(f) h=sum(g)"
)


MORE = PLAIN.replace("c=", "more=mul(b) again=tanh(more) c=").replace("c=mm(b", "c=mm(again")


@pytest.mark.parametrize(
    "other",
    [
        PLAIN,
        MORE,
        PLAIN.replace("e=tanh(d) f=mm(e", "f=mm(d"),
        PLAIN.replace(" b=", " first=tanh(x) b="),
        PLAIN.replace("h=", "i=mm(g,w) j=tanh(i) h=").replace("sum(g", "sum(j"),
        PLAIN.replace("mm(b,w)", "dot(b,w)"),
        PLAIN + " k=tanh(h)",
    ],
    ids=["equal", "more", "less", "before", "behind", "another op", "at the end"],
)
@pytest.mark.parametrize("turned", [False, True])
def test_calls_that_are_the_same_belong_together(other, turned):
    (one, ids), (two, others) = program(PLAIN), program(other)
    if turned:
        one, ids, two, others = two, others, one, ids
    together = {
        ids[pair.first.node_name]: others[pair.second.node_name]
        for pair in align(one, two)
        if pair.first and pair.second
    }
    both = {*ids.values()} & {*others.values()}
    if "dot(" in other:  # it is another op, that one
        both.remove("c")
    assert together == {label: label for label in both}


BEFORE = "x=input p=pa(x) q=pb(x) r=pc(x) s=pd(x) "
FOUR = f"{BEFORE} a=t(p) b=t(q) c=t(r) d=t(s)"


@pytest.mark.parametrize(
    ("other", "sizes", "together"),
    [
        # One more, and one that is computed from another op.
        (
            "u=pe(x) a=t(p) n=t(u) b=t(q) c=t(u) d=t(s)",
            {},
            {"a": "a", "b": "b", "c": "c", "d": "d"},
        ),
        # One less, and another one behind.
        ("u=pe(x) a=t(p) c=t(r) n=t(u) d=t(s)", {}, {"a": "a", "c": "c", "d": "d"}),
        # Of those that have nothing else in common the shapes tell.
        (
            "u=pe(x) a=t(p) k=t(u) l=t(u) m=t(u) d=t(s)",
            {"b": 3, "c": 2, "k": 5, "l": 3, "m": 2},
            {"a": "a", "b": "l", "c": "m", "d": "d"},
        ),
        (
            "u=pe(x) a=t(p) k=t(u) l=t(u) m=t(u) d=t(s)",
            {"b": 3, "c": 2, "k": 3, "l": 5, "m": 2},
            {"a": "a", "b": "k", "c": "m", "d": "d"},
        ),
        # Then the names.
        (
            "u=pe(x) a=t(p) k=t(u) l=t(u) m=t(u) d=t(s)",
            {},
            {"a": "a", "b": "k", "c": "l", "d": "d"},
        ),
    ],
)
@pytest.mark.parametrize("turned", [False, True])
def test_calls_between_those_that_are_the_same(other, sizes, together, turned):
    (one, ids), (two, others) = program(FOUR, **sizes), program(BEFORE + other, **sizes)
    if turned:
        one, ids, two, others = two, others, one, ids
        together = {second: first for first, second in together.items()}
    found = {
        ids[pair.first.node_name]: others[pair.second.node_name]
        for pair in align(one, two)
        if pair.first and pair.second and pair.matched_by in ("name", "call")
    }
    found = {first: second for first, second in found.items() if first in "abcdklmn"}
    assert found == together


def test_calls_that_have_changed_places():
    """One of them stays in the order of both, the other one is told by its neighbours."""
    (one, ids), (two, others) = program(FOUR), program(f"{BEFORE} a=t(p) c=t(r) b=t(q) d=t(s)")
    pairs = [pair for pair in align(one, two) if pair.first and pair.second]
    assert len(pairs) == len(ids)
    assert all(ids[a.node_name] == others[b.node_name] for a, b, _ in pairs)
    assert sorted(by for *_, by in pairs if by != "name") == ["call", "neighbours"]


def test_pairs_say_how_they_were_told():
    (one, _), (two, _) = program(PLAIN), program(PLAIN.replace(" b=", " first=tanh(x) b="))
    told = {pair.first.node_name: pair.matched_by for pair in align(one, two) if pair.first}
    assert told["mm"] == told["sum"] == "name"
    assert told["tanh"] == told["tanh_1"] == "call"


def test_a_tensor_that_another_one_is_computed_from():
    """A skip connection that begins at the wrong layer."""
    text = "x=input a=tanh(x) b=tanh(a) c=tanh(b) d=add(c,{}) e=mul(d)"
    (one, _), (two, _) = program(text.format("b")), program(text.format("a"))
    comparison = Comparison(one, two, align(one, two))
    row = comparison.first_apart()
    assert (row.datum.node_name, row.said) == ("add", OTHER_INPUTS)
    assert [[*each] for each in row.others] == [["tanh_1:0"], ["tanh:0"]]


def test_names_decide_where_there_is_too_much_to_weigh(monkeypatch):
    monkeypatch.setattr("tfdbg_cli.comparing.calls._MOST_WEIGHED", 0)
    (one, _), (two, _) = program(PLAIN), program(MORE)
    assert {pair.matched_by for pair in align(one, two) if pair.first} == {"name"}


def test_an_op_more_at_the_beginning_of_many_that_are_alike():
    """All blocks of a deep network look the same, and most names would fit as they are."""
    blocks = [
        f"a{n}=mm({'x' if not n else f'c{n - 1}'}) b{n}=add(a{n}) c{n}=tanh(b{n})"
        for n in range(300)
    ]
    plain = " ".join(["x=input", *blocks])
    (one, ids), (two, others) = (
        program(plain),
        program(plain.replace("a9=mm(c8", "n=tanh(c8) a9=mm(n")),
    )
    pairs = [pair for pair in align(one, two) if pair.first and pair.second]
    assert len(pairs) == len(ids)
    assert all(ids[a.node_name] == others[b.node_name] for a, b, _ in pairs)


def test_names_of_another_engine_are_matched_otherwise():
    one, _ = program(PLAIN)
    two, _ = program(PLAIN.replace(" b=", " first=tanh(x) b="), "torch")
    assert "call" not in {pair.matched_by for pair in align(one, two)}


def test_a_loop_beside_the_same_steps_one_by_one():
    unrolled, ids = program("x=input a=mul(x) b=tanh(a) c=mul(b) d=tanh(c) e=mul(d) f=tanh(e)")
    values = [unrolled.by_node(name)[0].get_tensor() for name in ids]
    nodes = [
        Node("input", "input"),
        Node("loop/mul", "mul", ["input:0", "loop/tanh:0"]),
        Node("loop/tanh", "tanh", ["loop/mul:0"]),
    ]
    loop = MemoryDump(Graph(nodes), run_info=RunInfo(engine="numpy"))
    names = ["input", *["loop/mul", "loop/tanh"] * 3]
    for at, (name, value) in enumerate(zip(names, values, strict=True)):
        loop.add(name, 0, value + (at == 5), timestamp=at)
    comparison = Comparison(loop, unrolled, align(loop, unrolled))
    told = [ids[row.pair.second.node_name] for row in comparison.rows()]
    assert told == [*"xabcdef"]
    assert [ids[row.pair.second.node_name] for row in comparison.beyond()] == ["e"]
    assert comparison.first_apart().said == "made here"
