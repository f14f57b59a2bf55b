"""The original's dump directories: one file a tensor, graphs per device."""
