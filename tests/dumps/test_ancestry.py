"""The way back through loops, branches and calls whose bodies were inlined, dump by dump."""

import numpy as np
import pytest

from tfdbg_cli.dumps.ancestry import Ancestry
from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.graph import Edge, Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump


class Run:
    """A run of some nodes. Everybody speaks of them by the last part of their names.

    Args:
        nodes: name, op type, inputs, and for one that calls bodies what each output may be;
            ``-``: nobody knows.
        dumped: the tensors in the order in which they were computed; ``!``: it was bad, ``=N``: its
            value, ``@`` in front of it: at the time of the one before.
    """

    def __init__(self, nodes, dumped):
        self.full = {name.rpartition("/")[2]: name for name, *_ in nodes}
        self.bad = set()
        made = []
        for name, op_type, inputs, *outputs in nodes:
            returns = [[self.tensor(each) for each in ways.split()] for ways in outputs]
            given = [self.tensor(each) for each in inputs.split()]
            made.append(Node(name, op_type, given, returns=returns))
        dump = MemoryDump(Graph(made))
        time = 0
        for word in dumped.split():
            time += not word.startswith("@")
            name, equals, value = word.strip("@!").partition("=")
            number = np.array([float(each) for each in value.split()] if equals else [np.nan])
            node, _, slot = self.tensor(name).rpartition(":")
            datum = Datum(node, int(slot), lambda number=number: number, timestamp=time)
            dump.add_datum(datum)
            if word.endswith("!"):
                self.bad.add(id(datum))
        self.dump = dump
        self.ancestry = Ancestry(dump, dump.graph(), lambda datum: id(datum) in self.bad)

    def tensor(self, name):
        """The whole name of ``log`` or ``log:1``."""
        name, _, slot = name.partition(":")
        return "" if name == "-" else f"{self.full[name]}:{slot or 0}"

    def datum(self, name):
        """``log``, ``log:1`` or ``log.2``: one of its dumps."""
        name, _, number = name.partition(".")
        return self.dump.by_tensor(self.tensor(name))[int(number or 0)]

    def edge(self, source, target, control=""):
        return Edge(self.full[target], f"{control}{self.tensor(source)}", bool(control))

    def told(self, datum):
        short = datum.tensor_name.rpartition("/")[2].removesuffix(":0")
        several = len(self.dump.by_tensor(datum.tensor_name)) > 1
        return f"{short}.{datum.execution}" if several else short

    def back(self, name):
        """The ways to all origins, what each was computed from, and what nobody knows."""
        found = []
        start = self.full[name[1:-1]] if name.startswith("(") else self.datum(name)
        for origin in self.ancestry.origins(start):
            steps = [
                f"({step.node.rpartition('/')[2]})" if step.datum is None else self.told(step.datum)
                for step in origin.chain
            ]
            clean = [self.told(datum) for datum in origin.clean]
            found.append(" < ".join(steps) + " <- " + " ".join([*clean, *origin.unknown]))
        return found


