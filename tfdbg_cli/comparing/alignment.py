"""Which tensor of one run is which of another: by name, by call, neighbours, order, value."""

from __future__ import annotations

import difflib
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import DumpError, UserError, one_line
from tfdbg_cli.common.files import lines_of
from tfdbg_cli.comparing.calls import TensorMaker, renumbered
from tfdbg_cli.comparing.digests import digest_in
from tfdbg_cli.comparing.engines import AcrossEngines, Sort, across_engines
from tfdbg_cli.comparing.gaps import epsilon
from tfdbg_cli.dumps.datum import Datum, known_dtype, known_shape
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.graph import Node, node_name_of
from tfdbg_cli.dumps.run_info import roles_of

__all__ = ["FED", "ORDER", "WRITTEN", "Pair", "Renamed", "align", "read_map"]

#: Regexes for whole names of nodes of the first run, and what they are called in the second.
Renamed = Sequence[tuple[re.Pattern[str], str]]

#: What pairs are matched by.
NAME, MAP, CALL = "name", "map", "call"
NEIGHBOURS, ORDER, VALUE, OUTPUT = "neighbours", "order", "value", "output"
DEQUANTIZED, CONTENT, FED, WRITTEN = "dequantized", "content", "feed", "variable"
# Fewer numbers are equal by chance.
_LEAST_ELEMENTS = 4
_DEQUANTIZED = re.compile(r"_DequantizeLinear(_Output)?(_\d+)?$", re.IGNORECASE)

# Codes of quantized numbers are no such numbers.
_CODES = frozenset({"int8", "uint8", "int4", "uint4", "qint8", "quint8"})


class Pair(NamedTuple):
    """Two tensors that belong together, or one that is alone.

    Attributes:
        first, second: of the first and of the second run; one of them may be ``None``.
        matched_by: ``name``, ``map``, ``call`` (their names were given by counting, and they are
            the same by what they were computed from), ``neighbours`` (what they were computed from
            belongs together, op type and shape are the same), ``order`` (op type and shape are the
            same between others that belong together), ``output`` (the program calls what the run
            gives it the same), ``content`` (nothing computes them, and they are equal),
            ``variable`` (the same op writes them to the same variable),
            ``feed`` (one run was given what the other one has computed before it was given it, or
            the same op reads both batches),
            ``dequantized`` (one has what the codes of the other stand
            for) or ``value`` (between two engines: the numbers are near); empty for
            one that is alone.
    """

    first: Datum | None
    second: Datum | None
    matched_by: str = ""


