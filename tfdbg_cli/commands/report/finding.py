"""What a filter has found in a run, in a few facts: for gates, logs and other programs."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.graph.verdict import as_page, first_origin, given_to, spread_to, verdict
from tfdbg_cli.commands.json_lines import head
from tfdbg_cli.commands.tensors.facts import TensorFacts
from tfdbg_cli.commands.tensors.health import TensorHealth
from tfdbg_cli.commands.units import describe_run
from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.files import near_path
from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.common.printable import printable
from tfdbg_cli.dumps.dump import Datum, Dump, Predicate, is_explained
from tfdbg_cli.dumps.graph import Graph, node_name_of
from tfdbg_cli.dumps.sources import Frame, model_frame, own_frame
from tfdbg_cli.filters.causes.find import cause_of, forward_op
from tfdbg_cli.filters.lineage import TensorLineage
from tfdbg_cli.remedies.tried import tried_at_stop
from tfdbg_cli.tensors.badness import find_bad

__all__ = ["Finding", "find_in"]

_MOST_INPUTS, _MOST_SPREAD, _MOST_ELEMENTS = 6, 20, 20


@dataclass
class Finding:
    """A run in which a tensor has passed a filter.

    Attributes:
        filter: its name.
        run: what the run is called, with its number.
        number: of the run; 0: not known.
        framework: the engine's name.
        facts: the tensor in which it began, or the first one that passed, see `_facts`; empty:
            that can't be told.
        reason: ``kind``, ``text`` and ``elements``, where it can be shown.
        advice: what people do about it.
        fixes: the remedies that were tried, as `TriedRemedy.record` has them.
        file, line, function, text: of the program, where it was made; line 0: not known.
        inputs: what it was computed from.
        spread_to: what it has spread to: the same with ``kind`` and ``as``, the program's name.
        dump: the folder of the run; empty: it wasn't kept.
        story: the text of ``why``.
    """

    filter: str
    run: str
    number: int = 0
    framework: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    reason: dict[str, Any] = field(default_factory=dict)
    advice: str = ""
    fixes: list[dict[str, Any]] = field(default_factory=list)
    file: str = ""
    line: int = 0
    function: str = ""
    text: str = ""
    library: dict[str, Any] | None = None
    inputs: list[dict[str, Any]] = field(default_factory=list)
    spread_to: list[dict[str, Any]] = field(default_factory=list)
    dump: str = ""
    story: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, context: Context, begin: Datum) -> Finding:
        """What is known of a tensor in which something bad began.

        Args:
            context: of the stop.
            begin: the tensor.
        """
        info = context.run_info
        number = info.number or info.call_count
        finding = cls(info.filter_name, describe_run(context.run_info), number, info.engine)
        _describe(finding, context.need_dump(), begin, is_origin=True)
        return finding

    def record(self) -> dict[str, Any]:
        """The structure of docs/json.md."""
        place = {"file": self.file, "line": self.line}
        place |= {"function": self.function, "text": self.text}
        return {
            **head(self.framework, self.run, self.number),
            "filter": self.filter,
            "tensor": self.facts or None,
            "line": place if self.line else None,
            "library_line": self.library,
            "reason": self.reason or None,
            "advice": self.advice,
            "fixes": self.fixes,
            "inputs": self.inputs,
            "spread_to": self.spread_to,
            "dump": self.dump,
        }

    @property
    def tensor(self) -> str:
        """The name of the tensor."""
        return str(self.facts.get("name", ""))

    @property
    def health(self) -> str:
        """``float32 [2] 1 -inf of 2``."""
        return _health(self.facts)

    @property
    def place(self) -> str:
        """``train.py:12``, as short as it goes from here; empty: not known."""
        return f"{near_path(self.file)}:{self.line}" if self.line else ""

    @property
    def headline(self) -> str:
        """It on one line."""
        at = f" at {self.place}" if self.place else ""
        return f"{self.filter}: {self.tensor or 'a tensor'} in {self.run}{at}"

    @property
    def first_line(self) -> str:
        """``train.py:12: filter: tensor in run: reason``, as compilers tell errors."""
        why = f": {self.reason['text']}" if self.reason else ""
        said = f"{self.filter}: {self.tensor or 'a tensor'} in {self.run}{why}"
        return f"{self.place}: {said}" if self.place else said

    def annotation(self, environment: Mapping[str, str]) -> str:
        """The line that GitHub's runners show beside the source.

        See "Workflow commands for GitHub Actions": https://docs.github.com/actions/reference.
        """
        root = environment.get("GITHUB_WORKSPACE", "")
        file = os.path.relpath(self.file, root) if root and self.line else self.file
        given = {"file": file, "line": str(self.line)} if self.line else {}
        given["title"] = f"tfdbg: {self.filter}"
        said = ",".join(f"{key}={_property(value)}" for key, value in given.items())
        why = f": {self.reason['text']}" if self.reason else ""
        return f"::error {said}::{_data(f'{self.tensor} {self.health} in {self.run}{why}')}"


def find_in(
    context: Context, predicates: Mapping[str, Predicate], run: str, allowed: str = ""
) -> Finding:
    """What has passed in the run of a stop.

    Args:
        context: of the stop.
        predicates: the filters that were awaited, by name.
        run: what the run is called.
        allowed: a regular expression: nodes in whose names it is found may be bad.
    """
    info = context.run_info
    number = info.number or info.call_count
    finding = Finding(",".join(predicates), run, number, info.engine)
    dump = context.dump
    if dump is None:
        return finding
    try:
        begin, is_origin = _begin(dump, predicates, finding, allowed)
        if begin is not None:
            _describe(finding, dump, begin, is_origin=is_origin)
    except Exception as error:  # a value that can't be read
        pass_on(error)
        finding.story = [f"The origin can't be found: {one_line(error)}"]
    return finding


def _begin(
    dump: Dump, predicates: Mapping[str, Predicate], finding: Finding, allowed: str
) -> tuple[Datum | None, bool]:
    exclude = re.compile(allowed) if allowed else None

    passing: dict[str, Datum] = {}
    for name, predicate in predicates.items():
        first = next(dump.passing(predicate, exclude), None)
        if first is not None:
            passing[name] = first
    if not passing:
        return None, False
    finding.filter = min(passing, key=lambda name: passing[name].timestamp)
    first = passing[finding.filter]
    origin = first_origin(dump, exclude)
    if origin is None or not TensorLineage.of(dump).bad(first):
        return first, is_explained(predicates[finding.filter])
    if exclude is not None and origin.timestamp > first.timestamp:
        return first, False  # it was made bad by one that may be
    return origin, True


def _describe(finding: Finding, dump: Dump, begin: Datum, *, is_origin: bool) -> None:
    graph = dump.graph() or Graph([])
    node = graph.nodes.get(begin.node_name)
    health = TensorHealth(TensorFacts(dump))
    finding.facts = _facts(health, begin.tensor_name, begin)
    lineage = TensorLineage.of(dump)
    cause = cause_of(lineage, begin) if is_origin else None
    if cause is not None:
        finding.advice = printable(cause.advice)
        finding.reason = {"kind": cause.kind, "text": printable(cause.text)}
        finding.reason["elements"] = _elements(dump, begin)
        finding.fixes = [each.record() for each in tried_at_stop(dump, begin)]
    if node is not None:
        frames = (forward_op(graph, node, cause) or node).frames or ()
        frame, inner = own_frame(frames), model_frame(frames)
        if frame is not None:
            finding.file, finding.line = frame.file, frame.line
            place = _place(dump, frame)
            finding.function, finding.text = place["function"], place["text"]
        if inner is not None:
            finding.library = _place(dump, inner)
        for name, given in given_to(dump, begin)[:_MOST_INPUTS]:
            finding.inputs.append(_facts(health, name, given))
    if is_origin:
        for kind, own, datum in spread_to(dump, begin)[:_MOST_SPREAD]:
            found = _facts(health, datum.tensor_name, datum)
            finding.spread_to.append({"kind": kind, "as": printable(own), **found})
        finding.story = [printable(each.text) for each in as_page(verdict(dump, begin))]
    else:
        op = finding.facts["op"]
        finding.story = [f"First: [{op}] {finding.tensor}  {finding.health}"]
        if finding.place:
            finding.story.append(f"Line:  {finding.place}  {finding.text}".rstrip())


def _place(dump: Dump, frame: Frame) -> dict[str, Any]:
    lines = dump.sources().lines(frame.file) or ()
    shown = lines[frame.line - 1].strip() if frame.line <= len(lines) else frame.text
    place = {"file": frame.file, "line": frame.line, "function": printable(frame.function)}
    return {**place, "text": printable(shown)}


def _facts(health: TensorHealth, name: str, datum: Datum | None) -> dict[str, Any]:
    """A tensor in a few facts; counts are ``None`` where its value isn't there."""
    facts = health.facts
    found: dict[str, Any] = {"name": printable(name), "op": "", "dtype": None, "shape": None}
    node = facts.dump.node(node_name_of(name))
    found["op"] = printable(node.op_type) if node is not None else ""
    counts: dict[str, int | None] = dict.fromkeys(("nan", "neg_inf", "pos_inf", "size"))
    if datum is not None:
        shape = facts.facts(datum).shape
        found["dtype"] = facts.facts(datum).dtype
        found["shape"] = None if shape is None else list(shape)
        counted = health.of(datum)
        if counted is not None:
            counts |= {"nan": counted.nan, "neg_inf": counted.neg_inf, "pos_inf": counted.pos_inf}
        counts["size"] = None if shape is None else math.prod(shape)
    return {**found, **counts}


def _health(facts: Mapping[str, Any]) -> str:
    """What `_facts` says, in words."""
    if not facts:
        return ""
    labels = {"nan": "nan", "neg_inf": "-inf", "pos_inf": "+inf"}
    bad = ", ".join(f"{facts[key]} {label}" for key, label in labels.items() if facts[key])
    size = "" if facts["size"] is None else f" of {facts['size']}"
    shape = "" if facts["shape"] is None else str(facts["shape"])
    return " ".join(filter(None, [facts["dtype"], shape, f"{bad}{size}" if bad else ""]))


def _elements(dump: Dump, datum: Datum) -> list[list[int]]:
    """The first elements that are bad; none, where that can't be told."""
    try:
        places = find_bad(np.asarray(dump.value(datum)), _MOST_ELEMENTS).places
    except UserError:
        return []
    return [list(map(int, place)) for place in places]


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
