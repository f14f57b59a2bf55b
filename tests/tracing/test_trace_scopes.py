"""Where a block may stand, and what becomes of its variables."""

import contextlib
import functools
import gc
import operator
import sys
import weakref

import numpy as np
import pytest
from trace_kit import W, X, total_of

import tfdbg_cli
from tfdbg_cli.tracing.block import CAN_DELETE
from tfdbg_cli.tracing.errors import TraceBlockError

Y = X @ W
COUNT = 0
NEW: int


def test_variables_are_bound_rebound_and_deleted(model):
    kept, count, gone = "kept", 1, 2
    values = [1]
    with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
        count += 10
        values.append(t["h"].value.shape)
        new: int = count * 2
        first, *rest = range(3)
        for index in range(3):
            if index == 1:
                break
        import json as imported

        assert (walrus := 4)
        assert [twice := item for item in "ab"]
        with contextlib.suppress(ZeroDivisionError):
            _ = 1 / 0
        temporary = 1
        del temporary
    assert (kept, count, new, first, rest, index) == ("kept", 11, 22, 0, [1, 2], 1)
    assert (walrus, twice, gone) == (4, "b", 2)
    assert values == [1, (2, 2)]
    assert imported.__name__ == "json"
    assert "temporary" not in locals()


@pytest.mark.skipif(not CAN_DELETE, reason="such a block is refused")
def test_a_variable_of_the_function_is_deleted(model):
    gone = 1
    with tfdbg_cli.trace(model.sess, model.total, model.feed):
        del gone
    assert "gone" not in locals()


def test_a_variable_that_was_deleted_is_unbound_in_the_block_too(model):
    missing = 1
    del missing
    with (
        pytest.raises(NameError),
        tfdbg_cli.trace(model.sess, model.total, model.feed),
    ):
        print(missing)  # noqa: F821


def test_one_line_blocks(model):
    with tfdbg_cli.trace(model.sess, model.total, model.feed) as t: h = t["h"].value; n = 1  # fmt: skip # noqa: E501, E701, E702
    np.testing.assert_array_equal(h, Y)
    assert n == 1
    with tfdbg_cli.trace(model.sess, model.total, model.feed) as t: ...  # fmt: skip
    assert t.result == total_of(Y)


def test_blocks_that_begin_with_try_run_none_of_its_handlers_in_place(model):
    seen = []
    with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
        try: seen.append(t["h"].value.shape)  # fmt: skip # noqa: E701
        except BaseException: seen.append("handler")  # fmt: skip # noqa: E701
        finally: seen.append("finally")  # fmt: skip # noqa: E701
    assert seen == [(2, 2), "finally"]


def test_strings_and_headers_of_any_shape(model):
    with tfdbg_cli.trace(
        model.sess,
        # a comment
        fetches=model.total,
        feed_dict=model.feed,
    ) as t:
        # a comment
        text = """
not indented"""
        # another one
        h = t["h"].value

    assert text == "\nnot indented"
    np.testing.assert_array_equal(h, Y)


def test_several_items_of_one_with(model, tmp_path):
    path = tmp_path / "file"
    entered = []

    @contextlib.contextmanager
    def note(name):
        entered.append(name)
        yield name
        entered.append(f"end of {name}")

    with (
        note("a") as a,
        tfdbg_cli.trace(model.sess, model.total, model.feed) as t,
        open(path, "w") as file,
        note("b") as b,
    ):
        file.write(str(t["h"].value.sum()))
        inside = list(entered)
    assert (a, b, inside) == ("a", "b", ["a", "b"])
    assert entered == ["a", "b", "end of b", "end of a"]
    assert file.closed
    assert path.read_text() == str(Y.sum())
    with (
        tfdbg_cli.trace(model.sess, model.total, model.feed) as t,
        tfdbg_cli.trace(model.sess, model.y, model.feed) as u,
    ):
        t["h"].value = u["y"].value * 0
    assert t.result == 0
    np.testing.assert_array_equal(u.result, Y)


