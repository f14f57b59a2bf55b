"""Commands about the times of a run."""
