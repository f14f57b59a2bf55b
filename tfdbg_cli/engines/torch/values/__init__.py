"""Tensors of every kind: what they are made of, and the arrays that are shown."""
