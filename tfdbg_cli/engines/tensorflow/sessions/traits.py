"""What is known of this engine without its framework."""

from __future__ import annotations

import dataclasses

from tfdbg_cli.engines.tensorflow.shared.traits import COMMON

__all__ = ["TRAITS"]

TRAITS = dataclasses.replace(COMMON, has_hooks=True, has_debug_ops=True)
