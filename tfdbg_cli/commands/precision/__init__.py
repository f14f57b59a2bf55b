"""What a narrower type would make of the runs, and what has to stay as it is."""
