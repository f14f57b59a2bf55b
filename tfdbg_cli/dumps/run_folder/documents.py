"""What a run and the stacks of its nodes are as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tfdbg_cli.dumps.feeds import LazyFeeds
from tfdbg_cli.dumps.run_info import RunInfo
from tfdbg_cli.dumps.sources import Frame, Sources

__all__ = ["frames_document", "run_document"]


def run_document(info: RunInfo, feeds: list[str]) -> dict[str, Any]:
    """What ``run.json`` says of the run, but for what was counted."""
    error = info.error
    return {
        "engine": info.engine,
        "kind": info.kind,
        "unit": info.unit,
        "call_count": info.call_count,
        "runner": info.runner,
        "whose": info.whose,
        "filter": info.filter_name,
        "fetches": [str(name) for name in info.fetches],
        "feeds": feeds,
        "inputs": dict(_inputs(info.feeds)),
        "number": info.number,
        "details": [[label, text] for label, text in info.details],
        "program": [[label, text] for label, text in info.program],
        "outputs": {str(name): tensor for name, tensor in info.outputs.items()},
        "results": None if info.results is None else dict(info.results),
        "roles": info.roles,
        "written": {name: [*runs] for name, runs in info.written.items()},
        "error": None
        if error is None
        else {
            "type": error.type_name,
            "message": error.message,
            "op": error.op_name,
            "file": error.file,
            "line": error.line,
            "late": error.is_late,
        },
    }


def _inputs(feeds: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """What is known of feeds besides their values: dtype and shape, and the tensor."""
    if isinstance(feeds, LazyFeeds):
        for name in feeds:
            known = [feeds.shapes.get(name, ""), feeds.tensors.get(name, "")]
            if any(known):
                yield name, known


def frames_document(
    stacks: Mapping[str, tuple[Frame, ...]], sources: Sources
) -> dict[str, list[Any] | dict[str, int]]:
    """Frames, stacks of frames, and the stack of each node; each frame and stack is there once."""
    frames: dict[tuple[Any, ...], int] = {}
    texts: list[list[Any]] = []
    columns: list[Any] = []
    numbers: dict[tuple[int, ...], int] = {}
    nodes: dict[str, int] = {}
    for name, stack in stacks.items():
        line: list[int] = []
        for frame in stack:
            key = (frame.file, frame.line, frame.function, frame.columns)
            if key not in frames:
                frames[key] = len(texts)
                text = sources.text(frame)
                texts.append([frame.file, frame.line, frame.function, text])
                columns.append(frame.columns)
            line.append(frames[key])
        nodes[name] = numbers.setdefault(tuple(line), len(numbers))
    return {
        "frames": texts,
        "columns": columns,
        "stacks": [list(stack) for stack in numbers],
        "nodes": nodes,
    }
