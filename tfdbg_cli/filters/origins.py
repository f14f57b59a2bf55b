"""``origin_of_nonfinite``: where nan and infinities began that nobody has put there on purpose."""

from __future__ import annotations

import enum
import itertools
import math
import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.node_words import MADE_INSIDE, MEANT, output_shapes
from tfdbg_cli.dumps.dump import Datum, Dump, only_nonfinite
from tfdbg_cli.dumps.graph import Node, node_name_of
from tfdbg_cli.filters.absorbed import Absorption, Absorptions, compared_on_the_way
from tfdbg_cli.filters.causes.patterns import is_of_negative_determinant
from tfdbg_cli.filters.lineage import (
    WRITTEN,
    TensorLineage,
    arguments_of,
    array_of,
    floats,
    has_infinite_argument,
    value_of,
)
from tfdbg_cli.filters.magnitude import largest_number
from tfdbg_cli.filters.outcome import Outcome
from tfdbg_cli.tensors.numeric import blocks, widened
from tfdbg_cli.tensors.statistics import Health

__all__ = [
    "absorbed_by",
    "began_here",
    "came_in",
    "decided_by",
    "left_out",
    "origin_of_nonfinite",
    "stayed_local",
]

_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?(?![\w.])", re.IGNORECASE)

# What computes other numbers than its inputs have; of these what adds, and what joins many elements
# to one.
_ADDING = frozenset({"add", "sub", "cast", "sum"})
_JOINING = frozenset({"linear", "norm", "mean", "variance"})
_COMPUTING = _JOINING | frozenset(
    {
        "add",
        "sub",
        "mul",
        "div",
        "mod",
        "reciprocal",
        "pow",
        "exp",
        "exp2",
        "square",
        "log",
        "log1p",
        "sqrt",
        "rsqrt",
        "scale",
    }
)
# So many nodes are looked at for where a number comes from.
_MOST_SEEN = 200
# So many tensors are asked whether they decide another one.
_MOST_COMPARED = 20

# Masks are made with -1e9 or with the lowest number of their dtype (`torch.finfo(dtype).min`),
# which may have been rounded since.
_MASK_NUMBER = -1e9
_ALMOST = 0.999


class _Kind(enum.Enum):
    CLEAN = enum.auto()
    #: Bad on purpose: infinities that the program has written down, and what was made of them.
    MEANT = enum.auto()
    ORIGIN = enum.auto()
    #: Bad because an input is.
    SPREAD = enum.auto()


@only_nonfinite
def origin_of_nonfinite(datum: Datum, tensor: Any, dump: Dump) -> bool:
    """Whether an op made something bad from clean inputs, and it didn't stay local.

    A bad tensor didn't stay local if the run leaves it behind (as the output of a model, as a loss,
    as a gradient, in a parameter, in a variable), or if it spread to such a tensor.
    `tfdbg_cli.filters.outcome` says what counts as an end of a run. Local are the logarithm of 0
    that a ``where`` drops, and rows of memory that nobody reads. A number that has left the range
    of its dtype counts even if a later op has made a finite number of it: x / inf is 0, and the
    value of x is lost.

    Infinities that the program has put in on purpose, as attention masks do, don't count, and
    neither does what copies, chooses or adds at just these elements makes of them, unless that is a
    nan, or a run gives it as its one number (a loss) and it isn't -inf:

    * constants: ``full``, ``masked_fill``, ``where`` and the like, and sums and casts that a mask
      number (-1e9, ``finfo.min``) carries to -inf, if the program has written that number down;
    * a mask that comes from outside: an input with -inf and nothing above 0.

    The size of a number is no sign of a mask. A product, a quotient or a power is none, and neither
    is a number that meets every element.

    Memory as it was before the run (``empty``, a module's buffers) is no origin either; the first
    op is that lets something bad out of it. A bad input or parameter of the run is one, and so is a
    nan that is made of a mask: the softmax of a row that is masked as a whole. In a dump without a
    graph every other bad tensor is one.

    Args:
        datum: the tensor.
        tensor: its value.
        dump: whose tensor it is. Its inputs are read if it is bad, and only then.
    """
    lineage = TensorLineage.of(dump)
    if not lineage.bad(datum, tensor):
        return False
    if lineage.once(_Kinds).kind(datum) is not _Kind.ORIGIN:
        return False
    return lineage.once(Outcome).got_somewhere(datum) or absorbed_by(dump, datum) is not None


