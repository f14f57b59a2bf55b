"""What is known of an engine without its framework: its settings, its ops, what it is called."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfdbg_cli.common.errors import one_line
from tfdbg_cli.common.fields import Field
from tfdbg_cli.common.packages import entry_points
from tfdbg_cli.common.streams import tell

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
        meanings: op type -> what it computes: ``log``, ``log1p``, ``xlogy``, ``xlog1py``
            (the product of these with a factor, 0 where that is 0), ``sqrt``, ``rsqrt``, ``asin``,
            ``acos``, ``atanh``, ``acosh``, ``erfinv``, ``logit``, ``gamma`` (the logarithm of it,
            and what has its poles), ``sinh``, ``cosh``, ``div``, ``mod``, ``reciprocal``, ``pow``,
            ``exp``, ``exp2``, ``add``, ``sub``, ``mul``, ``square``, ``cast``, ``linear`` (sums of
            products), ``scale`` (a product with a number of its own, or a magnitude: of finite
            numbers it is bad only by overflow), ``sum``, ``max``, ``norm``, ``addcdiv`` (a sum with
            a quotient),
            ``sqrt_grad`` (of the root and what comes back to it), ``sqrt_backward``,
            ``mul_backward`` (of what comes back and what the forward op was given), ``softmax``,
            ``mean``, ``variance``, ``clip``, ``relu``, ``sigmoid``, ``tanh``, ``quantize`` (codes,
            of a tensor, a scale and a zero point), ``same`` (the numbers of its input, in whatever
            shape).
        unwritten: matches the whole name of those whose memory nobody has written to yet.
        sending: matches the beginning of those that send to another process.
        writing: matches the beginning of those that write to a variable among their inputs.
        receiving: they put what another process sends into memory, whatever was there.
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
    receiving: frozenset[str] = frozenset()

    def computes(self, op_type: str) -> str:
        """What an op computes, of what is in `meanings`; empty: it isn't known."""
        plain = op_type.removeprefix("_foreach_").rstrip("_")
        return self.meanings.get(op_type) or self.meanings.get(plain, "")

    def table(self, op_types: Iterable[str]) -> dict[str, list[str]]:
        """Op type -> its roles by name, and ``=log`` for what it computes; for a dump's folder.

        Args:
            op_types: of which it is made. Those without a role are left out.
        """
        made = {}
        for op_type in sorted(op_types):
            words = [name for name in _SETS if op_type in getattr(self, name)]
            words += ["unwritten"] if self.unwritten.fullmatch(op_type) else []
            words += ["sending"] if self.sending.match(op_type) else []
            words += ["writing"] if self.writing.match(op_type) else []
            meaning = self.computes(op_type)
            words += [f"={meaning}"] if meaning else []
            if words:
                made[op_type] = words
        return made

    @classmethod
    def of_table(cls, table: Mapping[str, Iterable[str]]) -> OpRoles:
        """The roles that `table` has told of, of a file that may say anything."""
        having: dict[str, set[str]] = {}
        for op_type, words in table.items():
            for word in words:
                having.setdefault(word, set()).add(op_type)
        fields: dict[str, Any] = {name: frozenset(having.get(name, ())) for name in _SETS}
        fields.update((name, _one_of(having.get(name, ()))) for name in _PATTERNS)
        fields["meanings"] = {
            op_type: word[1:]
            for word, found in having.items()
            if word.startswith("=")
            for op_type in found
        }
        return cls(**fields)

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
            self.receiving | other.receiving,
        )


_SETS = (
    *("placing", "choosing", "replacing", "lifting", "reading", "buffers", "telling"),
    *("weights", "batches", "receiving"),
)
# Of one role in a file.
_MOST_NAMES = 1000
_PATTERNS = ("unwritten", "sending", "writing")


def _one_of(names: Iterable[str]) -> re.Pattern[str]:
    found = "|".join(map(re.escape, sorted(names)[:_MOST_NAMES]))
    return re.compile(f"(?:{found})\\Z") if found else _NEVER


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
        unlisted: op types that lists leave out, as views are: those that only reshape.
        constants: op types of constants and shapes. Lists leave them out as well, and the integers
            that are computed of them alone.
        detours: modules whose functions call ours, only to be called by those a second time.
        spelling: how programs write a change of an argument ``{x}``: ``low`` and ``high`` keep it
            at a number ``{0}`` or on one side of it, ``between`` between two, ``add`` adds one,
            ``magnitude`` takes the sign away, ``shifted`` the maximum over the last axis; and what
            the functions are called that take the place of several, with ``{args}``: ``hypot``,
            ``log_softmax``, ``log_sigmoid``, ``logsumexp``, ``logaddexp``, ``expm1``.
        keeping: the file that tells the framework, or a converter of its models, what isn't to be
            in a narrower type: a `string.Template` with ``$about``, ``$names`` and ``$ops`` (lists
            in JSON, of what is kept and of ops with their lines); empty: there is no such tool.
        keeps_modules: those are names of modules, or of layers, and not of ops.
        layers: packages of ops and layers for it, besides `package`: their lines are no model's.
        only_infers: it runs models that were trained elsewhere.
        runs: what a run is, where ops alone are none; empty: nothing is said.
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
    constants: frozenset[str] = frozenset()
    detours: frozenset[str] = frozenset()
    spelling: Mapping[str, str] = field(default_factory=dict)
    keeping: str = ""
    keeps_modules: bool = False
    layers: frozenset[str] = frozenset()
    only_infers: bool = False
    runs: str = ""


_known: dict[str, EngineTraits] = {}


def register(traits: EngineTraits) -> None:
    """Make an engine known; the registry of engines does it."""
    _known[traits.name] = traits


def all_traits() -> Sequence[EngineTraits]:
    """Those that are known."""
    return tuple(_known.values())


def traits_of(engine: str) -> EngineTraits | None:
    """Those of an engine; ``None``: it isn't known.

    A third party's may be known without its engine and its framework: by an entry point of the
    group ``tfdbg_cli.traits``, which has the engine's name.
    """
    if engine and engine not in _known and (found := _installed(engine)) is not None:
        register(found)
    return _known.get(engine)


@functools.cache
def _installed(engine: str) -> EngineTraits | None:
    try:
        points = entry_points("tfdbg_cli.traits")
        found = next((point.load() for point in points if point.name == engine), None)
    except Exception as error:  # of whatever it imports
        tell(f"the traits of the engine {engine} can't be loaded: {one_line(error)}")
        return None
    return found if isinstance(found, EngineTraits) else None


def op_roles(engine: str) -> OpRoles:
    """The roles of an engine's op types.

    Of a dump that names no engine they are those of all; of an engine that isn't known nothing is.
    """
    if engine:
        found = traits_of(engine)
        return found.op_roles if found is not None else OpRoles()
    return functools.reduce(OpRoles.joined, (each.op_roles for each in _known.values()), OpRoles())
