"""What a run of the NumPy engine can raise; every error names the operation it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tfdbg_cli.engines.numpy.nodes import Operation

__all__ = ["FailedPreconditionError", "InvalidArgumentError", "OpError", "ResourceExhaustedError"]


class OpError(Exception):
    """An operation failed while a session ran it; the message is one sentence, without its name."""

    def __init__(self, op: Operation, message: str) -> None:
        super().__init__(op, message)
        self.op = op
        self.message = message

    @property
    def node_name(self) -> str:
        """The name of the operation."""
        return self.op.name

    def __str__(self) -> str:
        return f"{self.message} [[node {self.op.name} ({self.op.type})]]"


class InvalidArgumentError(OpError):
    """An input has a wrong shape, type or value, or a placeholder was not fed."""


class FailedPreconditionError(OpError):
    """The session isn't in the state that the operation needs: a variable has no value yet."""


class ResourceExhaustedError(OpError):
    """There is not enough memory for the result."""
