import sys
import numpy as np
from tfdbg_cli.engines import numpy as tf
from tfdbg_cli.engines.numpy.ops.math_ops import unary
tf.set_random_seed(7)


def show(*values):
    print(*[v.tolist() if isinstance(v, np.ndarray) else v for v in values])


def py_func(f, inputs, dtype):
    return unary(f.__name__, f, "An op that calls a function of the program's.")(*inputs)


#%% simple
x = tf.placeholder(tf.float32, [2], name="x")
y = tf.multiply(tf.log(x), 2.0, name="y")
with tf.Session() as session:
    for i in range(1, 4):
        show(session.run(y, {x: [i, i + 1]}))

#%% becomes_infinite
x = tf.placeholder(tf.float32, [2], name="x")
y = tf.log(x, name="y")
with tf.Session() as session:
    for i in range(3):
        show(session.run(y, {x: [i, 1]}))

#%% variables
v = tf.Variable([1.0, 2.0], name="v")
add = tf.assign_add(v, [1.0, 0.5])
session = tf.Session()
session.run(v.initializer)
for _ in range(4):
    show(session.run(add))
show(session.run(v))

#%% random_streams
a, b = tf.random_uniform([2]), tf.truncated_normal([2])
session = tf.Session()
for _ in range(3):
    show(session.run(a), session.run([a, b])[1])
show(np.random.RandomState(1).rand(2))