LOOP = [
    ("x", "Placeholder", ""),
    ("w/body/_1/a", "_Arg", "x root"),
    ("w/body/_1/sub", "Sub", "a"),
    ("w/body/_1/root", "Sqrt", "sub"),
    ("w", "While", "x", "x root"),
    ("end", "Identity", "w"),
    ("slope", "Neg", "a"),
]
# The counter runs ahead of what is computed by it.
AHEAD = [
    ("zero", "Const", ""),
    ("w/body/_1/k", "_Arg", "zero next"),
    ("w/body/_1/next", "Add", "k"),
    ("w/body/_1/t", "Log", "k"),
    ("w/body/_1/u", "Neg", "t"),
    ("far", "Const", ""),
    ("w/body/_1/same", "_Arg", "zero far"),
    ("w/body/_1/v", "Log", "same"),
]
NESTED = [
    ("x", "Placeholder", ""),
    ("o/body/_1/a", "_Arg", "x left"),
    ("o/body/_1/entry", "Sqrt", "a"),
    ("o/body/_1/in/body/_2/b", "_Arg", "entry inc"),
    ("o/body/_1/in/body/_2/inc", "Add", "b"),
    ("o/body/_1/in", "While", "entry", "entry inc"),
    ("o/body/_1/left", "Identity", "in"),
    ("o", "While", "x", "x left"),
    ("end", "Identity", "o"),
]
# The same in a function, whose bodies have no names of their own.
PLAIN = [
    ("x", "Placeholder", ""),
    ("o/a", "_Arg", "x left"),
    ("o/entry", "Sqrt", "a"),
    ("o/in/b", "_Arg", "entry inc"),
    ("o/in/inc", "Add", "b"),
    ("o/in", "StatelessWhile", "entry", "entry inc"),
    ("o/left", "Identity", "in"),
    ("o", "StatelessWhile", "x", "x left"),
    ("end", "Identity", "o"),
]
BRANCHES = [
    ("x", "Placeholder", ""),
    ("w/body/_1/a", "_Arg", "x pick"),
    ("w/body/_1/test", "Less", "a"),
    ("w/body/_1/pick/then/_2/down", "Log", "a"),
    ("w/body/_1/pick/else/_3/up", "Add", "a"),
    ("w/body/_1/pick", "If", "test x", "down up"),
    ("w", "While", "x", "x pick"),
    ("end", "Identity", "w"),
]
CASES = [
    ("x", "Placeholder", ""),
    ("w/body/_1/y", "Neg", "x"),
    ("w/body/_1/index", "Cast", "y"),
    ("w/body/_1/pick/branch_0/_2/one", "Log", "y"),
    ("w/body/_1/pick/branches/1/_3/two", "Log", "y"),
    ("w/body/_1/pick/branch2/_4/three", "Log", "y"),
    ("w/body/_1/pick", "StatelessCase", "index x", "one two three"),
    ("w/body/_1/out", "Neg", "pick"),
]
# The graph doesn't know what has called it.
UNKNOWN = [
    ("x", "Placeholder", ""),
    ("w/body/_1/a", "_Arg", "x t"),
    ("w/body/_1/pick/then/_2/t", "Log", "a"),
]
# A branch in a branch.
DEEP = [
    ("x", "Placeholder", ""),
    ("w/body/_1/a", "Neg", "x"),
    ("w/body/_1/p", "Less", "a"),
    ("w/body/_1/if/then/_2/q", "Less", "a"),
    ("w/body/_1/if/then/_2/in/else/_3/deep", "Log", "a"),
    ("w/body/_1/if/then/_2/in/then/_4/flat", "Neg", "a"),
    ("w/body/_1/if/then/_2/in", "If", "q a", "flat deep"),
    ("w/body/_1/if/else/_5/other", "Neg", "a"),
    ("w/body/_1/if", "If", "p a", "in other"),
    ("w/body/_1/out", "Neg", "if"),
    ("w/body/_1/straight", "Neg", "deep"),
]
CALLS = [
    ("x", "Placeholder", ""),
    ("y", "Placeholder", ""),
    ("call", "PartitionedCall", "x"),
    ("call/log", "Log", "x"),
    ("call/neg", "Neg", "log"),
    ("merge", "Merge", "x y"),
    ("list", "_Collected", "x"),
    ("whole", "Identity", "list"),
    ("if", "If", "y x", "log neg"),
    ("after", "Neg", "if"),
    ("hen", "Neg", "egg"),
    ("egg", "Neg", "hen"),
    ("late", "Neg", "soon"),
    ("soon", "Log", "x"),
    ("later", "Neg", "late"),
    ("dark", "If", "y x", "- -"),
    ("night", "Neg", "dark"),
    ("sum", "Add", "hidden x y"),
    ("one", "Neg", "gone"),
    ("two", "Neg", "gone"),
    ("three", "Neg", "y"),
    ("gone", "Neg", "hidden"),
    ("fan", "Add", "one two three"),
    ("pair", "StatefulPartitionedCall", "x", "log", "neg"),
    ("first", "Neg", "pair:0"),
    ("second", "Neg", "pair:1"),
    ("split", "Split", "x"),
    ("part", "Neg", "split:1"),
    ("lost", "Neg", "hidden"),
    ("hidden", "Placeholder", ""),
]


