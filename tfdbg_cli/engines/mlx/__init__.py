"""Debugging of programs that use MLX."""
