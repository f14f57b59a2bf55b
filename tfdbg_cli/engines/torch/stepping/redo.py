"""Ops of a recorded run, computed again with other values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import torch

from tfdbg_cli.dumps.dump import CannotRedo, Dump, Redo
from tfdbg_cli.engines.torch.private import KERNEL, SCHEMA, quiet
from tfdbg_cli.engines.torch.record.op_record import OpOutput, OpRecord
from tfdbg_cli.engines.torch.record.op_recorder import TENSOR
from tfdbg_cli.engines.torch.record.schemas import KNOWN, OpFacts
from tfdbg_cli.engines.torch.record.written import is_written
from tfdbg_cli.engines.torch.stepping.redo_gradients import recorded, redo_gradient
from tfdbg_cli.engines.torch.stepping.thread_state import apart
from tfdbg_cli.engines.torch.stepping.values import flat
from tfdbg_cli.engines.torch.values.arrays import to_numpy

__all__ = ["redo_of"]

_Array = np.ndarray[Any, Any]
_Made = TypeVar("_Made")

_RANDOM = getattr(getattr(torch, "Tag", None), "nondeterministic_seeded", None)
_DROPOUT = "aten::native_dropout"
# What draws random numbers whatever the elements of its inputs are.
_DRAWS_ALONE = re.compile(
    r"aten::(?:rand\w*_like|(?:uniform|normal|log_normal|exponential|random|cauchy|geometric)_"
    r"|bernoulli_\.float)(?:\.|$)"
)


def redo_of(dump: Dump, ops: Callable[[], Iterable[tuple[str, OpRecord]]]) -> Redo:
    """What `Dump.redo` is for a run of these ops.

    Args:
        dump: of the run.
        ops: gives each op under the name of its node; an op that was recorded twice counts once.
    """
    known: dict[str, OpRecord] = {}

    def redo(
        node: str, given: Sequence[_Array], made: Sequence[Any], *, is_wide: bool = False
    ) -> Sequence[_Array | None] | None:
        if not known:
            known.update(ops())
        return _warning_python(lambda: compute(node, given, made, is_wide))

    def compute(
        node: str, given: Sequence[_Array], made: Sequence[Any], is_wide: bool
    ) -> Sequence[_Array | None] | None:
        if node not in known or known[node].facts is None:
            return redo_gradient(dump, known, _pulled, node, given, made, is_wide)
        if is_written(known[node]):
            return [_redo_written(dump, known[node], given, made)]
        return _redo_op(known[node], given, made, is_wide=is_wide)

    return redo


def _warning_python(work: Callable[[], _Made]) -> _Made:
    """Do something so that what PyTorch warns of goes to Python's warnings.

    A kernel that is called directly writes it to the terminal; it doesn't within a function of
    PyTorch's that calls Python.
    """
    made: list[_Made] = []

    def once(number: float) -> float:
        made.append(work())
        return number

    with apart(fresh=True), quiet():
        torch.zeros(1, dtype=torch.float32, device="cpu").apply_(once)
    return made[0]


def _redo_op(
    record: OpRecord, given: Sequence[_Array], made: Sequence[Any], *, is_wide: bool
) -> list[_Array] | None:
    facts = record.facts
    if facts is None:
        raise CannotRedo("it is no op of PyTorch's own")
    if facts.is_uninitialized:
        if made and made[0] is not None:
            return None
        with apart(fresh=True), quiet():  # what is there is written over, whatever it was
            zeros = (torch.zeros(each.shape or (), dtype=each.dtype) for each in record.outputs)
            return [np.asarray(to_numpy(each)) for each in zeros]
    if not facts.overload.startswith("aten::"):  # nobody knows what it does besides
        raise CannotRedo("it is no op of PyTorch's own")
    op = _op_of(facts)
    if _RANDOM in getattr(op, "tags", ()):
        if facts.overload == _DROPOUT:
            return _dropout(record, given, made)
        if _DRAWS_ALONE.match(facts.overload) is None:  # `bernoulli(p)` depends on `p`
            raise CannotRedo("its random numbers aren't in the dump")
        return None
    if len(given) != len(record.inputs):
        raise CannotRedo("its inputs aren't known")
    # No mode of the program's sees any of it, nor that tensors are made of arrays.
    with apart(fresh=True), quiet(), torch.no_grad():
        tensors = _tensors(record, given, is_wide)
        args, kwargs = _call(op, record, tensors)
        if is_wide:
            args = [_wider(each.name, value, tensors) for each, value in _named(op, args)]
        try:
            result = getattr(op, KERNEL, op)(*args, **kwargs)
        except Exception as error:
            raise CannotRedo(f"it refuses these values: {type(error).__name__}") from error
        found = list(flat(result))
        returned = {id(each) for each in found}
        written = flat(facts.written(args, kwargs))
        found += [each for each in written if id(each) not in returned]
        if len(found) < len(record.outputs):
            raise CannotRedo("it gives something else now")
        arrays = [to_numpy(each) for each in found[: len(record.outputs)]]
    return [each for each in arrays if isinstance(each, np.ndarray)]


def _redo_written(
    dump: Dump, record: OpRecord, given: Sequence[_Array], made: Sequence[Any]
) -> _Array:
    """A tensor after others that share its memory were written to, one after another."""
    if made and made[0] is not None:  # whether this is all that was written is found out
        before = _joined(record, [_before(dump, each) for each in record.inputs])
        if not np.array_equal(before, made[0], equal_nan=True):
            raise CannotRedo("its memory was written to by another op")
    return _joined(record, given)


def _joined(record: OpRecord, values: Iterable[_Array]) -> _Array:
    output, sources = record.outputs[0], record.inputs
    if any(each.key != output.key or each.dtype != output.dtype for each in sources):
        raise CannotRedo("its memory was written to by another op")
    with apart(fresh=True), quiet(), torch.no_grad():
        memory = torch.zeros(max(map(_end, (output, *sources))), dtype=output.dtype)
        for each, value in zip(sources, values, strict=True):
            _part(memory, each).copy_(_tensor(value, each.dtype, memory.device, False))
        return np.asarray(to_numpy(_part(memory, output).clone()))


def _before(dump: Dump, output: OpOutput) -> _Array:
    """An output as it was in the run; if nobody has read it, it wasn't kept."""
    if is_written(output.record) and not dump.by_tensor(output.name):
        return _joined(output.record, [_before(dump, each) for each in output.record.inputs])
    return recorded(dump, output.name)


