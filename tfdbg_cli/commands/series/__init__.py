"""Numbers over runs: what is followed, and pictures of it."""
