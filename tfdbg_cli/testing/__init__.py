"""Suites that any engine, also a third party's, can import and run."""
