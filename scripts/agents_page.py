"""Plays the stories of docs/agents.md by the MCP SDK's own client and writes them into the page.

.venv/bin/python scripts/agents_page.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from mcp import StdioServerParameters, stdio_client
from mcp.client import Client

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "agents.md"
BEGIN, END = "<!-- the stories: scripts/agents_page.py -->\n", "<!-- the end of the stories -->\n"

#: So much of an answer is shown on the page.
_SHOWN = 1_600


@dataclass
class Call:
    """A call of a tool, or an edit of the program between two calls.

    Attributes:
        tool: its name; empty: it is an edit.
        arguments: of the tool.
        edit: makes the new source from the old one and the answer before.
        said: what the page says of it.
    """

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    edit: Callable[[str, Mapping[str, Any]], str] | None = None
    said: str = ""


@dataclass
class Story:
    """A program with a fault, and the way to its fix.

    Attributes:
        name: of the test.
        title: of its section.
        file: of the program.
        source: its text.
        calls: what is done.
        before: makes what else it needs, in its folder.
    """

    name: str
    title: str
    file: str
    source: str
    calls: tuple[Call, ...]
    before: Callable[[Path], None] = lambda folder: None


def patched(source: str, answer: Mapping[str, Any]) -> str:
    """The source with the first remedy's patch."""
    lines = answer["untrusted_text"]["fixes"][0]["patch"].splitlines()
    old = [text[1:] for text in lines if text.startswith("-") and not text.startswith("---")]
    new = [text[1:] for text in lines if text.startswith("+") and not text.startswith("+++")]
    assert "\n".join(old) in source, answer
    return source.replace("\n".join(old), "\n".join(new))


def replaced(old: str, new: str) -> Callable[[str, Mapping[str, Any]], str]:
    """An edit by hand."""

    def edit(source: str, answer: Mapping[str, Any]) -> str:
        assert old in source
        return source.replace(old, new)

    return edit


def _to_fix(
    file: str, edit: Callable[[str, Mapping[str, Any]], str], said: str
) -> tuple[Call, ...]:
    return (
        Call("start", {"script": file}),
        Call("run_until"),
        Call("verdict"),
        Call("fix"),
        Call("", edit=edit, said=said),
        Call("start", {"script": file}),
        Call("run_until", {"session": "s2"}),
    )


_TORCH = """\
import torch

torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-12)
for step in range(5):
    x = torch.randn(4, 8) * 10**step
    with torch.autocast("cpu", torch.float16):
        y = model(x)
        loss = (y**2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", loss.item())
"""

_KERAS = """\
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import keras
import numpy as np
from keras import ops

keras.utils.set_random_seed(0)


def loss(labels, chances):
    return -ops.mean(ops.sum(labels * ops.log(chances), axis=-1))


x = np.random.randn(64, 8).astype("float32") * 20
y = np.eye(4, dtype="float32")[np.arange(64) % 4]
model = keras.Sequential([keras.layers.Dense(4, activation="softmax")])
model.compile(optimizer=keras.optimizers.SGD(1.0), loss=loss)
model.fit(x, y, batch_size=16, epochs=2, verbose=0)
"""

_JAX = """\
import jax
import jax.numpy as jnp


@jax.jit
def decay(start):
    def step(level, _):
        level = level * 0.01
        return level, jnp.log(level)

    return jax.lax.scan(step, start, None, length=40)


for start in (1e30, 1.0, 2.0):
    _, logs = decay(jnp.float32(start))
    print(logs.sum())
"""

_ONNX = """\
<ir_version: 8, opset_import: ["" : 17]>
scores (float[N,4] x) => (float[N,4] y) {
    [mean] mean = ReduceMean <axes = [1]> (x)
    [centered] centered = Sub(x, mean)
    [square] square = Mul(centered, centered)
    [variance] variance = ReduceMean <axes = [1]> (square)
    [deviation] deviation = Sqrt(variance)
    [norm] norm = Div(centered, deviation)
    [head] y = Softmax(norm)
}"""


def _save_model(folder: Path) -> None:
    """The model, and a request that has a blank row."""
    code = (
        "import numpy, onnx, sys\n"
        "onnx.save(onnx.parser.parse_model(open('model.txt').read()), 'model.onnx')\n"
        "numpy.savez('request.npz', x=numpy.array([[1, 2, 3, 4], [1, 1, 1, 1]], 'float32'))"
    )
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)


