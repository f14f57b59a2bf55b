"""Clients of ``tfdbg mcp``: the SDK's own, over stdio, and what its tools answer."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
from agents_page import ROOT, STORIES, Story, play, served
from mcp.client import Client

__all__ = ["GOOD", "ROOT", "STORIES", "Agent", "Story", "agent", "play", "told_by", "until"]

#: Runs without end; in the eighth, a logarithm of 0.
GOOD = """\
import itertools, os, pathlib, sys
from tfdbg_cli.engines import numpy as tf

pathlib.Path("pid").write_text(str(os.getpid()))
x = tf.placeholder(tf.float32, [None], name="x")
y = tf.log(x, name="y")
z = tf.multiply(y, 2.0, name="z")
with tf.Session() as session:
    for step in itertools.count() if len(sys.argv) < 2 else range(int(sys.argv[1])):
        session.run(z, {x: [1.0, float(step != 7)]})
        print("step", step)
        pathlib.Path("steps").write_text(str(step))
"""


class Agent:
    """A client, and the answers of its tools.

    Args:
        client: the SDK's.
    """

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool that answers."""
        found = await self.client.call_tool(tool, arguments)
        text = found.content[0].text
        assert not found.is_error, text
        answer = json.loads(text)
        assert answer == found.structured_content
        return answer

    async def refused(self, tool: str, **arguments: Any) -> str:
        """Call a tool that refuses; what it says."""
        found = await self.client.call_tool(tool, arguments)
        assert found.is_error, found.content
        return found.content[0].text

    async def page(self, address: str) -> dict[str, Any]:
        """A page of a resource."""
        found = await self.client.read_resource(f"tfdbg://{address}")
        return json.loads(found.contents[0].text)


@asynccontextmanager
async def agent(folder: Path, *arguments: str, program: str = GOOD) -> AsyncIterator[Agent]:
    """A client of a server of its own; the program ``p.py`` is in its folder."""
    (folder / "p.py").write_text(program, encoding="utf-8")
    async with served(folder, *arguments) as client:
        yield Agent(client)


async def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came to that"
        await anyio.sleep(0.02)


def told_by(story: Callable[..., Awaitable[None]], *arguments: Any) -> None:
    """Run a coroutine; of errors in groups the innermost is raised."""
    try:
        anyio.run(story, *arguments)
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None
