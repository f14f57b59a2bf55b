"""What the status line names works: on every screen each of its keys does something."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from samples import sample
from test_hints import Stop
from ui_player import Input, Player, enter, play

from tfdbg_cli.dumps.graph import Node
from tfdbg_cli.dumps.sources import Frame
from tfdbg_cli.ui.keys import read_key

Keys = Iterator[list[Input]]
SIZE = (200, 40)
# What is looked for isn't known before somebody asks.
ANSWERS = {
    "No element is nan or infinite.",
    "ERROR: A tree can't be sorted. Leave out -r and -d to sort the list.",
}

# How one comes to each screen from the first one, a verdict.
SCREENS: dict[str, list[Input]] = {
    "verdict": [],
    "verdict with a list": enter("why -f has_inf_or_nan"),
    "verdict, a row of its list": [*enter("why -f has_inf_or_nan"), "down"],
    "inputs by a key": ["esc", "i"],
    "recipients by a key": ["esc", "o"],
    "inputs": enter("li log_a"),
    "inputs, a row": [*enter("li log_a"), "down"],
    "inputs with columns, a row": [*enter("li log_a -o op_type,health"), "down"],
    "tree": [*enter("li -r log_a"), "down"],
    "list": enter("lt"),
    "list, a row": [*enter("lt"), "down"],
    "files, a row": [*enter("ls"), "down"],
    "value": enter("pt log_a"),
    "value, an element": [*enter("pt log_a"), "esc", "c"],
    "map": enter("pt --map log_a"),
    "map of a clean tensor": enter("pt --map in_a"),
    "map of slices": enter("pt --map log_c"),
    "map, a cell": [*enter("pt --map log_c"), "esc", "c"],
    "node": enter("ni log_a"),
    "source": enter(f"ps {__file__}"),
    "source, folded": enter(f"ps {__file__} --fold"),
    "source at the line": ["esc", "s"],
    "graph": enter("graph log_a"),
    "help": enter("help"),
    "help of a command": enter("help pt"),
    "keys": ["f1"],
    "details": [*enter("pt nothing"), "f2"],
    "settings": enter("config"),
    "number": enter("eval 1"),
}


def stop() -> Stop:
    """A stop at logarithms of zero, with all that its screens show."""
    nodes, values = [], {}
    here = [Frame(__file__, at, "main", "x = 1") for at in (1, 20)]
    for name, shape in (("a", (80, 200)), ("b", (2, 4)), ("c", (3, 4, 5))):
        clean = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) // 2
        with np.errstate(divide="ignore"):
            values |= {f"in_{name}": clean, f"log_{name}": np.log(clean)}
        values[f"neg_{name}"] = -values[f"log_{name}"]
        nodes += [
            Node(f"in_{name}", "Const", frames=here[:1]),
            Node(f"log_{name}", "Log", [f"in_{name}:0"], frames=here[1:]),
            Node(f"neg_{name}", "Neg", [f"log_{name}:0"], frames=here[1:]),
        ]
    return Stop(nodes, values)


def hinted(screen: Player) -> list[str]:
    """The keys that the status line names, as urwid calls them."""
    right = re.split(r" {3,}", screen.rows[-2].strip())[-1]
    items = (item.removeprefix("Esc ").split() for item in right.split(" | "))
    keys = (read_key(first.removesuffix(":")) for first, *rest in items if rest)
    return [key for key in keys if key is not None]


def looks(screen: Player) -> list[Any]:
    """All that is seen, with its colours."""
    return [*map(tuple, screen.canvas.content())]


@pytest.mark.parametrize("name", [*sample(SCREENS, 3)])
def test_each_key_that_is_named_does_something(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a report is written there
    keys: list[str] = []

    def first(screen: Player) -> Keys:
        yield SCREENS[name]
        keys.extend(hinted(screen))

    play(first, stop(), size=SIZE)
    assert "f1" in keys
    if re.search("(inputs|list), a row|by a key", name):
        assert set(keys) >= set("vpsgi")
    wrong: list[tuple[str, str]] = []

    for key in keys:

        def script(screen: Player, key: str = key) -> Keys:
            yield SCREENS[name]
            if not re.search("PAGE|TABLE", screen.rows[-2]) and not key.startswith("f"):
                yield ["esc"]
            before = looks(screen)
            yield key.split() if key.startswith("] ") else [key]
            said, look = screen.rows[-2].strip(), looks(screen)
            roles = {str(attribute) for attribute, _, _ in look[-2]}
            if look == before:
                wrong.append((key, "nothing"))
            elif said not in ANSWERS and any(re.search("warning|error", each) for each in roles):
                wrong.append((key, said))

        play(script, stop(), size=SIZE)
    assert not wrong, [keys, *wrong]
