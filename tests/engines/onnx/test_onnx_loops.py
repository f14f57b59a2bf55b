"""What is said of nan and infinities that began in loops and branches."""

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

from onnx_kit import session_of
from test_onnx_runs import debugged

from tfdbg_cli.commands.graph.verdict import first_origin, verdict
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.ancestry import Ancestry
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.dumps.run_folder.writer import write_run_folder
from tfdbg_cli.engines.onnx.engine import ENGINE
from tfdbg_cli.filters.lineage import TensorLineage
from tfdbg_cli.filters.origins import origin_of_nonfinite


def _floats(*values):
    return np.array(values, np.float32)


def _loop(body, names="y", carried="x", graph="", before="", after=""):
    """A model of one loop, with a carried ``v``, that the body makes ``next``."""
    return f"""g (float[N] x, float[N] w, int64 count) => (float[M] {graph or names})
    <bool true = {{1}}, float one = {{1}}> {{
        {before}
        [walk] {names} = Loop (count, true, {carried}) <
            body = step (int64 at, bool going, float[N] v) => (bool on, float[N] next)
            <float two = {{2}}> {{ [on] on = Identity(going) {body} }}
        >
        {after}
    }}"""


def _given(x, count=3, w=(1, 1)):
    return {"x": _floats(*x), "w": _floats(*w), "count": np.array(count)}


_SCAN = """g (float[2] s, float[2] t, float[K,2] xs, float[K,2] zs) =>
    (float[2] a, float[2] b, float[K,2] roots, float[K,2] quotients) {
    [scan] a, b, roots, quotients = Scan <num_scan_inputs = 2,
        body = step (float[2] sum, float[2] product, float[2] x, float[2] z)
            => (float[2] sum2, float[2] product2, float[2] root, float[2] quotient) {
            [add] sum2 = Add(sum, x)
            [mul] product2 = Mul(product, z)
            [sqrt] root = Sqrt(sum2)
            [div] quotient = Div(x, z)
        }
    > (s, t, xs, zs)
}"""
_ONES = np.ones((3, 2), np.float32)


def _scanned(**given):
    states = {"s": _floats(0, 0), "t": _floats(1, 1)}
    return {**states, "xs": _ONES, "zs": _ONES, **given}


#: The loop in the loop begins anew with a logarithm, or with what is around both.
_NESTED = """g (float[K,2] xs, int64[K] counts, float[2] z, float[2] w)
    => (float[K,2] ys, float[2] end)
<bool true = {1}, float one = {1}> {
    [outside] outside = Log(z)
    [outer] end, ys = Scan <num_scan_inputs = 2,
        body = step (float[2] kept, float[2] x, int64 count) => (float[2] kept2, float[2] y) {
            [log] begin = Log(x)
            [inner] y = Loop (count, true, BEGIN) <
                body = again (int64 at, bool going, float[2] v) => (bool on, float[2] next) {
                    [on] on = Identity(going)
                    [change] next = CHANGE
                }
            >
            [keep] kept2 = Identity(kept)
        }
    > (w, xs, counts)
}"""


def _nested(begin, change):
    return _NESTED.replace("BEGIN", begin).replace("CHANGE", change)


def _rows(xs, counts, z=(1, 1)):
    return {
        "xs": _floats(*xs),
        "counts": np.array(counts),
        "z": _floats(*z),
        "w": _floats(1, 1),
    }