@pytest.mark.parametrize(
    ("nodes", "dumped", "start", "told"),
    [
        # A loop iteration by iteration.
        (
            LOOP,
            "x sub root sub root! sub! root! w! end!",
            "end",
            "end < w < root.2 < sub.2 < (a) < root.1 <- sub.1",
        ),
        (LOOP, "x! sub! root! w! end!", "end", "end < w < root < sub < (a) < x <- "),
        (LOOP, "x sub root sub! root! end!", "end", "end < (w) < root.1 < sub.1 <- root.0"),
        (LOOP, "x sub! root! sub root end!", "root.0", "root.0 < sub.0 <- x"),
        (LOOP, "x sub root! x end!", "end", "end < (w) < root <- sub"),
        # It was never entered, and who looks from outside can't tell the iteration.
        (LOOP, "x! end!", "end", "end < (w) < x <- "),
        (LOOP, "x! slope!", "slope", "slope < (a) < x <- "),
        (LOOP, "x sub root! slope!", "slope", "slope < (a) < root <- sub"),
        # What was computed in an iteration, however late.
        (AHEAD, "zero next next next t t! t u u! u", "u.1", "u.1 < t.1 <- next.0"),
        (AHEAD, "zero next next next t! t t u! u u", "u.0", "u.0 < t.0 <- zero"),
        (AHEAD, "zero! next next next t! t t", "t.0", "t.0 < (k) < zero <- "),
        (AHEAD, "zero next next! next t t t!", "t.2", "t.2 < (k) < next.1 <- next.0"),
        # What comes round is from outside of the loop: as it was entered, or as it was later.
        (AHEAD, "zero far! v v!", "v.1", "v.1 < (same) < far <- "),
        (AHEAD, "zero! far v! v", "v.0", "v.0 < (same) < zero <- "),
        (AHEAD, "far zero! v v!", "v.1", "v.1 < (same) < zero <- "),
        # A loop in a loop is left where it was entered.
        (
            NESTED,
            "x entry inc inc in left entry! inc! inc! in! left! o! end!",
            "end",
            "end < o < left.1 < in.1 < inc.3 < (b) < inc.2 < (b) < entry.1 <- left.0",
        ),
        (
            NESTED,
            "x entry inc inc! entry! inc! inc! end!",
            "end",
            "end < (o) < (left) < (in) < inc.3 < (b) < inc.2 < (b) < entry.1"
            " < (a) < (left) < (in) < inc.1 <- inc.0",
        ),
        # One that wasn't gone round this time gives what it was entered with.
        (
            NESTED,
            "x entry inc in left entry! in! left! o! end!",
            "end",
            "end < o < left.1 < in.1 < entry.1 <- left.0",
        ),
        (NESTED, "x entry inc left entry! left!", "left.1", "left.1 < (in) < entry.1 <- left.0"),
        (
            NESTED,
            "x entry! inc! left! entry left",
            "left.0",
            "left.0 < (in) < inc < (b) < entry.0 <- x",
        ),
        (
            PLAIN,
            "x entry inc in left entry! in! left! o! end!",
            "end",
            "end < o < left.1 < in.1 < entry.1 <- left.0",
        ),
        (
            PLAIN,
            "x entry inc! in! left! entry! inc! in! left! o! end!",
            "end",
            "end < o < left.1 < in.1 < inc.1 < (b) < entry.1 < (a) < left.0 < in.0 < inc.0"
            " <- entry.0",
        ),
        (PLAIN, "x entry! in! left! entry inc in left", "left.0", "left.0 < in.0 < entry.0 <- x"),
        # What the next one is entered with may be there before.
        (PLAIN, "x entry inc! entry! in! inc in left", "in.0", "in.0 < inc.0 <- entry.0"),
        # Each iteration has its branch, whatever others have taken meanwhile.
        (
            BRANCHES,
            "x test=0 up test=1 down! test=0 up! end!",
            "end",
            "end < (w) < (pick) < up.1 < (a) < (pick) < down <- up.0",
        ),
        (
            BRANCHES,
            "x test=0 test=1 test=0 up down! up! end!",
            "end",
            "end < (w) < (pick) < up.1 < (a) < (pick) < down <- up.0",
        ),
        (
            BRANCHES,
            "x test=1 test=1 test=0 test=0 down down! up! up! pick pick! pick! pick! end!",
            "end",
            "end < (w) < pick.3 < up.1 < (a) < pick.2 < up.0 < (a) < pick.1 < down.1 <- pick.0",
        ),
        (BRANCHES, "x test=1 down down!", "down.1", "down.1 <- down.0"),
        (UNKNOWN, "x t t!", "t.1", "t.1 <- t.0"),
        (UNKNOWN, "x t! t", "t.0", "t.0 <- x"),
        (CASES, "y y index=2 index=0 three! one out! out", "out", "out.0 < (pick) < three <- y.0"),
        (CASES, "y y index=0 index=1 one two! out out!", "out.1", "out.1 < (pick) < two <- y.1"),
        (CASES, "y y y index=1 index=0 index=1 two! one two", "two.0", "two.0 <- y.0"),
        (CASES, "y y y index=1 index=0 index=1 two one! two", "one", "one <- y.1"),
        (CASES, "y y y index=2 index=0 index=1 three! one two", "three", "three <- y.0"),
        (CASES, "y index=9 three! one two out!", "out", "out < (pick) < three <- y"),
        (CASES, "y index=-1 three! one two out!", "out", "out < (pick) < three <- y"),
        (CASES, "y index= three! one two out!", "out", "out < (pick) < three <- y"),
        (CASES, "y index=0 one! two three out!", "out", "out < (pick) < one <- y"),
        (
            DEEP,
            "a a a p=1 p=0 p=1 q=1 q=0 flat other deep! out out out!",
            "out.2",
            "out.2 < (if) < (in) < deep <- a.2",
        ),
        (DEEP, "a a a a p=0 p=1 p=1 p=1 q=0 q=1 q=0 deep! deep", "deep.0", "deep.0 <- a.1"),
        (
            DEEP,
            "p=0 p=1 p=1 p=1 q=0 q=1 q=0 deep! deep straight straight! straight straight",
            "straight.1",
            "straight.1 < deep.0 <- x:0",
        ),
        # Functions, branches outside of loops, merges, lists.
        (CALLS, "x log! neg! call!", "call", "call < neg < log <- x"),
        (CALLS, "x log! neg call!", "call", "call < log <- x"),
        (CALLS, "x y=1 log! neg after!", "after", "after < (if) < log <- x"),
        (CALLS, "x y=0 log! neg! after!", "after", "after < (if) < neg < log <- x"),
        (CALLS, "x y= log neg! after!", "after", "after < (if) < neg <- log"),
        (CALLS, "x log! neg after!", "after", "after <- neg"),
        (CALLS, "x neg! log after!", "after", "after <- log"),
        (CALLS, "x y=1 night!", "night", "night <- "),
        (CALLS, "x log neg! first second!", "second", "second < (pair) < neg <- log"),
        (CALLS, "x log! neg first! second", "first", "first < (pair) < log <- x"),
        (CALLS, "x log! neg pair:1!", "pair:1", "pair:1 <- neg"),
        (CALLS, "y! three!", "(fan)", "(fan) < three < y <- "),
        (CALLS, "x log neg!", "(pair)", "(pair) < neg <- log"),
        (CALLS, "x split:1! part!", "part", "part < split:1 <- x"),
        (CALLS, "y! x! merge!", "merge", "merge < x <- "),
        (CALLS, "x! y! merge!", "merge", "merge < y <- "),
        (CALLS, "x x x whole!", "whole", "whole <- x.2"),
        # Not what was computed later, but what has the same time; round and round.
        (CALLS, "soon soon soon! late!", "late", "late < soon.2 <- x:0"),
        (CALLS, "x late! soon!", "late", "late <- "),
        (CALLS, "x late! @soon!", "late", "late < soon <- x"),
        (CALLS, "hen! @egg!", "egg", "egg < hen <- "),
        (CALLS, "hen! @egg!", "hen", "hen <- "),
        (CALLS, "x y! sum!", "sum", "sum < y <- "),
        (CALLS, "x y sum!", "sum", "sum <- x y hidden:0"),
        (CALLS, "y fan!", "fan", "fan <- y hidden:0"),
        (CALLS, "lost!", "lost", "lost <- hidden:0"),
    ],
)
def test_each_dump_has_its_own_way_back(nodes, dumped, start, told):
    assert Run(nodes, dumped).back(start) == [told]


