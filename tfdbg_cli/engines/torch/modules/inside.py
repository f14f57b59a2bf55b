"""Calls of modules by other modules: what is looked at there, as little as possible."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch

from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.common.interpreter.recursion import room
from tfdbg_cli.engines.torch.modules.calls import InnerCall, ModuleCall
from tfdbg_cli.engines.torch.modules.checks import GRADIENT, OUTPUT, Checks, unseen
from tfdbg_cli.engines.torch.modules.facts import Facts, FactsOf
from tfdbg_cli.engines.torch.names.sites import tensors_in
from tfdbg_cli.engines.torch.private import children_of, count_of, parameters_of
from tfdbg_cli.engines.torch.values.access import gradient_of

__all__ = ["Insides", "tell_arrived"]


class Insides:
    """Looks at what modules inside of others return, and at the gradients that they are handed.

    That is, unless something else tells of it (see `Facts`): the module that gets it next, the
    averages of a batch norm, the gradient of a parameter. Whether it does is learned in one run
    for the next ones, and seen in each.

    Args:
        facts: about modules.
        checks: of the run.
    """

    def __init__(self, facts: FactsOf, checks: Checks) -> None:
        self._facts = facts
        self._checks = checks
        # What the last module has returned, and how often that had been written to; itself, if it
        # is looked at only where the next one doesn't show it.
        self._last: tuple[InnerCall, Facts, Callable[[], torch.Tensor | None], int] | None = None
        self._awaited: tuple[InnerCall, torch.Tensor] | None = None
        self._follower: Any = None  # the module that was called with it
        self._averaged: list[InnerCall] = []  # calls of batch norms
        self._told: list[tuple[Facts, torch.Tensor]] = []  # by the gradients of parameters
        self._untold: list[tuple[InnerCall, Any, int]] = []  # nodes that nobody looks at

    def enter(self, module: Any, arguments: Any) -> None:
        """A module is called: it may show what the last one has returned."""
        if self._last is None:
            return
        call, facts, reference, version = self._last
        given = arguments[0][0] if arguments and arguments[0] else None
        is_same = given is not None and given is reference() and count_of(given) == version
        if is_same and children_of(module):
            return  # one of those may
        self._last = None
        self._follower = module if is_same else None
        facts.is_shown = is_same and self._facts(module).shows(module)
        if self._awaited is not None:
            if facts.is_shown:
                self._awaited = None
                self._checks.add_shown(call, given)
            else:
                self._settle()

    def _settle(self) -> None:
        """Look at what was to be shown by another module, and isn't."""
        if self._awaited is not None:
            call, tensor = self._awaited
            self._awaited = None
            self._facts(call.module).is_shown = False
            self._checks.add(OUTPUT, call, 0, tensor)

    def leave(self, module: Any, outer: ModuleCall, output: Any) -> None:
        """It returns.

        Args:
            module: that was called.
            outer: the outermost call around it.
            output: what it returns; ``None``: it raises.
        """
        if type(output) is tuple and output[1:] == (None,):  # of attention without its weights
            output = output[0]
        if type(output) is torch.Tensor:
            self._leave(InnerCall(module, outer), output)
        elif output is not None:
            self._settle()
            self._last = None
            call = InnerCall(module, outer)
            for slot, (_, tensor) in enumerate(tensors_in("", output)):
                self._checks.add(OUTPUT, call, slot, tensor)
                if tensor.grad_fn is not None:
                    self._hook(call, tensor.grad_fn, tensor.output_nr)

    def _leave(self, call: InnerCall, output: torch.Tensor) -> None:
        version = count_of(output)
        last = self._last
        is_same = last is not None and last[2]() is output and last[3] == version
        if is_same and (version >= 0 or type(call.module) is torch.nn.Sequential):
            return  # a container returns what its last part has returned
        self._settle()
        facts = self._facts(call.module)
        self._last = call, facts, weakref.ref(output), version
        if output.is_cpu and facts.averages(call.module):
            self._averaged.append(call)
            self._checks.add_shown(call, output)
        elif facts.is_shown:
            self._awaited = call, output
        else:
            self._checks.add(OUTPUT, call, 0, output)
        node, follower, self._follower = output.grad_fn, self._follower, None
        if node is None or (follower is call.module and facts.hands_back(follower)):
            return
        teller = facts.teller(call.module)
        if teller is not None:
            self._told.append((facts, teller))
            if facts.is_told:
                self._untold.append((call, node, output.output_nr))
                return
        self._hook(call, node, output.output_nr)

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
        calls = {id(call.module): call for call in reversed(self._averaged)}
        self._averaged = []
        pairs = [(call, each) for call in calls.values() for each in _averages(call.module)]
        if pairs:
            self._checks.add_all(OUTPUT, *zip(*pairs, strict=True))

    # Gradients.

    def _hook(self, call: InnerCall, node: Any, number: int) -> None:
        node.register_prehook(functools.partial(tell_arrived, weakref.ref(self), call, number))

    @unseen
    def arrived(self, call: InnerCall, tensor: torch.Tensor) -> None:
        """A backward pass has come to what a module has returned."""
        self._checks.add(GRADIENT, call, 0, tensor)

    def failed(self, error: Exception) -> None:
        """It is told as soon as somebody can be."""
        self._checks.failure = error

    def will_be_partial(self) -> None:
        """A backward pass begins that isn't for the gradients of parameters: these tell nothing."""
        untold, self._untold = self._untold, []
        for call, node, number in untold:
            self._hook(call, node, number)
            self._facts(call.module).is_told = False

    def told(self) -> Iterable[torch.Tensor]:
        """The parameters whose gradients tell of others, after a backward pass for all."""
        for facts, teller in self._told:
            facts.is_told = gradient_of(teller) is not None
            yield teller

    def forget(self) -> None:
        """Let go of all tensors."""
        self._last = self._awaited = self._follower = None
        self._averaged, self._told, self._untold = [], [], []


def _averages(module: Any) -> Iterable[torch.Tensor]:
    """What a batch norm keeps and has, as far as it is there."""
    yield from (module.running_mean, module.running_var)
    yield from (each for each in parameters_of(module).values() if each is not None)


def tell_arrived(reference: weakref.ref[Any], thing: Any, slot: int, gradients: Any) -> None:
    """A hook of an autograd node: it must neither raise nor return anything.

    Args:
        reference: whose ``arrived`` is told, or ``failed``; it may be gone.
        thing: whose gradient it is.
        slot: which of the gradients.
        gradients: what the node gets.
    """
    told = reference()
    if told is None or slot >= len(gradients) or gradients[slot] is None:
        return
    try:
        with room:
            told.arrived(thing, gradients[slot])
    except Exception as error:
        pass_on(error)
        told.failed(error)
