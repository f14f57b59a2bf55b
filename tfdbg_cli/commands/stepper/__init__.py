"""Commands that move through a run and change its values."""
