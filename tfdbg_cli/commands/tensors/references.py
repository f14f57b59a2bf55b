"""Tensors in backticks: the one grammar of references in expressions.

A reference is, between two backticks::

    [device:]node[:slot[:DebugOp]][[execution]]      or the name of an output or a feed

``node`` and ``slot`` are as in every list; without a slot the node's only one. ``device`` begins
with a slash and may be short: ``/device:CPU:0``, ``/gpu:1``, ``/job:worker/task:2``, or the whole
``/job:worker/replica:0/task:2/device:GPU:1``. ``DebugOp`` picks one of several debug ops; without
one the values themselves are meant (``DebugIdentity``). ``[execution]`` picks one of several dumps,
in time order among those that the rest leaves; from the end where it is negative, the first where
it is missing. An output (a variable of the program's that holds what the run made) is meant where
the run has no node of that name, and a feed where it dumped no tensor of that name.

Backticks inside the string literals of an expression are literal.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from typing import Any

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.tensors.feeds import feed_tensor, has_feed
from tfdbg_cli.commands.tensors.program_names import resolve_program_name
from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.dumps.dump import Datum, Dump, InconvertibleTensorProto

__all__ = [
    "Reference",
    "Template",
    "find_reference",
    "parse_reference",
    "parse_template",
    "reference_value",
]

_PIECE = r"/(?:job:[^/:`]+|replica:\d+|task:\d+|(?:device:)?[A-Za-z]\w*:\d+)"
_DEVICE = rf"(?:(?P<device>(?:{_PIECE})+):)?"
_BEHIND_NODE = (
    r"(?::(?P<slot>\d{1,9})(?::(?P<op>[A-Za-z_]\w*(?:\(.*\))?))?)?"
    r"(?:\[(?P<execution>[+-]?\d{1,9})\])?"
)
_REFERENCE = re.compile(rf"{_DEVICE}(?P<node>[^/:\[\]^][^:\[\]]*){_BEHIND_NODE}")
# Names of the program's may have colons and brackets: only the run tells that one is a node's.
_OF_ANY_NODE = re.compile(rf"{_DEVICE}(?P<node>.+?){_BEHIND_NODE}", re.DOTALL)
_STRING = re.compile(r"'''|\"\"\"|'|\"")
_PLACEHOLDER = re.compile(r"\b_tensor_\d+\b")
_WITHOUT_TENSORS = ("This run kept no tensors.", "Only feeds are there before the run.")
_GRAMMAR = "Write `node:slot`, `node:slot:DebugOp`, `node:slot[2]` or `/device:CPU:0:node:slot`."


@dataclass(frozen=True)
class Reference:
    """A reference in its parts; what it doesn't say is empty or ``None``."""

    node: str
    slot: int | None = None
    debug_op: str = ""
    execution: int | None = None
    device: str = ""


def parse_reference(text: str, dump: Dump | None = None) -> Reference:
    """Parse what stands between two backticks.

    Args:
        text: stands there.
        dump: whose nodes may have colons and brackets in their names.

    Raises:
        UserError: it is malformed.
    """
    match = _REFERENCE.fullmatch(text.strip())
    if match is None and dump is not None:
        match = _OF_ANY_NODE.fullmatch(text.strip())
        if match is not None and not dump.by_node(match["node"]):
            match = None
    if match is None:
        raise UserError(f"`{text}` names no tensor.", _GRAMMAR)
    slot, execution = match["slot"], match["execution"]
    return Reference(
        match["node"],
        None if slot is None else int(slot),
        match["op"] or "",
        None if execution is None else int(execution),
        match["device"] or "",
    )


def _device_parts(device: str) -> dict[str, str]:
    """``/job:a/task:1/device:GPU:0`` as ``{"job": "a", "task": "1", "gpu": "0"}``."""
    parts = {}
    for piece in device.strip("/").split("/"):
        kind, _, value = piece.removeprefix("device:").rpartition(":")
        parts[kind.lower()] = value
    return parts


def _is_on(device: str, wanted: str) -> bool:
    """Whether a device is the wanted one, of which only some parts may be given."""
    return _device_parts(wanted).items() <= _device_parts(device).items()


def find_reference(dump: Dump, text: str, execution: int | None = None) -> Datum:
    """The datum of a reference.

    Args:
        dump: where to look.
        text: what stands between the backticks.
        execution: which dump of several, where the reference doesn't say; default: the first.

    Raises:
        UserError: it is malformed, or there is no such dump.
    """
    found = _values_first(dump.by_tensor(text))
    if not found:
        reference = parse_reference(text, dump)
        found = _matching(dump, reference, text)
        if reference.execution is not None:
            execution = reference.execution
    at = execution or 0
    if not -len(found) <= at < len(found):
        some = "one dump" if len(found) == 1 else f"{len(found)} dumps"
        raise UserError(
            f"`{text}`: there is no dump {at}, the tensor has {some}.",
            f"Use 0 to {len(found) - 1}.",
        )
    return found[at]


