import sys
import numpy as np
import tensorflow as tf2
tf = tf2.compat.v1
tf.disable_eager_execution()
tf.set_random_seed(7)


def show(*values):
    print(*[v.tolist() if isinstance(v, (np.ndarray, np.generic)) else v for v in values])


def tried(f, *args):
    try:
        show(f(*args))
    except Exception as error:
        print(type(error).__name__, str(error).splitlines()[0][:70])


def variable(value, resource):
    return tf.Variable(value, use_resource=resource)


#%% simple
x = tf.placeholder(tf.float32, [2], name="x")
y = tf.multiply(tf.math.log(x), 2.0, name="y")
with tf.Session() as session:
    for i in range(3):
        show(session.run(y, {x: [i, i + 1]}))

#%% variables_of_references
v = variable([1.0, 2.0], False)
add, read = tf.assign_add(v, [1.0, 0.5]), v.read_value()
both = tf.assign(v, v * 2.0)
session = tf.Session()
session.run(v.initializer)
for _ in range(4):
    show(session.run(add), session.run(both), session.run(v), session.run(read))

#%% variables_of_resources
v = variable([1.0, 2.0], True)
add, both = v.assign_add([1.0, 0.5]), v.assign(v * 2.0)
session = tf.Session()
session.run(v.initializer)
for _ in range(4):
    show(session.run(add), session.run(both), session.run(v))

#%% random_streams
a, b, c = tf.random_uniform([2]), tf.random_normal([2], seed=3), tf.random.stateless_uniform([2], [1, 2])
d = tf.random_shuffle(tf.range(6))
session = tf.Session()
for _ in range(4):
    show(session.run(a), *session.run([a, b, c, d]))

#%% failing_after_reference_update
v = variable(1.0, False)
add = tf.assign_add(v, 1.0)
x = tf.placeholder(tf.float32, [2])
with tf.control_dependencies([add]):
    bad = tf.check_numerics(tf.math.log(x), "bad")
session = tf.Session()
session.run(v.initializer)
for given in ([1, 1], [0, 1], [0, 1], [1, 2]):
    tried(session.run, bad, {x: given})
    show(session.run(v))

#%% failing_after_resource_update
v = variable(1.0, True)
x = tf.placeholder(tf.float32, [2])
with tf.control_dependencies([v.assign_add(1.0)]):
    bad = tf.check_numerics(tf.math.log(x), "bad")
session = tf.Session()
session.run(v.initializer)
for given in ([1, 1], [0, 1], [0, 1], [1, 2]):
    tried(session.run, bad, {x: given})
    show(session.run(v))

#%% failing_after_scatter
v = variable(np.zeros((3, 2), "f4"), False)
add = tf.scatter_add(v, [0, 2], np.ones((2, 2), "f4"))
x = tf.placeholder(tf.float32, [])
with tf.control_dependencies([add]):
    bad = tf.debugging.Assert(x > 0, [x])
session = tf.Session()
session.run(v.initializer)
for given in (1, 0, 1, -1):
    tried(session.run, bad, {x: given})
    show(session.run(v))

#%% failing_after_random
r = tf.random_uniform([])
x = tf.placeholder(tf.float32, [])
with tf.control_dependencies([r]):
    bad = tf.check_numerics(tf.math.log(x), "bad")
session = tf.Session()
for given in (1, 0, 0, 1):
    tried(session.run, [bad, r], {x: given})
show(session.run(r))

#%% failing_after_queue
q = tf.FIFOQueue(10, tf.float32, [[]])
put, take, size = q.enqueue(5.0), q.dequeue(), q.size()
x = tf.placeholder(tf.float32, [])
with tf.control_dependencies([put]):
    bad = tf.check_numerics(tf.math.log(x), "bad")
with tf.control_dependencies([take]):
    worse = tf.check_numerics(tf.math.log(x), "worse")
session = tf.Session()
for op in (bad, bad, worse, bad):
    for given in (1, 0):
        tried(session.run, op, {x: given})
        show(session.run(size))

#%% failing_after_py_func
calls = []
def f(value):
    calls.append(float(value))
    return value
