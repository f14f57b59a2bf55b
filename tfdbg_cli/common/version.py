"""The version, in one place that imports nothing."""

__all__ = ["__version__"]

__version__ = "1.0.0"
