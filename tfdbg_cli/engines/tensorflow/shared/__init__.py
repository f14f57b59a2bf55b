"""What sessions and functions of TensorFlow both need."""
