"""Wrapper sessions and hooks: the life of a debugged run, and its two stops."""
