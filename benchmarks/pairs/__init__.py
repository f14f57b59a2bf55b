"""Pairs of runs: of equal programs written differently, and of programs with a planted bug."""
