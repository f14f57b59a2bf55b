"""Dumps with a graph, made by hand: one line for each node."""

import numpy as np

from tfdbg_cli.common.traits import op_roles
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.filters.causes.advice import ADVICE, Cause
from tfdbg_cli.filters.causes.find import cause_of
from tfdbg_cli.filters.lineage import TensorLineage

INF, NAN = np.inf, np.nan


class Op:
    """A node of a dump and what it computed; ``None``: it was not dumped."""

    def __init__(
        self,
        name,
        op_type,
        inputs=(),
        value=None,
        kind=np.float32,
        /,
        *,
        waits=(),
        returns=(),
        **given,
    ):
        self.name = name
        self.op_type = op_type
        self.inputs = [each if ":" in each else f"{each}:0" for each in inputs]
        self.value = None if value is None else np.asarray(value, kind)
        self.waits = waits
        self.returns = returns
        self.attributes = {"_aten": op_type, **{f"_arg_{k}": str(v) for k, v in given.items()}}


def dump_of(*ops, graph=True):
    """The dump of a run of these ops, and how often each value was read: name -> number."""
    nodes = [
        Node(op.name, op.op_type, op.inputs, op.waits, "", op.attributes, returns=op.returns)
        for op in ops
    ]
    dump = MemoryDump(Graph(nodes) if graph else None)
    dump.reads = {}
    for time, op in enumerate(ops):
        if op.value is not None:
            dump.add_datum(_datum(op, time, dump.reads))
    return dump


def _datum(op, time, reads):
    value = op.value

    def load():
        reads[op.name] = reads.get(op.name, 0) + 1
        return value

    name, shape = value.dtype.name, value.shape
    return Datum(op.name, 0, load, timestamp=time, dtype=name, shape=shape, nbytes=value.nbytes)


def passing(dump, predicate):
    """The names of the nodes whose tensors pass a filter."""
    return [datum.node_name for datum in dump.find(predicate)]


MEANINGS = op_roles("").meanings


def op_of(what):
    """Some op that computes it."""
    return next(op for op, computed in MEANINGS.items() if computed == what)


def why(*ops, is_sparse=False):
    """Kind and text of the cause of the last op; ``is_sparse``: what isn't there was finite."""
    dump = dump_of(*ops)
    dump.lists_only_bad = is_sparse
    (datum,) = dump.by_node(ops[-1].name)
    found = cause_of(TensorLineage(dump), datum)
    assert found is None or found == Cause(found.kind, found.text, ADVICE[found.kind])
    return found and (found.kind, found.text)
