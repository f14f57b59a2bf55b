"""Putting something in the place of a framework's functions, and making it pass for them."""
