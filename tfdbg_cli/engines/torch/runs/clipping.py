"""Clipping of gradients: it is noted, and where it makes nothing bad its ops aren't recorded."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tfdbg_cli.engines.torch.around.surrounding import Around, Invocation
from tfdbg_cli.engines.torch.modules.level import ModulesLevel
from tfdbg_cli.engines.torch.private import functions_seen
from tfdbg_cli.engines.torch.record.capture import program_modes
from tfdbg_cli.engines.torch.runs.exact_check import are_clean
from tfdbg_cli.engines.torch.runs.steps_taken import StepNotes
from tfdbg_cli.engines.torch.values.access import are_on_host

__all__ = ["Clipping"]


class Clipping:
    """What is done around ``clip_grad_norm_`` and ``clip_grad_value_``.

    Args:
        notes: are told of it.
        level: what looks at modules only, and records what is done outside of any now; ``None``:
            nothing does.
    """

    def __init__(self, notes: StepNotes, level: Callable[[], ModulesLevel | None]) -> None:
        self._notes, self._level = notes, level
        self._is_at_work = False

    def around(
        self, original: Any, args: Sequence[Any], kwargs: Mapping[str, Any], is_norm: bool
    ) -> Around:
        """A call of one of the two."""
        limit = args[1] if len(args) > 1 else kwargs.get("max_norm" if is_norm else "clip_value")
        # With a limit such as nan, clipping makes bad gradients of good ones.
        self._is_at_work = is_norm and isinstance(limit, int | float) and limit > 0
        try:
            value = yield original, args, kwargs
        finally:
            self._is_at_work = False
            level = self._level()
            if level is not None:
                level.wake()
        if is_norm:
            self._notes.clipped(value, limit)
        else:
            self._notes.values_clipped(limit)
        return value

    def around_norm(
        self, original: Any, tensors: Any, /, *args: Any, **kwargs: Any
    ) -> Around | None:
        """The norm of the gradients, which ``clip_grad_norm_`` computes first."""
        level = self._level() if self._is_at_work and isinstance(tensors, list) else None
        # Modes of the program's would see that it is computed twice.
        if level is None or functions_seen() or program_modes() or not are_on_host(tensors):
            return None
        return _around_norm(level, (original, (tensors, *args), kwargs))


def _around_norm(level: ModulesLevel, norm_of: Invocation) -> Around:
    """If the norm is finite, then so are the gradients, and what clipping makes of them.

    So nothing of it is recorded, and nothing held. Else the norm, for which nothing has been
    changed yet, is computed again, and the rest is recorded as well.
    """
    level.rest()
    with contextlib.suppress(RuntimeError):  # error_if_nonfinite
        norm = yield norm_of
        if are_clean((norm,)):
            return norm
    level.wake()
    return (yield norm_of)
