"""Where the workers of a TensorFlow program meet: the coordination service of its cluster."""

from __future__ import annotations

from typing import Any

from tfdbg_cli.engines.base import KeyMeeting, Meeting
from tfdbg_cli.engines.kit.program import RunsAdapter
from tfdbg_cli.engines.tensorflow.functions.private import joined_cluster

__all__ = ["FunctionsAdapter"]

_WAIT_MS = 1  # without a limit it would wait until the key is there


class CoordinatedMeeting(KeyMeeting):
    """The service that ``MultiWorkerMirroredStrategy`` starts on its first worker.

    Args:
        rank: of this process.
        size: how many there are.
        runtime: TensorFlow's context.
    """

    def __init__(self, rank: int, size: int, runtime: Any) -> None:
        super().__init__(rank, size)
        self._runtime = runtime

    def set_key(self, key: str, text: str) -> None:
        self._runtime.set_config_key_value(key, text)

    def get_key(self, key: str) -> str | None:
        return str(self._runtime.get_config_key_value(key, _WAIT_MS))


class FunctionsAdapter(RunsAdapter):
    """The program as the wrapper session sees it."""

    def meeting(self) -> Meeting | None:
        """The cluster's, once the program has joined it."""
        runtime, server = joined_cluster()
        if server is None:
            return None
        jobs = {job.name: len(job.tasks) for job in server.cluster.job}
        size = jobs.get("chief", 0) + jobs.get("worker", 0)
        before = jobs.get("chief", 0) if server.job_name == "worker" else 0
        return CoordinatedMeeting(before + server.task_index, size, runtime) if size > 1 else None