def test_a_path_goes_through_the_dumps_of_one_iteration():
    run = Run(LOOP, "x sub root sub root sub root w end")

    def dumps(end, *edges):
        found = run.ancestry.along([run.edge(*each.split()) for each in edges], run.datum(end))
        return [datum and run.told(datum) for datum in found]

    assert dumps("sub.1", "root a", "a sub") == ["root.0", None]
    assert dumps("sub.0", "x a", "a sub") == ["x", None]
    assert dumps("end", "sub root", "root w", "w end") == ["sub.2", "root.2", "w"]
    assert dumps("end", "sub root ^", "w end") == [None, "w"]
    assert dumps("root.0", "x a", "a sub ^", "sub root") == ["x", None, "sub.0"]
    run = Run(CALLS, "x log neg later @late @soon second")
    assert dumps("later", "soon late", "late later") == ["soon", "late"]
    assert dumps("second", "neg pair", "pair:1 second") == ["neg", None]


@pytest.mark.parametrize(
    "op",
    [
        "PartitionedCall",
        "StatefulPartitionedCall",
        "SymbolicGradient",
        "If",
        "StatelessIf",
        "Case",
        "StatelessCase",
        "While",
        "StatelessWhile",
    ],
)
def test_what_calls_a_function_has_its_value_from_the_body(op):
    nodes = [("x", "Const", ""), ("call", op, "x"), ("call/log", "Log", "x")]
    assert Run(nodes, "x log! call!").back("call") == ["call < log <- x"]


@pytest.mark.parametrize("op", ["Merge", "RefMerge", "_XlaMerge"])
def test_of_what_is_merged_the_last_one_counts(op):
    nodes = [("x", "Const", ""), ("y", "Const", ""), ("merge", op, "x y")]
    assert Run(nodes, "y! x! merge!").back("merge") == ["merge < x <- "]


@pytest.mark.parametrize(
    "op",
    [
        "_Collected",
        "TensorListConcatLists",
        "TensorListPushBack",
        "TensorListPushBackBatch",
        "TensorListScatter",
        "TensorListScatterIntoExistingList",
        "TensorListSetItem",
        "TensorListPopBack",
        "OptionalFromValue",
    ],
)
def test_what_is_collected_is_bad_by_all_bad_ones(op):
    nodes = [("x", "Const", ""), ("list", op, "x"), ("whole", "Identity", "list")]
    run = Run(nodes, "x x! x x! x whole! x! x whole!")
    bad = ["whole.0 < (list) < x.1 <- ", "whole.0 < (list) < x.3 <- "]
    assert run.back("whole") == bad
    assert run.back("whole.1") == ["whole.1 < (list) < x.5 <- "]  # the loop was entered anew
