"""What the debugger keeps of programs of TensorFlow 2 that run for long: nothing."""

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


def test_waiting_for_a_thousand_steps_keeps_nothing(both):
    done = both.same(both.write(MEMORY), "run -f has_inf_or_nan")
    assert "program: True True True" in done.out


def test_functions_that_are_gone_are_forgotten(both):
    path = both.write(TRACED_ANEW)
    for commands in (("run -f has_inf_or_nan",), ("run",) * 40, ("run -t 1000",)):
        assert "program: True" in both.same(path, *commands).out