x = tf.placeholder(tf.float32, [])
called = tf.py_func(f, [x], tf.float32)
bad = tf.check_numerics(tf.math.log(called), "bad")
session = tf.Session()
for given in (1, 0, 2):
    tried(session.run, bad, {x: given})
print(calls)

#%% failing_after_hash_table
table = tf.lookup.experimental.DenseHashTable(tf.int64, tf.int64, -1, -1, -2)
x = tf.placeholder(tf.float32, [])
with tf.control_dependencies([table.insert(np.int64([3]), np.int64([4]))]):
    bad = tf.check_numerics(tf.math.log(x), "bad")
size = table.size()
session = tf.Session()
for given in (0, 1):
    tried(session.run, bad, {x: given})
    show(session.run(size))

#%% failing_training
x = tf.placeholder(tf.float32, [None, 2])
w = variable(np.ones((2, 1), "f4"), False)
loss = tf.reduce_mean(tf.math.log(tf.matmul(x, w)))
optimizer = tf.train.AdamOptimizer(0.1)
pairs = [(tf.check_numerics(g, "gradient"), v) for g, v in optimizer.compute_gradients(loss)]
step = tf.train.get_or_create_global_step()
train = optimizer.apply_gradients(pairs, global_step=step)
session = tf.Session()
session.run(tf.global_variables_initializer())
for given in (1.0, 0.0, 2.0, -1.0, 3.0):
    tried(session.run, [loss, train], {x: np.full((3, 2), given, "f4")})
    show(session.run(w), session.run(step))

#%% failing_in_a_loop
v = variable(0.0, True)
def body(i):
    with tf.control_dependencies([v.assign_add(1.0), tf.debugging.Assert(i < 3, [i])]):
        return i + 1
n = tf.placeholder(tf.int32, [])
loop = tf.while_loop(lambda i: i < n, body, [0], parallel_iterations=1)
session = tf.Session()
session.run(v.initializer)
for given in (2, 5, 1):
    tried(session.run, loop, {n: given})
    show(session.run(v))

#%% failing_in_a_branch
v = variable(0.0, True)
x = tf.placeholder(tf.float32, [])
def bad():
    with tf.control_dependencies([v.assign_add(1.0)]):
        return tf.check_numerics(tf.math.log(x), "bad")
y = tf.cond(x < 1, bad, lambda: x)
session = tf.Session()
session.run(v.initializer)
for given in (2, 0, 0.5):
    tried(session.run, y, {x: given})
    show(session.run(v))

#%% out_of_range
data = tf.data.Dataset.range(3).map(lambda x: x * 2)
iterator = tf.data.make_initializable_iterator(data)
value = iterator.get_next()
v = variable(0, False)
with tf.control_dependencies([tf.assign_add(v, 1)]):
    late = tf.identity(value)
session = tf.Session()
session.run([v.initializer, iterator.initializer])
for _ in range(5):
    tried(session.run, late)
    show(session.run(v))

#%% dataset_one_shot
data = tf.data.Dataset.from_tensor_slices(np.arange(6.0)).shuffle(6, seed=1).batch(2)
value = tf.data.make_one_shot_iterator(data).get_next()
v = tf.math.log(value)
session = tf.Session()
try:
    while True:
        show(session.run([v, value]))
except tf.errors.OutOfRangeError as error:
    print(error.op.name, error.message.splitlines()[-1])

#%% uncaught_error
x = tf.placeholder(tf.float32, [2], name="x")
y = tf.check_numerics(tf.math.log(x), "bad", name="checked")
try:
    tf.Session().run(y, {x: [0, 1]})
except tf.errors.InvalidArgumentError as error:
    print(error.op.name, error.op.type, error.error_code, error.node_def.name)
    print(error.message.splitlines()[0])
    raise SystemExit(5)

#%% error_text
x = tf.placeholder(tf.float32, [None, 2], name="x")
w = tf.ones([3, 1])
y = tf.matmul(x, tf.reshape(w, tf.shape(w)), name="product")
z = tf.placeholder(tf.float32, None, name="z")
y = tf.matmul(x, z, name="product")
try:
    tf.Session().run(y, {x: np.ones((1, 2)), z: np.ones((3, 1))})
except tf.errors.OpError as error:
    print(str(error).split("\n\nOriginal")[0])

