"""Dumps after the program has gone."""
