"""A level that records ops as an engine tells of them, and an engine that is made around it."""
