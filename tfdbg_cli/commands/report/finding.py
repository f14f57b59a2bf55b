"""What a filter has found in a run, in a few facts: for gates, logs and other programs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.graph.node_origin import forward_of
from tfdbg_cli.commands.graph.verdict import first_origin, verdict
from tfdbg_cli.commands.tensors.facts import TensorFacts
from tfdbg_cli.commands.tensors.health import TensorHealth
from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.common.printable import printable
from tfdbg_cli.dumps.dump import Datum, Dump, Predicate
from tfdbg_cli.dumps.graph import Graph, node_name_of
from tfdbg_cli.dumps.sources import own_frame
from tfdbg_cli.filters.causes import cause_of
from tfdbg_cli.filters.lineage import TensorLineage

__all__ = ["Finding", "find_in"]

_MOST_INPUTS = 6


@dataclass
class Finding:
    """A run in which a tensor has passed a filter.

    Attributes:
        filter: its name.
        run: what the run is called, with its number.
        tensor: in which it began, or the first one that passed; empty: that can't be told.
        op: that made it.
        health: dtype, shape and what is bad, in words.
        why: the reason, where it can be shown.
        advice: what people do about it.
        file, line, function, text: of the program, where it was made; line 0: not known.
        inputs: what it was computed from: ``tensor`` and ``health`` of each.
        dump: the folder of the run; empty: it wasn't kept.
        story: the text of ``why``.
    """

    filter: str
    run: str
    tensor: str = ""
    op: str = ""
    health: str = ""
    why: str = ""
    advice: str = ""
    file: str = ""
    line: int = 0
    function: str = ""
    text: str = ""
    inputs: list[dict[str, str]] = field(default_factory=list)
    dump: str = ""
    story: list[str] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """For ``json``."""
        return asdict(self)

    @property
    def place(self) -> str:
        """``train.py:12``, as short as it goes from here; empty: not known."""
        return f"{_short(self.file)}:{self.line}" if self.line else ""

    @property
    def headline(self) -> str:
        """It on one line."""
        at = f" at {self.place}" if self.place else ""
        return f"{self.filter}: {self.tensor or 'a tensor'} in {self.run}{at}"

    def annotation(self, environment: Mapping[str, str]) -> str:
        """The line that GitHub's runners show beside the source.

        See "Workflow commands for GitHub Actions": https://docs.github.com/actions/reference.
        """
        root = environment.get("GITHUB_WORKSPACE", "")
        file = os.path.relpath(self.file, root) if root and self.line else self.file
        given = {"file": file, "line": str(self.line)} if self.line else {}
        given["title"] = f"tfdbg: {self.filter}"
        said = ",".join(f"{key}={_property(value)}" for key, value in given.items())
        why = f": {self.why}" if self.why else ""
        return f"::error {said}::{_data(f'{self.tensor} {self.health} in {self.run}{why}')}"


def find_in(context: Context, predicates: Mapping[str, Predicate], run: str) -> Finding:
    """What has passed in the run of a stop.

    Args:
        context: of the stop.
        predicates: the filters that were awaited, by name.
        run: what the run is called.
    """
    finding = Finding(",".join(predicates), run)
    dump = context.dump
    if dump is None:
        return finding
    try:
        begin, is_origin = _begin(dump, predicates, finding)
        if begin is not None:
            _describe(finding, dump, begin, is_origin=is_origin)
    except Exception as error:  # a value that can't be read
        pass_on(error)
        finding.story = [f"Where it began can't be told: {one_line(error)}"]
    return finding


def _begin(
    dump: Dump, predicates: Mapping[str, Predicate], finding: Finding
) -> tuple[Datum | None, bool]:
    passing: dict[str, Datum] = {}
    for name, predicate in predicates.items():
        found = dump.find(predicate, 1, on_error=lambda datum, error: None)
        if found:
            passing[name] = found[0]
    if not passing:
        return None, False
    finding.filter = min(passing, key=lambda name: passing[name].timestamp)
    first = passing[finding.filter]
    origin = first_origin(dump)
    is_bad = origin is not None and TensorLineage.of(dump).bad(first)
    return (origin, True) if is_bad else (first, False)


def _describe(finding: Finding, dump: Dump, begin: Datum, *, is_origin: bool) -> None:
    graph = dump.graph() or Graph([])
    node = graph.nodes.get(begin.node_name)
    health = TensorHealth(TensorFacts(dump))

    def words(datum: Datum) -> str:
        return " ".join("".join(span.text for span in health.words(datum)).split())

    finding.tensor, finding.health = printable(begin.tensor_name), words(begin)
    lineage = TensorLineage.of(dump)
    cause = cause_of(lineage, begin) if is_origin else None
    if cause is not None:
        finding.why, finding.advice = printable(cause.text), printable(cause.advice)
    if node is not None:
        finding.op = printable(node.op_type)
        frame = own_frame((forward_of(graph, node) or node).frames or ())
        if frame is not None:
            finding.file, finding.line = frame.file, frame.line
            lines = dump.sources().lines(frame.file) or ()
            shown = lines[frame.line - 1].strip() if frame.line <= len(lines) else frame.text
            finding.function, finding.text = printable(frame.function), printable(shown)
        for name in list(dict.fromkeys(node.inputs))[:_MOST_INPUTS]:
            given = lineage.as_given(begin, name)
            maker = graph.nodes.get(node_name_of(name))
            op = maker.op_type if maker is not None else ""
            said = words(given) if given is not None else ""
            finding.inputs.append({"tensor": printable(name), "op": op, "health": said})
    if is_origin:
        finding.story = [printable(each.text) for each in verdict(dump, begin)]
    else:
        finding.story = [f"First: [{finding.op}] {finding.tensor}  {finding.health}"]
        if finding.place:
            finding.story.append(f"Line:  {finding.place}  {finding.text}".rstrip())


def _short(path: str) -> str:
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):  # the folder is gone; another drive
        return path
    return path if relative.startswith("..") else relative


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
