"""Dumps: what one run computed, in memory or on disk, behind one face."""
