"""Values: slicing, ranges, lazy text views and statistics of arrays of any dtype."""
