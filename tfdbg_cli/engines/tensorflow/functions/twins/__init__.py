"""Copies of traced functions with more results."""
