"""The calls of modules in a program that somebody drives: looked at and changed on the way."""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.engines.torch.around.surrounding import Around
from tfdbg_cli.engines.torch.names.scopes import ModuleName, Names
from tfdbg_cli.engines.torch.private import current_node
from tfdbg_cli.engines.torch.stepping.op_gate import OpGate
from tfdbg_cli.engines.torch.stepping.values import as_value, fitted, flat
from tfdbg_cli.engines.torch.values.layouts import dtype_name
from tfdbg_cli.stepping.calls import INPUT, OUTPUT, ModuleCalls, Spot, numbered
from tfdbg_cli.stepping.coroutine import Coroutine

__all__ = ["TorchModuleCalls"]


class _OpenCall:
    """A call that is open, and its arguments or its result while it is at that moment."""

    __slots__ = ("module", "moment", "number", "path", "path_number", "value")

    def __init__(self, module: torch.nn.Module, number: int) -> None:
        self.module = module
        self.number = number
        self.path: str | None = None  # not known, or that of what it wraps
        self.path_number = 0
        self.moment = INPUT
        self.value: Any = None


class TorchModuleCalls(ModuleCalls):
    """See `ModuleCalls`. `Patches` tells of each call.

    Args:
        passage: stops the program.
        strand: in which the program runs.
        root: in which modules are looked for by their paths; ``None``: they get their names when
            they are called.
        names: makes the names.
        around: what else is to be done around a call.
        again: the same for a call that a backward pass makes.
        watches: around which modules' calls.
    """

    def __init__(
        self,
        passage: OpGate,
        strand: Coroutine,
        root: torch.nn.Module | None,
        names: Callable[[], Names],
        around: Callable[..., Around | None],
        again: Callable[..., Around | None],
        watches: Callable[[torch.nn.Module, str | None], bool],
    ) -> None:
        self._passage = passage
        self._strand = strand
        self._root = root
        self._make_names = names
        self._watching = around
        self._again = again
        self._watches = watches
        self._names: Names | None = None
        # The modules are kept, so that their ids are nobody else's.
        self._calls: dict[int, list[Any]] = {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._open: list[ModuleName | None] = []
        self._now: _OpenCall | None = None
        self._kept: dict[Spot, Any] | None = None
        self._keeps_last = False
        self._ahead: dict[Spot, Any] = {}
        self._given: dict[int, weakref.ref[torch.Tensor]] = {}
        self._is_at_rest = False
        #: What somebody waits for.
        self.goal: Spot | None = None

    # What `Patches` tells.

    def takes(self) -> bool:
        """Whether a call that is made now is the program's."""
        return self._strand.is_current

    def around(
        self, original: Callable[..., Any], module: torch.nn.Module, args: Any, kwargs: Any
    ) -> Around | None:
        """A call of the program's."""
        if self._is_at_rest:
            return None
        if current_node() is not None:  # of a checkpoint, once more
            return self._again(original, module, args, kwargs)
        return self._around(original, module, args, kwargs)

    def _around(
        self, original: Callable[..., Any], module: torch.nn.Module, args: Any, kwargs: Any
    ) -> Around:
        known = self._calls.get(id(module))
        if known is None:
            known = self._calls[id(module)] = [module, 0, 0]
        number = known[1]
        known[1] = number + 1
        call = path = None
        if self._root is None or self._is_wanted(module):
            call = _OpenCall(module, number)
            if self._root is None:
                call.path = path = self._path(module)
                call.path_number = self._numbers.get((path or "", INPUT), 0)
            args, kwargs = self._arrive(call, (args, kwargs))
        try:
            steps: Around | None = None
            if self._watches(module, path):
                steps = self._watching(original, module, args, kwargs)
            if steps is not None:
                output = yield from steps
            else:
                output = yield original, (module, *args), kwargs
        finally:
            if self._root is None:
                self._open.pop()
        known[2] += 1
        if call is not None or self._is_wanted(module):
            call = call or _OpenCall(module, number)
            call.moment = OUTPUT
            return self._arrive(call, output)
        return output

    def _is_wanted(self, module: torch.nn.Module) -> bool:
        """Whether somebody may want something of a module's call."""
        goal = self.goal
        if goal is not None and (goal.module is module or goal.module is None):
            return True
        return bool(self._ahead) or self._kept is not None or self._passage.is_waiting

    def rest(self) -> bool:
        """Nobody drives the program any more; whether there is nothing left to be done for it."""
        if self._ahead or self._kept is not None:
            return False
        self._is_at_rest = True
        return True

    def _path(self, module: torch.nn.Module) -> str | None:
        names = self._names = self._names or self._make_names()
        caller = next((each for each in reversed(self._open) if each is not None), None)
        try:
            name = names.module(module, sys._getframe(2), caller)
        except Exception:  # then it can be asked for as an object only
            self._open.append(None)
            return None
        self._open.append(name)
        return None if name.is_wrapper else name.path

    def _arrive(self, call: _OpenCall, value: Any) -> Any:
        """A call is at one of its moments; what the program goes on with."""
        if call.path is not None:
            key = call.path, call.moment
            self._numbers[key] = self._numbers.get(key, 0) + 1
        if not self._is_wanted(call.module):
            return value
        self._now, call.value = call, value
        try:
            if self._ahead:
                self._put_ahead(call)
            self._passage.look()
            if self._kept is not None:
                for spot in self._spots(call):
                    self._kept[spot] = call.value
            return call.value
        finally:
            self._now = call.value = None

    def _spots(self, call: _OpenCall) -> Iterator[Spot]:
        number = -1 if self._keeps_last else call.number
        yield Spot(call.module, "", number, call.moment)
        if call.path is not None:
            number = -1 if self._keeps_last else call.path_number
            yield Spot(None, call.path, number, call.moment)

    def _put_ahead(self, call: _OpenCall) -> None:
        for spot in [each for each in self._ahead if self._is_at(each, call)]:
            while spot in self._ahead:
                value = self._ahead[spot]
                try:
                    self._replace(call, value, spot)
                    del self._ahead[spot]
                except UserError as error:
                    if not self._passage.tell(error):
                        del self._ahead[spot]

    # What whoever drives the program asks.

    def find(self, module: Any, number: int | None, moment: str) -> Spot:
        """See `ModuleCalls.find`."""
        if isinstance(module, torch.nn.Module):
            return Spot(module, self._label(module), number or 0, moment)
        if not isinstance(module, str):
            raise UserError(
                f"A module is asked for by its path or as an object; this is a {type(module)}.",
                't.module("encoder.layers.0") or t.module(model.encoder)',
            )
        found = self._named(module)
        path = module
        if found is None and number is None and (call := numbered(module)):
            path, number = call
            found = self._named(path)
        if found is None and self._root is not None:
            raise UserError(
                f"There is no module {module} in {type(self._root).__name__}.",
                did_you_mean(module, self.paths),
            )
        return Spot(found, path, number or 0, moment)

    def _named(self, path: str) -> torch.nn.Module | None:
        if self._root is None:
            return None
        try:
            return self._root.get_submodule(path)
        except (AttributeError, RuntimeError):  # the latter: it is a ScriptModule
            names = self._names = self._names or self._make_names()
            return names.at(path)

    def _label(self, module: torch.nn.Module) -> str:
        if self._root is not None:
            for path, found in self._root.named_modules():
                if found is module:
                    return str(path)
        return type(module).__name__

    def count(self, spot: Spot) -> int:
        """See `ModuleCalls.count`."""
        if spot.module is None:
            return self._numbers.get((spot.path, spot.moment), 0)
        known = self._calls.get(id(spot.module))
        return 0 if known is None else int(known[1 if spot.moment == INPUT else 2])

    def _is_at(self, spot: Spot, call: _OpenCall | None) -> bool:
        if call is None or call.moment != spot.moment:
            return False
        if spot.module is not None:
            return call.module is spot.module and call.number == spot.number
        return call.path == spot.path and call.path_number == spot.number

    def is_open(self, spot: Spot) -> bool:
        """See `ModuleCalls.is_open`."""
        return self._is_at(spot, self._now)

    def is_at_hand(self, spot: Spot) -> bool:
        """See `ModuleCalls.is_at_hand`."""
        return self._is_at(spot, self._now) or (
            self._kept is not None and self._key(spot) in self._kept
        )

    def _key(self, spot: Spot) -> Spot:
        number = -1 if self._keeps_last and spot.number == self.count(spot) - 1 else spot.number
        return Spot(spot.module, "" if spot.module is not None else spot.path, number, spot.moment)

    def get(self, spot: Spot) -> Any:
        """See `ModuleCalls.get`."""
        if self._is_at(spot, self._now):
            assert self._now is not None
            value = self._now.value
        else:
            value = (self._kept or {})[self._key(spot)]
        self._give(value)
        return value

    def _give(self, value: Any) -> None:
        for tensor in flat(dict(value) if hasattr(value, "items") else value):
            self._given[id(tensor)] = weakref.ref(tensor)

    def was_given(self, tensor: Any) -> bool:
        """Whether a tensor is one that was read here, or put."""
        known = self._given.get(id(tensor))
        return known is not None and known() is tensor

    def put(self, spot: Spot, value: Any) -> None:
        """See `ModuleCalls.put`."""
        if self._is_at(spot, self._now):
            assert self._now is not None
            self._replace(self._now, value, spot)
        else:
            self._ahead[spot] = value

    def _replace(self, call: _OpenCall, value: Any, spot: Spot) -> None:
        if call.moment == INPUT:
            args, kwargs = call.value
            new_args, new_kwargs = value
            given = [*new_args, *new_kwargs.values()]
            before = [*args, *(kwargs.get(name) for name in new_kwargs)]
            fit = [
                _fit(spot.label, new, old)
                for new, old in zip(given, [*before, *given[len(before) :]], strict=False)
            ]
            count = len(new_args)
            call.value = tuple(fit[:count]), dict(zip(new_kwargs, fit[count:], strict=True))
        else:
            call.value = _fit(spot.label, value, call.value)
        self._give(call.value)

    def take_back(self) -> None:
        """See `ModuleCalls.take_back`."""
        self._ahead.clear()

    @property
    def missed(self) -> Sequence[Spot]:
        """See `ModuleCalls.missed`."""
        return list(self._ahead)

    @property
    def paths(self) -> Sequence[str]:
        """See `ModuleCalls.paths`."""
        if self._root is not None:
            return [path for path, _ in self._root.named_modules()]
        return list(dict.fromkeys(path for path, _ in self._numbers))

    def keep(self, *, only_last: bool) -> None:
        """See `ModuleCalls.keep`."""
        self._kept, self._keeps_last = {}, only_last


def _fit(label: str, new: Any, old: Any) -> Any:
    """A value that can stand for another one: of its kind, and of its shape if it is a tensor.

    Raises:
        UserError: it can't.
    """
    label = label[0].upper() + label[1:]
    if isinstance(old, torch.Tensor):
        if not isinstance(new, torch.Tensor):
            return fitted(label, as_value(label, new), old)
        if new is not old and (new.shape, new.dtype, new.device) != (
            old.shape,
            old.dtype,
            old.device,
        ):
            raise UserError(f"{label} is {_kind(old)}; the value is {_kind(new)}.")
        return new
    if isinstance(old, tuple | list | dict) and not isinstance(new, type(old)):
        raise UserError(
            f"{label} is a {type(old).__name__}; the value is a {type(new).__name__}.",
            "Give a value of the same kind, with the change in it.",
        )
    return new


def _kind(tensor: torch.Tensor) -> str:
    return f"a {dtype_name(tensor.dtype)} tensor of shape {list(tensor.shape)} on {tensor.device}"
