"""A run and its error for ``--json``."""

from __future__ import annotations

from typing import Any

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.json_lines import head
from tfdbg_cli.dumps.run_info import RunError

__all__ = ["error_record", "run_record"]


def run_record(context: Context, name: str) -> dict[str, Any]:
    """What a run was asked for, and what it gave.

    Args:
        context: of the stop.
        name: of the run, as screens show it.
    """
    info = context.run_info
    return {
        **head(info.engine, name, info.number or info.call_count),
        "stop": context.mode,
        "filter": info.filter_name,
        "fetches": list(info.fetches),
        "feeds": list(info.feeds),
        "outputs": dict(info.outputs),
        "details": [{"label": label, "text": text} for label, text in info.details],
        "error": error_record(info.error) if info.error is not None else None,
    }


def error_record(error: RunError) -> dict[str, Any]:
    """The error of a run that failed, as ``--log`` writes it, with its line."""
    return {
        "type": error.type_name,
        "message": error.message,
        "op": error.op_name,
        "line": {"file": error.file, "line": error.line} if error.line else None,
    }
