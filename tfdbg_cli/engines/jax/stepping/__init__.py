"""Stepping through the calls of a compiled JAX function."""
