"""A second function beside the program's, that only tells whether something in it is bad."""
