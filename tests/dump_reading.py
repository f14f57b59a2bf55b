"""Reads all of a dump, and gives the commands over it: for damaged and hostile ones."""

from __future__ import annotations

import os

from stop_kit import stop_over

from tfdbg_cli.commands.service import CommandService
from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.open import open_dump

__all__ = ["read_all", "service_over"]


def service_over(dump: Dump) -> CommandService:
    """A stop at which commands run as a user types them."""
    return stop_over(dump, "offline", title="", title_role="", initial_command="lt")


def read_all(folder: str | os.PathLike[str]) -> Dump:
    """Everything that is read of a dump, without showing it; what is wrong is a DumpError."""
    dump = open_dump(folder)
    for datum in dump.data():
        assert isinstance(datum.dtype, str) and datum.nbytes >= 0
        try:
            datum.get_tensor()
        except DumpError:
            pass
    graph = dump.graph()
    for node in graph.nodes.values() if graph is not None else ():
        assert isinstance(dict(node.attributes), dict)
        assert node.frames is None or all(frame.line >= 0 for frame in node.frames)
    info = dump.run_info()
    for name in info.feeds if info is not None else ():
        try:
            info.feeds[name]
        except DumpError:
            pass
    dump.sources().paths()
    dump.profile()
    return dump
