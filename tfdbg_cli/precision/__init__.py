"""What a narrower dtype would make of a run: ranges, errors, and what has to stay as it is."""
