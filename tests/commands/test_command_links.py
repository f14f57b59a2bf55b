"""Whatever a screen offers to click works."""

import re

import pytest
from command_kit import Shell

from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump, write_run_folder

ENTRIES = ["lt", "run_info", "ls", "help", "config", "version", "lt -f has_inf_or_nan"]


def walk(shell, entries, limit=5000):
    """Follow every link of every screen; returns how many commands were run."""
    seen, queue = set(entries), list(entries)
    files = set()  # one at another line, or with another part open, is the same screen
    while queue:
        command = queue.pop()
        reply = shell.reply(command)
        assert not reply.failed, (command, reply.message)
        file = re.sub(r" (-b|-m|--open) \d+", "", command)
        if reply.document is None or file in files:
            continue
        if file != command:
            files.add(file)
        for span in (span for line in reply.document for span in line.spans if span.link):
            if span.link.command not in seen:
                seen.add(span.link.command)
                queue.append(span.link.command)
        for item in reply.document.menu:
            if item.enabled and item.command not in seen:
                seen.add(item.command)
                queue.append(item.command)
        assert len(seen) < limit
    return len(seen)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["run-end", "offline"])
def test_every_link_of_every_screen(dump, mode):
    assert walk(Shell(dump, mode), ENTRIES) > 250


def test_every_link_at_run_start(start):
    assert walk(start, ["run_info", "help", "config"]) >= 20


def test_every_link_after_an_error(failed):
    assert walk(failed, ["error", *ENTRIES]) > 30


def test_every_link_of_a_run_folder(dump, tmp_path):
    write_run_folder(dump, tmp_path / "run")
    loaded = RunFolderDump(tmp_path / "run")
    try:
        assert walk(Shell(loaded, "offline"), ENTRIES) > 250
    finally:
        loaded.close()


def test_every_link_of_an_odd_dump():
    graph = Graph(
        [
            Node("a b", "Op", ["missing:0", "it's:1"], ["gone"]),
            Node("it's", "Op"),
            Node('q"q', "Op", ["a b:0"]),
            Node("x > y", "Op", ["x > y:0"]),
        ]
    )
    dump = MemoryDump(graph)
    for number, name in enumerate(["a b", "it's", 'q"q', "x > y", "nowhere", "a b"]):
        dump.add(name, 0, InconvertibleTensorProto("thing"), timestamp=number)
    assert walk(Shell(dump), ENTRIES) > 25
