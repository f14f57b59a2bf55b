"""What a plan asks of the runtime, made ready once: a run hands it over as it is."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from tensorflow.core.protobuf import config_pb2

from tfdbg_cli.common.memory import unnoticed_memory
from tfdbg_cli.engines.tensorflow.shared import guard
from tfdbg_cli.engines.tensorflow.shared.private import prepared_call
from tfdbg_cli.engines.tensorflow.shared.values import apart, plain

__all__ = ["Extras", "PreparedFetches"]


def _references(arrays: Sequence[Any], at: int) -> int:
    """How many there are to an array in a list, as this interpreter counts its own here."""
    array = arrays[at]
    return sys.getrefcount(array)


# To one that nobody else has.
_FREE = _references([np.empty(0)], 0)


class PreparedFetches:
    """The tensors of a run, those that the program asks for and those that are fetched besides.

    ``Session.run`` takes what it is to fetch apart and puts it together again tensor by tensor, in
    Python and in each run. So it only gets what the program asks for; the rest goes to the
    runtime directly, through a callable of the session's where that does the same.

    Args:
        feeds: the tensors that are fed, in order.
        fetches: those that the program asks for, in order, without what is fed.
        targets: the operations that it asks for.
        extra: the tensors to fetch besides; none of them is fed.
        ahead: variables that are read before the run.
    """

    def __init__(
        self,
        feeds: Sequence[Any],
        fetches: Sequence[Any],
        targets: Sequence[Any],
        extra: Sequence[Any],
        ahead: Sequence[Any] = (),
    ) -> None:
        self._feeds, self._fetches, self._targets = feeds, fetches, targets
        self._ahead = ahead
        self.count = len(extra)
        self.tensors, self.places = self._joined(extra, fetches)
        self._calls: dict[str, Callable[..., Any] | None] = {}
        self._reading: Callable[..., Any] | None = None
        self._copies: list[Any] = []

    @staticmethod
    def _joined(extra: Sequence[Any], fetches: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """All tensors, those to fetch besides first, and where the program's are among them."""
        tensors = list(extra)
        known = {id(tensor): place for place, tensor in enumerate(tensors)}
        for tensor in fetches:
            if id(tensor) not in known:
                known[id(tensor)] = len(tensors)
                tensors.append(tensor)
        return tensors, [known[id(tensor)] for tensor in fetches]

    def fits(
        self, feeds: Mapping[Any, Any], fetches: Sequence[Any], targets: Sequence[Any]
    ) -> bool:
        """Whether a run is the one that was prepared: a program's own ``run`` may change it."""
        return (
            _are_same(fetches, self._fetches)
            and _are_same(targets, self._targets)
            and _are_same([key.deref() for key in feeds], self._feeds)
        )

    def others(self, fetches: Sequence[Any]) -> tuple[list[Any], list[int]]:
        """As `tensors` and `places`, for other fetches of the program's."""
        return self._joined(self.tensors[: self.count], fetches)

    def call(self, session: Any, debug: Any) -> Callable[..., Any] | None:
        """A callable that takes the session and the values of the feeds; ``None``: there is none.

        Args:
            session: of the run, in this process.
            debug: the debug options; ``None``: none.
        """
        url = debug.debug_tensor_watch_opts[0].debug_urls[0] if debug is not None else ""
        if url not in self._calls:
            options = config_pb2.CallableOptions()
            options.feed.extend(tensor.name for tensor in self._feeds)
            options.fetch.extend(tensor.name for tensor in self.tensors)
            options.target.extend(op.name for op in self._targets)
            if debug is not None:
                options.run_options.debug_options.CopyFrom(debug)
            with guard.bypass():
                self._calls[url] = prepared_call(session, options)
        return self._calls[url]

    def read_ahead(
        self, session: Any, known: Mapping[Any, Any] = MappingProxyType({})
    ) -> list[Any]:
        """The values of the variables as they are now, in memory of their own.

        Args:
            session: in this process.
            known: variables that were read just now, as the operations that hold them.

        Raises:
            Exception: one has no value, or the session is closed.
        """
        if all(tensor.op in known for tensor in self._ahead):  # mostly there is none
            return self._copied([known[tensor.op] for tensor in self._ahead])
        if self._reading is None:
            names = [tensor.name for tensor in self._ahead]
            with guard.bypass():
                options = config_pb2.CallableOptions(fetch=names)
                self._reading = prepared_call(session, options)
        assert self._reading is not None
        # What is given is the memory that updates write to.
        return self._copied(self._reading(session, ()))

    def _copied(self, values: Sequence[Any]) -> list[Any]:
        """Copies of what variables hold, in memory of an earlier run that nobody has any more.

        New memory is given to a process page by page, which may take longer than to copy. Between
        two runs no more of it is held than nobody notices.
        """
        before, self._copies = self._copies, []
        for at, value in enumerate(map(plain, values)):
            is_free = at < len(before) and _references(before, at) == _FREE
            if is_free and (before[at].shape, before[at].dtype) == (value.shape, value.dtype):
                np.copyto(before[at], value)
                self._copies.append(before[at])
            else:
                self._copies.append(np.array(value))
        copies = list(self._copies)
        if sum(each.nbytes for each in copies) > unnoticed_memory():
            self._copies = []
        return copies


class Extras:
    """The tensors that one run fetches besides what it is asked for.

    Args:
        prepared: what it is expected to ask for.
        debug: its debug options; ``None``: none.
        is_plain: the program has given no options, asks for no metadata, and the runtime is in
            this process.

    Attributes:
        values: their values; ``None``: they haven't come.
    """

    def __init__(self, prepared: PreparedFetches, debug: Any, is_plain: bool) -> None:
        self._prepared, self._debug, self._is_plain = prepared, debug, is_plain
        self.values: list[Any] | None = None

    def run(
        self,
        plain: Callable[..., list[Any]],
        session: Any,
        handle: Any,
        targets: Sequence[Any],
        fetches: Sequence[Any],
        feeds: Mapping[Any, Any],
        options: Any,
        metadata: Any,
    ) -> list[Any]:
        """The session's call of the runtime, with these tensors as well.

        Args:
            plain: what it does without them.
            session: which; ``None``: others want to have a say in it, too.
            handle, targets, fetches, feeds, options, metadata: as ``plain`` takes them.

        Returns:
            The values of ``fetches``.
        """
        prepared, call = self._prepared, None
        tensors, places = prepared.tensors, prepared.places
        if not prepared.fits(feeds, fetches, targets):
            tensors, places = prepared.others(fetches)
        elif self._is_plain and session is not None:
            call = prepared.call(session, self._debug)
        if call is not None:
            found = call(session, feeds.values())
        else:
            found = plain(handle, targets, tensors, feeds, options, metadata)
        self.values = found[: prepared.count]
        return [apart(found[place]) for place in places]


def _are_same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))
