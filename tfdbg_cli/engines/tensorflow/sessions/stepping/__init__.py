"""A run that is made once as a whole, then gone through."""
