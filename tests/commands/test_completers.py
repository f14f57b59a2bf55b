"""Candidates and what is said of them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from command_kit import Shell

from tfdbg_cli.commands.shell import completers
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.filters.registry import FilterRegistry

TYPES = ("float16", "bfloat16", "float8_e4m3", "float8_e5m2")


def positive(datum, tensor):
    """Some element is above zero.

    More about it.
    """
    return bool((tensor > 0).any())


@pytest.fixture
def shell():
    graph = Graph(
        [
            Node("hidden/Relu", "Relu", ["hidden/b"]),
            Node("hidden/b", "VariableV2"),
            Node("a+b(c)", "AddV2"),
        ]
    )
    dump = MemoryDump(graph)
    dump.add("hidden/Relu", 0, np.zeros((3, 4), np.float32))
    dump.add("hidden/Relu", 0, np.ones((3, 4), np.float32), timestamp=1)
    dump.add("hidden/b", 0, np.zeros(3))
    made = Shell(dump)
    made.context.filters.add("positive", positive)
    made.context.filters.add("unsaid", lambda datum, tensor: True)
    return made


def said(shell: Shell, text: str) -> dict[str, str]:
    """Summaries by candidate."""
    found = shell.service.complete(text, len(text)).candidates
    return {candidate.text: candidate.summary for candidate in found}


def test_tensors_and_nodes_come_with_their_types(shell):
    assert said(shell, "pt hid") == {
        "hidden/Relu:0": "Relu float32 [3,4] 2 dumps",
        "hidden/b:0": "VariableV2 float64 [3]",
    }
    assert said(shell, "ni hidden/R") == {"hidden/Relu": "Relu"}
    assert said(shell, "eval 1 + `hidden/b") == {"`hidden/b:0`": "VariableV2 float64 [3]"}


def test_filters_come_with_their_docstring(shell):
    found = said(shell, "lt -f ")
    assert found["positive"] == "Some element is above zero."
    assert found["unsaid"] == "tensor filter"
    assert found["has_inf_or_nan"]
    assert FilterRegistry().summary("none") == ""


def test_filters_come_with_their_arguments(shell):
    found = said(shell, "lt -f overflows")
    assert [*found] == [f"overflows:{each}" for each in TYPES]
    assert found["overflows:float16"].startswith("Whether a finite element is too large")
    assert [*said(shell, "lt -f underflows:float8_")] == [
        "underflows:float8_e4m3",
        "underflows:float8_e5m2",
    ]
    assert [*said(shell, "help filt")] == ["filters"]
    assert "help" in said(shell, "help h")
    text = shell.text("help filters")
    assert "underflows:DTYPE[:SHARE]" in text
    assert "positive" in text and "Some element is above zero." in text


def test_files_come_with_their_size(shell, tmp_path: Path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "some.txt").write_text("x" * 2048)
    assert said(shell, f"lt > {tmp_path}/s") == {
        f"{tmp_path}/some.txt": "2.00kB",
        f"{tmp_path}/sub/": "folder",
    }


@pytest.mark.parametrize(
    "text",
    [
        "lt -",
        "pt hidden/b:0 -",
        "lt -s ",
        "config ",
        "config set theme ",
        "mouse ",
        "help ",
        "run -",
    ],
)
def test_everything_is_explained(shell, text):
    found = said(shell, text)
    assert found
    assert all(found.values()), found


def test_patterns_match_what_they_stand_for(shell):
    context = shell.context
    nodes = {c.text: c.summary for c in completers.node_patterns(context, "a")}
    assert list(nodes.values()) == ["AddV2"]
    assert re.search(next(iter(nodes)).strip("'\""), "a+b(c)")
    assert [tuple(c) for c in completers.op_types(context, "")] == [
        ("AddV2", "1 node"),
        ("Relu", "1 node"),
        ("VariableV2", "1 node"),
    ]
    assert [tuple(c) for c in completers.dtypes(context, "fl")] == [
        ("float32", "2 tensors"),
        ("float64", "1 tensor"),
    ]
    context.dump = None
    for completer in (completers.node_patterns, completers.op_types, completers.dtypes):
        assert list(completer(context, "")) == []


def test_very_many_names_are_offered_by_scope():
    dump = MemoryDump()
    value = np.zeros(2, np.float32)
    for number in range(1000):
        dump.add(f"s{number % 3}/n{number}", 0, value)
    dump.add("single", 0, value)
    found = said(Shell(dump), "pt s")
    assert found == {
        "s0/": "334 names",
        "s1/": "333 names",
        "s2/": "333 names",
        "single:0": "float32 [2]",
    }
