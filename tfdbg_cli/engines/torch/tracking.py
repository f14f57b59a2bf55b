"""Which output of which op a tensor is, however the program got hold of it."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from tfdbg_cli.engines.torch.private import storage_key
from tfdbg_cli.engines.torch.recording import Output, Record

if TYPE_CHECKING:
    import torch

__all__ = ["Tracker"]


class Tracker:
    """Knows the tensors of one run, without keeping them alive.

    Attributes:
        known: the output that was last seen at an address. It is that of a tensor only if its
            `Output.reference` is this tensor.
    """

    def __init__(self) -> None:
        self.known: dict[int, Output] = {}
        # Tensors that are made of the memory of an output, by autograd or as ``x.data``.
        self._again: dict[int, tuple[weakref.ref[torch.Tensor], Output]] = {}
        # Storage -> the outputs that lie in it, oldest first; most often there is one.
        self._in_storage: dict[int, Output | list[Output]] = {}
        # Storage -> the op that last wrote to it.
        self._writers: dict[int, Record] = {}

    def find(self, tensor: torch.Tensor) -> Output | None:
        """The output that a tensor is; ``None``: nobody has made it, it was there before.

        Autograd hands out what it has saved as new tensors, and ``x.data`` is a new one as well:
        they are known by the place in memory.
        """
        known = self.known.get(id(tensor))
        if known is not None and known.reference() is tensor:
            return known
        again = self._again.get(id(tensor))
        if again is not None and again[0]() is tensor:
            return again[1]
        key = storage_key(tensor)
        found = self._in_storage.get(key) if key else None
        if found is None:
            return None
        output = found if type(found) is Output else _closest(tensor, found)  # type: ignore[arg-type]
        self._again[id(tensor)] = (weakref.ref(tensor), output)
        return output

    def add(self, tensor: torch.Tensor, output: Output) -> None:
        """A tensor is this output from now on."""
        self.known[id(tensor)] = output
        key = output.key
        if key:
            found = self._in_storage.get(key)
            if found is None:
                self._in_storage[key] = output
            elif type(found) is list:
                found.append(output)
            else:
                self._in_storage[key] = [found, output]  # type: ignore[list-item]

    def stand_for(self, tensor: torch.Tensor, output: Output) -> None:
        """Take a tensor for an output: it holds the same, in a memory of its own."""
        self._again[id(tensor)] = (weakref.ref(tensor), output)

    def written(self, key: int, record: Record) -> None:
        """An op has written to a storage."""
        if key:
            self._writers[key] = record

    def writers(self, inputs: list[Output]) -> list[Record] | None:
        """The ops that have last written to the memory of outputs, through other tensors."""
        if not self._writers:
            return None
        found: list[Record] | None = None
        for output in inputs:
            writer = self._writers.get(output.key)
            if writer is not None and writer.index > output.index:
                if found is None:
                    found = [writer]
                elif writer not in found:
                    found.append(writer)
        return found


def _closest(tensor: torch.Tensor, outputs: list[Output]) -> Output:
    """The last of the outputs in a storage that lies just like a tensor, else the first."""
    try:
        offset, stride = tensor.storage_offset(), tensor.stride()
        shape, dtype = tensor.shape, tensor.dtype
    except RuntimeError:  # a nested tensor
        return outputs[0]
    for output in reversed(outputs):
        if (
            output.offset == offset
            and output.stride == stride
            and output.shape == shape
            and output.dtype == dtype
        ):
            return output
    return outputs[0]
