"""What every engine needs and no framework has: the kit."""
