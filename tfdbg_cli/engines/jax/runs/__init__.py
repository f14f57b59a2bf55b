"""Calls of compiled functions, and how closely each is looked at."""
