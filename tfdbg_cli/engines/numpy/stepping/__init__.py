"""A run of the NumPy engine, node by node."""
