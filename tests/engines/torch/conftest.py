"""Fixtures for several modules; they need no PyTorch in this process."""

from breakers_kit import both, server

__all__ = ["both", "server"]
