"""The debugger's commands over tensors of PyTorch, without a program around them."""

import functools
import sys
from pathlib import Path

from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.torch.values.arrays import describe, to_numpy

sys.path.append(str(Path(__file__).parents[2] / "commands"))

from command_kit import Shell

__all__ = ["Shell", "dump_of", "shell_of"]


def dump_of(**tensors):
    """A dump of tensors as a recorder keeps them: described at once, read when looked at."""
    dump = MemoryDump()
    for name, tensor in tensors.items():
        dtype, shape, nbytes = describe(tensor)
        load = functools.partial(to_numpy, tensor)
        dump.add_datum(Datum(name, 0, load, dtype=dtype, shape=shape, nbytes=nbytes, timestamp=1))
    return dump


def shell_of(**tensors):
    """A stop at the end of a run with these tensors."""
    return Shell(dump_of(**tensors))
