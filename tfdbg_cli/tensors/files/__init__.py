"""Arrays in files of other programs: what is saved there, and what is read from there."""
