"""What helps against a nan or an infinity, tried on the values of the run that it was found in."""
