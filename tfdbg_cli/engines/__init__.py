"""Engines: one folder a framework, each behind the protocol of `tfdbg_cli.engines.base`."""
