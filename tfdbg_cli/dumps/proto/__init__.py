"""TensorFlow's messages, read and written without TensorFlow."""