def test_blocks_in_blocks(model):
    depth = 0
    with tfdbg_cli.trace(model.sess, model.total, model.feed) as outer:
        h = outer["h"].value
        depth += 1
        for scale in (2, 3):
            with tfdbg_cli.trace(model.sess, model.total, {model.x: X * scale}) as inner:
                depth += 1
                inner["h"].value = h
                found = inner["y"].value
        outer["h"].value = found
    assert depth == 3
    np.testing.assert_array_equal(found, 3 * Y)
    assert inner.result == total_of(Y)
    assert outer.result == total_of(3 * Y)


def test_targets_of_any_kind(model):
    class Holder:
        pass

    holder, table = Holder(), {}
    with tfdbg_cli.trace(model.sess, model.total, model.feed) as holder.t:
        h = holder.t["h"].value
    with tfdbg_cli.trace(model.sess, model.total, model.feed) as table["t"]:
        y = table["t"]["y"].value
    with (u := tfdbg_cli.trace(model.sess, model.total, model.feed)):
        s = u["square"].value
    v = tfdbg_cli.trace(model.sess, model.total, model.feed)
    with v:
        v["h"].value = h * 0
    np.testing.assert_array_equal(h, y)
    np.testing.assert_array_equal(s, np.square(Y))
    assert v.result == 0


def test_functions_inside_share_their_variables_with_the_block(model):
    count = 1

    def bump(by=1):
        nonlocal count
        count += by

    with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
        bump()
        seen = count
        count *= 10
        bump(2)
        by = t["h"].value.size
        later = lambda: count + by  # noqa: E731
    assert (seen, count, later()) == (2, 22, 26)
    bump()
    assert (count, later()) == (23, 27)


def test_whatever_shares_a_variable_sees_it_in_the_block(model):
    count = 0

    class Counter:
        def hit(self):
            nonlocal count
            count += 1

    def wrapped(by):
        nonlocal count
        count += by

    hits = {"deep": [functools.partial(wrapped, 10)]}
    del wrapped
    show = operator.methodcaller("__call__")

    def later():
        return new

    with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
        Counter().hit()
        hits["deep"][0]()
        count += 100
        assert (Counter().hit(), count) == (None, 112)
        new = 1
        assert show(later) == 1

        def inside():
            nonlocal count
            count += 1000
            return new

        assert (inside(), count) == (1, 1112)
        with tfdbg_cli.trace(model.sess, model.y, model.feed):
            Counter().hit()
            new += int(t["h"].value.size)
        assert (count, inside()) == (1113, 5)
    new += 1
    assert (inside(), later(), count) == (6, 6, 3113)


def test_looking_for_shared_variables_leaves_them_as_they_are(model):
    value, empty = object(), 1
    del empty

    def other(value=value):
        def hold():
            return value

        return hold

    holders = [[[other()]], [[lambda: (value, empty)]]]  # noqa: F821
    before = value
    with tfdbg_cli.trace(model.sess, model.total, model.feed):
        value = (value, 1)
    assert value == (before, 1)
    assert holders[0][0][0]() is before
    with pytest.raises(NameError):
        holders[1][0][0]()
    assert "empty" not in locals()


def test_variables_of_the_functions_around(model):
    total, unused = 0, 1

    def inner():
        nonlocal total
        with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
            total += int(t["h"].value.size)
        return total + unused

    assert inner() == 5
    assert inner() == 9
    assert total == 8


def test_globals(model):
    global COUNT, NEW
    with tfdbg_cli.trace(model.sess, model.total, model.feed):
        COUNT += 1
        NEW = COUNT + 1
    assert globals()["COUNT"] == COUNT == 1
    assert globals()["NEW"] == 2

    def another():
        with tfdbg_cli.trace(model.sess, model.total, model.feed):
            global COUNT
            COUNT = 5

    another()
    assert COUNT == 5


class Base:
    def scale(self, value):
        return value * 2


