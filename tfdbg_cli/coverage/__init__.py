"""A plug-in for coverage.py, which knows it by the name of this room."""

from __future__ import annotations

from tfdbg_cli.coverage.autograph import coverage_init

__all__ = ["coverage_init"]