class _Side:
    """The tensors of one run.

    Attributes:
        devices: those that they were computed on.
        by_device: whether tensors of several devices are told apart.
        sort: what two tensors must have in common besides, where another engine has made the
            other run; ``None``: the op type, and the shape.
    """

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        self.sort: Sort | None = None
        self.data = [datum for datum in dump.data() if not datum.is_view]
        graph = dump.graph()
        self.nodes = graph.nodes if graph is not None else {}
        info = dump.run_info()
        self.roles = roles_of(info)
        self.devices = {datum.device_name for datum in self.data}
        self.by_device = False

    def key(self, datum: Datum, node_name: str = "") -> tuple[str, int, str, int, str]:
        """What makes a tensor unique in its run."""
        name = node_name or datum.node_name
        device = datum.device_name if self.by_device else ""
        return name, datum.output_slot, datum.debug_op, datum.execution, device

    def kind(self, datum: Datum) -> tuple[object, ...]:
        """What two tensors must have in common to be the same under other names."""
        if self.sort is not None:
            return self.sort(datum, self.node(datum))
        op_type = self.dump.op_type(datum.node_name)
        return op_type, datum.output_slot, known_shape(datum), _family(datum)

    def node(self, datum: Datum) -> Node | None:
        """What has made it."""
        return self.nodes.get(datum.node_name)

    def written(self) -> dict[tuple[str, str, int, int], Datum]:
        """What is written to variables: by variable, op, how often before, and which input."""
        found: dict[tuple[str, str, int, int], Datum] = {}
        counts: dict[tuple[str, str], int] = defaultdict(int)
        for node in self.nodes.values():
            if not self.roles.writing.match(node.op_type):
                continue
            variable = node_name_of(node.inputs[0]) if node.inputs else ""
            if variable not in self.nodes or self.nodes[variable].op_type not in self.roles.weights:
                continue
            place = variable, node.op_type
            for at, name in enumerate(node.inputs[1:]):
                data = [each for each in self.dump.by_tensor(name) if not each.is_view]
                if data:
                    found[(*place, counts[place], at)] = data[-1]
            counts[place] += 1
        return found

    def labels(self) -> dict[str, Datum]:
        """What the model itself calls tensors, where that isn't a number that was counted."""
        found: dict[str, Datum] = {}
        for datum in self.data:
            node = self.nodes.get(datum.node_name)
            label = node.attributes.get(f"tensor:{datum.output_slot}", "") if node else ""
            if label and not label.isdecimal():
                found[label] = datum
        return found

    def is_batch(self, datum: Datum) -> bool:
        """Whether a run was given it from outside."""
        return self.dump.op_type(datum.node_name) in self.roles.batches and not self.inputs(datum)

    def fed(self, given: Datum, data: Iterable[Datum]) -> Datum | None:
        """The tensor of this run that was handed to what the other run calls an input."""
        info = self.dump.run_info()
        name = given.node_name.rpartition("/")[2]
        if info is None or name not in info.feeds:
            return None
        value = info.feeds[name]
        found = None
        for datum in data:
            if known_shape(datum) == known_shape(given) and datum.dtype == given.dtype:
                try:
                    is_it = np.array_equal(self.dump.value(datum), value)
                except (DumpError, OSError, ValueError, TypeError):
                    continue
                found = datum if is_it else found
        return found

    def made(self) -> Iterator[TensorMaker]:
        """The nodes that have made tensors, as far as they are known."""
        firsts = {datum.node_name: datum for datum in reversed(self.data)}
        for name, datum in firsts.items():
            if name in self.nodes:
                yield TensorMaker(self.nodes[name], known_shape(datum))

    def readers(self, datum: Datum) -> Iterator[tuple[str, str, int]]:
        """The ops that read a tensor: the name, the type, and which of the inputs it is."""
        for node in self.nodes.values():
            for at, name in enumerate(node.inputs):
                if node_name_of(name) == datum.node_name:
                    yield node.name, node.op_type, at

    def is_lone(self, datum: Datum) -> bool:
        """Whether nothing but its name or its number tells which it is."""
        return known_shape(datum) == () and not self.inputs(datum)

    def inputs(self, datum: Datum) -> Sequence[str]:
        """The nodes that it was computed from."""
        node = self.nodes.get(datum.node_name)
        return [node_name_of(name) for name in node.inputs] if node is not None else ()


def _family(datum: Datum) -> str:
    """Whether a tensor has numbers, whole numbers, codes of numbers, or something else."""
    dtype = known_dtype(datum)
    if dtype in _CODES:
        return "codes"
    return "float" if epsilon(dtype) else dtype.rstrip("0123456789").removeprefix("u")


def _are_unlike(datum: Datum, other: Datum) -> bool:
    """Whether one has numbers where the other has their codes."""
    families = {_family(datum), _family(other)}
    return len(families) > 1 and "codes" in families


