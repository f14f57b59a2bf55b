"""A run in one HTML file, to be sent to somebody who has neither the program nor the dump."""
