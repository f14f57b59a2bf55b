"""Run folders: our own format on disk, one folder a run."""
