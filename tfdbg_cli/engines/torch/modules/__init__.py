"""Runs that are watched at the borders of their modules."""
