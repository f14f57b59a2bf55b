import numpy as np

from tfdbg_cli.engines import numpy as tf

x = tf.placeholder(tf.float32, name="x")
y = tf.log(x, name="y")
with tf.Session() as session:
    session.run(y, {x: np.float32([1.0, 0.0])})
