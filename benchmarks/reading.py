"""How long it takes to open dumps on disk and to look through them, ours and TensorFlow's.

.venv/bin/python benchmarks/reading.py [ROUNDS]
"""

import os
from pathlib import Path

import numpy as np

from tfdbg_cli.dumps.proto.tensor_proto import tensor_chunks
from tfdbg_cli.dumps.tfdbg_dir.events import message_event, tensor_event
from tfdbg_cli.dumps.tfdbg_dir.names import device_name_to_device_path

DEVICES = tuple(f"/job:localhost/replica:0/task:0/device:{kind}:0" for kind in ("CPU", "GPU"))
EACH = 20  # nodes of a scope


def write_dumps(root, count):
    """A dump folder as TensorFlow's: scopes of 20 nodes on two devices, a nan in every 1,000th."""
    rng = np.random.default_rng(0)
    values = [rng.standard_normal((4, 4)).astype(np.float32) for _ in range(1000)]
    values[500][1, 2] = np.nan
    tensors = [[bytes(chunk) for chunk in tensor_chunks(value)] for value in values]
    folders = [os.path.join(root, device_name_to_device_path(device)) for device in DEVICES]
    Path(root).mkdir(parents=True)
    Path(root, "_tfdbg_fetches_info_").write_bytes(b"".join(message_event("['loss:0']")))
    start, scope = 1_700_000_000_000_000, ""
    for number in range(count):
        device = 0 if number % (20 * EACH) < 10 * EACH else 1
        if number % EACH == 0:
            scope = f"model/layer_{number // EACH // 50}/block_{number // EACH % 50}"
            os.makedirs(os.path.join(folders[device], scope))
        node = f"{scope}/op_{number % EACH}"
        stamp = start + 7 * number
        event = tensor_event(
            node, 0, "DebugIdentity", DEVICES[device], stamp, tensors[number % len(tensors)]
        )
        name = f"{node}_0_DebugIdentity_{stamp}"
        with open(os.path.join(folders[device], name), "wb") as file:
            file.write(b"".join(event))