def _part(memory: torch.Tensor, output: OpOutput) -> torch.Tensor:
    return memory.as_strided(output.shape or (), output.stride, output.offset)


def _end(output: OpOutput) -> int:
    steps = zip(output.shape or (), output.stride, strict=True)
    return int(output.offset + 1 + sum((count - 1) * step for count, step in steps))


def _named(op: Any, args: Sequence[Any]) -> Iterable[tuple[Any, Any]]:
    return zip(getattr(op, SCHEMA).arguments, args, strict=False)


def _wider(argument: str, value: Any, tensors: Sequence[torch.Tensor]) -> Any:
    """The dtype that the derivative of a softmax is told its input has had."""
    return tensors[0].dtype if argument == "input_dtype" and tensors else value


def _pulled(
    record: OpRecord, given: Sequence[_Array], back: Sequence[_Array], is_wide: bool
) -> list[_Array | None]:
    """The gradient of an op with respect to each of its inputs, by autograd.

    Args:
        record: of the op, which gives one tensor that has a gradient.
        given: its inputs.
        back: the gradients with respect to what it gives, which are summed; none: ones.
        is_wide: as `Redo` takes it.

    Returns:
        ``None`` for an input that has no gradient.

    Raises:
        CannotRedo: it can't be computed.
    """
    facts = record.facts
    if facts is None or is_written(record) or not facts.overload.startswith("aten::"):
        raise CannotRedo("its op can't be computed again")
    if len(given) != len(record.inputs):
        raise CannotRedo("the inputs of its op aren't known")
    op = _op_of(facts)
    if _RANDOM in getattr(op, "tags", ()):
        raise CannotRedo("its random numbers aren't in the dump")
    with apart(fresh=True), quiet(), torch.enable_grad():
        leaves = [
            each.requires_grad_(each.is_floating_point())
            for each in _tensors(record, given, is_wide)
        ]
        # Copies: an op that works in place refuses the leaves themselves.
        args, kwargs = _call(op, record, [each.clone() for each in leaves])
        wanted = [each for each in leaves if each.requires_grad]
        try:
            (made,) = [each for each in flat(op(*args, **kwargs)) if each.requires_grad]
            ends = [_tensor(each, made.dtype, made.device, False) for each in back]
            end = sum(ends[1:], ends[0]) if ends else torch.ones_like(made)
            found = torch.autograd.grad(made, wanted, end, allow_unused=True)
        except Exception as error:
            raise CannotRedo(f"it refuses these values: {type(error).__name__}") from error
        arrays = [None if each is None else np.asarray(to_numpy(each)) for each in found]
    by_leaf = {id(each): array for each, array in zip(wanted, arrays, strict=True)}
    return [by_leaf.get(id(each)) for each in leaves]


