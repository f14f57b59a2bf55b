"""Where runs begin and end, and how closely each is looked at."""
