"""The state of the screen as rows of cells."""
