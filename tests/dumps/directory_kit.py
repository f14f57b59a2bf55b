"""The original's dump directories, written file by file."""

import numpy as np
from dump_samples import START

from tfdbg_cli.dumps.proto.graph_def import NodeDef, graph_chunks
from tfdbg_cli.dumps.proto.tensor_proto import tensor_chunks
from tfdbg_cli.dumps.tfdbg_dir.debug_dump_dir import DebugDumpDir
from tfdbg_cli.dumps.tfdbg_dir.events import graph_event, tensor_event
from tfdbg_cli.dumps.tfdbg_dir.names import device_name_to_device_path

__all__ = ["CPU0", "CPU1", "Maker", "watched"]

CPU0 = "/job:localhost/replica:0/task:0/device:CPU:0"
CPU1 = "/job:localhost/replica:0/task:0/device:CPU:1"


class Maker:
    """Writes the files of a dump one by one."""

    def __init__(self, root):
        self.root = root

    def tensor(
        self, node, value=0.0, *, slot=0, time=START, suffix="", device=CPU0, op="DebugIdentity"
    ):
        path = self.root / device_name_to_device_path(device) / node
        path = path.with_name(f"{path.name}_{slot}_{op}_{time}{suffix}")
        path.parent.mkdir(parents=True, exist_ok=True)
        event = tensor_event(node, slot, op, device, time, tensor_chunks(np.asarray(value)))
        path.write_bytes(b"".join(event))
        return path

    def graph(self, nodes, device=CPU0, number=1):
        folder = self.root / device_name_to_device_path(device)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"_tfdbg_graph_hash{number}_{START}"
        path.write_bytes(b"".join(graph_event(graph_chunks(nodes), START)))
        return path

    def open(self, **options):
        return DebugDumpDir(str(self.root), **options)


def watched(*nodes):
    """The nodes with the copies and debug nodes that TensorFlow inserts."""
    found = []
    for node in nodes:
        found.append(node)
        found.append(NodeDef(f"__copy_{node.name}_0", "Copy", [node.name]))
        key = f"__dbg_{node.name}:0_0_DebugIdentity"
        found.append(NodeDef(key, "DebugIdentity", [f"__copy_{node.name}_0"]))
    return found
