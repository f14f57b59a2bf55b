"""What operations do besides computing: which can be executed once more, and on what conditions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tfdbg_cli.engines.tensorflow.shared.body_nodes import Functions
from tfdbg_cli.engines.tensorflow.shared.private import is_reference

__all__ = ["HARMLESS", "PRINTS", "VARIABLES", "Effect", "Effects", "is_handle"]

#: What holds a variable.
VARIABLES = frozenset({"VarHandleOp", "Variable", "VariableV2"})
#: They hand on their input, or compute nothing, and write to the terminal.
PRINTS = frozenset({"Print", "PrintV2"})

# State that lives as long as a run does.
_OF_THE_RUN = frozenset(
    {
        "Stack",
        "StackV2",
        "TemporaryVariable",
        "TensorArray",
        "TensorArrayV2",
        "TensorArrayV3",
    }
)
_WITH_STATE_OF_THE_RUN = ("DestroyTemporaryVariable", "Stack", "TemporaryVariable", "TensorArray")
#: Stateful by declaration; a second execution gives the same and changes nothing.
HARMLESS = VARIABLES | {
    "Assert",
    "CheckNumerics",
    "CheckNumericsV2",
    "IsVariableInitialized",
    "Placeholder",
    "ReadVariableOp",
    "ResourceGather",
    "ResourceGatherNd",
    "VarIsInitializedOp",
    "VariableShape",
}
# They take a reference or handle and hand it on.
_PASSING = frozenset(
    {"Enter", "Exit", "Identity", "IdentityN", "Merge", "NextIteration", "Select", "Switch"}
)
# They need nothing of the session that they were made for.
_PYTHON = frozenset({"EagerPyFunc", "PyFunc"})
_LONGEST_CHAIN = 2000


class Effect(NamedTuple):
    """What executing an operation does and needs.

    Attributes:
        reads, writes: variables, as the operations that hold them.
        shares: state of the run that it works on with others: TensorArrays, stacks.
        keeps: why it is not executed again; empty: it may be. ``random``: it draws numbers;
            ``python``: it calls a function of the program; ``print``: it only prints; ``state``:
            queues, iterators, tables, files and the like.
        draws: the names of the operations inside of it that draw random numbers.
    """

    reads: frozenset[Any] = frozenset()
    writes: frozenset[Any] = frozenset()
    shares: frozenset[Any] = frozenset()
    keeps: str = ""
    draws: tuple[str, ...] = ()


class _BodyEffects(NamedTuple):
    writes: bool
    keeps: str
    draws: tuple[str, ...]


class Effects:
    """Looks at the operations of one graph.

    Args:
        functions: of the graph.
    """

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._known: dict[Any, Effect] = {}

    def of(self, op: Any) -> Effect:
        """What an operation of the outermost graph does."""
        effect = self._known.get(op)
        if effect is None:
            effect = self._known[op] = self._look(op)
        return effect

    def _look(self, op: Any) -> Effect:
        reads: set[Any] = set()
        writes: set[Any] = set()
        shares: set[Any] = set()
        foreign = False
        inside = self._inside(op) if self._functions.is_call(op) else None
        for index, tensor in enumerate(op.inputs):
            if not is_handle(tensor):
                continue
            source = source_of(tensor)
            if source.type in _OF_THE_RUN:
                shares.add(source)
            elif source.type not in VARIABLES:
                foreign = True
            elif inside.writes if inside is not None else _is_written(op, index):
                writes.add(source)
            else:
                reads.add(source)
        if op.type in _OF_THE_RUN:
            shares.add(op)
        keeps = ""
        draws: tuple[str, ...] = ()
        if foreign and not _passes(op):
            keeps = "state"
        elif inside is not None:
            keeps, draws = inside.keeps, inside.draws
        elif not (writes or reads or shares):
            keeps = _keeps(op)
        return Effect(frozenset(reads), frozenset(writes), frozenset(shares), keeps, draws)

    def _inside(self, call: Any) -> _BodyEffects:
        """What the bodies of a call do."""
        writes, keeps, draws = False, "", []
        for op in self._functions.operations([call]):
            if self._functions.is_call(op) or _passes(op):
                continue
            handles = [index for index, tensor in enumerate(op.inputs) if is_handle(tensor)]
            if handles and op.op_def.is_stateful:
                own = op.type.startswith(_WITH_STATE_OF_THE_RUN)
                writes = writes or (not own and any(_is_written(op, at) for at in handles))
                continue
            why = _keeps(op)
            if why == "random":
                draws.append(f"{call.name}/…/{op.name}")
            elif why and why != "print":
                keeps = why
        return _BodyEffects(writes, keeps, tuple(draws))


def is_handle(tensor: Any) -> bool:
    """Whether a tensor stands for state, not for a value: a reference or a resource."""
    return is_reference(tensor) or tensor.dtype.base_dtype.name == "resource"


def source_of(tensor: Any) -> Any:
    """The operation that the state behind a handle belongs to."""
    for _ in range(_LONGEST_CHAIN):
        op = tensor.op
        if op.type in VARIABLES or op.type in _OF_THE_RUN:
            break
        handles = [each for each in op.inputs if is_handle(each)]
        if not handles:
            break
        slot = tensor.value_index
        corresponds = op.type in ("While", "StatelessWhile", "IdentityN")
        tensor = op.inputs[slot] if corresponds and op.inputs[slot] in handles else handles[0]
    return tensor.op


def _passes(op: Any) -> bool:
    return op.type.removeprefix("Ref") in _PASSING


def _is_written(op: Any, index: int) -> bool:
    """Whether an operation may change the variable that one of its inputs stands for."""
    if op.type in HARMLESS or _passes(op):
        return False
    if not is_reference(op.inputs[index]):
        return True
    # A reference is read wherever a value is declared.
    return bool(list(_arguments(op))[index].is_ref)


def _arguments(op: Any) -> Iterator[Any]:
    """The declared argument of each input."""
    for argument in op.op_def.input_arg:
        count = 1
        if argument.number_attr:
            count = op.get_attr(argument.number_attr)
        elif argument.type_list_attr:
            count = len(op.get_attr(argument.type_list_attr))
        for _ in range(count):
            yield argument


def _keeps(op: Any) -> str:
    """Why an operation that works on no variable must not be executed again."""
    if op.type in _PYTHON:
        return "python"
    if op.type in PRINTS:
        return "" if op.outputs else "print"
    if not op.op_def.is_stateful or op.type in HARMLESS:
        return ""
    names = {attribute.name for attribute in op.op_def.attr}
    if op.type.startswith("CudnnRNN"):
        return "random" if op.get_attr("dropout") else ""
    return "random" if {"seed", "seed2"} <= names else "state"
