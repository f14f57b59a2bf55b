"""Calls of modules by other modules: what is looked at there, as little as possible."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch

from tfdbg_cli.engines.torch.modules.calls import InnerCall
from tfdbg_cli.engines.torch.modules.checks import OUTPUT, Checks
from tfdbg_cli.engines.torch.modules.facts import Facts
from tfdbg_cli.engines.torch.names.sites import tensors_in
from tfdbg_cli.engines.torch.private import children_of, count_of, parameters_of
from tfdbg_cli.engines.torch.values.access import gradient_of

__all__ = ["Insides"]


class Insides:
    """Looks at what modules inside of others return, and at the gradients that they are handed.

    That is, unless something else tells of it (see `Facts`): the module that gets it next, the
    averages of a batch norm, the gradient of a parameter. Whether it does is learned in one run
    for the next ones, and seen in each.

    Args:
        checks: of the run.
        arrived: is told by the hook of a call's autograd node: the call, and which output.
    """

    def __init__(self, checks: Checks, arrived: Callable[..., None]) -> None:
        self._arrived = arrived
        self._checks = checks
        # What the last module has returned, and how often that had been written to; itself, if it
        # is looked at only where the next one doesn't show it.
        self._last: tuple[InnerCall, Callable[[], torch.Tensor | None], int] | None = None
        self._awaited: tuple[InnerCall, torch.Tensor] | None = None
        self._follower: Any = None  # the module that was called with it
        self._averaged: list[InnerCall] = []  # calls of batch norms
        self._told: list[tuple[Facts, torch.Tensor]] = []  # by the gradients of parameters
        self._untold: list[tuple[InnerCall, Any, int]] = []  # nodes that nobody looks at

    def enter(self, called: InnerCall, arguments: Any) -> None:
        """A module is called: it may show what the last one has returned."""
        if self._last is None:
            return
        (call, reference, version), module = self._last, called.module
        given = arguments[0][0] if arguments and arguments[0] else None
        is_same = given is not None and given is reference() and count_of(given) == version
        if is_same and children_of(module):
            return  # one of those may
        self._last = None
        self._follower = module if is_same else None
        call.facts.is_shown = is_same and called.facts.shows(module)
        if self._awaited is not None:
            if call.facts.is_shown:
                self._awaited = None
                self._checks.add_shown(call, given)
            else:
                self._settle()

    def _settle(self) -> None:
        """Look at what was to be shown by another module, if it isn't."""
        if self._awaited is not None:
            call, tensor = self._awaited
            self._awaited = None
            call.facts.is_shown = False
            self._checks.add(OUTPUT, call, 0, tensor)

    def leave(self, call: InnerCall, output: Any) -> None:
        """It returns.

        Args:
            call: that ends.
            output: what it returns; ``None``: it raises.
        """
        if type(output) is tuple and output[1:] == (None,):  # of attention without its weights
            output = output[0]
        if type(output) is not torch.Tensor:
            if output is not None:
                self._leave_others(call, output)
            return
        version = count_of(output)
        last = self._last
        is_same = last is not None and last[1]() is output and last[2] == version
        if is_same and (version >= 0 or type(call.module) is torch.nn.Sequential):
            return  # a container returns what its last part has returned
        if self._awaited is not None:
            self._settle()
        facts = call.facts
        self._last = call, weakref.ref(output), version
        if facts.has_averages and output.is_cpu and facts.averages(call.module):
            self._averaged.append(call)
            self._checks.add_shown(call, output)
        elif facts.is_shown:
            self._awaited = call, output
        else:
            self._checks.add(OUTPUT, call, 0, output)
        node, follower, self._follower = output.grad_fn, self._follower, None
        if node is None:
            return
        if facts.may_hand_back and follower is call.module and facts.hands_back(follower):
            return
        teller = facts.teller(call.module) if facts.told_by else None
        if teller is not None:
            self._told.append((facts, teller))
            if facts.is_told:
                self._untold.append((call, node, output.output_nr))
                return
        self._hook(call, node, output.output_nr)

    def _leave_others(self, call: InnerCall, output: Any) -> None:
        """What it returns is no tensor, or one of another class."""
        self._settle()
        self._last = None
        for slot, (_, tensor) in enumerate(tensors_in("", output)):
            self._checks.add(OUTPUT, call, slot, tensor)
            if tensor.grad_fn is not None:
                self._hook(call, tensor.grad_fn, tensor.output_nr)

    def leave_outermost(self, output: Any) -> None:
        """The call around them returns; this will be looked at."""
        if self._awaited is not None and self._awaited[1] is not output:
            self._settle()
        self._last = self._awaited = None
        # That node is looked at, and it lives only as long as the program wants it.
        node = output.grad_fn if isinstance(output, torch.Tensor) else None
        if node is not None and self._untold and self._untold[-1][1] is node:
            self._untold.pop()

    def look_at_averages(self) -> None:
        """Batch norms got, and returned, nothing bad if their averages and parameters are good."""
        if not self._averaged:
            return
        calls = {id(call.module): call for call in reversed(self._averaged)}
        self._averaged = []
        pairs = [(call, each) for call in calls.values() for each in _averages(call.module)]
        self._checks.add_all(OUTPUT, *zip(*pairs, strict=True))

    # Gradients.

    def _hook(self, call: InnerCall, node: Any, number: int) -> None:
        node.register_prehook(functools.partial(self._arrived, call, number))

    def will_be_partial(self) -> None:
        """A backward pass begins that isn't for the gradients of parameters: these tell nothing."""
        untold, self._untold = self._untold, []
        for call, node, number in untold:
            self._hook(call, node, number)
            call.facts.is_told = False

    def told(self) -> Iterable[torch.Tensor]:
        """The parameters whose gradients tell of others, after a backward pass for all."""
        found = []
        for facts, teller in self._told:
            facts.is_told = gradient_of(teller) is not None
            found.append(teller)
        return found

    def forget(self) -> None:
        """Let go of all tensors."""
        self._last = self._awaited = self._follower = None
        self._averaged, self._told, self._untold = [], [], []


def _averages(module: Any) -> Iterable[torch.Tensor]:
    """What a batch norm keeps and has, as far as it is there."""
    yield from (module.running_mean, module.running_var)
    yield from (each for each in parameters_of(module).values() if each is not None)
