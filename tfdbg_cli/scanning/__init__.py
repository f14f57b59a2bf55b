"""Filters over trees of dumps, by many workers."""
