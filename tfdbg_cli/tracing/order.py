"""The order in which a run computes its tensors, and what is said of names that don't fit it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tfdbg_cli.common.errors import did_you_mean
from tfdbg_cli.dumps.elements import (
    node_name_of,
    parse_execution,
    parse_tensor_name,
    tensor_name_of,
)
from tfdbg_cli.engines.base import SteppedRun
from tfdbg_cli.tracing.errors import AbsentError, OutOfOrderError, TraceError

__all__ = ["Order", "tensor_name"]

_AROUND = 2
# ``path/op:slot`` of a module's first call, ``path-2/op:slot`` of its third.
_OF_CALL = re.compile(r"(?P<path>[^/]+?)(?:-(?P<call>\d+))?/(?P<rest>[^/]+)")
_KEEP = "Ask in this order, or keep every value: trace(..., keep=True)."


def tensor_name(key: Any) -> str:
    """The name of a tensor, ``node:slot``.

    Args:
        key: a name, without a slot that of output 0; or something of the framework's that has one.

    Raises:
        TraceError: it is neither.
    """
    name = key if isinstance(key, str) else getattr(key, "name", None)
    if not isinstance(name, str) or not name:
        raise TraceError(
            f"A trace block knows tensors by name; this is a {type(key).__name__}.",
            'Write t["node:0"]; a parameter of a module is t["layer.weight"].',
        )
    return tensor_name_of(name)


class Order:
    """Which step of a run makes a tensor, and which use it.

    Args:
        run: its steps; of one that is open-ended, those that were done are known.
    """

    def __init__(self, run: SteppedRun) -> None:
        self._run = run
        self._seen = 0
        self._makers: dict[str, int] = {}
        self._members: dict[str, int] = {}
        self._readers: dict[str, int] = {}

    def _learn(self) -> None:
        steps = self._run.done if self._run.is_open_ended else self._run.steps
        known = len(steps)
        if known < self._seen:  # steps were undone
            self._seen = 0
            for found in (self._makers, self._members, self._readers):
                found.clear()
        for index in range(self._seen, known):
            step = steps[index]
            for name in step.outputs:
                self._makers[name] = index
            for node in (*step.members, step.node):
                self._members[node] = index
            for name in step.inputs:
                self._readers.setdefault(name, index)
        self._seen = known

    def maker(self, name: str) -> int | None:
        """The index of the step that makes a tensor; ``None``: none does, or none yet."""
        self._learn()
        name = self._run.resolve(parse_execution(name)[0])
        found = self._makers.get(name)
        return self._members.get(node_name_of(name)) if found is None else found

    def latest(self, name: str) -> str:
        """The name of a tensor in the last call of its module up to now.

        Args:
            name: of a tensor of the module's first call; any other is that of itself.
        """
        self._learn()
        asked = _OF_CALL.fullmatch(name)
        if asked is None or asked["call"] is not None:
            return name
        found, last = name, -1
        for other, index in self._makers.items():
            made = _OF_CALL.fullmatch(other)
            if made is not None and (made["path"], made["rest"]) == (asked["path"], asked["rest"]):
                found, last = (other, index) if index > last else (found, last)
        return found

    def is_of_one_call(self, name: str) -> bool:
        """Whether a name says which call of its module is meant, or is not a module's."""
        found = _OF_CALL.fullmatch(name)
        return found is None or found["call"] is not None

    def coming(self, name: str) -> str:
        """The name that a tensor of a module's call will have in its next call."""
        asked = _OF_CALL.fullmatch(name)
        if asked is None:
            return name
        calls = [
            int(made["call"] or 0)
            for made in map(_OF_CALL.fullmatch, self._makers)
            if made is not None and made["path"] == asked["path"]
        ]
        return f"{asked['path']}-{max(calls, default=-1) + 1}/{asked['rest']}"

    def reader(self, name: str) -> int | None:
        """The index of the first step that uses a tensor."""
        self._learn()
        return self._readers.get(self._run.resolve(name))

    def passed(self, name: str, index: int) -> OutOfOrderError:
        """The error for a tensor whose step was done before others that were asked for."""
        last = self._run.position - 1
        return OutOfOrderError(
            f"{name} was computed before {self._node(last)}, which the run has done already.\n"
            f"{self._window({index: 'asked for', last: 'done last'})}\n{_KEEP}"
        )

    def used(self, name: str, index: int | None, reader: int) -> OutOfOrderError:
        """The error for a change of a tensor that was used already."""
        last = self._run.position - 1
        marks = {reader: "has used it", last: "done last"}
        if index is not None:
            marks.setdefault(index, "makes it")
        if reader == last:
            marks[reader] = "has used it, done last"
        return OutOfOrderError(
            f"{name} can't be changed any more: {self._node(reader)} has used it already.\n"
            f"{self._window(marks)}\nAssign to it before anything is read that comes later."
        )

    def gone_on(self, name: str) -> OutOfOrderError:
        """The error for a change of a tensor after which ops were done that nobody watched."""
        return OutOfOrderError(
            f"{name} can't be changed any more: the run has gone on.",
            "Assign to it before anything else is read; or watch every op: trace(..., keep=True).",
        )

    def ahead(self, name: str) -> OutOfOrderError:
        """The error for reading something that the block itself has yet to compute."""
        marks = {self._run.position - 1: "done last"}
        known = f"\n{self._window(marks)}" if self._run.position else ""
        return OutOfOrderError(
            f"{name} has not been computed up to here.{known}\n"
            "Every statement of this block is part of the run: read it after the call that "
            "computes it."
        )

    def unknown(self, name: str) -> AbsentError:
        """The error for a name that no step of the run makes."""
        self._learn()
        node, slot = parse_tensor_name(name)
        at = self._members.get(node)
        if at is not None:
            step = self._run.steps[at]
            if step.node != node:
                out = ", ".join(step.outputs) or "none"
                return AbsentError(
                    f"{name} is computed inside {step.node}, which is done as one step, and has "
                    "no value outside of it.",
                    f"Its outputs: {out}.",
                )
            outputs = [item for item in step.outputs if node_name_of(item) == node]
            if not outputs:
                return AbsentError(f"{node} ({step.op_type}) has no outputs.")
            return AbsentError(f"{node} has no output {slot}.", f"It has {', '.join(outputs)}.")
        graph = self._run.graph()
        if graph is not None and node in graph:
            return AbsentError(
                f"{name} is in the graph, but this run doesn't compute it.",
                "Add it to the fetches.",
                is_elsewhere=True,
            )
        is_open_ended = self._run.is_open_ended
        what = "The run has made no" if is_open_ended else "There is no"
        hint = did_you_mean(name, {**self._makers, **self._readers})
        first = f"{what} tensor {name}. {hint}".rstrip()
        position = self._run.position
        mark = {position: "next"} if self._run.next is not None else {position - 1: "the last one"}
        return AbsentError(f"{first}\n{self._window(mark)}", is_elsewhere=is_open_ended)

    def lacks(self, name: str) -> bool:
        """Whether the node of a tensor is a step of the run, and has no such output."""
        self._learn()
        at = self._members.get(node_name_of(name))
        return at is not None and name not in self._makers and not self._run.has(name)

    def _node(self, index: int) -> str:
        steps = self._run.steps
        return steps[index].node if 0 <= index < len(steps) else "the end"

    def _window(self, marks: dict[int, str]) -> str:
        """The order of the nodes around some of them, one a line, numbered from 1."""
        return "\n".join(self._lines(marks))

    def _lines(self, marks: dict[int, str]) -> Iterator[str]:
        steps = self._run.steps
        shown: set[int] = set()
        for index in marks:
            shown |= {*range(index - _AROUND, index + _AROUND + 1)}
        before = -1
        for index in sorted(shown & {*range(len(steps))}):
            if index > before + 1:
                yield "        …"
            before = index
            mark = f"  <--- {marks[index]}" if index in marks else ""
            yield f"  {index + 1:6}  {steps[index].node}{mark}"
        if before + 1 < len(steps):
            yield "        …"
