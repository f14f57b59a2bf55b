"""Pieces of lines that many screens have: an op's type, a node, a line of the program."""

from __future__ import annotations

from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.common.documents import Link, Span
from tfdbg_cli.dumps.elements import node_name_of
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.sources import Sources
from tfdbg_cli.tensors.statistics import Health

__all__ = ["bad_spans", "node_span", "op_span", "source_span"]


def op_span(node: Node | None) -> Span:
    """The type of an op, in front of its name."""
    return Span(f"[{node.op_type if node is not None else '?'}] ", "op_type")


def node_span(graph: Graph | None, name: str, text: str = "") -> Span:
    """A node, or a tensor of one, that leads to all about the node if the graph has it.

    Args:
        text: shown for it; empty: the name.
    """
    is_known = graph is not None and node_name_of(name) in graph
    link = Link(f"ni -a -d -t {quoted(name)}") if is_known else None
    return Span(text or name, "link" if link else "", link)


def source_span(
    sources: Sources | None, file: str, number: int | str, text: str = "", otherwise: str = ""
) -> Span:
    """A line of a source file, that leads there if the text of the file is known.

    Args:
        text: shown for it; empty: the file and the line.
        otherwise: the role of what leads nowhere.
    """
    is_known = sources is not None and sources.lines(file) is not None
    link = Link(f"ps {quoted(file)} -b {number}") if is_known else None
    return Span(text or f"{file}:{number}", "link" if link else otherwise, link)


def bad_spans(health: Health, between: str = ", ") -> list[Span]:
    """How many elements are nan, -inf and +inf; none where all are finite."""
    spans: list[Span] = []
    for count, name in health.kinds:
        spans += [Span(between)] if spans else []
        spans.append(Span(f"{count} {name}", "nan" if name == "nan" else "inf"))
    return spans
