"""The recorder: what is kept of the ops of a run, and how they become a dump."""
