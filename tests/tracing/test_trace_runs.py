"""Blocks for many runs: `every` and `runs`."""

import contextlib
import gc
import itertools
import weakref

import numpy as np
import pytest
from trace_kit import Model, W, X, total_of

import tfdbg_cli
from tfdbg_cli.engines import numpy as tf
from tfdbg_cli.sessions.wrappers.intervening import _patches
from tfdbg_cli.tracing.errors import TraceError

Y = X @ W


def test_a_block_is_applied_to_the_next_runs_of_a_session(model):
    with tfdbg_cli.trace(model.sess).every(2) as t:
        t["h"].value = np.minimum(t["h"].value, 1)
    results = [model.sess.run(model.total, model.feed) for _ in range(3)]
    assert results == [4, 4, total_of(Y)]
    assert not _patches


def test_until_it_is_removed(model):
    seen = []
    with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
        seen.append(float(t["total"].value))
        applied = t.every()
    for scale in (1, 2):
        model.sess.run(model.total, {model.x: X * scale})
    assert applied.left is None
    t.remove()
    applied.remove()
    model.sess.run(model.total, model.feed)
    assert seen == [total_of(Y), total_of(Y), total_of(2 * Y)]
    assert not _patches


def test_after_the_block_in_a_with_statement_of_its_own(model):
    with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
        t["h"].value = t["h"].value * 0
    with t.every() as applied:
        inside = model.sess.run(model.total, model.feed)
    assert (inside, model.sess.run(model.total, model.feed)) == (0, total_of(Y))
    assert applied.left == 0


def test_its_variables_are_those_of_the_function(model):
    scale, count = 1.0, 0
    with tfdbg_cli.trace(model.sess).every() as t:
        t["h"].value = t["h"].value * scale
        count += 1
    results = []
    for factor in (2.0, 3.0):
        scale = factor
        results.append(model.sess.run(model.total, model.feed))
        assert count == len(results)
    t.remove()
    assert results == [total_of(2 * Y), total_of(3 * Y)]


def test_after_the_function_has_ended_they_live_on(model):
    seen = []

    def clip(limit):
        count = 0
        with tfdbg_cli.trace(model.sess).every() as t:
            count += 1
            seen.append(count)
            t["h"].value = np.minimum(t["h"].value, limit)
        return t

    t = clip(1)
    results = [model.sess.run(model.total, model.feed) for _ in range(2)]
    t.remove()
    assert results == [4, 4]
    assert seen == [1, 2]


def test_runs_of_a_debugged_session_too(model):
    class Wrapper(tfdbg_cli.BaseDebugWrapperSession):
        def on_session_init(self, request):
            self.dumps = []
            return tfdbg_cli.OnSessionInitResponse(tfdbg_cli.OnSessionInitAction.PROCEED)

        def on_run_start(self, request):
            return tfdbg_cli.OnRunStartResponse(tfdbg_cli.OnRunStartAction.DEBUG_RUN)

        def on_run_end(self, request):
            self.dumps.append(request.dump)
            return tfdbg_cli.OnRunEndResponse()

    wrapper = Wrapper(model.sess)
    with tfdbg_cli.trace(wrapper).every(1) as t:
        t["h"].value = np.ones((2, 2))
    assert wrapper.run(model.total, model.feed) == 4
    (dump,) = wrapper.dumps
    assert dump.value(dump.by_tensor("h:0")[0]).tolist() == [[1, 1], [1, 1]]
    assert wrapper.run(model.total, model.feed) == total_of(Y)


def test_only_its_own_session(model):
    other = tf.Session(seed=1)
    other.run(tf.global_variables_initializer())
    with tfdbg_cli.trace(model.sess).every() as t:
        t["h"].value = np.zeros((2, 2))
    assert other.run(model.total, model.feed) == total_of(Y)
    t.remove()


def test_an_error_of_the_block_goes_to_whoever_asked_for_the_run(model):
    with tfdbg_cli.trace(model.sess).every() as t:
        _ = t["no such"].value
    with pytest.raises(TraceError, match="There is no tensor no such:0"):
        model.sess.run(model.step, model.feed)
    t.remove()
    np.testing.assert_array_equal(model.weights(), W)


def test_stop_in_an_applied_block_leaves_the_run_to_its_end(model):
    after = []
    with tfdbg_cli.trace(model.sess).every(1) as t:
        t["h"].value = np.ones((2, 2))
        t.stop()
        after.append(1)
    assert model.sess.run(model.total, model.feed) == 4
    assert not after


def test_a_number_of_runs_that_is_none(model):
    with pytest.raises(TraceError, match="can't be applied to 0 runs"):
        tfdbg_cli.trace(model.sess).every(0)


def session_in_a_frame_that_goes_on():
    with tf.Graph().as_default():
        model = Model()
        with tfdbg_cli.trace(model.sess, model.total, model.feed):
            pass
        gone = weakref.ref(model.sess)
        del model
    yield gone


def test_a_session_is_not_kept_alive_by_its_blocks():
    for gone in session_in_a_frame_that_goes_on():
        gc.collect()
        assert gone() is None


def test_each_run_has_the_body_of_the_loop(model):
    totals = []
    for t in tfdbg_cli.runs(model.sess, [model.total, model.step], model.feed, times=3):
        totals.append(float(t["total"].value))
    np.testing.assert_array_equal(model.weights(), W - 1.5)
    assert totals[0] == total_of(Y)
    assert len(set(totals)) == 3


def test_break_finishes_the_run(model):
    for count, t in enumerate(tfdbg_cli.runs(model.sess, model.step, model.feed), 1):
        _ = t["h"].value
        if count == 2:
            break
    np.testing.assert_array_equal(model.weights(), W - 1)


