"""The version, in one place that imports nothing."""

__all__ = ["__version__"]

__version__ = "0.1.0"
