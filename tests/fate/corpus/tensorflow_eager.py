import sys
import numpy as np
import tensorflow as tf
tf.random.set_seed(7)


def show(*values):
    print(*[v.numpy().tolist() if hasattr(v, "numpy") else v for v in values])


#%% eager_ops
x = tf.constant([1.0, 0.0])
show(tf.math.log(x), x / 0.0, tf.random.uniform([2]), tf.random.uniform([2]))
tf.linalg.matmul(tf.ones([2, 3]), tf.ones([2, 3]))

#%% functions
traces = []
@tf.function
def f(x):
    traces.append(x.shape)
    return tf.math.log(x) + tf.random.uniform([2])
for i in range(3):
    show(f(tf.constant([float(i), 1.0])))
print(traces, f.experimental_get_tracing_count())

#%% function_fails
v = tf.Variable(1.0)
@tf.function
def f(x):
    v.assign_add(1.0)
    return tf.debugging.check_numerics(tf.math.log(x), "bad")
for given in (1.0, 0.0, 2.0):
    try:
        show(f(tf.constant(given)))
    except tf.errors.InvalidArgumentError as error:
        print(type(error).__name__)
    show(v)
f(tf.constant(0.0)) if v.numpy() > 100 else sys.exit(3)

#%% control_flow
@tf.function
def f(n):
    total = 0.0
    for i in tf.range(n):
        if i % 2 == 0:
            total += tf.cast(i, tf.float32)
        else:
            total *= 1.5
    return total
show(f(tf.constant(5)), f(tf.constant(0)))

#%% tapes
v = tf.Variable([1.0, 2.0])
with tf.GradientTape(persistent=True) as tape:
    y = tf.reduce_sum(v * v * v)
    g = tape.gradient(y, v)
show(g, tape.gradient(g, v), tape.jacobian(v * v, v) if False else g)

#%% training_loop
w = tf.Variable(tf.random.normal([3, 1]))
optimizer = tf.keras.optimizers.Adam(0.1)
for _ in range(4):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((tf.random.normal([4, 3]) @ w) ** 2)
    optimizer.apply_gradients([(tape.gradient(loss, w), w)])
    show(loss)
show(w)

#%% keras_fit
import keras
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.layers.Dense(4, "relu"), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
model.compile("adam", "mse")
x = np.random.rand(16, 3).astype("f4")
history = model.fit(x, x.sum(1), epochs=2, batch_size=8, verbose=2 if False else 0, validation_split=0.25)
print(history.history["loss"], model.predict(x[:2], verbose=0).tolist(), np.random.rand())
model.save("m.weights.h5") if False else None

#%% keras_callback_raises
import keras
keras.utils.set_random_seed(1)
class Stop(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        print("batch", batch, round(float(logs["loss"]), 6))
        if batch == 1:
            raise ValueError("enough")
model = keras.Sequential([keras.layers.Dense(1)])
model.compile("sgd", "mse")
try:
    model.fit(np.ones((16, 2)), np.ones(16), batch_size=4, verbose=0, callbacks=[Stop()])
except ValueError as error:
    print(error)
print(model.optimizer.iterations.numpy())

#%% keras_custom_step
import keras
keras.utils.set_random_seed(2)
class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
    def call(self, x):
        return self.dense(x)
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self(x, training=True)[:, 0] - y) ** 2)
        grads = tape.gradient(loss, self.trainable_variables)
        self.optimizer.apply(grads, self.trainable_variables)
        return {"loss": loss}
model = Model()
model.compile("sgd", run_eagerly=True)
print(model.fit(np.ones((8, 2), "f4"), np.ones(8, "f4"), verbose=0, epochs=2).history)

#%% datasets
data = tf.data.Dataset.range(10).shuffle(10, seed=1).map(lambda x: x * 2, num_parallel_calls=2).batch(4)
for batch in data:
    show(batch)
def generate():
    yield 1
    raise ValueError("in the generator")
try:
    for value in tf.data.Dataset.from_generator(generate, tf.int32):
        show(value)
except tf.errors.InvalidArgumentError as error:
    print(type(error).__name__)

#%% numpy_function_and_print
@tf.function
def f(x):
    tf.print("value", x, output_stream=sys.stdout)
    return tf.numpy_function(lambda a: a * 2, [x], tf.float32)
show(f(tf.constant([1.0, 2.0])))