def _keep_good_run(folder: Path) -> None:
    """Two runs of the program as it should be, kept."""
    keep = ["--keep-dumps", "--dump-root", "good", "--batch", "-c", "run -k"]
    subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", *keep, "train.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        check=True,
    )


STORIES = (
    Story(
        "torch",
        "PyTorch: float16 overflows",
        "train.py",
        _TORCH,
        _to_fix(
            "train.py",
            replaced("torch.float16", "torch.bfloat16"),
            "The verdict's advice is float32 or bfloat16: the agent edits the line of `autocast`.",
        ),
    ),
    Story(
        "keras",
        "Keras: a NaN in `fit`",
        "train.py",
        _KERAS,
        _to_fix(
            "train.py",
            replaced("ops.log(chances)", "ops.log(ops.maximum(chances, 1e-12))"),
            "The agent writes one of the remedies that made the loss clean.",
        ),
    ),
    Story(
        "jax",
        "JAX: an iteration of a scan",
        "decay.py",
        _JAX,
        _to_fix("decay.py", patched, "The agent applies the patch of the first remedy."),
    ),
    Story(
        "onnx",
        "ONNX: a model without a program",
        "model.txt",
        _ONNX,
        (
            Call("start", {"script": "model.onnx", "args": ["--inputs", "request.npz"]}),
            Call("run_until"),
            Call("verdict"),
            Call("inputs", {"name": "norm"}),
            Call("fix"),
        ),
        _save_model,
    ),
    Story(
        "compare",
        "Two runs that should be equal",
        "train.py",
        (ROOT / "examples" / "compare_runs.py").read_text(encoding="utf-8"),
        (
            Call("start", {"script": "train.py", "args": ["--eps", "1e-3"]}),
            Call("run_until", {"filter": "", "max_runs": 2}),
            Call("compare", {"b": "good"}),
            Call("source", {"file": "train.py", "line": 21}),
        ),
        _keep_good_run,
    ),
)


@asynccontextmanager
async def served(folder: Path, *arguments: str) -> AsyncIterator[Client]:
    """The client of a server of its own, over stdio.

    Args:
        folder: which programs are started from.
        arguments: of ``tfdbg mcp``.
    """
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "tfdbg_cli", "mcp", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    with open(folder / "server.log", "w", encoding="utf-8") as log:
        async with Client(stdio_client(parameters, errlog=log)) as client:
            yield client


async def play(story: Story, folder: Path) -> list[tuple[Call, str]]:
    """Make the calls of a story.

    Returns:
        Each with its answer as it was sent; an edit with an empty one.
    """
    program = folder / story.file
    program.write_text(story.source, encoding="utf-8")
    story.before(folder)
    told: list[tuple[Call, str]] = []
    answer = ""
    async with served(folder) as client:
        for call in story.calls:
            if call.edit is not None:
                program.write_text(call.edit(program.read_text(), json.loads(answer)))
                told.append((call, ""))
                continue
            found = await client.call_tool(call.tool, dict(call.arguments))
            answer = found.content[0].text
            if found.is_error:
                raise RuntimeError(f"{call.tool}: {answer}")
            told.append((call, answer))
    return told


def _shown(answer: str, folder: Path) -> str:
    """An answer for the page: in the folder of nobody, on lines; the end of a long one cut off."""
    value = json.loads(answer.replace(str(folder), "/home/you/project"))
    text = json.dumps(value, ensure_ascii=False)
    text = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
    return textwrap.fill(text, 118, break_long_words=False, break_on_hyphens=False)


def _section(story: Story, folder: Path) -> str:
    told = anyio.run(play, story, folder)
    kind = "text" if story.file.endswith(".txt") else "python"
    parts = [f"### {story.title}\n", f"```{kind}\n{story.source.strip()}\n```\n"]
    for call, answer in told:
        if call.edit is not None:
            parts.append(f"{call.said}\n")
            continue
        given = ", ".join(f"{name}={value!r}" for name, value in call.arguments.items())
        parts.append(f"`{call.tool}({given})`: {len(answer):,} bytes\n")
        parts.append(f"```json\n{_shown(answer, folder)}\n```\n")
    return "\n".join(parts)


def main() -> None:
    """Write the page."""
    sections = []
    for story in STORIES:
        with tempfile.TemporaryDirectory() as name:
            sections.append(_section(story, Path(name).resolve()))
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{chr(10).join(sections)}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
