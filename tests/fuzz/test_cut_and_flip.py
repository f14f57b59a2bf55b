"""A small run folder cut at every byte and with every byte flipped: whole, or marked, never wrong.

The folder holds several types, text, bytes, an object, frames, sources, a graph, timings, facts of
the program and numbers over runs. Each case changes one file and reads everything: what differs
from the truth must be refused, be missing, or be named by a warning. ``scripts/nightly`` tries
every byte, the default run some of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzz_samples import files_of, write_small_folder
from samples import sample

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.open import open_dump

#: Of a value that is refused, with a line that says why.
REFUSED = "refused"


def exact(value: Any) -> Any:
    """A value that can be compared to the bit."""
    if isinstance(value, np.ndarray):
        items = value.tolist() if value.dtype == object else value.tobytes()
        return value.dtype.str, value.shape, items
    return str(value)


def value_of(read: Callable[[], Any]) -> Any:
    try:
        return exact(read())
    except DumpError as error:
        return REFUSED if "\n" not in error.message else error.message


def facts_of(folder: Path) -> tuple[dict[Any, Any], list[str]]:
    """All that a run folder says, fact by fact, and its warnings."""
    dump: Dump = open_dump(folder)
    found: dict[Any, Any] = {}
    for number, datum in enumerate(dump.data()):
        place = (datum.node_name, datum.output_slot, datum.execution)
        while ("name", *place) in found:
            place = (*place, number)
        what = (datum.debug_op, datum.device_name, datum.dtype, datum.shape, datum.nbytes)
        health = getattr(datum, "health", None)
        found["name", *place] = (datum.timestamp, *what, datum.note, datum.is_view, health)
        found["value", *place] = value_of(datum.get_tensor)
        if (digest := dump.digest(datum)) is not None:
            found["digest", *place] = str(digest)
    graph = dump.graph()
    for node in graph.nodes.values() if graph is not None else ():
        facts = (node.op_type, tuple(node.inputs), tuple(node.control_inputs), node.device)
        frames = None if node.frames is None else tuple(node.frames)
        found["node", node.name] = (*facts, dict(node.attributes), frames)
    sources = dump.sources()
    for path in sources.paths():
        found["source", path] = sources.lines(path)
    info = dump.run_info()
    if info is not None:
        for name in info.feeds:
            found["feed", name] = value_of(lambda name=name: info.feeds[name])
        for name in ("call_count", "fetches", "engine", "runner", "kind", "unit", "filter_name"):
            found["run", name] = getattr(info, name)
        for series in (info.tracks or {}).values():
            points = [str(each.tolist()) for each in series.points()]
            found["series", series.name] = (series.expression, *points)
        found["run", "marks"] = [*info.tracks.marks] if info.tracks else []
        for name in ("details", "outputs", "results", "number", "error", "program"):
            found["run", name] = getattr(info, name)
    profile = dump.profile()
    for device in profile.devices if profile is not None else ():
        for number, entry in enumerate(device.entries):
            found["timing", device.name, number] = tuple(
                getattr(entry, name) for name in ("node", "op_type", "start", "op_time", "place")
            )
    return found, dump.warnings


def cut(content: bytes) -> Iterator[tuple[str, bytes]]:
    for at in range(len(content)):
        yield f"cut at {at}", content[:at]


def flipped(content: bytes) -> Iterator[tuple[str, bytes]]:
    draw = random.Random(7)
    for at, byte in enumerate(content):
        for mask in (0xFF, 1 << draw.randrange(8)):
            yield f"{at} ^ {mask}", content[:at] + bytes([byte ^ mask]) + content[at + 1 :]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good") / "run"
    write_small_folder(path)
    return path


@pytest.fixture(scope="module")
def names(folder: Path) -> tuple[str, ...]:
    return files_of(str(folder))


FILES = (
    "columns.safetensors",
    "digests.bin",
    "frames.json",
    "graph.pb",
    "profile.jsonl",
    "run.json",
    "series.json",
    "sources/000-train.py",
    "sources/index.json",
    "strings-00000.jsonl",
    "tensors-00000.safetensors",
    "tensors-small-00000.safetensors",
    "tensors.jsonl",
)


def test_every_file_of_the_folder_is_tried(names: tuple[str, ...]) -> None:
    assert names == FILES


def wrong(folder: Path, name: str, truth: dict[Any, Any]) -> list[str]:
    """What is neither true nor marked."""
    found, warnings = facts_of(folder)
    assert all(line == " ".join(line.splitlines()) for line in warnings)
    if any(line.startswith(str(folder / name)) for line in warnings):
        return []
    problems = [f"{key}: {found[key]}" for key in found if key not in truth]
    for key, fact in truth.items():
        if key not in found and key[0] == "digest":
            continue  # the value is there, which is compared then
        if key not in found:
            problems.append(f"{key} is missing")
        elif found[key] not in (fact, REFUSED):
            problems.append(f"{key}: {found[key]} instead of {fact}")
    return problems


# In the default run; an odd number, as there are two cases for each byte that is flipped.
STEP = 13


@pytest.mark.slow
@pytest.mark.parametrize("how", [cut, flipped])
@pytest.mark.parametrize("name", [*sample(FILES, 2)])
def test_what_is_shown_is_true_or_marked(
    name: str, how: Callable[[bytes], Iterator[tuple[str, bytes]]], folder: Path
) -> None:
    truth, warnings = facts_of(folder)
    assert warnings == ["a warning"] and REFUSED not in truth.values()
    content = (folder / name).read_bytes()
    problems = {}
    try:
        for case, changed in sample(how(content), STEP):
            (folder / name).write_bytes(changed)
            found = wrong(folder, name, truth)
            if found:
                problems[case] = found
    finally:
        (folder / name).write_bytes(content)
    shown = "\n".join(f"{case}: {'; '.join(found[:2])[:300]}" for case, found in problems.items())
    assert not problems, f"{len(problems)} cases of {name}\n{shown[:4000]}"


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_gone_costs_no_more_than_what_was_in_it(name: str, folder: Path) -> None:
    truth, _ = facts_of(folder)
    content = (folder / name).read_bytes()
    (folder / name).unlink()
    try:
        found, warnings = facts_of(folder)
    finally:
        (folder / name).write_bytes(content)
    assert any(str(folder / name) in line for line in warnings)
    whole = [key for key, fact in truth.items() if found.get(key) == fact]
    assert len(whole) > len(truth) / 3