def align(first: Dump, second: Dump, renamed: Renamed = ()) -> list[Pair]:
    """The tensors of two runs, each with its counterpart, in the order of the first run.

    Those that only the second has stand behind the pair of the tensor before them.

    Args:
        first, second: views are left out.
        renamed: names of the second run as `re.Match.expand` takes them.
    """
    one, other = _Side(first), _Side(second)
    across = across_engines(first, second)
    if across is not None:
        one.sort, other.sort = across.sorts
    # Each rank's tensors with its own, but one rank with another, too.
    one.by_device = other.by_device = one.devices == other.devices
    taken: dict[int, tuple[Datum, str]] = {}
    left = {other.key(datum): datum for datum in other.data}
    calls = {}
    if across is None:
        calls = renumbered(*(one.made(), other.made(), (one.nodes, other.nodes)), one.roles.weights)
    if across is None:
        _match_labels(one, other, taken, left)
    for datum in one.data:
        if id(datum) in taken:
            continue
        name, how = _renamed(datum.node_name, renamed)
        if how == NAME and name in calls:
            name, how = calls[name], CALL
            if not name:
                continue
        key = one.key(datum, name)
        # Names that frameworks give by counting are another op's in another engine.
        if across is not None and key in left and known_shape(left[key]) != known_shape(datum):
            continue
        if key in left and _are_unlike(datum, left[key]):
            continue
        found = left.pop(key, None)
        if found is not None:
            taken[id(datum)] = found, how
    more: list[Pair] = []
    if across is None and left and len(taken) < len(one.data):
        _match_fed(one, other, taken, left)
        _match_equals(one, other, taken, left)
        _match_read(one, other, taken, left)
    if across is None:
        _match_outputs(one, other, taken, left)
        more = [*_written(one, other, taken, left), *_dequantized(one, other, taken, left)]
    if across is not None:
        _match_by_value(across, one, other, taken, left)
    if left and len(taken) < len(one.data):
        _match_by_neighbours(one, other, taken, left)
    if left and len(taken) < len(one.data):
        _match_by_order(one, other, taken, left)
    return _in_order(one, other, taken, {id(datum) for datum in left.values()}, more)


def _renamed(name: str, renamed: Renamed) -> tuple[str, str]:
    for pattern, text in renamed:
        match = pattern.fullmatch(name)
        if match is not None:
            return match.expand(text), MAP
    return name, NAME


_Taken = dict[int, tuple[Datum, str]]
_Left = dict[tuple[str, int, str, int, str], Datum]


def _match_labels(one: _Side, other: _Side, taken: _Taken, left: _Left) -> None:
    """Match what a model itself calls the same, where nodes have other names, or other meanings.

    Where an op was fused into the one before it, that node gives what the op gave.
    """
    labels, others = one.labels(), other.labels()
    for label in labels.keys() & others.keys():
        datum, found = labels[label], others[label]
        is_moved = datum.node_name != found.node_name
        if (
            is_moved
            and known_shape(datum) == known_shape(found)
            and _family(datum) == _family(found)
        ):
            taken[id(datum)] = left.pop(other.key(found)), NAME


def _dequantized(one: _Side, other: _Side, taken: _Taken, left: _Left) -> Iterator[Pair]:
    """Match what is computed of codes with the numbers that the codes stand for.

    Yields:
        Pairs of a tensor that has a counterpart already.
    """
    labels, others = one.labels(), other.labels()
    back = {id(found): datum for datum in one.data for found, _ in _one(taken.get(id(datum)))}
    for label, found in others.items():
        datum = labels.get(_DEQUANTIZED.sub("", label))
        if (
            datum is None
            or not _DEQUANTIZED.search(label)
            or known_shape(datum) != known_shape(found)
        ):
            continue
        if id(found) not in back and id(datum) not in taken:
            taken[id(datum)] = left.pop(other.key(found)), DEQUANTIZED
        elif id(found) not in back:
            left.pop(other.key(found))
            yield Pair(datum, found, DEQUANTIZED)
    for label, datum in labels.items():
        other_found = others.get(_DEQUANTIZED.sub("", label))
        if other_found is None or not _DEQUANTIZED.search(label) or id(datum) in taken:
            continue
        if known_shape(datum) != known_shape(other_found):
            continue
        if other.key(other_found) in left:
            taken[id(datum)] = left.pop(other.key(other_found)), DEQUANTIZED
        else:
            taken[id(datum)] = other_found, DEQUANTIZED


def _one(found: tuple[Datum, str] | None) -> Sequence[tuple[Datum, str]]:
    return () if found is None else (found,)


def _match_fed(one: _Side, other: _Side, taken: _Taken, left: _Left) -> None:
    """Match what a run is given with what the other run has computed itself, and was given then."""
    for datum in one.data:
        if id(datum) not in taken and one.is_batch(datum):
            found = other.fed(datum, (each for each in other.data if other.key(each) in left))
            if found is not None:
                taken[id(datum)] = left.pop(other.key(found)), FED
    for given in [*left.values()]:
        if other.is_batch(given):
            made = one.fed(given, (each for each in one.data if id(each) not in taken))
            if made is not None:
                taken[id(made)] = left.pop(other.key(given)), FED


