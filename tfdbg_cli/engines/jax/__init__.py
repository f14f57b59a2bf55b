"""The engine for programs that use JAX."""
