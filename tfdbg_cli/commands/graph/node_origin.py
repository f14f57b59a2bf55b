"""What a node says of the program around it: phase, module, API name, gradients, the call.

Engines that record what a program does (PyTorch) say it in attributes that begin with an
underscore. Nodes of others have none of these, and nothing of this module is shown for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.spans import op_span, source_span
from tfdbg_cli.commands.tensors.program_names import own_names_of
from tfdbg_cli.common.documents import Line, Link, Span, line
from tfdbg_cli.common.node_words import (
    API,
    BACKWARD,
    BACKWARD_CALLED_AT,
    ERROR,
    FORWARD_NODE,
    GRAD_OF,
    GRADIENTS,
    MODULE,
    MODULE_STACK,
    OPTIMIZER,
    OWN_BACKWARD,
    PHASE,
    VIEW,
    WRITES,
)
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.sources import own_frame
from tfdbg_cli.filters.causes.ops import forward_node, has_forward_frames

__all__ = [
    "call_lines",
    "gradient_lines",
    "origin_lines",
    "stack_heading",
    "stack_label",
]

_PLACE = re.compile(r"(?P<file>.+):(?P<line>\d+) in (?P<function>.+)")

# Forward op -> the ops that compute its gradients. A graph never changes.
_gradients: WeakKeyDictionary[Graph, dict[str, list[str]]] = WeakKeyDictionary()


def origin_lines(context: Context, graph: Graph, node: Node) -> list[Line]:
    """What is known besides op and device, a line each, for the head of a node's screen."""
    found = node.attributes
    own = own_names_of(context, node.name)
    lines = [_labelled("In the program", ", ".join(own))] if own else []
    if PHASE not in found:
        return lines
    forward = forward_node(graph, node)
    lines.append(_labelled("Phase", found[PHASE]))
    optimizer, parameter = _update(node)
    if optimizer:
        updates = [Span(f", of {optimizer}")]
        if parameter:
            updates += [Span(" for "), _node(graph, parameter)]
        lines[-1] = line(*lines[-1].spans, *updates)
    module = (forward or node).attributes.get(MODULE, "")
    if module:
        lines.append(_labelled("Module", module))
    api = (forward or node).attributes.get(API, "")
    if api:
        lines.append(_labelled("Called as", api if forward is None else f"{api} (forward)"))
    if forward is not None:
        lines.append(line(*_label("Gradient of"), _node(graph, forward.name)))
    elif GRAD_OF in found:
        lines.append(line(*_label("Gradient of"), _node(graph, found[GRAD_OF])))
    if VIEW in found:
        lines.append(_labelled("View", "its output shares the elements of an input"))
    if WRITES in found:
        lines.append(_labelled("Overwrites", found[WRITES]))
    if ERROR in found:
        lines.append(line(*_label("Raised"), (found[ERROR], "error")))
    return lines


def gradient_lines(graph: Graph, node: Node) -> list[Line]:
    """The ops that compute the gradients of a forward op."""
    found = _gradients_of(graph).get(node.name, []) if PHASE in node.attributes else []
    if not found:
        return []
    lines = [line(), line(f"  {len(found)} gradient op(s):")]
    for name in found:
        lines.append(line("      ", op_span(graph.nodes[name]), _node(graph, name)))
    return lines


def stack_label(node: Node) -> str:
    """What the innermost frame of a node is, in a word or two."""
    verb = "called" if PHASE in node.attributes else "made"
    return f"Forward op {verb} at" if has_forward_frames(node) else f"{verb.capitalize()} at"


def stack_heading(graph: Graph, node: Node) -> list[Line]:
    """The lines above the frames of a node; empty for nodes that were not called."""
    if PHASE not in node.attributes:
        return []
    is_forward = has_forward_frames(node)
    forward = forward_node(graph, node) if is_forward else None
    called = forward or node
    if forward is not None:
        head = [
            Span("Made by the forward op "),
            _node(graph, forward.name),
            Span(", called at:"),
        ]
    elif is_forward:
        head = [Span("Traceback of the forward op's call:", "heading")]
    elif OWN_BACKWARD in node.attributes:
        head = [Span("Traceback of the call in the function's own backward:", "heading")]
    elif node.attributes[PHASE] == BACKWARD and "/hook/" not in node.name:
        head = [Span("Made by a backward pass, called at:", "heading")]
    else:
        head = [Span("Traceback of the call:", "heading")]
    lines = [line(), line(*head)]
    stack = called.attributes.get(MODULE_STACK) or called.attributes.get(MODULE, "")
    api = called.attributes.get(API, "")
    text = " > ".join(part for part in (stack, api) if part)
    return [*lines, line(("  " + text, "info"))] if text else lines


def call_lines(dump: Dump, graph: Graph, node: Node) -> list[Line]:
    """What a node's frames don't say: where the backward pass was called, or the forward op."""
    forward, is_hook = forward_node(graph, node), "/hook/" in node.name
    if forward is None and not is_hook:
        return []
    if forward is not None and not is_hook and not has_forward_frames(node):
        frame = own_frame(forward.frames or ())
        if frame is None or frame == own_frame(node.frames or ()):
            return []
        verb = "called" if PHASE in node.attributes else "made"
        head = [Span("Gradient of "), _node(graph, forward.name), Span(f", {verb} at:")]
        return [line(), line(*head), *_place(dump, frame.file, frame.line)]
    text = node.attributes.get(BACKWARD_CALLED_AT, "")
    match = _PLACE.fullmatch(text)
    if match is None:
        return []
    heading = line(("The backward pass was called at:", "heading"))
    return [line(), heading, *_place(dump, match["file"], int(match["line"]))]


def _place(dump: Dump, file: str, number: int) -> list[Line]:
    """A line of the program, and its text where that is known."""
    source = dump.sources().line(file, number)
    lines = [line("  ", source_span(dump.sources(), file, number))]
    return [*lines, line("  Text:     ", (source, "source"))] if source else lines


def _label(text: str) -> tuple[Span, ...]:
    return (Span(f"  {text}: "),)


def _labelled(label: str, text: str) -> Line:
    return line(*_label(label), text)


def _node(graph: Graph, name: str) -> Span:
    link = Link(f"ni {quoted(name)}") if name in graph else None
    return Span(name, "link" if link else "", link)


def _update(node: Node) -> tuple[str, str]:
    """Optimizer and parameter of ``optimizer/Adam/fc1.weight/add_``; empty for other phases."""
    if node.attributes[PHASE] != OPTIMIZER:
        return "", ""
    parts = node.name.split("/")  # a parameter may have slashes in its name
    return (parts[1] if len(parts) > 2 else ""), "/".join(parts[2:-1])


def _gradients_of(graph: Graph) -> dict[str, list[str]]:
    found = _gradients.get(graph)
    if found is None:
        found = {}
        for node in _backward_nodes(graph):
            forward = node.attributes.get(FORWARD_NODE)
            if forward:
                found.setdefault(forward, []).append(node.name)
        _gradients[graph] = found
    return found


def _backward_nodes(graph: Graph) -> Iterable[Node]:
    """Those that may have a forward op: their attributes are made, and kept, by asking."""
    return (node for node in graph.nodes.values() if node.name.startswith(GRADIENTS))