def _match_equals(one: _Side, other: _Side, taken: _Taken, left: _Left) -> None:
    """Match parameters and batches of other names that are equal bit for bit."""
    waiting: dict[object, list[Datum]] = defaultdict(list)
    for found in left.values():
        if not other.inputs(found) and (mark := _mark(other.dump, found)) is not None:
            waiting[mark].append(found)
    for datum in one.data if waiting else ():
        if id(datum) in taken or one.inputs(datum):
            continue
        equals = waiting.get(_mark(one.dump, datum))
        if equals:
            found = equals.pop(0)
            taken[id(datum)] = left.pop(other.key(found)), CONTENT


def _match_read(one: _Side, other: _Side, taken: _Taken, left: _Left) -> None:
    """Match batches of other names that the same op reads, whatever their shape."""
    alone = [datum for datum in one.data if id(datum) not in taken and one.is_batch(datum)]
    others = [given for given in left.values() if other.is_batch(given)] if alone else []
    read_there = {reader: given for given in others for reader in other.readers(given)}
    for datum in alone if others else ():
        found = next((read_there[each] for each in one.readers(datum) if each in read_there), None)
        if found is not None and other.key(found) in left and _family(datum) == _family(found):
            taken[id(datum)] = left.pop(other.key(found)), FED


def _mark(dump: Dump, datum: Datum) -> object:
    """What equal tensors have in common; ``None``: it says nothing, as all zeros don't."""
    shape = known_shape(datum)
    if shape is None or math.prod(shape) < _LEAST_ELEMENTS:
        return None
    try:
        found = dump.digest(datum) or digest_in(dump, datum)
    except (DumpError, OSError):
        return None
    if found is None or not found.least < found.most:
        return None
    return shape, datum.dtype, found.hash


def _match_outputs(one: _Side, other: _Side, taken: _Taken, left: _Left) -> None:
    """Match what both runs give the program, by what the program calls it."""
    infos = one.dump.run_info(), other.dump.run_info()
    outputs, others = (info.outputs if info is not None else {} for info in infos)
    back = {id(found): datum for datum in one.data for found, _ in _one(taken.get(id(datum)))}
    for label, name in outputs.items():
        mine, there = one.dump.by_tensor(name), other.dump.by_tensor(others.get(label, ""))
        if not mine or not there or mine[-1].is_view or there[-1].is_view:
            continue
        datum, found = mine[-1], there[-1]
        last = taken.get(id(datum))
        if (last is not None and last[0] is found) or _are_unlike(datum, found):
            continue
        if known_shape(datum) != known_shape(found):
            continue
        # Names that were given by counting say less than what the program calls its results.
        if last is not None:
            left[other.key(last[0])] = taken.pop(id(datum))[0]
        if id(found) in back:
            taken.pop(id(back[id(found)]), None)
        left.pop(other.key(found), None)
        taken[id(datum)] = found, OUTPUT


def _written(one: _Side, other: _Side, taken: _Taken, left: _Left) -> Iterator[Pair]:
    """Match what both runs write to a variable by the same op.

    Yields:
        Pairs of which one tensor has another counterpart already.
    """
    others = other.written()
    for place, datum in one.written().items():
        found = others.get(place)
        if (
            found is None
            or known_shape(datum) != known_shape(found)
            or _family(datum) != _family(found)
        ):
            continue
        last = taken.get(id(datum))
        if last is None and other.key(found) in left:
            taken[id(datum)] = left.pop(other.key(found)), WRITTEN
        elif last is not None and last[0] is not found:
            left.pop(other.key(found), None)
            yield Pair(datum, found, WRITTEN)