def _op_of(facts: OpFacts) -> Any:
    for op, known in KNOWN.values():
        if known is facts and getattr(op, SCHEMA, None) is not None:
            return op
    raise CannotRedo("it is no op of PyTorch's own")


def _tensors(record: OpRecord, given: Sequence[_Array], is_wide: bool) -> list[torch.Tensor]:
    return [
        _laid_out(_tensor(value, output.dtype, output.device, is_wide), output)
        for value, output in zip(given, record.inputs, strict=True)
    ]


def _laid_out(tensor: torch.Tensor, output: OpOutput) -> torch.Tensor:
    """The same, laid out in memory as it was: LAPACK, for one, gives others for another layout."""
    shape, stride = output.shape or (), output.stride or ()
    dims = sorted(zip(stride, shape, strict=False))
    is_apart = all(least * size <= next_one for (least, size), (next_one, _) in pairwise(dims))
    is_alike = tensor.shape == shape and len(stride) == tensor.dim() and 0 not in stride
    if not is_alike or not is_apart or tensor.stride() == stride:
        return tensor
    made = torch.empty_strided(shape, stride, dtype=tensor.dtype, device=tensor.device)
    return made.copy_(tensor)


def _tensor(value: _Array, dtype: torch.dtype, device: torch.device, is_wide: bool) -> torch.Tensor:
    array = np.array(value)
    if array.dtype.kind == "V":  # bfloat16 and its like
        array = array.astype(np.float32)
    tensor = torch.from_numpy(array)
    # A remedy may give fractions in place of whole numbers.
    is_fraction = tensor.is_floating_point() and not (dtype.is_floating_point or dtype.is_complex)
    if not (is_fraction or (is_wide and tensor.is_floating_point())):
        tensor = tensor.to(dtype)
    return tensor.to(device)


def _call(
    op: Any, record: OpRecord, tensors: Sequence[torch.Tensor]
) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of the call: what is no tensor is in the record, the tensors come in order."""
    known = dict(zip(record.constants[::2], record.constants[1::2], strict=True))
    arguments = getattr(op, SCHEMA).arguments
    waiting = list(tensors)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    gaps = {
        at: known[key]
        for at, each in enumerate(arguments)
        for key in (at, each.name)
        if isinstance(known.get(key), tuple) and TENSOR in known[key]
    }
    places = {
        at: str(each.type)
        for at, each in enumerate(arguments)
        if at not in known and each.name not in known and "Tensor" in str(each.type)
    }
    lists = [at for at, kind in places.items() if kind.startswith("List")]
    single = [at for at in places if at not in lists]
    needed = [at for at in single if not places[at].startswith("Optional")]
    rest = len(waiting) - sum(each.count(TENSOR) for each in gaps.values())
    if not lists and rest == len(needed):
        single = needed  # those that may be left out are
    rest -= len(single)
    if rest < 0 or (not lists and rest) or (lists and rest % len(lists)):
        raise CannotRedo("its record doesn't tell which tensors it was given in which place")
    count = rest // len(lists) if lists else 0
    for at, argument in enumerate(arguments):
        if at in gaps:
            value: Any = [None if each is None else waiting.pop(0) for each in gaps[at]]
        elif at in known or argument.name in known:
            value = known[at] if at in known else known[argument.name]
        elif at in lists:
            value, waiting = waiting[:count], waiting[count:]
        elif at in single:
            value = waiting.pop(0)
        elif argument.has_default_value():
            value = argument.default_value
        else:
            value = None
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    return args, kwargs


def _dropout(record: OpRecord, given: Sequence[_Array], made: Sequence[Any]) -> list[_Array] | None:
    """With the mask of the run."""
    constants = dict(zip(record.constants[::2], record.constants[1::2], strict=True))
    share, mask = constants.get(1), made[1] if len(made) > 1 else None
    if not isinstance(share, float) or not isinstance(mask, np.ndarray) or share >= 1:
        raise CannotRedo("its random numbers aren't in the dump")
    x = given[0]
    return [(np.where(mask, x, 0) / (1 - share)).astype(x.dtype), mask]
