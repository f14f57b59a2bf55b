"""The heat map of a tensor, for a report."""

from __future__ import annotations

from typing import Any

import numpy as np

from tfdbg_cli.commands.report.html import Markup

__all__ = ["heat_map"]


def heat_map(value: np.ndarray[Any, Any]) -> Markup | None:
    """A picture of an array; ``None``: there can be none."""
    return None