#%% missing_feed
x = tf.placeholder(tf.float32, [2], name="x")
y = tf.math.log(x)
session = tf.Session()
tried(session.run, y)
tried(session.run, y, {x: [1, 2, 3]})
tried(session.run, y, {"z:0": 1})
tried(session.run, "nothing:0")
tried(session.run, None)
tried(session.run, 3)
tried(session.run, y, {x: [1, 2]})
session.close()
tried(session.run, y, {x: [1, 2]})

#%% uninitialized
for resource in (False, True):
    v = variable(1.0, resource)
    session = tf.Session()
    tried(session.run, v + 1.0)
    session.run(v.initializer)
    show(session.run(v + 1.0))
show(session.run(tf.report_uninitialized_variables()))

#%% while_loops
n = tf.placeholder(tf.int32, [])
loop = tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, a * 2.0), [0, 1.0])
r = tf.while_loop(lambda i, a: i < n, lambda i, a: (i + 1, tf.random_uniform([], seed=4)), [0, 0.0], parallel_iterations=1)
session = tf.Session()
for count in (0, 3, 200):
    show(*session.run(loop, {n: count}), *session.run(r, {n: count}))

#%% while_gradients
x = tf.placeholder(tf.float32, [])
_, y = tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, a * x), [0, x])
g = tf.gradients(y, x)
session = tf.Session()
show(session.run([y, g[0]], {x: 1.5}), session.run(g[0], {x: -2}))

#%% control_flow_old
tf.disable_control_flow_v2()
n = tf.placeholder(tf.int32, [])
v = variable(0.0, False)
def body(i, a):
    with tf.control_dependencies([tf.assign_add(v, 1.0)]):
        return i + 1, tf.cond(i < 2, lambda: a * 2.0, lambda: a + tf.random_uniform([], seed=1))
loop = tf.while_loop(lambda i, a: i < n, body, [0, 1.0], parallel_iterations=1)
session = tf.Session()
session.run(v.initializer)
for count in (0, 3, 6):
    show(*session.run(loop, {n: count}), session.run(v))

#%% branches
x = tf.placeholder(tf.float32, [])
y = tf.cond(x > 0, lambda: tf.math.log(x), lambda: -x)
z = tf.case([(x < 0, lambda: x), (x > 1, lambda: x * 2)], default=lambda: x + 1)
session = tf.Session()
for value in (-1.0, 1.0, 0.0, 2.0):
    show(*session.run([y, z], {x: value}))

#%% queue_runners
q = tf.FIFOQueue(20, tf.int32, [[]])
counter = variable(0, True)
put = q.enqueue(counter.assign_add(1))
take = q.dequeue()
tf.train.add_queue_runner(tf.train.QueueRunner(q, [put]))
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(session, coord)
    show([session.run(take).tolist() for _ in range(8)])
    coord.request_stop()
    session.run(q.close(cancel_pending_enqueues=True))
    coord.join(threads)

#%% queues_closed
q = tf.PaddingFIFOQueue(5, [tf.float32], [[None]])
session = tf.Session()
for n in (1, 3):
    session.run(q.enqueue([np.arange(n, dtype="f4")]))
show(session.run(q.dequeue_many(2)))
session.run(q.close())
tried(session.run, q.dequeue())
tried(session.run, q.enqueue([np.ones(1, "f4")]))

#%% barrier_and_stack
stack = tf.raw_ops.StackV2(max_size=10, elem_type=tf.float32)
push = tf.raw_ops.StackPushV2(handle=stack, elem=1.5)
with tf.control_dependencies([push]):
    pop = tf.raw_ops.StackPopV2(handle=stack, elem_type=tf.float32)
area = tf.contrib if hasattr(tf, "contrib") else None
session = tf.Session()
show(session.run(pop), session.run(pop))

#%% tensor_arrays
ta = tf.TensorArray(tf.float32, 3, clear_after_read=False)
for i in range(3):
    ta = ta.write(i, float(i) * 2)
show(tf.Session().run([ta.stack(), ta.read(1)]))

