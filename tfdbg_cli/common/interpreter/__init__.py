"""What the program shares with the debugger: signals, threads, garbage collection, the stack."""