def began_here(dump: Dump, datum: Datum) -> bool:
    """Whether something bad came out of clean inputs in a tensor, whatever became of it."""
    lineage = TensorLineage.of(dump)
    return lineage.bad(datum) is not None and lineage.once(_Kinds).kind(datum) is _Kind.ORIGIN


def absorbed_by(dump: Dump, datum: Datum) -> Absorption | None:
    """The op that has made finite numbers of an overflow that began in a tensor; ``None``: none."""
    return TensorLineage.of(dump).once(Absorptions).by(datum)


def decided_by(dump: Dump, datum: Datum) -> tuple[Datum, Node] | None:
    """What went bad before and decides a tensor, and the comparison of it; ``None``: nothing.

    It stayed local but for that: a comparison of a nan is false, and a loop ends too early.

    Args:
        dump: whose tensor it is.
        datum: something bad began in it.
    """
    lineage = TensorLineage.of(dump)
    bad = dump.maybe_nonfinite(dump.data())
    before = itertools.takewhile(lambda each: each is not datum, bad)
    local = (
        each
        for each in before
        if not each.is_view and began_here(dump, each) and stayed_local(dump, [each])
    )
    for each in itertools.islice(local, _MOST_COMPARED):
        node = compared_on_the_way(lineage, each, datum)
        if node is not None:
            return each, node
    return None


def came_in(lineage: TensorLineage, datum: Datum) -> Datum | None:
    """Where the infinities came in of which a tensor was made; ``None``: none is meant.

    Args:
        lineage: of the dump.
        datum: something bad began in it, be it that its inputs hold infinities on purpose.
    """
    kinds = lineage.once(_Kinds)
    found, seen = datum, {id(datum)}
    while True:
        meant = (each for each in lineage.inputs(found) if id(each) not in seen)
        found = next((each for each in meant if kinds.kind(each) is _Kind.MEANT), found)
        if id(found) in seen:
            return None if found is datum else found
        seen.add(id(found))


def stayed_local(dump: Dump, way: Sequence[Datum]) -> bool:
    """Whether a bad tensor came to nothing: no result or state of the run has it from there.

    Args:
        dump: whose tensor it is.
        way: bad tensors, each computed from the next one; the last is the one in question.
    """
    outcome = TensorLineage.of(dump).once(Outcome)
    if any(map(outcome.is_end, way)) or outcome.got_somewhere(way[-1]):
        return False
    return absorbed_by(dump, way[-1]) is None


def left_out(dump: Dump) -> list[Datum]:
    """The tensors in which something bad began that `origin_of_nonfinite` leaves out as local.

    None where the run has something bad of which nobody knows where in the run it was computed.
    """
    lineage = TensorLineage.of(dump)
    nodes = lineage.graph.nodes if lineage.graph is not None else {}
    for datum in dump.data():
        node = nodes.get(datum.node_name)
        if node is not None and not node.inputs and MADE_INSIDE in node.attributes:
            value = floats(datum)
            if value is not None and not np.isfinite(value).all():
                return []
    return [
        datum
        for datum in dump.data()
        if not datum.is_view and began_here(dump, datum) and stayed_local(dump, [datum])
    ]