def _match_by_value(
    across: AcrossEngines, one: _Side, other: _Side, taken: _Taken, left: _Left
) -> None:
    """Match what another engine has computed by other ops, under other names."""
    alone = [datum for datum in one.data if id(datum) not in taken]
    for datum, match in across.near(alone, [*left.values()]):
        taken[id(datum)] = left.pop(other.key(match)), VALUE
    for datum in one.data:  # a batch norm's weights become a convolution's, say
        found = taken.get(id(datum))
        if found is not None and across.is_rewritten(datum, found[0]):
            left[other.key(found[0])] = taken.pop(id(datum))[0]


def _match_by_neighbours(one: _Side, other: _Side, taken: _Taken, left: _Left) -> None:
    """Match what was computed from the same by the same kind of op, in the order of time."""
    nodes = {
        datum.node_name: found.node_name
        for datum in one.data
        if (pair := taken.get(id(datum))) is not None
        for found in pair[:1]
    }
    waiting: dict[tuple[object, ...], list[Datum]] = defaultdict(list)
    for datum in left.values():
        waiting[(other.kind(datum), *other.inputs(datum))].append(datum)
    for datum in one.data:
        if id(datum) in taken:
            continue
        inputs = one.inputs(datum)
        if not inputs or not all(name in nodes for name in inputs):
            continue
        candidates = waiting.get((one.kind(datum), *(nodes[name] for name in inputs)))
        if not candidates:
            continue
        found = candidates.pop(0)
        taken[id(datum)] = found, NEIGHBOURS
        nodes[datum.node_name] = found.node_name
        left.pop(other.key(found), None)


def _match_by_order(one: _Side, other: _Side, taken: _Taken, left: _Left) -> None:
    """Match the rest by kind, in the order in which both runs have them."""
    rest = [datum for datum in one.data if id(datum) not in taken]
    others = [datum for datum in other.data if other.key(datum) in left]
    # Numbers in the code stand wherever they do, and so do the scales of codes.
    rest = [datum for datum in rest if not one.is_lone(datum)]
    others = [datum for datum in others if not other.is_lone(datum)]
    matcher = difflib.SequenceMatcher(
        None, list(map(one.kind, rest)), list(map(other.kind, others)), autojunk=False
    )
    for block in matcher.get_matching_blocks():
        for offset in range(block.size):
            found = others[block.b + offset]
            taken[id(rest[block.a + offset])] = found, ORDER
            left.pop(other.key(found), None)


def _in_order(
    one: _Side, other: _Side, taken: _Taken, alone: set[int], more: Sequence[Pair] = ()
) -> list[Pair]:
    besides: dict[int, list[Pair]] = defaultdict(list)
    for pair in more:
        besides[id(pair.first)].append(pair)
    behind: dict[int, list[Datum]] = defaultdict(list)
    last = 0
    for datum in other.data:
        if id(datum) in alone:
            behind[last].append(datum)
        else:
            last = id(datum)
    made = [Pair(None, datum) for datum in behind[0]]
    for datum in one.data:
        found = taken.get(id(datum))
        if found is None:
            made.append(Pair(datum, None))
            continue
        made.append(Pair(datum, *found))
        for pair in besides[id(datum)]:
            made += [pair, *(Pair(None, each) for each in behind.pop(id(pair.second), ()))]
        made += [Pair(None, each) for each in behind.pop(id(found[0]), ())]
    return made


def read_map(path: str) -> list[tuple[re.Pattern[str], str]]:
    r"""What a file says about names: a regex and a name a line, with ``->`` between them.

    ``encoder\.(\d+)/(.*) -> enc_\1/\2``; what follows a ``#`` at the start of a line is a comment.

    Raises:
        UserError: the file can't be read, or a line says something else.
    """
    found = []
    for number, text in enumerate(lines_of(path), 1):
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        pattern, arrow, name = (part.strip() for part in text.partition("->"))
        try:
            if not (pattern and arrow and name):
                raise ValueError("there is no -> between two names")
            compiled = re.compile(pattern)
            compiled.sub(name, "")  # whether there are such groups
            found.append((compiled, name))
        except (ValueError, IndexError, RecursionError, OverflowError, re.error) as error:
            raise UserError(
                f"{path}:{number}: {one_line(error)}",
                r"A line reads: layer(\d+)/(.*) -> block\1/\2",
            ) from None
    return found
