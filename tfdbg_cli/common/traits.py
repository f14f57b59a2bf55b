"""What is known of an engine without its framework: its settings, its ops, what it is called."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tfdbg_cli.common.fields import Field

__all__ = [
    "RESULTS",
    "EngineTraits",
    "OpRoles",
    "all_traits",
    "meaning",
    "op_roles",
    "register",
    "traits_of",
]

#: Of engines whose twins compute all that the program's own functions do.
RESULTS = Field(
    "results",
    "own",
    str,
    "ONNX Runtime, JAX at the level ops: whose results a debugged program gets: its own, or "
    "the twin's, which saves a run and may differ in the last bits.",
    ("own", "twin"),
)

_NEVER = re.compile(r"(?!)")


@dataclass(frozen=True)
class OpRoles:
    """What filters have to know of op types: where something bad begins, what becomes of it.

    Attributes:
        placing: they put numbers that the program has written down where they belong.
        choosing: they take elements of some inputs and leave others out.
        replacing: they fill their first input with the second.
        lifting: they make a tensor of a Python number.
        reading: what variables are read through; what they read from holds no array.
        buffers: a module's memory, as it was before the run.
        telling: they give the program a number (``item()``), which is in the attribute ``_result``.
        weights: they stand for parameters and other state of a model.
        batches: they bring in data from outside, whatever they are given; a run's inputs.
        meanings: op type -> what it computes: ``log``, ``log1p``, ``sqrt``, ``rsqrt``, ``asin``,
            ``acos``, ``atanh``, ``acosh``, ``erfinv``, ``logit``, ``gamma`` (the logarithm of it,
            and what has its poles), ``sinh``, ``cosh``, ``div``, ``mod``, ``reciprocal``, ``pow``,
            ``exp``, ``exp2``, ``add``, ``sub``, ``mul``, ``square``, ``cast``, ``linear`` (sums of
            products), ``sum``, ``max``, ``norm``, ``addcdiv`` (a sum with a quotient),
            ``sqrt_grad`` (of the root and what comes back to it), ``sqrt_backward``,
            ``mul_backward`` (of what comes back and what the forward op was given), ``softmax``,
            ``mean``, ``variance``, ``clip``, ``relu``, ``sigmoid``, ``tanh``, ``quantize`` (codes,
            of a tensor, a scale and a zero point), ``same`` (the numbers of its input, in whatever
            shape).
        unwritten: matches the whole name of those whose memory nobody has written to yet.
        sending: matches the beginning of those that send to another process.
        writing: matches the beginning of those that write to a variable among their inputs.
    """

    placing: frozenset[str] = frozenset()
    choosing: frozenset[str] = frozenset()
    replacing: frozenset[str] = frozenset()
    lifting: frozenset[str] = frozenset()
    reading: frozenset[str] = frozenset()
    buffers: frozenset[str] = frozenset()
    telling: frozenset[str] = frozenset()
    weights: frozenset[str] = frozenset()
    batches: frozenset[str] = frozenset()
    meanings: Mapping[str, str] = field(default_factory=dict)
    unwritten: re.Pattern[str] = _NEVER
    sending: re.Pattern[str] = _NEVER
    writing: re.Pattern[str] = _NEVER

    def computes(self, op_type: str) -> str:
        """What an op computes, of what is in `meanings`; empty: it isn't known."""
        plain = op_type.removeprefix("_foreach_").rstrip("_")
        return self.meanings.get(op_type) or self.meanings.get(plain, "")

    def joined(self, other: OpRoles) -> OpRoles:
        """The roles of both."""
        return OpRoles(
            self.placing | other.placing,
            self.choosing | other.choosing,
            self.replacing | other.replacing,
            self.lifting | other.lifting,
            self.reading | other.reading,
            self.buffers | other.buffers,
            self.telling | other.telling,
            self.weights | other.weights,
            self.batches | other.batches,
            {**self.meanings, **other.meanings},
            re.compile(f"{self.unwritten.pattern}|{other.unwritten.pattern}"),
            re.compile(f"{self.sending.pattern}|{other.sending.pattern}"),
            re.compile(f"{self.writing.pattern}|{other.writing.pattern}"),
        )


def meaning(**names: str) -> dict[str, str]:
    """Meanings as an engine writes them down: each with the op types that have it."""
    return {name: what for what, listed in names.items() for name in listed.split()}


@dataclass(frozen=True)
class EngineTraits:
    """One engine, as far as rooms that know no framework may have to know.

    Attributes:
        name: as ``--engine`` takes it, and as `RunInfo.engine` has it.
        title: as people call the framework.
        package: the framework's own, whose version is told; empty: it has none.
        settings: what the engine can be told by ``config set``.
        op_roles: of its op types.
        has_hooks: the framework calls hooks of the program's around runs.
        steps_calls: calls of functions are runs, and can be done step by step.
        files: ``module:function`` that gives the file system of an address (`RemoteFiles` of
            `dumps.remote.systems`), if `package` is installed; empty: it knows no addresses.
        has_norms: norms of gradients and parameters can be followed over its runs.
        has_debug_ops: its runs have debug ops, and several values of a tensor are dumps of it.
        unlisted: op types that lists leave out, as views are: constants, shapes.
        detours: modules whose functions call ours, only to be called by those a second time.
        spelling: how programs write a change of an argument ``{x}``: ``low`` and ``high`` keep it
            at a number ``{0}`` or on one side of it, ``between`` between two, ``add`` adds one,
            ``magnitude`` takes the sign away.
        keeping: the file that tells the framework, or a converter of its models, what isn't to be
            in a narrower type: a `string.Template` with ``$about``, ``$names`` and ``$ops`` (lists
            in JSON, of what is kept and of ops with their lines); empty: there is no such tool.
        keeps_modules: those are names of modules, or of layers, and not of ops.
    """

    name: str
    title: str
    package: str = ""
    settings: tuple[Field, ...] = ()
    op_roles: OpRoles = field(default_factory=OpRoles)
    has_hooks: bool = False
    steps_calls: bool = False
    files: str = ""
    has_norms: bool = False
    has_debug_ops: bool = False
    unlisted: frozenset[str] = frozenset()
    detours: frozenset[str] = frozenset()
    spelling: Mapping[str, str] = field(default_factory=dict)
    keeping: str = ""
    keeps_modules: bool = False


_known: dict[str, EngineTraits] = {}


def register(traits: EngineTraits) -> None:
    """Make an engine known; the registry of engines does it."""
    _known[traits.name] = traits


def all_traits() -> Sequence[EngineTraits]:
    """Those that are known."""
    return tuple(_known.values())


def traits_of(engine: str) -> EngineTraits | None:
    """Those of an engine; ``None``: it isn't known."""
    return _known.get(engine)


def op_roles(engine: str) -> OpRoles:
    """The roles of an engine's op types; where it isn't known which engine it was, of all."""
    found = _known.get(engine)
    if found is not None:
        return found.op_roles
    return functools.reduce(OpRoles.joined, (each.op_roles for each in _known.values()), OpRoles())
