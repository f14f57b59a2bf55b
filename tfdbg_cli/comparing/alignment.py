"""Which tensor of one run is which of another: by name, by call, neighbours, order, value."""

from __future__ import annotations

import difflib
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


def _are_alike(datum: Datum, other: Datum) -> bool:
    """Whether both have as many of the same."""
    return known_shape(datum) == known_shape(other) and _family(datum) == _family(other)


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
    # Each rank's tensors with its own, but one rank with another, too.
    one.by_device = other.by_device = one.devices == other.devices
    matching = _Matching(one, other)
    if across is not None:
        one.sort, other.sort = across.sorts
        matching.by_names(renamed, is_across=True)
        matching.by_value(across)
    else:
        calls = renumbered(*(one.made(), other.made(), (one.nodes, other.nodes)), one.roles.weights)
        matching.by_labels()
        matching.by_names(renamed, calls)
        matching.by_what_is_given()
        matching.by_outputs()
        matching.by_variables()
        matching.dequantized()
    matching.by_neighbours()
    matching.by_order()
    return matching.pairs()


def _renamed(name: str, renamed: Renamed) -> tuple[str, str]:
    for pattern, text in renamed:
        match = pattern.fullmatch(name)
        if match is not None:
            return match.expand(text), MAP
    return name, NAME


