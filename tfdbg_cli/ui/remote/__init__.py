"""A UI in another process: a program that listens, and a client that attaches to it."""
