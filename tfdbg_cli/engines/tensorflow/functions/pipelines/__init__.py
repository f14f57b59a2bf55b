"""What the pipelines of ``tf.data`` have made of the program's data."""
