"""Where ops come from whose Python frames don't say it: TorchScript, and graphs of ``torch.fx``.

Both keep the places of the source that they were made of.
"""

from __future__ import annotations

import functools
import re
import weakref
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

import torch

from tfdbg_cli.dumps.sources import Frame
from tfdbg_cli.engines.torch.private import gather_traceback, graph_line, symbolize_tracebacks

__all__ = ["graph_frames", "know_graph", "script_frames", "script_place"]

# By address, with the code that is there; those of modules that are gone are let go with them.
_graphs: dict[int, tuple[CodeType, weakref.ref[torch.nn.Module]]] = {}
_TRACE = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)')


#: Where TorchScript's interpreter is on this thread, for `script_frames`; cheap.
script_place: Callable[[], Any] = (
    functools.partial(gather_traceback, False, True, False)
    if gather_traceback is not None
    else lambda: None
)


def script_frames(place: Any) -> tuple[Frame, ...]:
    """The places in the source of TorchScript functions, outermost first; mostly there are none."""
    if place is None or symbolize_tracebacks is None:
        return ()
    found = [
        Frame(each["filename"], int(each["line"]), str(each["name"]).strip("<>"))
        for each in symbolize_tracebacks([place])[0]
        if int(each["line"]) > 0 and not each["filename"].startswith("<")
    ]
    return tuple(reversed(found))


def know_graph(module: torch.nn.Module) -> None:
    """A module is called; if its code was generated from a graph, that is asked for its lines."""
    code = getattr(getattr(type(module), "forward", None), "__code__", None)
    if code is None or not code.co_filename.startswith("<eval_with_key>"):
        return
    key = id(code)
    if key not in _graphs:
        _graphs[key] = (code, weakref.ref(module, lambda _: _graphs.pop(key, None)))


def graph_frames(code: CodeType, line: int) -> Iterator[Frame]:
    """The places in the source that a line of generated code was made of, innermost first."""
    known = _graphs.get(id(code))
    module: Any = known[1]() if known is not None and known[0] is code else None
    at = graph_line(module, line)
    if at is None:
        return
    nodes = list(module.graph.nodes)
    if not 0 <= at < len(nodes):
        return
    trace = str(nodes[at].meta.get("stack_trace") or "")
    for found in reversed(list(_TRACE.finditer(trace))):
        yield Frame(found["file"], int(found["line"]), found["function"])
