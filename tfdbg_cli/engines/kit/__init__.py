"""What every engine needs and no framework has a part in."""