#%% saved_model
class Model(tf.Module):
    def __init__(self):
        self.v = tf.Variable(2.0)
    @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
    def __call__(self, x):
        return x * self.v
tf.saved_model.save(Model(), "saved")
show(tf.saved_model.load("saved")(tf.constant(3.0)))
import shutil
shutil.rmtree("saved")

#%% checkpoints
v = tf.Variable([1.0, 2.0])
path = tf.train.Checkpoint(v=v).save("point")
v.assign([0.0, 0.0])
tf.train.Checkpoint(v=v).restore(path).assert_consumed()
show(v)

#%% numerics_checked
tf.debugging.enable_check_numerics()
try:
    tf.math.log(tf.constant(0.0))
except tf.errors.InvalidArgumentError as error:
    print("found")

#%% xla
@tf.function(jit_compile=True)
def f(x):
    return tf.reduce_sum(tf.math.log(x) * 2.0)
show(f(tf.constant([1.0, 2.0])), f(tf.constant([0.0, 2.0])))

#%% threads
import threading
@tf.function
def f(x):
    return x * 2.0
results = {}
def work(n):
    results[n] = f(tf.constant(float(n))).numpy().tolist()
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads], [t.join() for t in threads]
print(sorted(results.items()))

#%% uncaught
@tf.function
def f(x):
    return tf.reshape(x, [3])
try:
    f(tf.ones([2]))
except Exception as error:
    print(type(error).__name__)
raise RuntimeError("the end")

#%% graph_in_eager
with tf.Graph().as_default():
    x = tf.compat.v1.placeholder(tf.float32, [])
    y = tf.math.log(x)
    with tf.compat.v1.Session() as session:
        for given in (1, 0, 2):
            print(session.run(y, {x: given}).tolist())
show(tf.math.log(tf.constant(2.0)))

#%% tf_keras_graph
import tf_keras
tf.compat.v1.disable_eager_execution()
tf.compat.v1.set_random_seed(3)
tf_keras.utils.set_random_seed(3)
model = tf_keras.Sequential([tf_keras.layers.Dense(3, "relu", input_shape=(2,)), tf_keras.layers.Dropout(0.5), tf_keras.layers.Dense(1)])
model.compile("sgd", "mse")
x = np.random.rand(8, 2)
print(model.fit(x, x.sum(1), epochs=2, batch_size=4, verbose=0, shuffle=False).history)
print(model.predict(x[:1]).tolist(), model.evaluate(x, x.sum(1), verbose=0))

#%% warnings_by_action
from by_filters import by_filters, user
v = tf.Variable([1.0, 2.0])
def tape():
    with tf.GradientTape() as t:
        loss = tf.reduce_sum(user(v))
    return t.gradient(loss, v)
@tf.function
def inside(x):
    return tf.numpy_function(lambda v: np.log(v * 0), [x], tf.float32)
by_filters(
    {
        "traced": lambda: tf.function(lambda x: user(x))(tf.ones(2)),
        "keras": lambda: tf.keras.layers.Dense(2, input_shape=(3,))(tf.ones((1, 3))),
        "tape": tape,
        "inside": lambda: inside(tf.ones(2)),
        "numpy": lambda: np.log(np.zeros(2)),
    },
    "tensorflow",
)

#%% half_precision
w, b = tf.Variable(tf.random.normal([2, 8])), tf.Variable(tf.zeros([8]))
u = tf.Variable(tf.random.normal([8, 1]), dtype=tf.float32)
data = tf.random.normal([256, 2]) * 10
@tf.function
def step(x):
    y = tf.cast(x[:, :1] > 0, tf.float16)
    with tf.GradientTape() as tape:
        h = tf.cast(tf.tanh(tf.nn.bias_add(x @ w, b)), tf.float16)
        p = tf.clip_by_value(tf.sigmoid(tf.nn.bias_add(h @ tf.cast(u, tf.float16), tf.zeros([1], tf.float16))), 1e-7, 1)
        loss = -tf.reduce_mean(y * tf.math.log(p) + (1 - y) * tf.math.log(1 - p + 1e-3))
    for variable, gradient in zip((w, b, u), tape.gradient(loss, (w, b, u))):
        variable.assign_sub(tf.cast(gradient, tf.float32))
    return loss
for at in range(48):
    show(step(data[at % 16 * 16 : at % 16 * 16 + 16]))
show(w, b, u)