#%% training
x = tf.placeholder(tf.float32, [None, 2])
w = tf.Variable(np.ones((2, 1), "f4"))
loss = tf.reduce_mean(tf.square(tf.matmul(x, w)))
train = tf.train.AdamOptimizer(0.1).minimize(loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for i in range(5):
        show(session.run([loss, train], {x: np.full((3, 2), 0.5 + i, "f4")})[0])
    show(session.run(w))

#%% failing_after_update
v = tf.Variable(1.0)
add = tf.assign_add(v, 1.0)
x = tf.placeholder(tf.float32, [2])
with tf.control_dependencies([add]):
    bad = tf.check_numerics(tf.log(x), "bad")
session = tf.Session()
session.run(v.initializer)
for given in ([1, 1], [0, 1], [1, 2]):
    try:
        show(session.run(bad, {x: given}))
    except tf.errors.InvalidArgumentError as error:
        print(type(error).__name__, str(error).splitlines()[0])
    show(session.run(v))

#%% uncaught_error
x = tf.placeholder(tf.float32, [2])
tf.Session().run(tf.check_numerics(tf.log(x), "bad"), {x: [0, 1]})

#%% missing_feed
x = tf.placeholder(tf.float32, [2], name="x")
session = tf.Session()
try:
    session.run(tf.log(x))
except Exception as error:
    print(type(error).__name__, error)
session.run(tf.log(x), {x: [1, 2, 3]})

#%% wrong_use
session = tf.Session()
for fetches in (None, 3, "nothing:0", [[]]):
    try:
        print(session.run(fetches))
    except Exception as error:
        print(type(error).__name__, str(error)[:60])
session.close()
session.run(tf.constant(1.0))

#%% uninitialized
v = tf.Variable(1.0, name="v")
session = tf.Session()
try:
    session.run(v)
except Exception as error:
    print(type(error).__name__, str(error).splitlines()[0])
session.run(v.initializer)
show(session.run(v))

#%% loops
n = tf.placeholder(tf.int32, [])
total = tf.while_loop(lambda i, a: tf.less(i, n), lambda i, a: (tf.add(i, 1), tf.multiply(a, 2.0)), (tf.constant(0), tf.constant(1.0)))
with tf.Session() as session:
    for count in (0, 3, 200):
        show(*session.run(total, {n: count}))

#%% branches
x = tf.placeholder(tf.float32, [])
y = tf.where(tf.greater(x, 0.0), tf.log(x), tf.negative(x))
z = tf.while_loop(lambda v: tf.greater(v, 0.5), lambda v: tf.log(v), [x])
with tf.Session() as session:
    show([session.run([y, z], {x: value}) for value in (-1, 1, 0)])

#%% py_func_raises
calls = []
def f(value):
    calls.append(value.tolist())
    if len(calls) == 2:
        raise ValueError("second")
    return value * 2
x = tf.placeholder(tf.float32, [1])
y = py_func(f, [x], tf.float32)
session = tf.Session()
for i in range(3):
    try:
        show(session.run(y, {x: [i]}))
    except Exception as error:
        print(type(error).__name__)
print(calls)

#%% py_func_interrupts
def f(value):
    raise KeyboardInterrupt
x = tf.placeholder(tf.float32, [1])
y = py_func(f, [x], tf.float32)
try:
    tf.Session().run(y, {x: [1]})
except BaseException as error:
    print(type(error).__name__)

#%% py_func_exits
def f(value):
    sys.exit(6)
x = tf.placeholder(tf.float32, [1])
tf.Session().run(py_func(f, [x], tf.float32), {x: [1]})

#%% threads
import threading
v = tf.Variable(0.0)
x = tf.placeholder(tf.float32, [])
y = tf.multiply(x, 2.0)
session = tf.Session()
session.run(v.initializer)
results = {}
def work(n):
    results[n] = [session.run(y, {x: n + i}).tolist() for i in range(5)]
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
print(sorted(results.items()))

#%% errors_in_threads
import threading
x = tf.placeholder(tf.float32, [2])
session = tf.Session()
call = session.make_callable(tf.check_numerics(tf.log(x), "bad"), [x])
def work():
    call([0, 1])
for hook in (threading.excepthook, lambda args: print(args.exc_type.__name__, args.exc_traceback.tb_next.tb_next.tb_next.tb_lineno)):
    threading.excepthook = hook
    thread = threading.Thread(target=work, name="worker")
    thread.start()
    thread.join()

#%% several_graphs
results = []
for number in range(3):
    with tf.Graph().as_default():
        tf.set_random_seed(number)
        c = tf.random_uniform([2])
        with tf.Session() as session:
            results.append([session.run(c).tolist() for _ in range(2)])
show(results)

#%% two_sessions
v = tf.Variable(1.0)
add = tf.assign_add(v, 1.0)
a, b = tf.Session(), tf.Session()
a.run(v.initializer), b.run(v.initializer)
show([s.run(add).tolist() for s in (a, b, a, a, b)])

#%% eval_and_default
c = tf.constant([1.0, 2.0])
with tf.Session():
    show(c.eval())
try:
    c.eval()
except Exception as error:
    print(type(error).__name__, error)

#%% callables
x = tf.placeholder(tf.float32, [2])
session = tf.Session()
call = session.make_callable(tf.log(x), [x])
for i in range(3):
    show(call([i + 1, 2]))
call([0])

#%% results_are_the_users
v = tf.Variable([1.0, 2.0])
session = tf.Session()
session.run(v.initializer)
a = session.run(v)
a[0] = 50
show(a, session.run(v))
feed = np.ones(2, "f4")
x = tf.placeholder(tf.float32, [2])
for _ in range(2):
    show(session.run(tf.multiply(x, 2.0), {x: feed}))
    feed *= 3
show(feed)

#%% print_options_and_errstate
np.set_printoptions(precision=2, threshold=5)
old = np.seterr(all="raise")
x = tf.placeholder(tf.float32, [2])
try:
    print(tf.Session().run(tf.log(x), {x: [0, 1]}))
except Exception as error:
    print(type(error).__name__, error)
print(np.arange(10) / 3, np.geterr())

#%% warnings_of_numpy
import warnings
warnings.simplefilter("always")
x = tf.placeholder(tf.float32, [2])
session = tf.Session()
show(session.run(tf.log(x), {x: [0, 1]}))
show(session.run(tf.divide(x, 0.0), {x: [0, 1]}))
np.log(np.zeros(1))

#%% signal_in_a_run
import os, signal
signal.signal(signal.SIGUSR1, lambda *a: print("handled"))
def f(value):
    os.kill(os.getpid(), signal.SIGUSR1)
    return value
x = tf.placeholder(tf.float32, [1])
show(tf.Session().run(py_func(f, [x], tf.float32), {x: [1]}))

#%% handler_raises_in_a_run
import os, signal
class Told(Exception):
    pass
def handle(*a):
    raise Told("by a signal")
signal.signal(signal.SIGUSR1, handle)
def f(value):
    os.kill(os.getpid(), signal.SIGUSR1)
    return value
x = tf.placeholder(tf.float32, [1])
y = py_func(f, [x], tf.float32)
try:
    tf.Session().run(y, {x: [1]})
except BaseException as error:
    print(type(error).__name__, error)

#%% os_exit_in_a_run
import os
def f(value):
    os._exit(3)
x = tf.placeholder(tf.float32, [1])
tf.Session().run(py_func(f, [x], tf.float32), {x: [1]})

#%% fork_in_a_run
import os
def f(value):
    child = os.fork()
    if not child:
        os._exit(5)
    return np.float32([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])])
