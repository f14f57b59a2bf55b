"""The JSON Schema of what ``--json`` writes, command by command."""

from __future__ import annotations

import functools
import json
from importlib.resources import files
from typing import Any

__all__ = ["schema_of", "schemas"]


@functools.cache
def schemas() -> dict[str, Any]:
    """All definitions, in ``$defs``; shared ones among them."""
    text = files(__package__).joinpath("schemas.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def schema_of(name: str) -> dict[str, Any] | None:
    """The schema of the objects that a command writes with ``--json``.

    Args:
        name: of the command; ``check``: what ``--check-format json`` writes.

    Returns:
        A JSON Schema (draft 2020-12); ``None``: there is none of this name.
    """
    if name not in schemas()["$defs"]:
        return None
    return {**schemas(), "$ref": f"#/$defs/{name}"}