class Method(Base):
    __factor = 3

    def scale(self, value):
        with tfdbg_cli.trace(self.model.sess, self.model.total, self.model.feed) as t:
            found = super().scale(value) + self.__factor
            self.__last = t["h"].value
            __local = found

            def private():
                return super(Method, self).scale(__local), self.__factor, __class__

        return found, private

    @property
    def last(self):
        return self.__last

    @classmethod
    def make(cls, model):
        with tfdbg_cli.trace(model.sess, model.total, model.feed):
            made = cls()
            made.model = model
        return made


def test_methods_private_names_and_super(model):
    made = Method.make(model)
    found, private = made.scale(5)
    assert found == 13
    assert private() == (26, 3, Method)
    assert private.__qualname__ == "Method.scale.<locals>.private"
    np.testing.assert_array_equal(made.last, Y)


def test_the_body_of_a_class(model):
    class Made:
        __private = 1
        with tfdbg_cli.trace(MODEL[0].sess, MODEL[0].total, MODEL[0].feed) as t:
            shape = t["h"].value.shape
            other = __private + 1

    assert Made.shape == (2, 2)
    assert Made.other == 2
    assert Made.__qualname__.endswith("Made")
    assert Made.__module__ == __name__


def test_the_body_of_a_class_in_a_function(model):
    around, unused = 5, 1

    class Made:
        with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
            size = t["h"].value.size + around

            def method(self):
                return self.size, around

        class Inner:
            with tfdbg_cli.trace(model.sess, model.total, model.feed):
                size = around * 2

    around += 1
    assert (Made.size, Made().method(), Made.Inner.size) == (9, (9, 6), 10)
    assert Made.__qualname__.endswith("test_the_body_of_a_class_in_a_function.<locals>.Made")
    assert Made.method.__qualname__ == f"{Made.__qualname__}.method"
    assert unused == 1


def test_a_block_in_a_handler_keeps_the_error_that_is_handled(model):
    def handle():
        try:
            raise KeyError("first")
        except KeyError:
            with tfdbg_cli.trace(model.sess, model.total, model.feed):
                _ = 1 / 0

    with pytest.raises(ZeroDivisionError) as caught:
        handle()
    assert repr(caught.value.__context__) == "KeyError('first')"
    assert caught.value.__context__.__context__ is None


MODEL = []


@pytest.fixture(autouse=True)
def _model(model):
    MODEL[:] = [model]


def test_generators_and_coroutines(model):
    def generator():
        for scale in (1, 2):
            with tfdbg_cli.trace(model.sess, model.total, {model.x: X * scale}) as t:
                h = t["h"].value
            yield h.sum()

    async def coroutine():
        with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
            h = t["h"].value
        return h.sum()

    assert list(generator()) == [Y.sum(), 2 * Y.sum()]
    with pytest.raises(StopIteration) as ended:
        coroutine().send(None)
    assert ended.value.value == Y.sum()


def test_code_in_the_block_has_the_names_and_lines_of_the_user_s(model):
    line = sys._getframe().f_lineno
    with tfdbg_cli.trace(model.sess, model.total, model.feed):
        frame = sys._getframe()

        def inside():
            pass

    assert frame.f_code.co_filename == __file__
    assert frame.f_code.co_name == sys._getframe().f_code.co_name
    assert frame.f_code.co_firstlineno == sys._getframe().f_code.co_firstlineno
    assert inside.__code__.co_firstlineno == line + 4
    assert inside.__qualname__ == f"{frame.f_code.co_name}.<locals>.inside"


