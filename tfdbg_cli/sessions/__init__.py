"""Wrapper sessions: where a run hands control to the debugger and takes it back."""