_SEQUENCE = """g (float[N] x, int64 count) => (float[M] y) <bool true = {1}, float one = {1}> {
    [none] none = SequenceEmpty <dtype = 1> ()
    [walk] s, end = Loop (count, true, none, x) <
        body = step (int64 at, bool going, seq(float[N]) list, float[N] v)
            => (bool on, seq(float[N]) longer, float[N] next) {
            [on] on = Identity(going)
            [sub] next = Sub(v, one)
            [log] made = Log(next)
            [insert] longer = SequenceInsert(list, made)
        }
    >
    [join] y = ConcatFromSequence <axis = 0> (s)
}"""
#: The body takes tensors out of a sequence from around it, and out of one that goes round.
_READ = """g (float[N] x, int64 count, int64[K] parts) => (float total) <
    bool true = {1}, float zero = {0}
> {
    [split] list = SplitToSequence <axis = 0> (x, parts)
    [none] none = SequenceEmpty <dtype = 1> ()
    [walk] total, kept = Loop (count, true, zero, none) <
        body = step (int64 at, bool going, float sum, seq(float[M]) held)
            => (bool on, float next, seq(float[M]) longer) {
            [on] on = Identity(going)
            [part] part = SequenceAt(list, at)
            [all] all = ReduceSum <keepdims = 0> (part)
            [div] share = Div(part, all)
            [longer] longer = SequenceInsert(held, share)
            [last] last = SequenceAt(longer, at)
            [top] top = ReduceMax <keepdims = 0> (last)
            [add] next = Add(sum, top)
        }
    >
}"""
#: One carried value is handed on as the next one; an initializer says that the loop goes on.
_HANDED_ON = """g (float[N] x, int64 count) => (float[N] a, float[N] b, float[N] c)
<bool true = {1}> {
    [walk] a, b, c = Loop (count, true, x, x, x) <
        body = step (int64 at, bool going, float[N] u, float[N] v, float[N] z)
            => (bool on, float[N] next, float[N] u, float[N] v) <bool on = {1}> {
            [log] next = Log(u)
        }
    >
}"""
_BRANCHES = """g (float[N] x, bool c, int64 count) => (float[N] y)
<bool true = {1}, float one = {1}> {
    [choose] y = If (c) <
        then_branch = loops () => (a) {
            [walk] a = Loop (count, true, x) <
                body = step (int64 at, bool going, float[N] v) => (bool on, float[N] next) {
                    [small] small = ReduceMin <keepdims = 0> (v)
                    [is_large] is_large = Greater(small, one)
                    [pick] picked = If (is_large) <
                        then_branch = yes () => (p) { [sub] p = Sub(v, one) },
                        else_branch = no () => (q) {
                            [zero] zero = Sub(v, v)
                            [div] q = Div(v, zero)
                        }
                    >
                    [on] on = Identity(going)
                    [next] next = Identity(picked)
                }
            >
        },
        else_branch = plain () => (b) { [log] b = Log(x) }
    >
}"""
_ADDS = "[add] next = Add(v, l)"

CASES = {
    "0 / 0": (
        _loop("[less] z = Sub(v, v) [div] next = Div(z, z)"),
        _given([3.5, 3]),
        ["div 0"],
        "0 / 0 at 2 elements",
    ),
    "exp": (_loop("[exp] next = Exp(v)"), _given([2, 3], 5), ["exp 2"], "exp of 5.2849e+08"),
    "an initializer of the body": (
        _loop("[sub] less = Sub(v, two) [div] r = Div(two, less) [same] next = Mul(less, r)"),
        _given([5, 4], 2),
        ["div 1"],
        "a division by 0 at 2 elements",
    ),
    "captured": (
        _loop(_ADDS, before="[log] l = Log(w)"),
        _given([1, 2], w=(1, 0)),
        ["log 0"],
        "the logarithm of 0 at [1]",
    ),
    "begun bad": (
        _loop("[mul] next = Mul(v, two)", carried="l", before="[log] l = Log(x)"),
        _given([1, 0]),
        ["log 0"],
        "the logarithm of 0 at [1]",
    ),
    "not gone round": (
        _loop("[exp] next = Exp(b)", carried="l", before="[log] l = Log(x) [root] b = Sqrt(w)"),
        _given([1, 0], 0, w=(-1, 1)),
        ["log 0"],
        "the logarithm of 0 at [1]",
    ),
    "two states, two outputs": (
        _SCAN,
        _scanned(
            xs=np.array([[1, 2], [1, -3], [5, 5]], np.float32), zs=_ONES * _floats([1], [1], [0])
        ),
        ["sqrt 1", "div 2"],
        "the square root of a negative number at [1]",
    ),
    "a slice": (
        _SCAN,
        _scanned(xs=_floats([1, 2], [1, np.nan], [5, 5])),
        ["xs 0"],
        "it came in from outside",
    ),
    "a loop in a loop": (
        _nested("begin", "Sub(v, one)"),
        _rows([[1, 2], [1, 0], [5, 5], [-1, 1], [0, 2]], [2] * 5),
        ["log 1", "log 3", "log 4"],
        "the logarithm of 0 at [1]",
    ),
    "a loop in a loop that isn't always gone round": (
        _nested("outside", "Exp(w)"),
        _rows(np.ones((5, 2)), [2, 0, 1, 0, 0], z=(1, 0)),
        ["outside 0"],
        "the logarithm of 0 at [1]",
    ),
    "a branch in a loop in a branch": (
        _BRANCHES,
        {"x": _floats(3.5, 4), "c": np.array(True), "count": np.array(5)},
        ["div 0"],
        "a division by 0",
    ),
    "handed on": (
        _HANDED_ON,
        {"x": _floats(20, 3), "count": np.array(5)},
        ["log 3"],
        "the logarithm of a negative number at [1]",
    ),
    "a sequence": (
        _SEQUENCE,
        {"x": _floats(20, 2.5), "count": np.array(4)},
        ["log 2", "log 3"],
        "the logarithm of a negative number at [1]",
    ),
    "read of a sequence": (
        _READ,
        {
            "x": _floats(1, 2, 3, -3, 0, 2, 2),
            "count": np.array(3),
            "parts": np.array([2, 3, 2]),
        },
        ["div 1"],
        "0 / 0",
    ),
}


