"""What the debugger keeps of programs of TensorFlow 2 that run for long: nothing."""

import re
import sys

import pytest
from samples import night

MEMORY = """
    import gc, resource
    from tensorflow.python.eager import context

    w = tf.Variable(tf.ones([64, 64]))

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.tanh(tf.matmul(x, w))) + tf.random.uniform([])
        w.assign_sub(0.1 * tape.gradient(loss, w))
        return loss

    def state():
        gc.collect()
        names = len(context.context().list_function_names())
        return len(gc.get_objects()), names, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    x = tf.ones([64, 64])
    for _ in range(100):
        step(x)
    before = state()
    for _ in range(1000):
        step(x)
    after = state()
    # ru_maxrss is in KiB. One value of each step that is kept would be 16 MB, and more objects.
    tell(after[0] - before[0] < 500, after[1] == before[1], after[2] - before[2] < 12_000)
"""

TRACED_ANEW = """
    import gc
    from tensorflow.python.eager import context

    def made(k):
        @tf.function
        def f(x):
            return x * k + tf.random.uniform([])

        return f(tf.constant(1.0)).shape.rank

    def names():
        gc.collect()
        return len(context.context().list_function_names())

    made(0.0)
    before = names()
    for k in range(30):
        made(float(k))
    tell(names() - before <= 1)
"""


GROWN = """
    import time
    from tensorflow.python.eager import context

    with open("/proc/self/statm") as file:
        used = int(file.read().split()[1]) * 4096
    # A copy of the variable is noticed at first, and no longer when the process has grown.
    w = tf.Variable(tf.zeros([used * 3 // 100 // 4]))

    @tf.function
    def step(x):
        w.assign_add(w * x)
        return tf.reduce_sum(w)

    step(tf.constant(1.0))
    held, second = np.ones(used, np.int8), int(time.monotonic())
    while int(time.monotonic()) < second + 2:  # the debugger looks it up once in a second
        time.sleep(0.1)
    before = len(context.context().list_function_names())
    for _ in range(2):
        step(tf.constant(1.0))
    tell(len(context.context().list_function_names()) == before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_function_isnt_prepared_anew_when_there_is_more_room(both):
    assert "program: True" in both.same(both.write(GROWN), "run -f has_inf_or_nan").out


def test_waiting_for_a_thousand_steps_keeps_nothing(both):
    done = both.same(both.write(MEMORY), "run -f has_inf_or_nan")
    assert "program: True True True" in done.out


@night
def test_functions_that_are_gone_are_forgotten(both):
    path = both.write(TRACED_ANEW)
    for commands in (("run -f has_inf_or_nan",), ("run",) * 40, ("run -t 1000",)):
        assert "program: True" in both.same(path, *commands).out


LONG_LOOP = """
    import resource

    v = tf.Variable(0.0)

    @tf.function
    def f(n, bad):
        total = 0.0
        for i in tf.range(n):
            {inside}
                x = tf.ones([1000, 1000]) * (tf.cast(i, tf.float32) - bad)
                total += tf.reduce_mean(tf.math.log(tf.abs(x)))
            v.assign_add(total)
        return total

    def size():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB

    f(tf.constant(2), tf.constant(-1.0))
    before = size()
    for bad in (-1.0, 57.0):
        tell(f(tf.constant(90), tf.constant(bad)).numpy(), v.numpy())
    # All iterations would be more than a GB.
    tell(size() - before < 500_000)
"""
_INSIDE = {"plain": "if n > 0:", "nested": "for _ in tf.range(1):"}


@pytest.mark.parametrize("inside", _INSIDE)
def test_of_a_loop_is_held_what_there_is_room_for(both, inside):
    path = both.write(LONG_LOOP.format(inside=_INSIDE[inside]))
    commands = "run -n", "run", "lt -n Log$", "run -f origin_of_nonfinite", "lt -n Log$"
    options = [part for command in commands for part in ("-c", command)]
    limit = "200000000"
    done = both.programs.debugged("--batch", "--dump-limit", limit, *options, path)
    assert "program: True" in done.out and "(#0) is its iteration " in done.out, done.out + done.err
    first, at = re.findall(r"is its iteration (\d+),.*", done.out), done.out.rindex("--- lt")
    assert "those after the first bad one" in done.out[at:]
    assert 0 < int(first[-1]) <= 57
    # The one that was bad is there, and the program has got what it gets alone.
    (bad,) = re.findall(r"1000000 -inf +\S+Log:0(?: \(#(\d+)\))?$", done.out[at:], re.MULTILINE)
    assert int(bad or 0) + int(first[-1]) == 57
    alone = [line for line in both.alone(path).out.splitlines() if line.startswith("program:")]
    assert [line for line in done.out.splitlines() if line.startswith("program:")] == alone
