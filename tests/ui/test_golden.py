"""Every kind of screen as a whole, against its text in tests/ui/golden.

``TFDBG_GOLDEN=write pytest tests/ui/test_golden.py`` writes the texts anew: look at the difference.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from stop_kit import stop_over
from ui_player import Input, Player, enter, play

from tfdbg_cli.commands.service import CommandService
from tfdbg_cli.dumps.dump import RunError, RunInfo
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.sources import Frame, Sources

GOLDEN = Path(__file__).parent / "golden"
MODEL = "/home/you/model.py"
SOURCE = """\
import tensorflow.compat.v1 as tf

x = tf.placeholder(tf.float32, [2, 3], name="x")
with tf.name_scope("hidden"):
    w = tf.constant([[1.0, -1.0], [0.5, 0.0], [2.0, 1.0]], name="w")
    relu = tf.nn.relu(tf.matmul(x, w, name="MatMul"), name="Relu")
loss = tf.log(relu, name="loss/Log")
""".splitlines()

X = np.array([[1.0, 2.0, 3.0], [-1.0, -2.0, -3.0]], np.float32)
W = np.array([[1.0, -1.0], [0.5, 0.0], [2.0, 1.0]], np.float32)


def frames(line: int) -> tuple[Frame, ...]:
    return (
        Frame(MODEL, line, "<module>", SOURCE[line - 1].strip()),
        Frame("/usr/lib/python3/site-packages/tensorflow/ops.py", 7, "op", "return op()"),
    )


def make_graph() -> Graph:
    return Graph(
        [
            Node("x", "Placeholder", frames=frames(3), attributes={"dtype": "float32"}),
            Node("hidden/w", "Const", frames=frames(5)),
            Node("hidden/MatMul", "MatMul", ["x:0", "hidden/w:0"], frames=frames(6)),
            Node("hidden/Relu", "Relu", ["hidden/MatMul:0"], ["x"], frames=frames(6)),
            Node("loss/Log", "Log", ["hidden/Relu:0"], frames=frames(7)),
        ]
    )


def make_dump() -> MemoryDump:
    dump = MemoryDump(make_graph(), Sources({MODEL: "\n".join(SOURCE)}))
    product = X @ W
    relu = np.maximum(product, 0)
    with np.errstate(divide="ignore"):
        log = np.log(relu)
    values = {
        "x": X,
        "hidden/w": W,
        "hidden/MatMul": product,
        "hidden/Relu": relu,
        "loss/Log": log,
    }
    for number, (name, value) in enumerate(values.items()):
        device = "/job:localhost/replica:0/task:0/device:CPU:0"
        dump.add(name, 0, value, timestamp=1_000_000 + 250 * number, device_name=device)
    return dump


def make_service(mode: str = "run-end", command: str = "") -> CommandService:
    dump = make_dump() if mode == "run-end" else None
    info = RunInfo(3, ["loss/Log:0"], {"x:0": X}, "numpy")
    if command == "error":
        info.error = RunError("InvalidArgumentError", "Input is not finite.", "loss/Log")
    return stop_over(
        dump,
        mode,
        info=info,
        title=f"{mode}: run #3: 1 fetch (loss/Log:0); 1 feed (x:0)",
        title_role="error" if command == "error" else "end" if dump else "start",
        initial_command="run_info" if dump is None else "",
    )


COMMANDS = {
    "lt": "lt",
    "lt-filter": "lt -f has_inf_or_nan",
    "lt-sorted": "lt -s size -r -n hidden",
    "lt-none": "lt -n nothing",
    "pt": "pt loss/Log:0",
    "pt-summary": "pt loss/Log:0 -s",
    "pt-bad": "pt loss/Log:0 --bad",
    "pt-range": "pt hidden/MatMul:0 -r [0,5]",
    "pt-slice": "pt hidden/MatMul:0[0, -1]",
    "pt-magnitude": "pt hidden/MatMul:0 --sort-by-magnitude",
    "pf": "pf x:0",
    "eval": 'eval "`hidden/Relu:0`.sum(axis=0)"',
    "ni": "ni -a -d -t hidden/Relu",
    "li": "li -c -r -t loss/Log",
    "lo": "lo -r x",
    "li-path": "li --path x loss/Log",
    "li-first-bad": "li --to-first-bad",
    "ls": "ls",
    "ps": "ps model.py",
    "run_info": "ri",
    "config": "config",
    "help": "help",
    "help-run": "help run",
    "mistake": "pt loss/Lgo:0",
    "error": "error",
}

SIZES = {"": (80, 24), "-small": (50, 12)}


def check(name: str, text: str) -> None:
    path = GOLDEN / f"{name}.txt"
    made = "\n".join(row.rstrip() for row in text.splitlines()).rstrip() + "\n"
    if os.environ.get("TFDBG_GOLDEN") == "write":
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(made, encoding="utf-8")
    assert made == path.read_text(encoding="utf-8")


def settled(screen: Player, keys: list[Input]) -> Iterator[list[Input]]:
    """Press keys, and wait until all that is shown is measured, however busy the machine is."""
    yield keys
    unknown = re.compile(r" … +\S+:0|^L7 .*Log\"\) *█?$", re.M)
    while unknown.search("\n".join(screen.page)) or "Filtering" in screen.text:
        yield []


@pytest.mark.parametrize("size", SIZES, ids=lambda name: name or "-normal")
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command(name: str, size: str) -> None:
    if size and name not in {"lt", "pt", "ni", "ps", "help", "mistake"}:
        return

    def script(screen: Player):
        yield from settled(screen, enter(COMMANDS[name]))
        check(name + size, screen.text)

    play(script, make_service(command=name), size=SIZES[size])


def test_the_first_screen() -> None:
    def script(screen: Player):
        yield []
        check("run-start", screen.text)

    play(script, make_service("run-start"))


KEYS: dict[str, list[list[Input]]] = {
    "keys": [["f1"]],
    "palette": [enter("lt"), ["f4", *"tens"]],
    "completion": [[*"pt hidden/", "tab", "tab"]],
    "question": [enter("exit")],
    "menu": [enter("ni hidden/Relu"), ["f10"]],
    "search": [enter("lt"), enter("/Relu")],
    "filter": [enter("lt"), enter("&Relu")],
    "link": [enter("lt"), ["tab", "tab", "tab", "tab"]],
    "element": [enter("pt hidden/MatMul:0"), ["esc", "c", "l", "j"]],
    "element-open": [enter("pt hidden/MatMul:0"), ["esc", "c", "enter"]],
}


@pytest.mark.parametrize("name", KEYS)
def test_keys(name: str) -> None:
    def script(screen: Player):
        for keys in KEYS[name]:
            yield from settled(screen, keys)
        check(f"screen-{name}", screen.text)

    play(script, make_service())


def test_no_text_is_left_over() -> None:
    used = {f"{name}{size}" for name in COMMANDS for size in SIZES}
    used |= {f"screen-{name}" for name in KEYS} | {"run-start"}
    assert {path.stem for path in GOLDEN.glob("*.txt")} <= used