def _dump(text, feeds):
    session = session_of(text)
    with debugged(session) as ends:
        session.run(None, feeds)
    return ends[0].dump


def _told(data):
    return [f"{each.node_name} {each.execution}" for each in data]


def _screen(dump):
    return [each.text for each in verdict(dump, first_origin(dump))]


@pytest.mark.parametrize("name", CASES)
def test_what_began_in_a_loop_is_told_there_with_its_reason(name, tmp_path):
    text, feeds, origins, reason = CASES[name]
    dump = _dump(text, feeds)
    assert _told(dump.find(origin_of_nonfinite)) == origins
    screen = _screen(dump)
    assert any(line.startswith("Why:") and reason in line for line in screen), screen
    write_run_folder(dump, tmp_path / "kept")
    tried = [line for line in screen if line.startswith("Tried:")]  # what a kept dump can't
    assert [*_screen(open_dump(tmp_path / "kept")), *tried] == screen


def test_each_result_comes_from_its_own_execution_of_the_inner_loop():
    dump = _dump(*CASES["a loop in a loop"][:2])
    lineage = TensorLineage.of(dump)
    ways = Ancestry(dump, dump.graph(), lambda datum: bool(lineage.bad(datum)))
    made = [each for each in dump.by_node("inner") if lineage.bad(each)]
    found = [_told(origin.chain[-1].datum for origin in ways.origins(each)) for each in made]
    assert found == [["log 1"], ["log 3"], ["log 4"]]


def test_a_loop_that_went_bad_late_is_shown_from_there_on():
    """After the first 1000 iterations those that show nothing are left out."""
    text = _loop("[sub] next = Sub(v, one) [log] out = Log(next)", "y, logs", graph="y, M2] logs")
    text = text.replace("float[M] y, M2]", "float[M] y, float[M,N]").replace(
        "float[N] next)", "float[N] next, float[N] out)"
    )
    dump = _dump(text, _given([1200.5, 9000], 1300))
    assert _told(dump.find(origin_of_nonfinite))[0] == "log 1000"
    assert [dump.value(each) for each in dump.by_node("at")][999:1002] == [999, 1200, 1201]
    assert dump.warnings == [
        "Of the loop walk 1,000 iterations are shown, then those from 1,200 on, "
        "numbered from 1,000 on."
    ]
    dump = _dump(text, _given([5000, 9000], 1300))
    assert len(dump.by_node("log")) == 1000
    assert dump.warnings == ["Of the loop walk 1,000 iterations are shown."]


def test_the_stepper_shows_the_inside_of_a_step_that_was_done():
    text, feeds, origins, _ = CASES["exp"]
    stepper = ENGINE.adapt(session_of(text)).stepper(None, feeds, None, None)
    stepper.reach("walk:0")
    dump = stepper.dump()
    assert _told(dump.find(origin_of_nonfinite)) == origins
    while stepper.position:
        stepper.back()
    with pytest.raises(UserError, match="no tensor two:0"):  # it is the body's own
        stepper.override("two:0", 3)
    stepper.override("x:0", _floats(-1, -1))
    stepper.reach("walk:0")
    assert not stepper.dump().by_node("exp")  # those are of the run without the override
    stepper.discard()