#%% temporary_variables
v = tf.raw_ops.TemporaryVariable(shape=[2], dtype=tf.float32, var_name="temp")
v2 = tf.raw_ops.Assign(ref=v, value=[1.0, 2.0])
v3 = tf.raw_ops.AssignAdd(ref=v2, value=[1.0, 1.0])
out = tf.raw_ops.DestroyTemporaryVariable(ref=v3, var_name="temp")
session = tf.Session()
show(session.run(out), session.run(out))

#%% hash_tables
init = tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2])
table = tf.lookup.StaticHashTable(init, -1)
found = table.lookup(tf.constant(["b", "c"]))
session = tf.Session()
tried(session.run, found)
session.run(tf.tables_initializer())
show(session.run(found))

#%% py_func_raises
calls = []
def f(value):
    calls.append(value.tolist())
    if len(calls) == 2:
        raise ValueError("second")
    return value * 2
x = tf.placeholder(tf.float32, [1])
y = tf.py_func(f, [x], tf.float32)
session = tf.Session()
for i in range(4):
    tried(session.run, y, {x: [i]})
print(calls)

#%% py_func_stops_iteration
def f(value):
    raise StopIteration
x = tf.placeholder(tf.float32, [1])
tried(tf.Session().run, tf.py_func(f, [x], tf.float32), {x: [1]})

#%% py_func_runs_another_session
other = tf.Session()
r = tf.random_uniform([1])
def f(value):
    return other.run(r)
x = tf.placeholder(tf.float32, [1])
y = tf.py_func(f, [x], tf.float32)
session = tf.Session()
show(session.run(y, {x: [1]}), session.run(y, {x: [1]}), other.run(r))

#%% py_func_exits
import os
def f(value):
    sys.stdout.flush()
    os._exit(3)
x = tf.placeholder(tf.float32, [1])
print("before")
tf.Session().run(tf.py_func(f, [x], tf.float32), {x: [1]})

#%% py_func_threads
import threading
seen = set()
def f(value):
    seen.add(threading.current_thread().name.split("-")[0])
    return np.float32(threading.active_count() > 0)
show(tf.Session().run(tf.py_func(f, [tf.constant(1.0)], tf.float32)), len(seen))

#%% partial_runs
tf.logging.set_verbosity(tf.logging.ERROR)  # its warning says whose line called it
a, b, c = (tf.placeholder(tf.float32, []) for _ in range(3))
first, second = a + b, None
second = first * c
session = tf.Session()
for n in range(3):
    handle = session.partial_run_setup([first, second], [a, b, c])
    show(session.partial_run(handle, first, {a: n, b: 2}), session.partial_run(handle, second, {c: 3}))
tried(session.partial_run, handle, second, {c: 4})
session.partial_run_setup([object], [a])

#%% callables
x = tf.placeholder(tf.float32, [2])
v = variable(1.0, False)
session = tf.Session()
session.run(v.initializer)
call = session.make_callable([tf.math.log(x), tf.assign_add(v, 1.0)], [x])
for i in range(3):
    show(*call(np.float32([i, 2])))
bad = session.make_callable(tf.check_numerics(tf.math.log(x), "bad"), [x])
tried(bad, np.float32([0, 1]))
tried(bad, np.float32([2, 1]))
tried(bad, np.float32([2, 1, 3]))

#%% callable_options
from tensorflow.core.protobuf import config_pb2
x = tf.placeholder(tf.float32, [2], name="x")
y = tf.math.log(x, name="y")
session = tf.Session()
options = config_pb2.CallableOptions(feed=["x:0"], fetch=["y:0"])
call = session._make_callable_from_options(options)
for i in range(2):
    show(*call(np.float32([i, 1])))

#%% threads_on_one_session
import threading
x = tf.placeholder(tf.float32, [])
y = tf.math.log(x) * 2.0
v = variable(0, True)
add = v.assign_add(1)
session = tf.Session()
session.run(v.initializer)
results = {}
def work(n):
    results[n] = [float(session.run([y, add.op], {x: n + i})[0]) for i in range(1, 5)]
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
print(sorted(results.items()), session.run(v))

#%% threads_that_fail
import threading
x = tf.placeholder(tf.float32, [])
y = tf.check_numerics(tf.math.log(x), "bad")
session = tf.Session()
results = {}
def work(n):
    try:
        results[n] = float(session.run(y, {x: n}))
    except tf.errors.InvalidArgumentError as error:
        results[n] = error.message.splitlines()[0][:40]
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
print(sorted(results.items()))

