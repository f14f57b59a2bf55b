"""Trace blocks: plain code in a ``with`` block that reads and changes the values of a run."""
