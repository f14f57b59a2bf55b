"""Sessions as the program uses them: every way to ask for a run, and its errors."""
