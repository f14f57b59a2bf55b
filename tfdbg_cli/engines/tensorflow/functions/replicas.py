"""The threads in which a strategy executes a function eagerly, one for each replica."""

from __future__ import annotations

import threading
from types import CodeType
from typing import Any

from tfdbg_cli.engines.tensorflow.functions.private import is_traced, replica_classes

__all__ = ["goes_into_threads", "is_replica", "records_gradients", "scope_of_replica"]

_MAIN = type(threading.main_thread())
_TAPE = "GradientTape"


def is_replica() -> bool:
    """Whether this thread is one of a replica; the one that has started it waits for it."""
    thread = threading.current_thread()
    if type(thread) in (threading.Thread, _MAIN):
        return False
    _, kind = replica_classes()
    return kind is not None and isinstance(thread, kind)


def scope_of_replica() -> str:
    """What names of this replica begin with; of the first one: nothing."""
    number = getattr(threading.current_thread(), "replica_id", 0) if is_replica() else 0
    return f"replica_{number}/" if number else ""


def goes_into_threads(strategy: Any, function: Any) -> bool:
    """Whether a strategy executes a function eagerly, in threads."""
    kind, _ = replica_classes()
    return kind is not None and isinstance(strategy.extended, kind) and not is_traced(function)


def records_gradients(function: Any) -> bool:
    """Whether a function has a tape, as far as its own code tells."""
    code = getattr(function, "__code__", None)
    waiting = [code] if isinstance(code, CodeType) else []
    while waiting:
        code = waiting.pop()
        if _TAPE in code.co_names:
            return True
        waiting += [each for each in code.co_consts if isinstance(each, CodeType)]
    return False