class _Matching:
    """What is known by now of which tensor is which.

    Args:
        one, other: the runs.
    """

    def __init__(self, one: _Side, other: _Side) -> None:
        self._one, self._other = one, other
        self._taken: dict[int, tuple[Datum, str]] = {}
        self._left = {other.key(datum): datum for datum in other.data}
        # Of tensors that have another counterpart already.
        self._more: dict[int, list[Pair]] = defaultdict(list)

    def _take(self, datum: Datum, found: Datum, how: str) -> None:
        """They are the same."""
        self._left.pop(self._other.key(found), None)
        self._taken[id(datum)] = found, how

    def _give_back(self, datum: Datum) -> None:
        """A tensor isn't what it was taken for."""
        found, _ = self._taken.pop(id(datum))
        self._left[self._other.key(found)] = found

    def _counterpart(self, datum: Datum) -> Datum | None:
        return self._taken.get(id(datum), (None, ""))[0]

    def _add(self, datum: Datum, found: Datum, how: str) -> None:
        """They are the same as well."""
        self._left.pop(self._other.key(found), None)
        self._more[id(datum)].append(Pair(datum, found, how))

    def _is_left(self, found: Datum) -> bool:
        return self._other.key(found) in self._left

    def _alone(self) -> list[Datum]:
        """The tensors of the first run that have no counterpart; none where the other has none."""
        return [each for each in self._one.data if id(each) not in self._taken and self._left]

    def _back(self) -> dict[int, Datum]:
        """Of which tensor of the first run one of the other is the counterpart."""
        pairs = ((self._counterpart(datum), datum) for datum in self._one.data)
        return {id(found): datum for found, datum in pairs if found is not None}

    def by_labels(self) -> None:
        """Match what a model itself calls the same, where nodes have other names, or meanings.

        Where an op was fused into the one before it, that node gives what the op gave.
        """
        labels, others = self._one.labels(), self._other.labels()
        for label in labels.keys() & others.keys():
            datum, found = labels[label], others[label]
            if datum.node_name != found.node_name and _are_alike(datum, found):
                self._take(datum, found, NAME)

    def by_names(
        self,
        renamed: Renamed,
        calls: Mapping[str, str] | None = None,
        *,
        is_across: bool = False,
    ) -> None:
        """Match what has the same name.

        Args:
            renamed: as `align` takes it.
            calls: names that were given by counting, and what they are in the other run; empty:
                nothing.
            is_across: another engine has made the other run.
        """
        for datum in self._alone():
            name, how = _renamed(datum.node_name, renamed)
            if how == NAME and calls and name in calls:
                name, how = calls[name], CALL
            found = self._left.get(self._one.key(datum, name)) if name else None
            if found is None or _are_unlike(datum, found):
                continue
            # Names that frameworks give by counting are another op's in another engine.
            if not is_across or known_shape(found) == known_shape(datum):
                self._take(datum, found, how)

    def by_what_is_given(self) -> None:
        """Match parameters and batches of other names."""
        one, other = self._one, self._other
        # What a run is given, the other may have computed itself, and was given then.
        for datum in self._alone():
            if one.is_batch(datum):
                found = other.fed(datum, filter(self._is_left, other.data))
                if found is not None:
                    self._take(datum, found, FED)
        for given in [*self._left.values()] if self._alone() else ():
            if other.is_batch(given):
                made = one.fed(given, self._alone())
                if made is not None:
                    self._take(made, given, FED)
        # Those that are equal bit for bit.
        waiting: dict[object, list[Datum]] = defaultdict(list)
        for given in self._left.values() if self._alone() else ():
            if not other.inputs(given) and (mark := _mark(other.dump, given)) is not None:
                waiting[mark].append(given)
        for datum in self._alone() if waiting else ():
            equals = None if one.inputs(datum) else waiting.get(_mark(one.dump, datum))
            if equals:
                self._take(datum, equals.pop(0), CONTENT)
        # Those that the same op reads, whatever their shape.
        alone = [*filter(one.is_batch, self._alone())]
        others = [*filter(other.is_batch, self._left.values())] if alone else []
        read_there = {reader: given for given in others for reader in other.readers(given)}
        for datum in alone if others else ():
            readers = (each for each in one.readers(datum) if each in read_there)
            found = next((read_there[each] for each in readers), None)
            if found is not None and self._is_left(found) and _family(datum) == _family(found):
                self._take(datum, found, FED)

    def by_outputs(self) -> None:
        """Match what both runs give the program, by what the program calls it."""
        one, other = self._one.dump, self._other.dump
        infos = one.run_info(), other.run_info()
        outputs, others = (info.outputs if info is not None else {} for info in infos)
        back = self._back()
        for label, name in outputs.items():
            mine, there = one.by_tensor(name), other.by_tensor(others.get(label, ""))
            if not mine or not there or mine[-1].is_view or there[-1].is_view:
                continue
            datum, found = mine[-1], there[-1]
            last = self._counterpart(datum)
            if last is found or _are_unlike(datum, found):
                continue
            if known_shape(datum) != known_shape(found):
                continue
            # Names that were given by counting say less than what the program calls its results.
            if last is not None:
                self._give_back(datum)
            if id(found) in back:
                self._taken.pop(id(back[id(found)]), None)
            self._take(datum, found, OUTPUT)

    def by_variables(self) -> None:
        """Match what both runs write to a variable by the same op."""
        others = self._other.written()
        for place, datum in self._one.written().items():
            found, last = others.get(place), self._counterpart(datum)
            if found is None or last is found or not _are_alike(datum, found):
                continue
            if last is not None:
                self._add(datum, found, WRITTEN)
            elif self._is_left(found):
                self._take(datum, found, WRITTEN)

    def dequantized(self) -> None:
        """Match what is computed of codes with the numbers that the codes stand for."""
        labels, others = self._one.labels(), self._other.labels()
        back = self._back()
        for label, found in others.items():
            datum = _stands_for(label, labels, found)
            if datum is not None and id(found) not in back:
                is_taken = id(datum) in self._taken
                (self._add if is_taken else self._take)(datum, found, DEQUANTIZED)
        for label, datum in labels.items():
            number = _stands_for(label, others, datum)
            if number is not None and id(datum) not in self._taken:
                self._take(datum, number, DEQUANTIZED)

    def by_value(self, across: AcrossEngines) -> None:
        """Match what another engine has computed by other ops, under other names."""
        alone = [datum for datum in self._one.data if id(datum) not in self._taken]
        for datum, match in across.near(alone, [*self._left.values()]):
            self._take(datum, match, VALUE)
        for datum in self._one.data:  # a batch norm's weights become a convolution's, say
            found = self._counterpart(datum)
            if found is not None and across.is_rewritten(datum, found):
                self._give_back(datum)

    def by_neighbours(self) -> None:
        """Match what was computed from the same by the same kind of op, in the order of time."""
        one, other, alone = self._one, self._other, self._alone()
        if not alone:
            return
        pairs = ((datum, self._counterpart(datum)) for datum in one.data)
        nodes = {datum.node_name: found.node_name for datum, found in pairs if found is not None}
        waiting: dict[tuple[object, ...], list[Datum]] = defaultdict(list)
        for datum in self._left.values():
            waiting[(other.kind(datum), *other.inputs(datum))].append(datum)
        for datum in alone:
            inputs = one.inputs(datum)
            if not inputs or not all(name in nodes for name in inputs):
                continue
            candidates = waiting.get((one.kind(datum), *(nodes[name] for name in inputs)))
            if candidates:
                found = candidates.pop(0)
                self._take(datum, found, NEIGHBOURS)
                nodes[datum.node_name] = found.node_name

    def by_order(self) -> None:
        """Match the rest by kind, in the order in which both runs have them."""
        one, other = self._one, self._other
        # Numbers in the code stand wherever they do, and so do the scales of codes.
        rest = [each for each in self._alone() if not one.is_lone(each)]
        others = [each for each in filter(self._is_left, other.data) if not other.is_lone(each)]
        matcher = difflib.SequenceMatcher(
            None, list(map(one.kind, rest)), list(map(other.kind, others)), autojunk=False
        )
        for block in matcher.get_matching_blocks():
            for offset in range(block.size):
                self._take(rest[block.a + offset], others[block.b + offset], ORDER)

    def pairs(self) -> list[Pair]:
        """All, and those that are alone."""
        behind: dict[int, list[Pair]] = defaultdict(list)
        alone, last = {id(datum) for datum in self._left.values()}, 0
        for datum in self._other.data:
            if id(datum) in alone:
                behind[last].append(Pair(None, datum))
            else:
                last = id(datum)
        made = behind[0]
        for datum in self._one.data:
            found = self._taken.get(id(datum))
            if found is None:
                made.append(Pair(datum, None))
                continue
            made.append(Pair(datum, *found))
            for pair in self._more[id(datum)]:
                made += [pair, *behind.pop(id(pair.second), ())]
            made += behind.pop(id(found[0]), ())
        return made


def _stands_for(label: str, labels: Mapping[str, Datum], codes: Datum) -> Datum | None:
    """The numbers that what is computed of codes, by its label, stands for in the other run."""
    datum = labels.get(_DEQUANTIZED.sub("", label)) if _DEQUANTIZED.search(label) else None
    is_it = datum is not None and known_shape(datum) == known_shape(codes)
    return datum if is_it else None


def _mark(dump: Dump, datum: Datum) -> object:
    """What equal tensors have in common; ``None``: it says nothing, as all zeros don't."""
    shape = known_shape(datum)
    if shape is None or math.prod(shape) < _LEAST_ELEMENTS:
        return None
    found = digest_in(dump, datum)
    if found is None or not found.least < found.most:
        return None
    return shape, datum.dtype, found.hash


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
