"""The TensorFlow engine: real ``tf.compat.v1`` sessions, TensorFlow 2.12 and later."""
