"""Commands that say what the next run does, and the screen of a run that failed."""