#%% errors_in_threads
import threading
x = tf.placeholder(tf.float32, [2])
session = tf.Session()
def work(y):
    session.run(y, {x: [1, 2, 3]})
thread = threading.Thread(target=work, args=(x * 2.0,), name="worker")
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
v = variable(1.0, False)
add = tf.assign_add(v, 1.0)
a, b = tf.Session(), tf.Session()
a.run(v.initializer), b.run(v.initializer)
show([s.run(add).tolist() for s in (a, b, a, a, b)])

#%% interactive_and_eval
session = tf.InteractiveSession()
c = tf.random_uniform([2])
v = variable(2.0, True)
v.initializer.run()
show(c.eval(), v.eval(), (c * v).eval())
session.close()
tried(c.eval)

#%% monitored_session
step = tf.train.get_or_create_global_step()
v = variable(1.0, False)
train = tf.group(tf.assign_add(v, 1.0), tf.assign_add(step, 1))
with tf.train.MonitoredTrainingSession(hooks=[tf.train.StopAtStepHook(4)]) as session:
    while not session.should_stop():
        session.run(train)
        if not session.should_stop():
            show(session.run(v), session.run(step))

#%% monitored_hooks
class Hook(tf.train.SessionRunHook):
    def begin(self):
        print("begin")
    def after_create_session(self, session, coord):
        print("created")
    def before_run(self, context):
        print("before", context.original_args.fetches is not None)
        return tf.train.SessionRunArgs(r)
    def after_run(self, context, values):
        show("after", values.results, values.run_metadata is not None, values.options is None)
        if len(seen) == 3:
            context.request_stop()
    def end(self, session):
        print("end")
seen = []
r = tf.random_uniform([])
x = tf.placeholder(tf.float32, [])
with tf.train.SingularMonitoredSession(hooks=[Hook()]) as session:
    while not session.should_stop():
        seen.append(float(session.run(tf.math.log(x) if False else x * 2, {x: len(seen)})))
print(seen)

#%% monitored_failing
step = tf.train.get_or_create_global_step()
x = tf.placeholder(tf.float32, [])
v = variable(0.0, False)
with tf.control_dependencies([tf.assign_add(v, 1.0), tf.assign_add(step, 1)]):
    bad = tf.check_numerics(tf.math.log(x), "bad")
with tf.train.MonitoredTrainingSession() as session:
    for given in (1, 0, 2):
        tried(session.run, bad, {x: given})
        show(session.run(v), session.run(step))
    tried(session.run, bad, {x: 0})
    raise ValueError("out of the session")

#%% monitored_recovers
step = tf.train.get_or_create_global_step()
v = variable(0.0, False)
calls = []
def f():
    calls.append(1)
    if len(calls) == 3:
        raise IOError("lost")
    return np.float32(len(calls))
class Abort(tf.train.SessionRunHook):
    def after_run(self, context, values):
        if len(calls) == 2 and not tf.gfile.Exists("aborted"):
            open("aborted", "w").close()
            raise tf.errors.AbortedError(None, None, "lost")
y = tf.py_func(f, [], tf.float32)
with tf.control_dependencies([y]):
    train = tf.group(tf.assign_add(v, 1.0), tf.assign_add(step, 1))
with tf.train.MonitoredTrainingSession(hooks=[Abort()]) as session:
    for _ in range(5):
        tried(session.run, train)
        show(session.run(v), session.run(step), len(calls))

#%% monitored_checkpoints
import glob
step = tf.train.get_or_create_global_step()
v = variable([1.0, 2.0], True)
train = tf.group(v.assign_add([1.0, 1.0]).op, tf.assign_add(step, 1))
for last in (3, 6):
    with tf.train.MonitoredTrainingSession(checkpoint_dir="model", save_checkpoint_steps=2, log_step_count_steps=None, save_summaries_steps=0, hooks=[tf.train.StopAtStepHook(last_step=last)]) as session:
        while not session.should_stop():
            session.run(train)
print(sorted(name for name in glob.glob("model/model*")), tf.train.load_variable("model", v.op.name))
import shutil
shutil.rmtree("model")

