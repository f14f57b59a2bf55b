"""The PyTorch engine: the debugger around an unmodified PyTorch program."""