def leaving(word):
    return f"""\
def function(sess, fetches, feed, seen):
    for item in [1]:
        with tfdbg_cli.trace(sess, fetches, feed) as t:
            seen.append(1)
            for _ in range(2):
                break
            else:
                continue_ = 1
            {word}
"""


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("return", "`return` would leave the trace block"),
        ("break", "`break` would leave the trace block"),
        ("continue", "`continue` would leave the trace block"),
        ("if item: break", "`break` would leave"),
        ("yield 1", "`yield` would let other code run"),
        ("yield from ()", "`yield from` would let"),
    ],
)
def test_statements_that_leave_the_block_are_refused_before_it_runs(model, known, word, message):
    space = known(leaving(word))
    seen = []
    with pytest.raises(TraceBlockError) as caught:
        list(space["function"](model.sess, model.total, model.feed, seen) or ())
    assert message in str(caught.value)
    assert (caught.value.lineno, caught.value.text.strip()) == (9, word)
    assert not seen


@pytest.mark.parametrize("word", ["await other()", "[item async for item in other()]"])
def test_waiting_in_the_block_is_refused(model, known, word):
    text = f"""\
async def function(sess, fetches, feed, other):
    with tfdbg_cli.trace(sess, fetches, feed) as t:
        {word}
"""
    function = known(text)["function"]
    with pytest.raises(TraceBlockError, match="would let other code run"):
        function(model.sess, model.total, model.feed, None).send(None)


def test_variables_of_comprehensions_are_found_without_a_search(model, monkeypatch):
    """Where a program has turned Python's garbage collector off, there is much to search."""
    searches = []
    all_objects = gc.get_objects
    monkeypatch.setattr(gc, "get_objects", lambda *of: searches.append(of) or all_objects(*of))
    names, given = ["h", "total"], 3

    def run():
        scale = given
        with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
            values = [t[name].value * scale for name in names]
            kinds = {name: [type(t[name].value) for _ in "ab"] for name in names}
            scale += 1
        again = [t[name].value for name in names]
        return values, kinds, scale, again, [scale for _ in "a"]

    values, kinds, scale, again, after = run()
    assert not searches
    assert [len(values), scale, after] == [2, 4, [4]]
    np.testing.assert_array_equal(values[0], 3 * Y)
    np.testing.assert_array_equal(again[0], Y)
    assert set(kinds) == set(names)


def test_variables_that_other_functions_share_as_well(model):
    def run():
        scale = 2
        with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
            values = [t[name].value * scale for name in ("h",)]

            def scaled():
                return values[0] * scale

        scale = 5
        return scaled()

    np.testing.assert_array_equal(run(), 2 * 5 * Y)


def test_a_function_that_the_garbage_collector_does_not_show_is_found(model, monkeypatch):
    def make():
        count = 0

        def once_more():
            nonlocal count
            count += 1

        def run():
            nonlocal count
            with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
                count += 10
                _ = t["h"].value
                once_more()
            return count

        return run

    def call(function):
        return function()

    searches = []
    for name in ("get_objects", "get_referrers"):
        monkeypatch.setattr(gc, name, lambda *of: searches.append(of) or [])
    made = make()
    assert [call(made), call(made), call(make())] == [11, 22, 11]
    assert not searches


def test_after_a_block_its_run_goes_with_the_tracer(model):
    def traced():
        with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
            value = t["h"].value
        assert value is t["h"].value
        return weakref.ref(t)

    traced()
    gc.collect()
    gc.disable()
    try:
        assert traced()() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_block_that_is_applied_after_it_has_ended_has_the_variables_of_then(model, is_elsewhere):
    def apply(tracer):
        return tracer.every(1)

    def traced():
        seen = []
        factor = 1
        with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
            seen.append(factor * float(t["total"].value))
            factor += 1
        factor = 10 * factor
        _ = apply(t) if is_elsewhere else t.every(1)
        model.sess.run(model.total, model.feed)
        assert factor == 21
        return seen

    first, second = traced()
    assert second == 20 * first


def test_a_block_that_is_applied_after_its_function_has_what_it_had(model):
    seen = []

    def traced():
        factor = 2
        with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
            seen.append(factor * float(t["total"].value))
        return t

    traced().every(1)
    model.sess.run(model.total, model.feed)
    assert seen[0] == seen[1]
