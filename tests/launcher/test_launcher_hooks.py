"""Programs whose own code looks at a run before the debugger does: hooks and callbacks."""

import importlib.util

import pytest

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="needs TensorFlow"),
]

MONITORED = """\
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
step = tf.train.get_or_create_global_step()
count = tf.identity(tf.assign_add(step, 1), name="count")
loss = tf.sqrt(2.5 - tf.cast(count, tf.float32), name="loss")
hooks = [tf.train.NanTensorHook(loss)]
with tf.train.MonitoredTrainingSession(hooks=hooks) as session:
    for _ in range(5):
        print("step", session.run(count))
"""

KERAS = """\
import numpy as np
import tensorflow.compat.v1 as tf
tf.disable_v2_behavior()
from tensorflow.python.keras import callbacks, layers, models

class Check(callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        print("batch", batch)
        if batch == 1:
            raise RuntimeError("too bad")

model = models.Sequential([layers.Dense(1, input_shape=(2,))])
model.compile("sgd", "mse")
model.fit(np.ones((8, 2)), np.ones((8, 1)), batch_size=2, callbacks=[Check()], verbose=0)
"""

ESTIMATOR = """\
import numpy as np
import tensorflow.compat.v1 as tf
tf.logging.set_verbosity(tf.logging.ERROR)

def model(features, labels, mode):
    step = tf.train.get_global_step()
    count = tf.identity(tf.assign_add(step, 1), name="count")
    loss = tf.reduce_mean(tf.sqrt(2.5 - tf.cast(count, tf.float32)), name="loss")
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=count)

def data():
    return tf.data.Dataset.from_tensors(({"x": np.ones(2)}, np.ones(1))).repeat()

tf.estimator.Estimator(model, model_dir=f"{__file__}-model").train(data, steps=6)
"""


@pytest.fixture
def start(runner):
    """Runs a program in a copy of a process that has imported TensorFlow: debugged, or plain."""

    def done(program, *arguments, options=None):
        script = runner.write("s.py", program)
        debugged = () if options is None else ("-m", "tfdbg_cli", "--batch", *options)
        return runner.forked(("tensorflow",), *debugged, script, *arguments)

    return done


def has_estimator():
    return importlib.util.find_spec("tensorflow_estimator") is not None


@pytest.mark.parametrize(
    "program",
    [
        MONITORED,
        pytest.param(
            ESTIMATOR,
            marks=pytest.mark.skipif(not has_estimator(), reason="TensorFlow 2.16 has none"),
        ),
    ],
    ids=["monitored", "estimator"],
)
def test_the_run_that_a_nan_hook_ends_is_shown(start, program):
    commands = ("-c", "run -f has_inf_or_nan", "-c", "run_info", "-c", "lt -f has_inf_or_nan")
    done = start(program, options=commands)
    plain = start(program)
    assert done.status == plain.status == 1
    assert done.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1]
    assert "NanLossDuringTrainingError: NaN loss during training." in done.stderr
    assert done.notes == []
    assert "run-end: run #3" in done.stdout
    assert "The program failed after the run: NaN loss during training." in done.stdout
    assert "lt -f has_inf_or_nan  what passed has_inf_or_nan" in done.stdout
    assert "loss:0" in done.stdout.partition("--- lt -f has_inf_or_nan ---")[2]


def test_a_keras_callback_that_raises(start):
    commands = ("-c", "run", "-c", "run", "-c", "lt", "-c", "run")
    done = start(KERAS, options=commands)
    plain = start(KERAS)
    assert done.status == plain.status == 1
    assert done.stderr.splitlines()[-1] == plain.stderr.splitlines()[-1] == "RuntimeError: too bad"
    _, _, last = done.stdout.partition("run-end: run #2")
    assert "dumped tensor(s)" in last.partition("batch 1")[0]


QUEUES = """\
import sys
import tensorflow.compat.v1 as tf
tf.disable_eager_execution()
names = tf.train.string_input_producer(["a", "b", "c"], num_epochs=2, shuffle=False)
batch = tf.train.batch([names.dequeue(name="item")], 2, num_threads=2)

def plain():
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        for _ in range(3):
            print(len(session.run(batch)))
        coordinator.request_stop()
        coordinator.join(threads)

def monitored():
    tf.train.get_or_create_global_step()
    with tf.train.MonitoredTrainingSession() as session:
        for _ in range(3):
            print(len(session.run(batch)))

def supervised():
    supervisor = tf.train.Supervisor(logdir=None)
    with supervisor.managed_session() as session:
        for _ in range(3):
            print(len(session.run(batch)))

globals()[sys.argv[1]]()
"""


@pytest.mark.parametrize("kind", ["plain", "monitored", "supervised"])
def test_the_threads_of_queue_runners_neither_stop_nor_count(start, kind):
    count = 4 if kind == "plain" else 3  # the program's own initialization is a run
    done = start(QUEUES, kind, options=("-c", f"run -t {count}", "-c", "run"))
    assert done.status == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line]
    assert lines == ["2", "2", f"--- run-end: run #{count}: 1 fetch (batch:0); 0 feeds ---", "2"]
    assert done.notes == []
