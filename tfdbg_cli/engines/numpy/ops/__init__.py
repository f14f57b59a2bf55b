"""The ops of the NumPy engine."""
