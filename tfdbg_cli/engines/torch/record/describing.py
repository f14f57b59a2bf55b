"""Puts the records of a run into words: phases, stacks, owners, unique names.

That is done when somebody looks, in the order in which the records were made: it makes no
difference to what they say whether somebody looks after each op or once at the end.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence

from tfdbg_cli.engines.kit.numbering import Numbering
from tfdbg_cli.engines.torch.names.contexts import Contexts
from tfdbg_cli.engines.torch.record.op_record import OPTIMIZER, OpRecord
from tfdbg_cli.engines.torch.record.written import describe_written, is_written

__all__ = ["Describer"]

_INPUT = "input/"


class Describer:
    """The records of one run.

    Args:
        contexts: where they happened.
        trouble: is told what goes wrong.

    Attributes:
        raw: in the order in which they were begun; the latest may not be in words yet.
    """

    def __init__(self, contexts: Contexts, trouble: Callable[[Exception], None]) -> None:
        self.raw: list[OpRecord] = []
        self._contexts = contexts
        self._trouble = trouble
        self._numbering = Numbering(keeps_underscores=True)  # as parameters do
        self._done = 0
        # Before which record something happened to names: records that are named anew, or, with
        # `None`, that all names are free again.
        self._events: deque[tuple[int, Sequence[OpRecord] | None]] = deque()
        self._lock = threading.RLock()

    def records(self) -> list[OpRecord]:
        """All of them, in words."""
        if self._done < len(self.raw) or self._events:
            with self._lock:
                self._catch_up()
        return self.raw

    def name_again(self, records: Sequence[OpRecord]) -> None:
        """Earlier records belong to the run from now on, and get names of it."""
        self._events.append((len(self.raw), records))

    def begin_run(self) -> None:
        """Names are free again."""
        self._events.append((len(self.raw), None))

    def clear(self) -> None:
        """There are no records any more."""
        with self._lock:
            self.raw.clear()
            self._events.clear()
            self._numbering.clear()
            self._done = 0

    def _catch_up(self) -> None:
        while True:
            events = self._events
            while events and events[0][0] <= self._done:
                self._rename(events.popleft()[1])
            if self._done >= len(self.raw):
                return
            record = self.raw[self._done]
            self._done += 1
            try:
                self._describe(record)
            except Exception as error:
                self._trouble(error)
            finally:  # whatever a signal handler raises: each has a name
                record.base = record.base or record.op_type.lstrip("_") or "op"
                record.name = self._numbering.name(record.base)

    def _rename(self, records: Sequence[OpRecord] | None) -> None:
        if records is None:
            self._numbering.clear()
            return
        for record in records:
            record.name = self._numbering.name(record.base)

    def _describe(self, record: OpRecord) -> None:
        leaf = record.leaf
        if leaf is not None:
            record.leaf = None
            record.note = leaf.note
            owner = _text(leaf.parameter)
            record.base = f"{leaf.name}{owner}{leaf.rest}"
            record.owner = owner if record.owner_of is not None else ""
        elif record.place is not None:
            self._contexts.describe(record)
            if record.phase == OPTIMIZER and record.owner_of is not None:
                record.owner = _text(record.owner_of)
                if record.owner:
                    record.prefix = f"{record.prefix}{record.owner}/"
            record.base = (record.prefix + record.op_type).lstrip("_") or "op"
        elif is_written(record):
            describe_written(record)


def _text(parameter: OpRecord | str | None) -> str:
    """What a parameter is called."""
    name = parameter.name if isinstance(parameter, OpRecord) else parameter or ""
    return name.removeprefix(_INPUT)