#%% supervisor
v = variable(1.0, False)
add = tf.assign_add(v, 1.0)
supervisor = tf.train.Supervisor(logdir=None, summary_op=None)
with supervisor.managed_session() as session:
    show([session.run(add).tolist() for _ in range(3)])

#%% saver
v = variable([1.0, 2.0], False)
saver = tf.train.Saver()
session = tf.Session()
session.run(v.initializer)
saver.save(session, "./model", write_meta_graph=False)
session.run(tf.assign(v, [5.0, 5.0]))
saver.restore(session, "./model")
show(session.run(v))
try:
    saver.restore(session, "./absent")
except Exception as error:
    print(type(error).__name__)

#%% metadata_and_options
x = tf.placeholder(tf.float32, [2])
y = tf.math.log(x)
session = tf.Session()
options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
metadata = tf.RunMetadata()
show(session.run(y, {x: [1, 2]}, options=options, run_metadata=metadata))
print(len(metadata.step_stats.dev_stats) > 0, str(options).strip(), metadata.HasField("step_stats"))
metadata = tf.RunMetadata()
show(session.run(y, {x: [1, 2]}, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata))
print([len(graph.node) for graph in metadata.partition_graphs])
options = tf.RunOptions(timeout_in_ms=200)
q = tf.FIFOQueue(1, tf.float32)
tried(session.run, q.dequeue(), None, options)

#%% summaries_and_events
import glob
tf.summary.scalar("loss", tf.constant(2.0))
merged = tf.summary.merge_all()
data = tf.Session().run(merged)
print(data)
with open("summary", "wb") as file:
    file.write(data)

#%% nested_fetches
from collections import namedtuple
Pair = namedtuple("Pair", "a b")
c, d = tf.constant([1.0]), tf.constant(2)
sparse = tf.SparseTensor([[0, 1]], [2.0], [2, 2])
session = tf.Session()
print(session.run({"x": [c, (d, d)], "y": Pair(c, d)}))
print(session.run([]), session.run({}), session.run(tf.no_op()), session.run([sparse]))
print(session.run("Const:0"), session.run(tf.IndexedSlices(c, [0])))
print(session.run(tf.ragged.constant([[1], [2, 3]])))

#%% feeding_everything
c = tf.constant([1.0, 2.0])
d = c * 2.0
sp = tf.sparse_placeholder(tf.float32)
session = tf.Session()
show(session.run(d, {c: [5, 6]}), session.run(d * 1.0, {d: [7, 8]}))
show(session.run(tf.sparse.to_dense(sp), {sp: ([[0, 1]], [2.0], [2, 2])}))
show(session.run(d, {"Const:0": [1, 1]}))
session.run(c, {c: session.run(c)})
h = tf.get_session_handle(c)
handle = session.run(h)
holder, t = tf.get_session_tensor(handle.handle, tf.float32)
show(session.run(t * 2.0, {holder: handle.handle}))

#%% results_are_the_users
v = variable([1.0, 2.0], False)
c = tf.constant([1.0, 2.0])
x = tf.placeholder(tf.float32, [2])
y, z = tf.identity(x), tf.identity(v)
session = tf.Session()
session.run(v.initializer)
a, b = session.run([v, c])
a[0] = 50
b[0] = 70
feed = np.ones(2, "f4")
for _ in range(3):
    show(session.run([y, z, c], {x: feed}))
    feed *= 3
show(a, b, session.run(v), session.run(c), feed)

#%% strings_and_kinds
session = tf.Session()
for value in (b"bytes", "\u00e9", True, 3, [1.5, -0.0], [[1, 2]], 1j, np.float16(65504), np.int8(-128), np.uint64(2**63), [], [[]]):
    tried(session.run, tf.constant(value))
show(session.run(tf.cast([1.5, 3e38], tf.bfloat16)).astype("f4"))
show(session.run(tf.quantization.quantize([1.0, 2.0], 0.0, 4.0, tf.quint8)))

#%% grown_graph
session = tf.Session()
c = tf.constant([1.0])
v = variable([2.0], False)
session.run(v.initializer)
for i in range(5):
    c = c * v + 1.0
    show(session.run(c))
tf.get_default_graph().finalize()
show(session.run(c))

