"""The command line itself: its grammar, completion, history, output, scripts and help."""
