"""Stepping through calls of traced functions."""