#%% devices_and_partitions
config = tf.ConfigProto(device_count={"CPU": 2}, log_device_placement=False)
with tf.device("/cpu:0"):
    a = tf.random_uniform([2], seed=1)
with tf.device("/cpu:1"):
    b = tf.math.log(a) * 2.0
    v = variable([0.0, 0.0], False)
    add = tf.assign_add(v, b)
session = tf.Session(config=config)
session.run(v.initializer)
for _ in range(3):
    show(session.run([a, add]))

#%% optimizers
for make in (tf.train.GradientDescentOptimizer, tf.train.AdamOptimizer, tf.train.AdagradOptimizer, tf.train.RMSPropOptimizer, tf.train.FtrlOptimizer):
    for resource in (False, True):
        with tf.Graph().as_default():
            tf.set_random_seed(1)
            w = variable(np.ones((3, 1), "f4"), resource)
            x = tf.random_normal([4, 3])
            loss = tf.reduce_mean(tf.square(tf.matmul(x, w)))
            train = make(0.1).minimize(loss)
            with tf.Session() as session:
                session.run(tf.global_variables_initializer())
                losses = [float(session.run([loss, train])[0]) for _ in range(3)]
                show(losses, session.run(w))

#%% embedding_and_dropout
ids = tf.placeholder(tf.int32, [None])
for resource in (False, True):
    table = variable(np.arange(8, dtype="f4").reshape(4, 2), resource)
    rows = tf.nn.dropout(tf.nn.embedding_lookup(table, ids), rate=0.5)
    train = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(tf.square(rows)), var_list=[table])
    session = tf.Session()
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        show(session.run([rows, train], {ids: [0, 2, 2]})[0], session.run(table))
    tried(session.run, train, {ids: [9]})
    show(session.run(table))

#%% batch_norm_and_updates
x = tf.placeholder(tf.float32, [None, 3])
mean = variable(np.zeros(3, "f4"), True)
y, m, var = tf.nn.fused_batch_norm(x[:, None, None, :], np.ones(3, "f4"), np.zeros(3, "f4"))
update = mean.assign_sub(0.1 * (mean - m))
session = tf.Session()
session.run(mean.initializer)
for i in range(3):
    show(*session.run([y, update], {x: np.arange(6, dtype="f4").reshape(2, 3) * i}))

#%% signal_handlers
import os, signal
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.getsignal(signal.SIGTERM))
signal.signal(signal.SIGUSR1, lambda *a: print("handled"))
def f(value):
    os.kill(os.getpid(), signal.SIGUSR1)
    return value
x = tf.placeholder(tf.float32, [1])
show(tf.Session().run(tf.py_func(f, [x], tf.float32), {x: [1]}))

#%% handler_raises_after_a_run
import os, signal
class Told(Exception):
    pass
def handle(*a):
    raise Told("by a signal")
signal.signal(signal.SIGUSR1, handle)
x = tf.placeholder(tf.float32, [1])
session = tf.Session()
try:
    show(session.run(x * 2.0, {x: [1]}))
    os.kill(os.getpid(), signal.SIGUSR1)
    show(session.run(x * 2.0, {x: [1]}))
except Told as told:
    print(told)
show(session.run(x * 2.0, {x: [3]}))

#%% fork_before_sessions
import os
x = tf.placeholder(tf.float32, [1])
child = os.fork()
if not child:
    os._exit(5)
show(tf.Session().run(x * 2.0, {x: [1]}))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

#%% subclassed_session
class Counting(tf.Session):
    count = 0
    def run(self, fetches, feed_dict=None, options=None, run_metadata=None):
        Counting.count += 1
        return super().run(fetches, feed_dict, options, run_metadata)
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

#%% weakrefs_and_del # differs in mortem: the last run is kept until the next one, with its session
import gc, weakref
session = tf.Session()
c = tf.constant([1.0])
show(session.run(c))
seen = weakref.ref(session)
del session
gc.collect()
print(seen())
class Gone:
    def __del__(self):
        print("gone")
class Feed(Gone, np.ndarray):
    pass
x = tf.placeholder(tf.float32, [1])
session = tf.Session()
feed = np.ones(1, "f4").view(Feed)
show(session.run(x * 2.0, {x: feed}).tolist())
del feed
gc.collect()
print("end")