x = tf.placeholder(tf.float32, [1])
show(tf.Session().run(py_func(f, [x], tf.float32), {x: [1]}))

#%% nested_runs
session = tf.Session()
c = tf.random_uniform([2])
def f(value):
    return session.run(c)
x = tf.placeholder(tf.float32, [2])
show(session.run(py_func(f, [x], tf.float32), {x: [1, 2]}), session.run(c))

#%% weakrefs_and_del # differs in mortem: the last run is kept until the next one
import gc, weakref
class Watched(tf.Session):
    def __del__(self):
        print("session gone")
session = Watched()
show(session.run(tf.constant([1.0])))
seen = weakref.ref(session)
del session
gc.collect()
print(seen())

#%% subclassed_session
class Counting(tf.Session):
    count = 0
    def run(self, *args, **kwargs):
        Counting.count += 1
        return super().run(*args, **kwargs)
session = Counting()
show(session.run(tf.constant([1.0])), Counting.count)

#%% patched_session
original = tf.Session.run
def run(self, *args, **kwargs):
    print("patched")
    return original(self, *args, **kwargs)
tf.Session.run = run
show(tf.Session().run(tf.constant([1.0])))
tf.Session.run = original
show(tf.Session().run(tf.constant([2.0])))

#%% nested_fetches
from collections import namedtuple
Pair = namedtuple("Pair", "a b")
c, d = tf.constant([1.0]), tf.constant(2)
print(tf.Session().run({"x": [c, (d, d)], "y": Pair(c, d)}))
print(tf.Session().run([]), tf.Session().run({}))

#%% grown_graph
session = tf.Session()
c = tf.constant([1.0])
for i in range(5):
    c = tf.add(c, c)
    show(session.run(c))

#%% strings_and_kinds
for value in (b"bytes", True, 3, [1.5, -0.0], [[1, 2]], 1j, np.float16(65504), np.int8(-128)):
    try:
        print(repr(tf.Session().run(tf.constant(value))))
    except Exception as error:
        print(type(error).__name__)

#%% generator_around_runs
x = tf.placeholder(tf.float32, [])
def steps():
    with tf.Session() as session:
        try:
            for i in range(10):
                yield session.run(tf.multiply(x, 2.0), {x: i})
        finally:
            print("closed")
made = steps()
show(next(made), next(made))
made.close()

#%% files_from_results
x = tf.placeholder(tf.float32, [3])
session = tf.Session()
for i in range(3):
    np.save(f"step-{i}.npy", session.run(tf.log(x), {x: [i, 1, 2]}))

#%% warnings_by_action
from by_filters import by_filters, user
x = tf.placeholder(tf.float32, [2], name="x")
y = py_func(lambda v: user(v) + np.log(v), [x], tf.float32)
z = tf.log(x, name="z")
session = tf.Session()
by_filters(
    {
        "mine": lambda: session.run(y, {x: [1.0, 2.0]}),
        "numpy": lambda: session.run(y, {x: [0.0, 2.0]}),
        "op": lambda: session.run(z, {x: [0.0, 2.0]}),
        "here": lambda: np.log(np.zeros(2)),
    },
    "numpy",
)
