"""Several threads: queue runners, filters on their names, and a session while another is asked."""

import importlib.util
import threading

import pytest
from session_kit import Script, make_debugger, wrap

from tfdbg_cli.sessions.wrappers.local_cli import LocalCLIDebugWrapperSession

HAS_TENSORFLOW = importlib.util.find_spec("tensorflow") is not None


def in_thread(function, *args, name="other"):
    """Start a thread; its result is in its ``result`` when it has ended."""

    def run():
        thread.result = function(*args)

    thread = threading.Thread(target=run, name=name)
    thread.start()
    return thread


def test_a_second_thread_waits_while_the_first_is_asked(program):
    started, threads = [], []

    def start_another(stop):
        if not started:
            started.append(threading.current_thread().name)
            threads.append(in_thread(sess.run, program.whole, program.feed))
            threads[0].join(0.2)
            assert threads[0].is_alive()
            # What isn't debugged goes on: the session below is free.
            assert program.session.run(program.add) == 1.0

    sess, ui = wrap(program.session, [start_another, "run"])
    first = sess.run(program.ratio, program.feed)
    threads[0].join(60)
    assert first.shape == threads[0].result.shape == (2,)
    assert program.session.run(program.count) == 3.0
    assert ui.modes.count("s") + ui.modes.count("e") == len(ui.stops)
    titles = [stop.title for stop in ui.stops]
    assert any("other" in title for title in titles)


def test_a_thread_that_is_not_meant_goes_on_while_another_is_asked(program):
    results = []

    def ask(stop):
        thread = in_thread(sess.run, program.add)
        thread.join(60)
        results.append(thread.result)

    ui = Script([ask, "run"], [ask, "run"])
    sess = LocalCLIDebugWrapperSession(
        program.session, debugger=make_debugger(ui), thread_name_filter="MainThread$"
    )
    sess.run(program.ratio, program.feed)
    assert results == [1.0, 3.0]
    assert ui.modes == "se"


def test_many_threads_share_one_session(program):
    sess, ui = wrap(program.session, "run -f has_inf_or_nan -fenn .")
    sess.run(program.add)
    threads = [in_thread(sess.run, program.add, name=f"worker {n}") for n in range(6)]
    for thread in threads:
        thread.join(60)
    assert program.session.run(program.count) == 7.0
    assert sess.run_call_count == 7
    assert ui.modes == "s"


@pytest.mark.tensorflow
@pytest.mark.skipif(not HAS_TENSORFLOW, reason="needs TensorFlow")
def test_queue_runners_of_a_wrapped_session():
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default(), tf.Session() as session:
        queue = tf.FIFOQueue(4, [tf.float32], name="queue")
        source = tf.placeholder_with_default(1.0, [], name="source")
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(source + 1.0)] * 2))
        out = tf.multiply(queue.dequeue(name="taken"), 2.0, name="out")
        ui = Script()
        sess = LocalCLIDebugWrapperSession(
            session, debugger=make_debugger(ui), thread_name_filter="MainThread$"
        )
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess=sess, coord=coordinator)
        assert len(threads) >= 2
        assert [sess.run(out) for _ in range(12)] == [4.0] * 12
        coordinator.request_stop()
        session.run(queue.close(cancel_pending_enqueues=True))
        coordinator.join(threads, stop_grace_period_secs=60)
    assert ui.modes == "s" + "e" * 12
    assert {"taken:0", "out:0"} <= set(ui.stops[-1].names)
    assert sess.run_call_count > 12  # the runs of the queue runners count


@pytest.mark.tensorflow
@pytest.mark.skipif(not HAS_TENSORFLOW, reason="needs TensorFlow")
def test_a_saver_takes_a_wrapped_session(tmp_path):
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", initializer=3.0)
        saver = tf.train.Saver()
        sess, ui = wrap(session, ["run -t 100"])
        sess.run(v.initializer)
        path = saver.save(sess, str(tmp_path / "model"))
        session.run(v.assign(1.0))
        saver.restore(sess, path)
        assert session.run(v) == 3.0
    assert ui.modes == "s"
