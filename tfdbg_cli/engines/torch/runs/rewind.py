"""Runs the lines of the program from a forward call to its backward pass once more."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.dumps.sources import is_debugger_path
from tfdbg_cli.engines.kit.excerpts import Excerpt, Refused, excerpt
from tfdbg_cli.engines.torch.names.sites import tensors_in
from tfdbg_cli.engines.torch.private import modes_below
from tfdbg_cli.engines.torch.runs.undo import Beginning, copied, undone
from tfdbg_cli.engines.torch.values.layouts import is_readable, same_bits, undisturbed

__all__ = ["Guard", "Refused", "RewindResult", "Start", "Watched"]

_PYTORCH = torch.__path__[0]
_MOST_FRAMES = 40
# Frames whose variables are kept before it is known which of them runs the lines.
_MOST_KEPT = 16
_OPTIMIZED = 0x1  # CO_OPTIMIZED: the code of a function

_Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Watched = Callable[[], contextlib.AbstractContextManager[None]]


class _Reached(BaseException):
    """The lines have come as far as they had come the first time; leaves them."""


class _CallPlace(NamedTuple):
    """A frame that a forward call was made from, directly or not.

    Attributes:
        frame: itself.
        position: where it was in its code.
        names: the variables that were kept, as far as bound; ``None``: all.
        kept: what they held.
    """

    frame: FrameType
    position: int
    names: frozenset[str] | None
    kept: Mapping[str, Any]


class Start:
    """Where a forward pass has begun, and what has to be as it was then to do it again.

    Attributes:
        beginning: random numbers and buffers.
        places: the frames that led to the call, innermost first.
        arguments: of the call, positional ones and others.
        backward_count: how many backward passes there were since.
    """

    def __init__(self, places: list[_CallPlace], arguments: _Arguments) -> None:
        self.beginning = Beginning()
        self.places = places
        self.arguments = arguments
        self.backward_count = 0


@dataclass
class RewindResult:
    """What came of running lines once more.

    Attributes:
        trouble: what went wrong, as a sentence; mostly empty.
        pairs: tensors of the first and the second time that are the same, bit for bit.
        differs: outputs and variables were not.
    """

    trouble: str = ""
    pairs: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)
    differs: bool = False

    def compare(self, values: Iterable[tuple[Any, Any]]) -> bool:
        """Look at values of the first and the second time; whether all are the same."""
        is_same = True
        with undisturbed():
            for first, second in values:
                for one, other in zip(tensors_in("", first), tensors_in("", second), strict=False):
                    if same_bits(one[1], other[1]):
                        self.pairs.append((one[1], other[1]))
                    else:
                        is_same = False
        return is_same


class Guard:
    """Runs lines once more, and leaves the program as if it had not.

    The lines are the whole statements from the forward call to the backward pass, in the innermost
    function that makes both, run in a function of their own with the variables, random numbers
    and buffers that they began with. Parameters are not touched, because no update is made;
    afterwards gradients, buffers, random numbers, variables, and what can be told to have changed
    in the objects that the lines use, are put back. What they print, write and send they do twice.

    It outlives runs, since it remembers which lines they were.
    """

    def __init__(self) -> None:
        self._excerpts: dict[tuple[CodeType, int, int], Excerpt | Refused] = {}
        # The variables to keep of each frame that is known to lead to forward calls.
        self._wanted: dict[CodeType, frozenset[str]] = {}
        # Calls in frames that begin a forward pass each time that they are made.
        self._beginnings: set[tuple[CodeType, int]] = set()
        self._remaining = 0  # backward passes, until the lines are done
        self._start: Start | None = None  # whose first call is still to come

    def begin(
        self, module: torch.nn.Module, arguments: _Arguments, frame: FrameType | None
    ) -> Start:
        """A forward pass begins.

        Args:
            module: that is called.
            arguments: of the call.
            frame: where it is called.
        """
        places: list[_CallPlace] = []
        count = 0
        while frame is not None and len(places) < _MOST_FRAMES:
            code = frame.f_code
            if not is_debugger_path(code.co_filename):
                names = self._wanted.get(code)
                if names is None and (count >= _MOST_KEPT or _is_pytorch(code)):
                    names = frozenset()
                count += names is None
                kept = {} if names == frozenset() else _variables(frame, names)
                places.append(_CallPlace(frame, frame.f_lasti, names, kept))
            frame = frame.f_back
        start = Start(places, arguments)
        start.beginning.add(module)
        return start

    def begins_again(self, start: Start, frame: FrameType | None) -> bool:
        """Whether a call is the first one of another forward pass: an earlier one was left."""
        places = {id(place.frame): place.position for place in start.places}
        while frame is not None:
            if (frame.f_code, frame.f_lasti) in self._beginnings:
                return places.get(id(frame)) == frame.f_lasti
            frame = frame.f_back
        return False

    def lines(self, start: Start, frame: FrameType | None) -> tuple[_CallPlace, Excerpt]:
        """The lines from a forward call to where the program is now.

        Raises:
            Refused: they can't be run again.
        """
        distributed = torch.distributed
        is_distributed = distributed.is_available() and distributed.is_initialized()
        if is_distributed and distributed.get_world_size() > 1:
            raise Refused("other processes take part in them")
        if modes_below():
            raise Refused("a dispatch mode of the program would see them")
        places = {id(place.frame): index for index, place in enumerate(start.places)}
        while frame is not None and id(frame) not in places:
            frame = frame.f_back
        if frame is None:
            raise Refused("no function makes both the forward call and the backward pass")
        at = places[id(frame)]
        place = start.places[at]
        if _is_pytorch(frame.f_code):
            raise Refused("PyTorch itself makes the forward call and the backward pass")
        return place, self._excerpt(start, place, frame.f_lasti)

    def _excerpt(self, start: Start, place: _CallPlace, position: int) -> Excerpt:
        key = (place.frame.f_code, place.position, position)
        found = self._excerpts.get(key)
        if found is None:
            try:
                found = excerpt(*key)
            except Refused as refusal:
                found = refusal
            self._excerpts[key] = found
            for each in start.places:
                self._wanted.setdefault(each.frame.f_code, frozenset())
            if isinstance(found, Excerpt):
                self._wanted[key[0]] |= found.variables.carried
                if not found.repeats:
                    self._beginnings.add((key[0], place.position))
        if isinstance(found, Refused):
            raise found
        return found

    def run(
        self,
        start: Start,
        place: _CallPlace,
        lines: Excerpt,
        parameters: Iterable[torch.Tensor],
        watched: Watched,
    ) -> RewindResult:
        """Run lines again.

        Args:
            start: where they began.
            place, lines: what `lines` has found.
            parameters: whose gradients are put back; those of the modules that were called are
                among them anyway.
            watched: around the lines themselves.

        Raises:
            Refused: they can't be run.
        """
        if place.names is not None and not lines.variables.carried <= place.names:
            raise Refused(f"{lines.lines} run for the first time")
        space = place.frame.f_locals
        known = {**place.frame.f_globals, **space}
        objects = [known[name] for name in lines.variables.used if name in known]
        _check_copies(start.beginning.modules, objects)
        made: dict[str, Any] = {}
        before = dict(space)
        outcome = RewindResult()
        self._remaining = start.backward_count
        with self._again(start, parameters, objects) as gradients:
            try:
                with watched():
                    lines.run(place.frame, place.kept, made)
            except (_Reached, Refused, KeyboardInterrupt) as end:
                if not isinstance(end, _Reached):
                    raise
            except BaseException as error:
                outcome.trouble = f"{lines.lines} failed the second time: {one_line(error)}."
            # They may differ for the best of reasons: those of the first time were added up.
            outcome.compare((gradient, leaf.grad) for leaf, gradient in gradients)
        variables = ((before.get(name), value) for name, value in made.items())
        outcome.differs = not outcome.compare(variables)
        return outcome

    def call(
        self, start: Start, again: Callable[[], Any], output: Any, watched: Watched
    ) -> RewindResult:
        """Make a forward call without a backward pass again.

        Args:
            start: where it began.
            again: makes it.
            output: what it has returned.
            watched: around the call itself.

        Raises:
            Refused: it can't be made.
        """
        _check_copies(start.beginning.modules, ())
        outcome = RewindResult()
        with self._again(start, (), []):
            try:
                with watched():
                    made = again()
            except KeyboardInterrupt:
                raise
            except BaseException as error:
                outcome.trouble = f"The call failed the second time: {one_line(error)}."
            else:
                outcome.differs = not outcome.compare([(output, made)])
        return outcome

    @contextlib.contextmanager
    def _again(
        self, start: Start, parameters: Iterable[torch.Tensor], objects: list[Any]
    ) -> Iterator[list[tuple[torch.Tensor, torch.Tensor | None]]]:
        """The program as it was at the start; afterwards it is as it is now.

        Yields:
            Parameters and their gradients as they are now.
        """
        modules = start.beginning.modules
        leaves = [*parameters, *(each for module in modules for each in module.parameters())]
        leaves += [each for each in objects if isinstance(each, torch.Tensor) and each.is_leaf]
        leaves = list({id(leaf): leaf for leaf in leaves}.values())
        gradients = [(leaf, leaf.grad) for leaf in leaves]
        tracer = sys.gettrace()
        sys.settrace(None)
        try:
            with undone(modules, leaves, objects):
                start.beginning.restore()
                self._start = start
                yield gradients
        finally:
            self._start = None
            sys.settrace(tracer)

    def arguments(self, arguments: _Arguments) -> _Arguments:
        """What a module is called with when lines are run again.

        Of the first call it is what it was called with at first: what it was made of (random
        numbers, mostly) may lie before the forward pass began.
        """
        start, self._start = self._start, None
        if start is None:
            return arguments
        start.beginning.restore_random()
        tensors = [tensor for _, tensor in tensors_in("", [*arguments[0], arguments[1]])]
        needs_grad = any(tensor.requires_grad for tensor in tensors)
        return arguments if needs_grad else start.arguments

    def backward_done(self) -> None:
        """A backward pass of lines that are run again is done: the last one ends them."""
        self._remaining -= 1
        if self._remaining <= 0:
            raise _Reached


def _check_copies(modules: Iterable[torch.nn.Module], objects: Iterable[Any]) -> None:
    """Make sure that whatever lines may write to can be put back.

    Raises:
        Refused: only its class knows how to copy it, or it has no memory now.
    """
    buffers = (buffer for module in modules for buffer in module.buffers())
    for each in (*buffers, *objects):
        is_buffer = isinstance(each, torch.Tensor) and not isinstance(each, torch.nn.Parameter)
        if is_buffer and not each.is_meta and not is_readable(each):
            raise Refused(f"a {type(each).__name__} that they use can't be copied")


def _is_pytorch(code: CodeType) -> bool:
    return code.co_filename.startswith(_PYTORCH)


def _variables(frame: FrameType, names: Iterable[str] | None) -> dict[str, Any]:
    """Variables of a frame as they are now; default: all."""
    space = frame.f_locals
    found = space.items() if names is None else ((n, space[n]) for n in names if n in space)
    kept = {name: copied(value) for name, value in found}
    is_copy = type(space) is dict and frame.f_code.co_flags & _OPTIMIZED
    if is_copy and frame.f_trace is None and sys.getrefcount(space) <= 3:
        # Until Python 3.12 the frame holds on to this dictionary, and thus to what is in it.
        del found
        space.clear()
    return kept
