"""Nodes of function bodies and of rewritten graphs, under the user's names."""