def _values_first(data: list[Datum]) -> list[Datum]:
    """The dumps that hold the tensor's own values; all where there are none of them."""
    return [datum for datum in data if datum.debug_op == "DebugIdentity"] or data


def _matching(dump: Dump, reference: Reference, text: str) -> list[Datum]:
    node, slot = reference.node, reference.slot
    if slot is None:
        slots = sorted({datum.output_slot for datum in dump.by_node(node)})
        if len(slots) > 1:
            names = ", ".join(f"`{node}:{each}`" for each in slots)
            raise UserError(f"`{text}` has several output slots.", f"Use one of {names}.")
        slot = slots[0] if slots else 0
    tensor = f"{node}:{slot}"
    found = dump.tensor(tensor)
    if reference.debug_op:
        ops = sorted({datum.debug_op for datum in found})
        found = [datum for datum in found if datum.debug_op == reference.debug_op]
        if not found:
            raise UserError(f"No dump of {tensor} is like `{text}`.", f"It has {', '.join(ops)}.")
    else:
        found = _values_first(found)
    if reference.device:
        devices = sorted({datum.device_name for datum in found if datum.device_name})
        found = [datum for datum in found if _is_on(datum.device_name, reference.device)]
        if not found:
            where = f"It was dumped on {', '.join(devices)}." if devices else ""
            raise UserError(f"No dump of {tensor} is on {reference.device}.", where)
    return found


def reference_value(context: Context, text: str, execution: int | None = None) -> Any:
    """The value of a reference: the array of a dump, or of a feed.

    Args:
        context: dump and feeds.
        text: what stands between the backticks.
        execution: see `find_reference`.

    Raises:
        UserError: there is no such value, or it is not an array.
    """
    name, dump = text.strip(), context.dump
    name = resolve_program_name(context, name)
    tensors_known = dump is not None and bool(dump.data())
    if has_feed(context, name) and not (dump is not None and dump.by_tensor(name)):
        value = feed_tensor(context, name)
    elif dump is None or not tensors_known:
        parse_reference(name)
        raise UserError(
            f"`{text}` is not known at this stop.",
            did_you_mean(name, context.run_info.feeds) or _WITHOUT_TENSORS[dump is None],
        )
    else:
        value = dump.value(find_reference(dump, name, execution))
    if isinstance(value, InconvertibleTensorProto):
        raise UserError(f"The value of `{text}` is not an array: {value}.")
    return value


@dataclass(frozen=True)
class Template:
    """An expression whose references are replaced by names that Python can read.

    Attributes:
        text: as the user wrote it.
        code: for Python.
        references: placeholder -> what stood between the backticks; the same text has one.
    """

    text: str
    code: str
    references: dict[str, str]
    _starts: tuple[tuple[int, int, bool], ...]  # of each piece in code and text; a reference?

    def place(self, at: int) -> int:
        """The place in the user's text of a place in the code; of a reference, where it begins."""
        index = bisect_right(self._starts, at, key=lambda start: start[0]) - 1
        code, text, is_reference = self._starts[index]
        return text if is_reference else min(text + at - code, len(self.text))

    def in_words_of_user(self, message: str) -> str:
        """A message with references in place of their placeholders."""
        return _PLACEHOLDER.sub(lambda name: f"`{self.references.get(name[0], name[0])}`", message)


def _string_end(text: str, start: int, quote: str) -> int:
    """The place behind a string literal whose content begins at ``start``."""
    at = start
    while at < len(text):
        if text[at] == "\\":
            at += 2
        elif text.startswith(quote, at):
            return at + len(quote)
        else:
            at += 1
    return len(text)


def parse_template(text: str) -> Template:
    """Find the references of an expression.

    Raises:
        UserError: a backtick has no partner, or there is nothing between two of them.
    """
    pieces: list[str] = []
    names: dict[str, str] = {}
    starts = [(0, 0, False)]
    at = written = 0
    while at < len(text):
        if text[at] == "`":
            end = text.find("`", at + 1)
            if end < 0:
                raise UserError("A backtick isn't closed.", "Write tensors as `node:slot`.")
            reference = text[at + 1 : end].strip()
            if not reference:
                raise UserError("There is nothing between two backticks.", _GRAMMAR)
            # Blanks keep it apart from a name or a number before or behind it.
            name = names.setdefault(reference, f"_tensor_{len(names)}")
            piece = f" {name} " if written else f"{name} "
            starts += [(written, at, True), (written + len(piece), end + 1, False)]
            at = end + 1
        else:
            quote = _STRING.match(text, at)
            end = _string_end(text, quote.end(), quote[0]) if quote else at + 1
            piece = text[at:end]
            at = end
        pieces.append(piece)
        written += len(piece)
    references = {name: reference for reference, name in names.items()}
    return Template(text, "".join(pieces), references, tuple(starts))
