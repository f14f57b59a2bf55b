"""Which output of which op a tensor is, however the program got hold of it."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from tfdbg_cli.engines.torch.private import Pins, storage_key
from tfdbg_cli.engines.torch.record.op_record import OpOutput

if TYPE_CHECKING:
    import torch

__all__ = ["Tracker", "extent"]


class Tracker:
    """Knows the tensors of one run, without keeping them alive.

    Attributes:
        known: the output that was last seen at an address. It is that of a tensor only if its
            `OpOutput.reference` is this tensor.
        pins: of the storages.
        writes: storage -> what ops have written to in it, in the order of time.
    """

    def __init__(self) -> None:
        self.known: dict[int, OpOutput] = {}
        # Tensors that are made of the memory of an output, by autograd or as ``x.data``.
        self._again: dict[int, tuple[weakref.ref[torch.Tensor], OpOutput]] = {}
        # Storage -> the outputs that lie in it, oldest first; most often there is one.
        self._in_storage: dict[int, OpOutput | list[OpOutput]] = {}
        self.writes: dict[int, list[OpOutput]] = {}
        self.pins = Pins()

    def find(self, tensor: torch.Tensor) -> OpOutput | None:
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
        output = self._find_there(tensor, storage_key(tensor))
        if output is not None:
            self._again[id(tensor)] = (weakref.ref(tensor), output)
        return output

    def _find_there(self, tensor: torch.Tensor, key: int) -> OpOutput | None:
        """The output that lies where a tensor does."""
        found = self._in_storage.get(key) if key else None
        return _closest(tensor, found) if isinstance(found, list) else found

    def find_now(self, tensor: torch.Tensor, made: OpOutput) -> OpOutput:
        """The output that a tensor is now: it was another before ``w.data = ...``."""
        key = storage_key(tensor)
        return made if key == made.key else self._find_there(tensor, key) or made

    def add(self, tensor: torch.Tensor, output: OpOutput) -> None:
        """A tensor is this output from now on."""
        self.known[id(tensor)] = output
        if output.key:
            self.pins.add(output.key, tensor)  # what is known by it is this storage for good
            self._place(output)

    def add_later(self, output: OpOutput) -> None:
        """The same of an output whose storage was pinned when it was made."""
        tensor = output.reference()
        if tensor is not None:
            self.known[id(tensor)] = output
        if output.key:
            self._place(output)

    def _place(self, output: OpOutput) -> None:
        key = output.key
        found = self._in_storage.get(key)
        if found is None:
            self._in_storage[key] = output
        elif isinstance(found, list):
            found.append(output)
        elif found is not output:
            self._in_storage[key] = [found, output]

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether this very tensor has an output."""
        known, again = self.known.get(id(tensor)), self._again.get(id(tensor))
        return (known is not None and known.reference() is tensor) or (
            again is not None and again[0]() is tensor
        )

    def storages(self) -> frozenset[int]:
        """Those in which outputs lie."""
        return frozenset(self._in_storage)

    def know_again(self, reference: weakref.ref[torch.Tensor], output: OpOutput) -> None:
        """A tensor was made of the memory of an output."""
        tensor = reference()
        if tensor is not None:
            self._again[id(tensor)] = (reference, output)

    def move(self, tensor: torch.Tensor, output: OpOutput) -> None:
        """An output is another tensor from now on, in other memory."""
        found = self._in_storage.get(output.key)
        if isinstance(found, list):
            found.remove(output)
        elif found is output:
            del self._in_storage[output.key]
        output.place(tensor, storage_key(tensor))
        self.add(tensor, output)

    def stand_for(self, tensor: torch.Tensor, output: OpOutput) -> None:
        """Take a tensor for an output: it holds the same, maybe in a memory of its own."""
        self.known.pop(id(tensor), None)
        self._again[id(tensor)] = (weakref.ref(tensor), output)

    def living(self) -> Iterator[tuple[torch.Tensor, OpOutput]]:
        """The tensors that the program still has, with their outputs."""
        found = [(each.reference, each) for each in self.known.values()]
        for reference, output in (*found, *self._again.values()):
            tensor = reference()
            if tensor is not None:
                yield tensor, output

    def written(self, output: OpOutput) -> None:
        """An op has written to the memory of an output of its own."""
        if output.key:
            self.writes.setdefault(output.key, []).append(output)

    def sources(self, tensor: torch.Tensor, output: OpOutput) -> list[OpOutput]:
        """What the elements of a tensor come from.

        Args:
            tensor: of the program.
            output: what it was when it was made, or last written to by itself.

        Returns:
            An output that lies just like the tensor, and then, oldest first, those parts of its
            memory that were written to since; mostly there are none.
        """
        writes = self.writes.get(output.key)
        if not writes or writes[-1].index <= output.index or storage_key(tensor) != output.key:
            return [output]
        try:
            place = (tensor.storage_offset(), tensor.stride(), tensor.shape, tensor.dtype)
        except RuntimeError:  # a nested tensor
            return [output]
        first, end = extent(*place)
        parts: dict[object, OpOutput] = {}
        for part in reversed(writes):
            if part.index <= output.index:
                break
            other = (part.offset, part.stride, part.shape or (), part.dtype)
            start, stop = extent(*other)
            if stop <= first or end <= start:
                continue
            if other == place:
                output = part
                break
            parts.setdefault(other, part)
        return [output, *reversed(parts.values())]


def extent(
    offset: int, stride: Sequence[int], shape: Sequence[int], dtype: torch.dtype
) -> tuple[int, int]:
    """The first byte of a tensor in its storage, and the one after its last."""
    size = dtype.itemsize
    if 0 in shape:
        return offset * size, offset * size
    reach = sum((length - 1) * step for length, step in zip(shape, stride, strict=True))
    return offset * size, (offset + reach + 1) * size


def _closest(tensor: torch.Tensor, outputs: list[OpOutput]) -> OpOutput:
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
