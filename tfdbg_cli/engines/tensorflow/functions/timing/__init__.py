"""Runs whose ops are timed."""
