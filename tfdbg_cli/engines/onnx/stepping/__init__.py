"""Runs that are done step by step."""
