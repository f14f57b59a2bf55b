"""Runs programs that use JAX, plain and watched, in this process."""

import contextlib

import jax
import numpy as np

from tfdbg_cli.common.settings import all_fields
from tfdbg_cli.dumps.sources import own_frame
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.jax.engine import ENGINE
from tfdbg_cli.engines.jax.twins.results import ResultsTwin
from tfdbg_cli.filters.builtin import has_inf_or_nan
from tfdbg_cli.filters.origins import origin_of_nonfinite
from tfdbg_cli.testing.contract_program import Hosts

__all__ = ["Found", "bits", "program", "twins_computing", "waiting", "watched"]

_SETTINGS = {field.name: field.default for field in all_fields()}
_FILTERS = {"has_inf_or_nan": has_inf_or_nan, "origin_of_nonfinite": origin_of_nonfinite}


@contextlib.contextmanager
def watched(watch=None):
    """All runs are debugged; gives who was told of them."""
    hosts = Hosts()
    hosts.watch = watch or Watch()
    undo = ENGINE.install(hosts)
    try:
        yield hosts
    finally:
        undo()


@contextlib.contextmanager
def waiting(name="has_inf_or_nan", level="auto", results="own"):
    """As ``run -f`` waits, with the settings level and results."""
    ENGINE.configure({**_SETTINGS, "level": level, "results": results}.__getitem__)
    try:
        with watched(Watch(filter_name=name, predicate=_FILTERS[name])) as hosts:
            yield hosts
    finally:
        ENGINE.configure(_SETTINGS.__getitem__)


@contextlib.contextmanager
def twins_computing():
    """Calls that twins make whose results the program may get; gives for each whether it does."""
    calls, plainly = [], ResultsTwin.compute

    def compute(twin, *args):
        calls.append(twin.is_trusted)
        return plainly(twin, *args)

    ResultsTwin.compute = compute
    try:
        yield calls
    finally:
        ResultsTwin.compute = plainly


class Found:
    """The first tensor that passes a filter.

    Attributes:
        run: the number of the run.
        node: its node, with the execution in a loop.
        line: the program's that made it.
    """

    def __init__(self, hosts, name="has_inf_or_nan"):
        (end, *_) = hosts.ends
        info = hosts.starts[0].run_info
        dump = end.dump
        predicate = _FILTERS[name]
        datum = (
            next(d for d in dump.data() if predicate(d, d.get_tensor(), dump))
            if (name == "origin_of_nonfinite")
            else next(d for d in dump.data() if predicate(d, d.get_tensor()))
        )
        self.dump, self.datum, self.kind = dump, datum, info.kind
        self.node, self.execution = datum.node_name, datum.execution
        self.graph_node = dump.graph().nodes[datum.node_name]
        frame = own_frame(self.graph_node.frames)
        self.line = frame.line if frame else 0
        self.file = frame.file if frame else ""


def program(path, text):
    """Run a program; its variables. What it prints is nobody's business."""
    path.write_text(text)
    names = {"__name__": "__main__", "print": lambda *args: None}
    exec(compile(text, str(path), "exec"), names)
    return names


def bits(tree):
    """All arrays of a tree, bit by bit."""
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(tree)]