def test_return_finishes_the_run(model):
    def first():
        for t in tfdbg_cli.runs(model.sess, [model.total, model.step], model.feed):
            return t["h"].value
        return None

    np.testing.assert_array_equal(first(), Y)
    np.testing.assert_array_equal(model.weights(), W - 0.5)


def test_an_error_in_the_body_takes_its_run_back(model):
    def loop():
        for t in tfdbg_cli.runs(model.sess, model.step, model.feed, times=5):
            _ = t["step"].value
            if model.weights()[0, 0] < 0.25:
                raise ValueError("too far")

    with pytest.raises(ValueError, match="too far"):
        loop()
    np.testing.assert_array_equal(model.weights(), W - 0.5)
    try:
        for t in tfdbg_cli.runs(model.sess, model.step, model.feed, times=5):
            _ = t["step"].value
            raise KeyError
    except KeyError:
        pass
    np.testing.assert_array_equal(model.weights(), W - 0.5)


def test_other_feeds_each_time(model):
    def totals(feed_dict, **options):
        return [
            float(t["total"].value)
            for t in tfdbg_cli.runs(model.sess, model.total, feed_dict, **options)
        ]

    expected = [total_of(Y), total_of(2 * Y)]
    assert totals({model.x: X * scale} for scale in (1, 2)) == expected
    assert totals([{model.x: X}, {model.x: 2 * X}]) == expected
    scales = itertools.count(1)
    assert totals(lambda: {model.x: X * next(scales)}, times=2) == expected
    assert totals(None, times=0) == []


def test_the_result_of_each_run(model):
    results = []
    for t in tfdbg_cli.runs(model.sess, model.total, model.feed, times=2):
        t["h"].value = np.full((2, 2), len(results) + 1)
        results.append(float(t.result))
    assert results == [4, 16]
    assert t.result == 16


def counter_of(model):
    """The session's counter, and what adds one to it."""
    count = tf.Variable(0.0, name="count")
    up = tf.assign_add(count, 1.0, name="up")
    model.sess.run(count.initializer)
    return count, up


def test_the_last_run_is_finished_whoever_holds_the_iterator(model):
    count, up = counter_of(model)
    for _ in zip(range(2), tfdbg_cli.runs(model.sess, up), strict=False):
        pass
    assert model.sess.run(count) == 2
    for _ in itertools.islice(tfdbg_cli.runs(model.sess, up), 2):
        pass
    assert model.sess.run(count) == 4
    kept = [t for _, t in zip(range(2), tfdbg_cli.runs(model.sess, up), strict=False)]
    assert (model.sess.run(count), kept[-1].result) == (6, 6)
    t = next(tfdbg_cli.runs(model.sess, up))
    assert (model.sess.run(count), t.result) == (7, 7)
    iterator = tfdbg_cli.runs(model.sess, up)
    next(iterator)
    del iterator
    assert model.sess.run(count) == 8


def test_an_error_takes_its_run_back_through_other_iterators_and_handlers(model):
    count, up = counter_of(model)

    def by_zip():
        for _ in zip(range(9), tfdbg_cli.runs(model.sess, up), strict=False):
            raise ValueError("one")

    def by_handlers():
        for _ in tfdbg_cli.runs(model.sess, up):
            try:
                with contextlib.suppress(KeyError):
                    raise ValueError("two")
            except IndexError:
                pass
            finally:
                model.weights()

    def again():
        for t in tfdbg_cli.runs(model.sess, up):
            try:
                _ = t["no such"].value
            except TraceError:
                raise

    for loop, kind in ((by_zip, ValueError), (by_handlers, ValueError), (again, TraceError)):
        with pytest.raises(kind):
            loop()
        assert model.sess.run(count) == 0


def test_leaving_the_loop_after_an_error_was_handled_finishes_the_run(model):
    count, up = counter_of(model)

    def loop():
        for t in tfdbg_cli.runs(model.sess, up):
            try:
                raise ValueError
            except ValueError as error:
                kept = error
            return t, kept
        return None

    t, _kept = loop()
    assert model.sess.run(count) == t.result == 1


def test_stop_ends_the_run_and_the_body_goes_on(model):
    seen = []
    for t in tfdbg_cli.runs(model.sess, model.step, model.feed, times=2):
        seen.append(t["h"].value.shape)
        t.stop()
        with pytest.raises(TraceError, match=r"ended by t\.stop\(\): square:0 was not read"):
            _ = t["square"].value
    assert seen == [(2, 2)] * 2
    np.testing.assert_array_equal(model.weights(), W)


def test_stop_after_the_block_does_nothing(model):
    with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
        pass
    t.stop()
    assert t.result == total_of(Y)


def test_numbers_of_runs_that_are_none(model):
    with pytest.raises(TraceError, match="no -1 runs"):
        tfdbg_cli.runs(model.sess, model.total, model.feed, times=-1)
    for times in ("a", 1.5):
        with pytest.raises(TraceError, match="can't be applied to"):
            tfdbg_cli.trace(model.sess).every(times)


def test_runs_without_what_the_block_asks_for_are_left_alone_and_not_counted(model):
    seen = []
    with tfdbg_cli.trace(model.sess).every(1) as t:
        seen.append(1)
        t["y"].value = t["y"].value * 0
        t["square"].value = t["square"].value + 1
    model.sess.run(model.w.initializer)
    np.testing.assert_array_equal(model.sess.run(model.h, model.feed), Y)
    assert model.sess.run(model.total, model.feed) == 4
    assert model.sess.run(model.total, model.feed) == total_of(Y)
    assert len(seen) == 3
    assert not _patches
