"""Where the processes of a JAX program meet: the service of ``jax.distributed``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.engines.base import KeyMeeting, Meeting
from tfdbg_cli.engines.jax.private import distributed_state
from tfdbg_cli.engines.kit.program import RunsAdapter

__all__ = ["AllProcesses", "JaxAdapter"]

# Apart from the keys of the program, of JAX and of the meeting.
_PREFIX = "tfdbg/together/"
_LOOK_MS = 50  # where the service can't be asked without waiting
# How long the others are waited for the first time, and after they haven't come once and twice.
_PATIENCE_MS = (5_000, 1_000, 1_000)


class CoordinatedMeeting(KeyMeeting):
    """The service that ``jax.distributed.initialize`` starts in process 0.

    Args:
        rank: of this process.
        size: how many there are.
        client: of the service.
        whereabouts: tells where the program is.
    """

    counts_alone = True  # most programs of JAX know it by their own arguments

    def __init__(self, rank: int, size: int, client: Any, whereabouts: Callable[[], str]) -> None:
        super().__init__(rank, size, whereabouts)
        self._client = client

    def set_key(self, key: str, text: str) -> None:
        self._client.key_value_set(key, text)

    def get_key(self, key: str) -> str | None:
        return _found(self._client, key)


class JaxAdapter(RunsAdapter):
    """The program as the wrapper session sees it."""

    def meeting(self) -> Meeting | None:
        """The service's, once the program has asked for it."""
        found = distributed_state()
        return CoordinatedMeeting(*found, self.session.runs.where) if found is not None else None


class AllProcesses:
    """Lets all processes do a call again at once, or none.

    What is spread over them they can only compute together. Who waits in vain three times in a row
    doesn't any more: nobody debugs the others.
    """

    def __init__(self) -> None:
        self._missed = 0
        self._last = ""

    def any(self, name: str, wants: bool) -> bool | None:
        """Whether one of them wants it; ``None``: they aren't all here.

        Args:
            name: what they are about to do, the same for all, and another one each time.
            wants: whether this one does.
        """
        found = distributed_state()
        if found is None or self._missed == len(_PATIENCE_MS):
            return None
        rank, size, client = found
        key = f"{_PREFIX}{name}"
        with contained:
            client.key_value_set(f"{key}/{rank}", str(int(wants)))
            client.wait_at_barrier(key, _PATIENCE_MS[self._missed])
            self._missed = 0
            answers = [_found(client, f"{key}/{each}") for each in range(size)]
            if self._last:  # read by all: they were at this barrier since
                client.key_value_delete(self._last)
            self._last = f"{key}/{rank}"
            return "1" in answers
        self._missed += 1
        return None


def _found(client: Any, key: str) -> str:
    if hasattr(client, "key_value_try_get"):
        return str(client.key_value_try_get(key))
    return str(client.blocking_key_value_get(key, _LOOK_MS))  # before JAX 0.5
