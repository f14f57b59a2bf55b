"""One op of a program that is stepped through: what it was called with, undone and done again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.engines.torch.names.sites import replaced
from tfdbg_cli.engines.torch.private import (
    KERNEL,
    force_keys,
    local_keys,
    quiet,
    storage_key,
    top_interpreter,
    unobserved,
)
from tfdbg_cli.engines.torch.record.op_record import OpRecord
from tfdbg_cli.engines.torch.stepping.thread_state import apart
from tfdbg_cli.engines.torch.stepping.values import copied, flat, overwrite
from tfdbg_cli.engines.torch.values.layouts import same_bits

__all__ = ["OpCall"]

_RANDOM = getattr(getattr(torch, "Tag", None), "nondeterministic_seeded", None)
_GONE = "The program has gone on"


class OpCall:
    """One call of an op.

    It keeps no tensor of the program's, only what shares their memory: how many refer to a tensor
    decides what autograd does with it.

    Args:
        record: of it.
        op: the overload, or higher-order operator.
        args, kwargs: of the call.
    """

    def __init__(self, record: OpRecord, op: Any, args: Any, kwargs: Mapping[str, Any]) -> None:
        self.record = record
        self._op = op
        self._keys = local_keys()
        self._written: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._results: list[torch.Tensor] = []
        self._why_not = ""
        with unobserved():
            shared = {id(each): each.data for each in flat((args, kwargs))}
            self.args = replaced(tuple(args), shared)
            self.kwargs = replaced(dict(kwargs), shared)
            for tensor in record.overwritten or ():
                alias = shared.get(id(tensor))
                if alias is not None:
                    self._written.append((alias, copied(alias)))
        self._generator = _generator(op, args, kwargs)
        self._before = self._generator.get_state() if self._generator is not None else None
        self._after = self._before

    @property
    def given(self) -> list[torch.Tensor]:
        """What shares the memory of the tensors that it was called with, in their order."""
        return list(flat((self.args, self.kwargs)))

    # Around the program's own call.

    def try_again(self) -> None:
        """The op has raised: random numbers and what it may have written to are as before it."""
        self._restore()

    def done(self) -> None:
        """It was done."""
        record = self.record
        facts = record.facts
        assert facts is not None
        outputs = [tensor for tensor in map(_living, record.outputs) if tensor is not None]
        with unobserved():
            self._results = [tensor.data for tensor in outputs]
        if self._generator is not None:
            self._after = self._generator.get_state()
        changed = (torch.is_tensor(t) and _place(t) for t in record.overwritten or ())
        if (
            facts.keeps_elements
            or facts.op_type in ("set_", "resize_")
            or any(place not in {_place(alias) for alias, _ in self._written} for place in changed)
        ):
            self._why_not = "It has changed a tensor's form, not its elements"
        elif record.result is not None:
            self._why_not = f"{_GONE}: it has the result, {record.result!r}"
        elif len(outputs) != len(record.outputs):
            self._why_not = _GONE

    # Back and forth.

    def undo(self, replacements: Mapping[int, torch.Tensor], is_overridden: bool) -> None:
        """Memory that it has written to, and random numbers, are as before it.

        Args:
            replacements: what it was given instead, as in `again`.
            is_overridden: its outputs have other values now than it has given.

        Raises:
            UserError: it can't be undone; nothing has changed.
        """
        why_not = self._why_not
        if not why_not and top_interpreter() is not None:  # memory can't be written to
            why_not = "The program is inside of a transform of torch.func"
        if why_not:
            raise UserError(f"{self.record.name} can't be undone.", f"{why_not}.")
        generator = self._generator
        if generator is not None and not torch.equal(generator.get_state(), self._after):
            raise UserError(
                f"{self.record.name} can't be undone.",
                f"{_GONE}: random numbers were drawn, or seeded, since.",
            )
        if not self._repeats(replacements, is_overridden):
            raise UserError(
                f"{self.record.name} can't be undone.",
                "Done again, it would not give the same bits.",
            )
        self._restore()

    def _repeats(self, replacements: Mapping[int, torch.Tensor], is_overridden: bool) -> bool:
        """Whether it gives the same bits each time: some kernels keep what nobody has set."""
        facts, results = self.record.facts, self._results
        if facts is not None and facts.is_uninitialized:
            return True
        if len(results) > 1 and torch.uint8 in {each.dtype for each in results}:
            return False  # a workspace, whose bits are nobody's business but the kernel's
        with contained:  # it can't be done again at all
            first = self.imitate(replacements) if is_overridden else self._results
            pairs = zip(first, self.imitate(replacements), strict=False)
            with unobserved():
                return all(same_bits(old, new) for old, new in pairs)
        return False

    def again(self, replacements: Mapping[int, torch.Tensor]) -> list[torch.Tensor]:
        """Do it again; the program gets the results where it has those of the first time.

        Args:
            replacements: position among the tensors that it is given -> what to give instead.

        Returns:
            What shares the memory of its outputs.

        Raises:
            UserError: the results would not fit there.
            Exception: what the op raises; it is undone then.
        """
        facts = self.record.facts
        if facts is not None and facts.is_uninitialized:
            return self._results
        given = self.given
        instead = {id(given[index]): tensor for index, tensor in replacements.items()}
        try:
            result = self._call(instead)
            made = list(flat(result))[: len(self._results)]
            for old, new in zip(self._results, made, strict=False):
                if old.shape != new.shape or old.dtype != new.dtype:
                    raise UserError(
                        f"{self.record.name} gives a tensor of shape {list(new.shape)} now.",
                        f"{_GONE} with one of shape {list(old.shape)}.",
                    )
            for old, new in zip(self._results, made, strict=False):
                if storage_key(old) != storage_key(new):
                    overwrite(old, new)
        except Exception:
            self._restore()
            raise
        if self._generator is not None:
            self._after = self._generator.get_state()
        return self._results

    def imitate(self, replacements: Mapping[int, torch.Tensor]) -> list[torch.Tensor]:
        """What it would have given, had it been given other tensors; nothing else changes.

        Args:
            replacements: as in `again`.

        Returns:
            The outputs, those that it writes to included.

        Raises:
            Exception: what the op raises.
        """
        given = self.given
        instead = {id(given[index]): copied(tensor) for index, tensor in replacements.items()}
        for alias, before in self._written:
            instead.setdefault(id(alias), copied(before))
        try:
            if self._generator is not None and self._before is not None:
                self._generator.set_state(self._before)
            result = self._call(instead)
        finally:
            if self._generator is not None and self._after is not None:
                self._generator.set_state(self._after)
        made = list(flat(result))
        returned = {id(tensor) for tensor in made}
        written = [instead[id(alias)] for alias, _ in self._written]
        return [*made, *(tensor for tensor in written if id(tensor) not in returned)]

    def _call(self, instead: Mapping[int, torch.Tensor]) -> Any:
        """Do the op as the program does its ops, with other tensors instead of some."""
        keys = force_keys(*self._keys)
        with apart(fresh=True), quiet(), torch.no_grad(), keys:
            return getattr(self._op, KERNEL, self._op)(
                *replaced(self.args, instead), **replaced(self.kwargs, instead)
            )

    def _restore(self) -> None:
        for alias, value in self._written:
            overwrite(alias, value)
        if self._generator is not None and self._before is not None:
            self._generator.set_state(self._before)


def _living(output: Any) -> torch.Tensor | None:
    tensor: torch.Tensor | None = output.reference()
    return tensor


def _place(tensor: torch.Tensor) -> tuple[Any, ...]:
    try:
        return storage_key(tensor), tensor.storage_offset(), tuple(tensor.shape)
    except RuntimeError:  # it has no memory of the usual kind
        return ()


def _generator(op: Any, args: Any, kwargs: Mapping[str, Any]) -> torch.Generator | None:
    """Where an op draws its random numbers; ``None``: it draws none."""
    if _RANDOM not in getattr(op, "tags", ()):
        return None
    for value in (*args, *kwargs.values()):
        if isinstance(value, torch.Generator):
            return value
    tensor = next(flat((args, kwargs)), None)
    device = tensor.device if tensor is not None else torch.device(kwargs.get("device") or "cpu")
    if device.type == "cuda" and torch.cuda.is_initialized():
        index = device.index if device.index is not None else torch.cuda.current_device()
        return torch.cuda.default_generators[index]
    return torch.default_generator