class _Kinds:
    """Of which kind each tensor of a dump is, once somebody has asked."""

    def __init__(self, lineage: TensorLineage) -> None:
        self._known: dict[int, _Kind] = {}
        self._lineage: TensorLineage = weakref.proxy(lineage)

    def kind(self, datum: Datum) -> _Kind:
        """The kind of a tensor. Walks back only through bad ones, and over each of them once."""
        waiting = [datum]
        inputs: dict[int, list[Datum]] = {}
        while waiting:
            at = waiting[-1]
            if id(at) in self._known:
                waiting.pop()
            elif not self._lineage.bad(at):
                self._known[id(at)] = _Kind.MEANT if self._is_unread(at) else _Kind.CLEAN
            elif id(at) not in inputs:
                inputs[id(at)] = self._lineage.inputs(at)
                # One that waits already is on a loop of equal times: it can't explain anything.
                waiting += [
                    each
                    for each in inputs[id(at)]
                    if id(each) not in self._known and id(each) not in inputs
                ]
            else:
                self._known[id(at)] = self._judge(at, inputs[id(at)])
        return self._known[id(datum)]

    def _is_unread(self, datum: Datum) -> bool:
        """Whether nobody can read the infinities by which a library writes -inf."""
        node = self._lineage.node(datum)
        return node is not None and MEANT in node.attributes and floats(datum) is None

    def _kind_of_input(self, datum: Datum) -> _Kind:
        kind = self._known.get(id(datum), _Kind.CLEAN)
        # Filters don't look at views: where what they show wasn't dumped, their readers are next.
        return _Kind.CLEAN if kind is _Kind.ORIGIN and datum.is_view else kind

    def _judge(self, datum: Datum, inputs: list[Datum]) -> _Kind:
        """The kind of a bad tensor whose inputs are known."""
        bad = self._lineage.bad(datum)
        assert bad is not None
        node = self._lineage.node(datum)
        inputs = [
            each
            for each in inputs
            if not self._lineage.bad(each) or self._lineage.takes_over(datum, each)
        ]
        kinds = {self._kind_of_input(each) for each in inputs}
        if _Kind.ORIGIN in kinds or _Kind.SPREAD in kinds or self._lineage.was_sent(datum):
            return _Kind.SPREAD
        op_type = node.op_type if node is not None else ""
        roles = self._lineage.roles
        if op_type in roles.placing:
            # PyTorch's logdet writes a nan down, not the program.
            nodes = self._lineage.graph.nodes if self._lineage.graph is not None else {}
            is_failure = bad.nan and node and is_of_negative_determinant(nodes, node)
            return _Kind.ORIGIN if is_failure else _Kind.MEANT
        if node is not None and MEANT in node.attributes and not (bad.nan or bad.pos_inf):
            return _Kind.MEANT
        if roles.unwritten.fullmatch(op_type):
            return _Kind.CLEAN
        if _Kind.MEANT in kinds:
            meant = [each for each in inputs if self._kind_of_input(each) is _Kind.MEANT]
            is_meant = self._is_handed_on(datum, bad, meant, inputs)
            is_meant = is_meant and not self._is_bad_loss(datum, bad)
            return _Kind.MEANT if is_meant else _Kind.ORIGIN
        if op_type == WRITTEN:  # the rest of it is memory that nobody has written to yet
            return _Kind.CLEAN
        if node is None or not self._lineage.has_graph:
            return _Kind.ORIGIN if bad.nan or not _is_mask(datum, bad) else _Kind.MEANT
        if op_type in roles.buffers and not _is_mask(datum, bad):
            return _Kind.CLEAN
        if not node.inputs or op_type in roles.reading:
            is_constant = op_type in roles.lifting and _size(datum) == 1
            is_constant = is_constant and not (bad.nan and op_type in roles.weights)
            return _Kind.MEANT if is_constant or _is_mask(datum, bad) else _Kind.ORIGIN
        computed = roles.computes(op_type)
        is_written = has_infinite_argument(node) and computed not in _COMPUTING
        is_mask = is_written or self._is_overflown_mask(datum, node, inputs, bad)
        return _Kind.MEANT if is_mask and not bad.nan else _Kind.ORIGIN

    def _is_bad_loss(self, datum: Datum, bad: Health) -> bool:
        """Whether a tensor is a single number that the run gives, and isn't -inf, as masks are."""
        is_number = _size(datum) == 1 and bool(bad.nan or bad.pos_inf)
        return is_number and self._lineage.once(Outcome).is_result(datum)

    def _is_handed_on(
        self, datum: Datum, bad: Health, meant: list[Datum], inputs: list[Datum]
    ) -> bool:
        """Whether what is bad in a tensor is only what was meant to be in its inputs.

        Args:
            datum: the tensor.
            bad: of it.
            meant: of its inputs those that are bad on purpose.
            inputs: all of them; those that are bad and not meant are memory.
        """
        if bad.nan:
            known = set(map(id, meant))
            nan = [each for each in inputs if (found := self._lineage.bad(each)) and found.nan]
            if not nan or any(id(each) not in known for each in nan):
                return False
        node = self._lineage.node(datum)
        computed = self._lineage.roles.computes(node.op_type) if node is not None else ""
        made = floats(datum) if computed in _COMPUTING else None
        if made is None:  # it copies, or chooses
            return True
        masks = [floats(each) for each in meant]
        if computed in _JOINING:  # what is added to a product of matrices has its shape
            masks = [each for each in masks if each is not None and each.ndim == made.ndim]
        return _are_in(~np.isfinite(made), masks, np.isfinite, computed not in _JOINING)

    def _is_overflown_mask(
        self, datum: Datum, node: Node, inputs: list[Datum], bad: Health
    ) -> bool:
        """Whether a mask number that the program has written down has become -inf.

        Its size alone is no sign of it: what diverges has such numbers as well.
        """
        largest = largest_number(datum.dtype)
        computed = self._lineage.roles.computes(node.op_type)
        if bad.pos_inf or largest is None or computed not in _ADDING | {"mul"}:
            return False
        if any(float(number) < -largest for number in _numbers_in(node)):
            return True
        if computed == "mul":
            return False
        made = floats(datum)
        masks = [each for each in inputs if _holds_mask_number(each) and self._is_written(each)]
        if made is None or not masks:
            return False
        limit = max(map(_limit_of_masks, masks))
        return _are_in(~np.isfinite(made), list(map(floats, masks)), lambda each: each > limit)

    def _is_written(self, datum: Datum) -> bool:
        """Whether a mask number in a tensor is one that the program has written down."""
        graph, roles = self._lineage.graph, self._lineage.roles
        if graph is None:
            return True
        limit = _limit_of_masks(datum)
        waiting, seen = [datum.tensor_name], set[str]()
        while waiting and len(seen) < _MOST_SEEN:
            tensor = waiting.pop()
            node = graph.nodes.get(node_name_of(tensor))
            if node is None or node.name in seen:
                continue
            seen.add(node.name)
            if any(float(number) <= limit for number in _numbers_in(node)):
                return True
            if has_infinite_argument(node):
                return True
            if not node.inputs or node.op_type in roles.reading:
                data = self._lineage.dump.by_tensor(tensor)
                is_number = node.op_type in roles.lifting and _is_of_one_element(node)
                if node.op_type not in roles.weights and (
                    any(map(_is_written_mask, data)) if data else is_number
                ):
                    return True
            elif roles.computes(node.op_type) not in _COMPUTING - _ADDING - {"mul"}:
                waiting += node.inputs
        return False


