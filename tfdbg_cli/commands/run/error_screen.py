"""The screen after a run that failed: which op, what it was given, the line, what it said."""

from __future__ import annotations

import argparse

from tfdbg_cli.commands.context import DUMP_MODES, PROFILE_MODES, STEPPER_MODES, Context
from tfdbg_cli.commands.graph.verdict import first_origin, verdict
from tfdbg_cli.commands.json_lines import JSON_ARGUMENT, json_document
from tfdbg_cli.commands.registry import Command, Result
from tfdbg_cli.commands.run.records import error_record
from tfdbg_cli.commands.run.run_info import list_item
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.spans import source_span
from tfdbg_cli.common.documents import Line, Link, MenuItem, Span, TextDocument, line
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.node_words import output_shapes
from tfdbg_cli.dumps.dump import Dump, RunError
from tfdbg_cli.dumps.graph import Graph, Node, node_name_of, parse_tensor_name
from tfdbg_cli.dumps.sources import is_library_path
from tfdbg_cli.filters.causes.ops import forward_node

__all__ = ["COMMANDS", "error_document"]

# An op of more inputs (a fused optimizer's step) is better looked at with li.
_MOST_INPUTS = 12
# Of larger dumps not all values are looked at before the first screen is there.
_MOST_BYTES = 64 << 20
_RAISED = "The error is raised in the program when you leave this stop with run or exit."
_WHEN = {False: "occurred during the run", True: "was raised by the program after the run"}


def error_document(context: Context) -> TextDocument:
    """The screen after a run that failed."""
    error = context.run_info.error
    assert error is not None
    dump = context.dump
    graph = dump.graph() if dump is not None else None
    node = dump.node(error.op_name) if dump is not None else None
    lister = "lp" if context.mode in PROFILE_MODES else "lt"
    lines = [
        line((f"!!! An error {_WHEN[error.is_late]} !!!", "error")),
        line(),
        *([line(_RAISED), line()] if context.is_live else []),
        *_ways(context, error, node, lister),
        line(),
    ]
    if not error.is_late:
        lines.append(line("Op name:    ", (error.op_name or "(unknown)", "bold")))
    if dump is not None and graph is not None and node is not None and node.inputs:
        lines += _inputs(dump, graph, node)
    lines.append(line("Error type: ", (error.type_name, "bold")))
    lines += _places(dump, error, node)
    lines += [line(), line("Details:")]
    lines += [line(f"  {text}") for text in error.message.splitlines() or [""]]
    bad = _what_went_bad(dump, context.width) if dump is not None else []
    context.extra["loss is told"] = bool(bad) or context.extra.get("loss is told", False)
    loss = context.take_loss()
    lines += bad or ([line(), *loss] if loss else [])
    return TextDocument(
        lines,
        title=f"An error occurred: {error.type_name}",
        title_role="error",
        menu=[list_item(context)._replace(command=lister), MenuItem("run_info", "run_info")],
    )


def _what_went_bad(dump: Dump, width: int) -> list[Line]:
    """The verdict on a nan or an infinity that began before the error; empty: there is none."""
    if sum(datum.dump_size_bytes or 0 for datum in dump.data()) > _MOST_BYTES:
        return []  # why looks for it
    begin = first_origin(dump)
    return [line(), *verdict(dump, begin, width)] if begin is not None else []


def _ways(context: Context, error: RunError, node: Node | None, lister: str) -> list[Line]:
    """What to look at next."""
    what = "op timings" if lister == "lp" else "tensors"
    dump = context.dump
    if dump is None:
        return [line(("This run was not debugged, so its tensors are not known.", "warning"))]
    if node is None:
        if context.run_info.kind != "run" and not dump.node_names():
            text = "This run was not debugged, so its ops and tensors are not known."
            return [line((text, "warning")), line(*_again(context))]
        head = Span("The error names no op of the graph.", "warning")
        if error.is_late:
            head = Span("The run itself was done.")
        lines = [line(head, " ", (lister, "link", lister), f" lists the {what}.")]
        if error.is_late and context.run_info.filter_name:
            name = context.run_info.filter_name
            command = f"lt -f {quoted(name)}"
            lines.append(line("  * ", (command, "link", command), f"  what passed {name}"))
        if error.file and dump.sources().lines(error.file) is not None:
            command = f"ps {quoted(error.file)} -b {error.line}"
            lines.append(line("  * ", (command, "link", command), "  the line that raised it"))
        return lines
    op = quoted(error.op_name)
    ways = [
        (f"ni -a -d -t {op}", "information about the failing op, where it was made"),
        (f"li -r {op}", "its inputs, recursively"),
        (lister, f"the {what.removeprefix('op ')} that were computed before"),
    ]
    if lister == "lp":
        ways[-1] = (lister, "the ops that were computed before")
    place = _line_of(error, node)
    if place is not None and dump.sources().lines(place[0]) is not None:
        ways.insert(2, (f"ps {quoted(place[0])} -b {place[1]}", "the line that made it"))
    return [
        line("You may use the following commands to find out more:"),
        *(line("  * ", (command, "link", command), f"  {text}") for command, text in ways),
    ]


