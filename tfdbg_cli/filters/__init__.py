"""Tensor filters: ``f(datum, tensor) -> bool``, by name."""
