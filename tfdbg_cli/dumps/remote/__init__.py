"""Dumps at addresses (``s3://bucket/runs``)."""
