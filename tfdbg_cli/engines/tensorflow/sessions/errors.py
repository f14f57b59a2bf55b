"""Errors of a run, in few words."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from tensorflow.python.framework import errors_impl

from tfdbg_cli.common.errors import message_of
from tfdbg_cli.dumps.dump import RunError
from tfdbg_cli.dumps.run_info import late_error
from tfdbg_cli.engines.base import Capture
from tfdbg_cli.engines.tensorflow.sessions.install import open_doors
from tfdbg_cli.engines.tensorflow.shared import guard

__all__ = [
    "Attempt",
    "attempt",
    "attempt_late",
    "describe",
    "failed_op",
    "is_expected",
    "is_of_watch",
    "late",
    "name_op",
    "reason",
    "run_plainly",
    "unmasked",
]

_NODE = re.compile(r"\{\{node ([^}]*)\}\}")
# Where TensorFlow's own words end and kilobytes of creation stacks begin.
_TAIL = re.compile(
    r"\n\s*(Original stack trace for|Errors may have originated from|Operation defined at|"
    r"Input Source operations connected)|\n\nStack trace"
)
_EXPECTED = (
    errors_impl.OutOfRangeError,
    errors_impl.CancelledError,
    errors_impl.AbortedError,
    errors_impl.UnavailableError,
    errors_impl.DeadlineExceededError,
)

# Of an operation in a function's body an error has only the name inside the function.
_NAMED: weakref.WeakKeyDictionary[BaseException, str] = weakref.WeakKeyDictionary()


def attempt(run: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """The value of a run and ``None``, or ``None`` and the ``tf.errors.OpError`` it has raised.

    Raises:
        Exception: any other error; most are mistakes in the arguments.
    """
    try:
        return run(), None
    except Exception as raised:
        error = unmasked(raised)
        if not isinstance(error, errors_impl.OpError):
            raise
        return None, error


class Attempt(NamedTuple):
    """What came of a run.

    Attributes:
        value: what it returned.
        error: what it has raised; ``None``: nothing.
        late: what to tell of ``error``, if the program's own code has raised it after the
            runtime's work.
        is_done: whether the runtime has done its work.
    """

    value: Any
    error: BaseException | None
    late: RunError | None
    is_done: bool


def attempt_late(run: Callable[[], Any]) -> Attempt:
    """As `attempt`, where the program's own code may raise after the runtime's work.

    That is a ``run`` in a class of the program's, or what it has registered for a type of its own,
    which makes the result.

    Raises:
        BaseException: any error but the runtime's before it has done its work.
    """
    with open_doors(), guard.aside():
        before = guard.done()
        try:
            value, error = attempt(run)
        except BaseException as raised:
            if guard.done() == before:
                raise
            value, error = None, raised
        is_done = error is None or guard.done() != before
    return Attempt(value, error, late(error) if error is not None and is_done else None, is_done)


def run_plainly(run: Callable[[], Any]) -> Capture:
    """A run that isn't debugged, with whatever it has raised; see `attempt_late`."""
    value, error, late, _ = attempt_late(run)
    return Capture(value, None, error, late=late)


def unmasked(error: BaseException) -> BaseException:
    """The error of the run behind one that a debug node has caused in the error handling.

    TensorFlow looks up the node that an error names, and trips over the names of debug nodes.
    """
    if isinstance(error, ValueError) and not isinstance(error, errors_impl.OpError):
        real: BaseException | None = error.__context__
        if (
            real is not None
            and isinstance(real, errors_impl.OpError)
            and re.search("__(dbg|copy)_", message_of(error))
        ):
            return real
    return error


def is_of_watch(error: BaseException) -> bool:
    """Whether it was a debug operation that failed, and none of the program's."""
    return re.search(r"\{\{node __(dbg|copy)_", str(getattr(error, "message", ""))) is not None


def is_expected(error: BaseException) -> bool:
    """Whether it is the end of the data or of a worker: no mistake to look into."""
    return isinstance(error, _EXPECTED)


def failed_op(error: BaseException) -> str:
    """The name of the operation that failed, empty where the error doesn't tell."""
    op = getattr(error, "op", None)
    if op is not None:
        return str(op.name)
    node_def = getattr(error, "node_def", None)
    if node_def is not None:
        return str(node_def.name)
    match = _NODE.search(str(getattr(error, "message", "") or error))
    return _user_name(match[1]) if match is not None else ""


def _user_name(node: str) -> str:
    match = re.fullmatch(r"__dbg_(.+):\d+_\d+_\w+|__copy_(.+)_\d+", node)
    return (match[1] or match[2]) if match is not None else node


def describe(error: BaseException) -> RunError | None:
    """Type, message and operation of an error of a run; ``None`` for any other error."""
    if not isinstance(error, errors_impl.OpError):
        return None
    op_name = _NAMED.get(error) or failed_op(error)
    return RunError(type(error).__name__, _short(error), op_name)


def late(error: BaseException) -> RunError | None:
    """What to tell of an error that the program's own code has raised after the runtime's work."""
    is_ours = isinstance(error, errors_impl.OpError)
    return late_error(error, _short(error) if is_ours else None)


def reason(error: BaseException) -> str:
    """Type and message of an error, in one line."""
    described = describe(error)
    text = described.message.partition("\n")[0] if described is not None else str(error)
    return f"{type(error).__name__}: {text}"


def name_op(error: BaseException, name: str) -> None:
    """Say which node of the graph an error means, where its own words don't tell."""
    _NAMED[error] = name


def _short(error: Any) -> str:
    text = str(error.message or "")
    # "Graph execution error:\n\nDetected at node … Node: 'x'\n<what happened>\n\t [[{{node x}}]]"
    _, found, after = text.rpartition("\nNode: '")
    if found and "\n" in after:
        text = after.partition("\n")[2]
    cut = _TAIL.search(text)
    if cut is not None:
        text = text[: cut.start()]
    lines = [line.strip() for line in text.splitlines()]
    kept = [
        line for line in lines if line and not line.startswith(("[[", "0 successful operations"))
    ]
    return "\n".join(kept) or text.strip()
