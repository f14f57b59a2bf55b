"""The terminal below the screen, and what leaves it."""
