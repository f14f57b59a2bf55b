"""The debuggers of several ranks: one leads, the others follow."""