def _is_of_one_element(node: Node) -> bool:
    """Whether a node gives a single number, as far as it says it."""
    return all(shape is None or math.prod(shape) == 1 for shape in output_shapes(node.attributes))


def _size(datum: Datum) -> int:
    return int(np.prod(datum.shape or ()))


def _numbers(datum: Datum) -> Iterator[np.ndarray[Any, Any]]:
    """The elements of a tensor of floating point numbers in blocks; none of any other tensor."""
    array = array_of(value_of(datum), "float")
    if array is not None:
        yield from map(widened, blocks(array))


def _is_mask(datum: Datum, bad: Health) -> bool:
    """Whether a tensor from outside is made to be added to logits: -inf, and nothing above 0."""
    if bad.nan or bad.pos_inf:
        return False
    return all(not block.size or bool(block.max() <= 0) for block in _numbers(datum))


def _numbers_in(node: Node) -> Iterator[str]:
    """The numbers among an operator's arguments."""
    return (number for text in arguments_of(node) for number in _NUMBER.findall(text))


def _are_in(
    bad: np.ndarray[Any, Any],
    given: Sequence[np.ndarray[Any, Any] | None],
    is_other: Callable[[np.ndarray[Any, Any]], Any],
    otherwise: bool = True,
) -> bool:
    """Whether all bad elements are where one of some tensors isn't other than it was meant to be.

    A single number, which meets all elements, is no mask. Where shapes don't tell: ``otherwise``.
    """
    left = bad
    for each in given:
        if each is None:
            return True
        if each.size == 1 < bad.size:
            continue
        try:
            left = left & np.broadcast_to(is_other(each), bad.shape)
        except ValueError:
            return otherwise
    return not left.any()


def _is_written_mask(datum: Datum) -> bool:
    """Whether a constant, or a tensor from outside, is a mask.

    It is made of numbers of masks with none above 0, or has the lowest one of its dtype.
    """
    largest = largest_number(datum.dtype) or np.inf
    held = [block for block in _numbers(datum) if block.size]
    if not _holds_mask_number(datum):
        return False
    return all(block.max() <= 0 for block in held) or any((e == -largest).any() for e in held)


def _limit_of_masks(datum: Datum) -> float:
    """At and below this number there are numbers of masks."""
    largest = largest_number(datum.dtype)
    return _MASK_NUMBER if largest is None else max(-_ALMOST * largest, _MASK_NUMBER)


def _holds_mask_number(datum: Datum) -> bool:
    limit = _limit_of_masks(datum)
    return any(block.size and bool(block.min() <= limit) for block in _numbers(datum))