#%% clusters
server = tf.train.Server.create_local_server()
x = tf.placeholder(tf.float32, [])
v = variable(1.0, False)
y = tf.math.log(x) + tf.assign_add(v, 1.0)
with tf.Session(server.target) as session:
    session.run(v.initializer)
    show([float(session.run(y, {x: n})) for n in (1, 0, 2)])

#%% sessions_and_functions
@tf2.function
def f(x):
    return tf.math.log(x) + tf.random_uniform([2], seed=2)
x = tf.placeholder(tf.float32, [2])
y = f(x) * 1.0
session = tf.Session()
for i in range(3):
    show(session.run(y, {x: [i, 1]}))

#%% print_and_assert_ops
x = tf.placeholder(tf.float32, [2])
with tf.control_dependencies([tf.print("value", x, output_stream=sys.stderr)]):
    y = tf.identity(x)
with tf.control_dependencies([y]):
    old = tf.Print(x, [x], "old ")
session = tf.Session()
show(session.run([y, old], {x: [1, 2]}))

#%% graph_untouched
x = tf.placeholder(tf.float32, [2])
y = tf.math.log(x)
graph = tf.get_default_graph()
before = graph.version, len(graph.get_operations()), graph.as_graph_def().SerializeToString(deterministic=True)
session = tf.Session()
show(session.run(y, {x: [0, 2]}))
after = graph.version, len(graph.get_operations()), graph.as_graph_def().SerializeToString(deterministic=True)
print(before == after, graph.get_all_collection_keys(), graph.finalized, tf.random_uniform([]).op.get_attr("seed2"))

#%% stateful_op_seeds
tf.set_random_seed(1)
session = tf.Session()
for _ in range(4):
    r = tf.random_uniform([2])
    show(session.run(r), r.op.get_attr("seed2"), r.name)

#%% generators_of_random_numbers
g = tf2.random.Generator.from_seed(3)
a = g.normal([2])
session = tf.Session()
session.run(tf.global_variables_initializer())
x = tf.placeholder(tf.float32, [])
with tf.control_dependencies([a]):
    bad = tf.check_numerics(tf.math.log(x), "bad")
for given in (1, 0, 1):
    tried(session.run, bad, {x: given})
    show(session.run(a))

#%% reader_ops
with open("lines.txt", "w") as file:
    file.write("one\ntwo\nthree\n")
names = tf.train.string_input_producer(["lines.txt"], num_epochs=1, shuffle=False)
key, value = tf.TextLineReader().read(names)
with tf.Session() as session:
    session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
    coord = tf.train.Coordinator()
    threads = tf.train.start_queue_runners(session, coord)
    for _ in range(4):
        tried(session.run, value)
    coord.request_stop()
    coord.join(threads)

#%% files_by_ops
x = tf.placeholder(tf.string, [])
write = tf.io.write_file("out.txt", x)
with tf.control_dependencies([write]):
    bad = tf.debugging.Assert(tf.equal(x, "b"), [x])
session = tf.Session()
for given in ("a", "b"):
    tried(session.run, bad, {x: given})
    show(session.run(tf.io.read_file("out.txt")))

#%% accumulators
acc = tf.ConditionalAccumulator(tf.float32, [2])
x = tf.placeholder(tf.float32, [2])
apply = acc.apply_grad(x, 0)
with tf.control_dependencies([apply]):
    bad = tf.check_numerics(tf.math.log(x), "bad")
taken = acc.take_grad(1)
count = acc.num_accumulated()
session = tf.Session()
for given in ([1, 2], [0, 1]):
    tried(session.run, bad, {x: given})
    show(session.run(count))
show(session.run(taken))

#%% estimator_like_scopes
with tf.variable_scope("a", reuse=tf.AUTO_REUSE, use_resource=False):
    w = tf.get_variable("w", [2], initializer=tf.random_uniform_initializer(seed=1))
    same = tf.get_variable("w", [2])
session = tf.Session()
session.run(tf.global_variables_initializer())
show(session.run(w), w is same, session.run(tf.assign(w, w * 2)))
with tf.variable_scope("a"):
    tried(tf.get_variable, "w", [2])
