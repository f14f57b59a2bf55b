"""``compare``: where two runs part."""
