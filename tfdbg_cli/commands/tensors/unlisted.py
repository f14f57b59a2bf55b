"""Tensors that lists leave out where nothing is searched for: reshaped ones, constants, shapes."""

from __future__ import annotations

from collections.abc import Sequence

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dump import Datum, Dump
from tfdbg_cli.dumps.run_info import traits_of_run

__all__ = ["has_unlisted", "without_unlisted"]


def has_unlisted(dump: Dump) -> bool:
    """Whether lists of this framework's runs leave out more than views."""
    traits = traits_of_run(dump.run_info())
    return traits is not None and bool(traits.unlisted or traits.constants)


def without_unlisted(dump: Dump, data: Sequence[Datum]) -> Sequence[Datum]:
    """Those of tensors that a list holds where nothing is searched for.

    A node that makes integers of constants and shapes alone is one of them: a model computes the
    shapes of its reshapes and of its gradients so. Random integers aren't.

    Args:
        dump: of one run.
        data: its tensors, in time order.
    """
    traits = traits_of_run(dump.run_info())
    if traits is None or not (traits.unlisted or traits.constants):
        return data
    graph = dump.graph()
    shapes: set[str] = set()
    listed = []
    for datum in data:
        name = datum.node_name
        op = dump.op_type(name)
        if op in traits.constants:
            shapes.add(name)
        elif graph is not None and name in graph and "Random" not in op and _is_integer(datum):
            sources = [edge.node for edge in graph.inputs(name, control=False)]
            if sources and shapes.issuperset(sources):
                shapes.add(name)
        if name not in shapes and op not in traits.unlisted:
            listed.append(datum)
    return listed


def _is_integer(datum: Datum) -> bool:
    try:
        return datum.dtype.startswith(("int", "uint"))
    except DumpError:  # the list says so in the tensor's row
        return False
