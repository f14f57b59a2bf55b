"""A folder for paths to lead through: see `tfdbg_cli.engines.kit.patching.places`."""
