"""A filter that computes every op of a run again and says where its result isn't that of the run.

It passes no tensor. ``redone N of M`` goes to stderr once a run, and ``other NODE`` for each op
that gives other bits when it is computed from the values that the dump has of its inputs.
"""

import sys

import numpy as np

from tfdbg_cli.dumps.dump import CannotRedo
from tfdbg_cli.filters.lineage import TensorLineage

_seen = set()


def redone(datum, tensor, dump):
    """Passes nothing."""
    lineage = TensorLineage.of(dump)
    if id(lineage) in _seen:
        return False
    _seen.add(id(lineage))
    _seen.add(lineage)  # kept: no other has its id
    count = total = 0
    for name, node in dump.graph().nodes.items():
        if "shard_map" in name.split("/"):  # computed on several devices, which nobody does again
            continue
        data = sorted(dump.by_node(name), key=lambda each: each.output_slot)
        given = [lineage.as_given(data[0], each) for each in node.inputs] if data else []
        if not given or None in given or len({each.output_slot for each in data}) < len(data):
            continue
        values = [each.get_tensor() for each in given]
        made = [each.get_tensor() for each in data]
        if not all(isinstance(each, np.ndarray | np.generic) for each in (*values, *made)):
            continue
        total += 1
        try:
            found = dump.redo(name, [np.asarray(each) for each in values], made)
        except CannotRedo:
            continue
        if found is None:
            continue
        count += 1
        for each, value in zip(data, made, strict=True):
            again = np.asarray(found[each.output_slot])
            if (again.dtype, again.shape, again.tobytes()) != (
                value.dtype,
                value.shape,
                value.tobytes(),
            ):
                print(f"other {name} ({node.op_type})", file=sys.stderr)
    print(f"redone {count} of {total}", file=sys.stderr)
    return False
