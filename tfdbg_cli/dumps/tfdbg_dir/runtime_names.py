"""The names that TensorFlow's runtime gives to nodes it feeds, copies, fuses or rewrites."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tfdbg_cli.dumps.graph import Node
from tfdbg_cli.dumps.tfdbg_dir.names import parse_feed_node_name

__all__ = ["fused_types", "user_names"]

# The fetching of a tensor; one that a device gets from another, "x/_7", or that was computed ahead
# of the run, "x/_0__cf__3"; what several element-wise operations were made one of.
_RETURNED = re.compile(r"_retval_(.+)_\d+_\d+\Z")
_COPIED = re.compile(r"/_\d+(?:__cf__\d+)?\Z")
_COMPOSED = re.compile(r"/unary_ops_composition\Z")
# What grappler's memory optimizer makes of "name".
_REPEATED = re.compile(r"(?:RecomputeTrigger|Recomputed)/|swap_(?:in|out)_")
# What it else makes of "scope/name": "name-0-TransposeNHWCToNCHW-LayoutOptimizer",
# "name-0-CastToFp16-0-AutoMixedPrecision",
# "ConstantFolding/scope/name_recip", "scope/ArithmeticOptimizer/ReplaceMulWithSquare_name".
_INSERTED = re.compile(r"-[^/]*(?:LayoutOptimizer|AutoMixedPrecision)\Z")
_PORT = re.compile(r"-\d+-")
_OPTIMIZER = re.compile(r"(ConstantFolding\w*|\w+Optimizer)\Z")
_SEPARATOR = re.compile(r"[_-]")

# Attributes that list the operations a fused node was made of.
_LISTS = ("op_names", "fused_ops")
_ITEM = re.compile(r"\w+")


def user_names(name: str) -> Iterator[str]:
    """The names of the user's that a name of the runtime may come from, best first."""
    yield name
    fed = parse_feed_node_name(name)
    if fed is not None:
        yield fed[0]
    returned = _RETURNED.match(name)
    if returned is not None:
        yield returned[1]
    plain = name.partition(":")[0]  # kernels of a GPU: "name:kernel"
    if plain != name:
        yield plain
    again = _REPEATED.match(plain)
    if again is not None:
        plain = plain[again.end() :]
        yield plain
        yield re.sub(r"_\d+\Z", "", plain)
    for pattern in (_COPIED, _COMPOSED):
        shorter = pattern.sub("", plain)
        if shorter != plain:
            yield from user_names(shorter)
            return
    if _INSERTED.search(plain):
        for port in reversed(list(_PORT.finditer(plain))):
            yield plain[: port.start()]
        plain = _INSERTED.sub("", plain)
        yield plain
    parts = plain.split("/")
    kept = [part for part in parts if not _OPTIMIZER.match(part)]
    if kept and len(kept) < len(parts):
        scope = "".join(f"{part}/" for part in kept[:-1])
        for base in _shortened(kept[-1]):
            yield scope + base


def _shortened(name: str) -> Iterator[str]:
    """A name without the words before it, then without those behind it as well."""
    cuts = [match.start() for match in _SEPARATOR.finditer(name)]
    for stop in [len(name), *reversed(cuts)]:
        for start in [0, *(cut + 1 for cut in cuts if cut < stop)]:
            if start < stop:
                yield name[start:stop]


def fused_types(node: Node) -> dict[str, int]:
    """Op type -> how many of them the runtime has made one node of; empty for any other node."""
    if not node.op_type.startswith("_"):
        return {}
    found: Counter[str] = Counter()
    for key in _LISTS:
        found.update(_ITEM.findall(str(node.attributes.get(key, ""))))
    if "fused_ops" in node.attributes and found:
        match = re.search(r"Fused(\w+?)\Z", node.op_type)
        if match is not None:
            return {match[1].removeprefix("Native"): 1, **found}
    return dict(found)