def _again(context: Context) -> list[str]:
    count = context.run_info.call_count
    how = f"run -t {count}" if count > 1 else "run"
    return [f"{how} at the program's first stop debugs it."]


def _line_of(error: RunError, node: Node | None) -> tuple[str, int] | None:
    """The user's line that made the failing op, or else where the error was raised."""
    for frame in reversed((node.frames if node is not None else None) or ()):
        if not is_library_path(frame.file):
            return frame.file, frame.line
    return (error.file, error.line) if error.file else None


def _places(dump: Dump | None, error: RunError, node: Node | None) -> list[Line]:
    """The user's line that raised the error, where the engine tells it.

    An op of a backward pass was made by the line of its forward op: that is another one.
    """
    if not error.file:
        return []
    raised, made = (error.file, error.line), _line_of(error, node)
    graph = dump.graph() if dump is not None else None
    if made == raised and node is not None and graph is not None:
        forward = forward_node(graph, node)  # in a backward of the program's own
        made = _line_of(error, forward) if forward is not None else made
    lines = _place("Line:", dump, raised)
    return lines if made is None or made == raised else [*lines, *_place("Made at:", dump, made)]


def _place(label: str, dump: Dump | None, place: tuple[str, int]) -> list[Line]:
    sources = dump.sources() if dump is not None else None
    text = sources.line(*place) if sources is not None else ""
    lines = [line(f"{label:<12}", source_span(sources, *place))]
    return [*lines, line("            ", (text, "source"))] if text else lines


def _inputs(dump: Dump, graph: Graph, node: Node) -> list[Line]:
    """What the op was given, with dtypes and shapes as far as they are known."""
    lines: list[Line] = []
    width = max(len(tensor) for tensor in node.inputs[:_MOST_INPUTS])
    for tensor in node.inputs[:_MOST_INPUTS]:
        data = dump.by_tensor(tensor)
        link = Link(f"pt {quoted(tensor)}") if data else Link(f"ni {quoted(tensor)}")
        head = "Inputs:     " if not lines else " " * 12
        if node_name_of(tensor) not in graph:
            lines.append(line(head, tensor))
            continue
        pad = " " * (width - len(tensor) + 2)
        lines.append(line(head, Span(tensor, "link", link), pad, _type_of(dump, graph, tensor)))
    if len(node.inputs) > _MOST_INPUTS:
        left = len(node.inputs) - _MOST_INPUTS
        command = f"li {quoted(node.name)}"
        lines.append(line(" " * 12, (f"and {left} more: ", "dim"), (command, "link", command)))
    return lines


def _type_of(dump: Dump, graph: Graph, tensor: str) -> str:
    """``float32 (5, 8)`` of a tensor; of one that wasn't kept, as its node says."""
    data = dump.by_tensor(tensor)
    if data:
        shape = data[-1].shape
        return f"{data[-1].dtype} {shape if shape is not None else ''}".strip()
    node, slot = parse_tensor_name(tensor)
    found = graph.nodes[node].attributes
    shape = dict(enumerate(output_shapes(found))).get(slot or 0)
    known = f" {shape}" if shape is not None else ""
    return found.get("T", "") + known if not slot else known.strip()


def _show_error(context: Context, arguments: argparse.Namespace) -> Result:
    if context.run_info.error is None:
        raise UserError("This run did not fail.")
    if arguments.json:
        record = error_record(context.run_info.error)
        return json_document(1, lambda at: record)
    return error_document(context)


ERROR = Command(
    "error",
    ("err",),
    "run control",
    "Show the error of this run again.",
    _show_error,
    (JSON_ARGUMENT,),
    modes=DUMP_MODES - STEPPER_MODES,
    examples=(("error", "the failing op, its error and where to look"),),
)

COMMANDS = (ERROR,)
