"""Names of ops from JAX's name stacks, and their lines."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence
from typing import Any

from tfdbg_cli.common.node_words import BESIDE
from tfdbg_cli.dumps.sources import Frame, is_library_path
from tfdbg_cli.engines.kit.stacks import columns_at

__all__ = ["Scope", "frames_of", "modules_of", "node_name", "part_name"]

# Phases -> where their ops are; those of the forward pass are in their modules.
_OUTERMOST = {"backward": ("gradients",), BESIDE: ("gradients",), "recompute": ("recompute",)}
_WRAPPED = re.compile(r"^(\w+)\((.*)\)$")
_NOT_IN_NAMES = re.compile(r"[^\w.\-]+")
_MODULES_OF_FLAX = os.path.join("flax", "nnx", "nn") + os.sep
# What `jax.checkpoint` computes again in the backward pass.
_AGAIN = "rematted_computation"
_TRANSFORMS = frozenset(["checkpoint", "remat", _AGAIN])
_TRACING = "trace_to_jaxpr"


class Scope:
    """Where in the program ops are: modules and functions around them.

    Attributes:
        parts: their names, the outermost first.
        phase: ``forward``, ``backward``, ``recompute``: again, for the backward pass, or
            ``beside``: a derivative that is computed beside the forward op.
        is_derived: gradients are computed of it.
    """

    __slots__ = ("is_derived", "parts", "phase")

    def __init__(
        self, parts: tuple[str, ...] = (), phase: str = "forward", is_derived: bool = False
    ) -> None:
        self.parts = parts
        self.phase = phase
        self.is_derived = is_derived

    def inside(self, stack: str) -> Scope:
        """With what a name stack adds: ``transpose(jvp(Model))/Dense_0``."""
        return _inside(self.parts, self.phase, self.is_derived, stack) if stack else self

    def function(self, name: str) -> Scope:
        """Inside of a function of its own."""
        part = part_name(name)
        return Scope((*self.parts, part), self.phase, self.is_derived) if part else self

    def name(self, op: str) -> str:
        """Of an op."""
        return "/".join((*_OUTERMOST.get(self.phase, ()), *self.parts, op))


@functools.lru_cache(maxsize=4096)
def _inside(parts: tuple[str, ...], phase: str, is_derived: bool, stack: str) -> Scope:
    for whole in _split(stack):
        part = whole
        while (found := _WRAPPED.match(part)) is not None:
            phase = "backward" if found[1] == "transpose" else phase
            is_derived = is_derived or found[1] == "jvp"
            part = found[2]
        phase = "recompute" if part == _AGAIN and phase == "backward" else phase
        found_parts = [part_name(each) for each in _split(part)]
        parts += tuple(name for name in found_parts if name and name not in _TRANSFORMS)
    return Scope(parts, phase, is_derived)


def part_name(text: str) -> str:
    """A part of a name: nothing in it means something else in a name."""
    return _NOT_IN_NAMES.sub("_", text).strip("_")


def node_name(path: str) -> str:
    """The node of an input from its path: ``params['Dense_0']['kernel']``."""
    return "/".join(filter(None, map(part_name, re.split(r"[\[\]/]+|\.(?=[A-Za-z_])", path))))


def _split(stack: str) -> list[str]:
    """At the slashes outside of parentheses."""
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate(stack):
        depth += (letter == "(") - (letter == ")")
        if letter == "/" and not depth:
            parts.append(stack[begin:at])
            begin = at + 1
    return [part for part in (*parts, stack[begin:]) if part]


@functools.lru_cache(maxsize=4096)
def _module_of(file: str, function: str) -> str:
    """The class of a module whose call a frame is; empty: it is none."""
    owner, _, method = function.rpartition(".")
    if method != "__call__" or not owner:
        return ""
    is_module = not is_library_path(file) or _MODULES_OF_FLAX in file
    return part_name(owner.rpartition(".")[2]) if is_module else ""


def modules_of(source: Any) -> tuple[str, ...]:
    """The modules in whose calls an equation stands, where no name stack tells: those of nnx."""
    trace = getattr(source, "traceback", None)
    frames = reversed(trace.frames if trace is not None else ())
    found = (_module_of(each.file_name, each.function_name) for each in frames)
    return tuple(name for name in found if name)


def _columns(trace: Any) -> list[tuple[int, int] | None]:
    """Those of the frames of a traceback, innermost first."""
    try:
        return [*map(columns_at, *trace.raw_frames())]
    except (AttributeError, TypeError):  # another version of jaxlib
        return [None] * len(trace.frames)


def frames_of(source: Any, caller: Sequence[Frame] | None = None) -> tuple[Frame, ...]:
    """The frames of an op, outermost first.

    JAX has those inside of the function that was traced; where it has more, they are those of the
    call for which that was done, which may have been another one.

    Args:
        source: the ``source_info`` of an equation.
        caller: the frames of the call of the function that it is in; ``None``: it is in none.
    """
    trace = getattr(source, "traceback", None)
    frames = (
        [
            Frame(each.file_name, each.line_num, each.function_name, columns=columns)
            for each, columns in zip(trace.frames, _columns(trace), strict=True)
        ][::-1]
        if trace is not None
        else []
    )
    if caller is None:
        return (*frames,)
    traced = [at for at, frame in enumerate(frames) if _TRACING in frame.function]
    return (*caller, *(frames[traced[-1] + 1 :] if traced else frames))
