"""Numbers over runs, in memory and in files."""
