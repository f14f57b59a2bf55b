"""The names that TensorFlow's runtime gives to nodes it feeds, copies, fuses or rewrites."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tfdbg_cli.dumps.graph import Node
from tfdbg_cli.dumps.tfdbg_dir.names import parse_feed_node_name

__all__ = ["fused_types", "user_names"]

# What is fetched, and what a device gets from another: "_retval_x_0_1", "x/_7".
_RETURNED = re.compile(r"_retval_(.+)_\d+_\d+")
_COPIED = re.compile(r"(.+)/_\d+(?:__cf__\d+)?")
# Grappler: "ConstantFolding/x", "x/unary_ops_composition", "x-0-Transpose…-LayoutOptimizer",
# "x/ArithmeticOptimizer/HoistCommonFactor_Mul_y".
_FOLDED = re.compile(r"ConstantFolding/(.+?)(?:-(?:folded|eval)-\d+|_recip|_const_(?:axis|true))?")
_LAYOUT = re.compile(r"(.+?)-\d+-[^/]*LayoutOptimizer")
_COMPOSED = re.compile(r"(.+)/unary_ops_composition")
_ARITHMETIC = re.compile(r"(.*/)?ArithmeticOptimizer/[A-Za-z]+_(.+)")

# Attributes that list the operations a fused node was made of.
_LISTS = ("op_names", "fused_ops")
_ITEM = re.compile(r"\w+")


def user_names(name: str) -> Iterator[str]:
    """The user's names that a name of the runtime may come from, likeliest first."""
    fed = parse_feed_node_name(name)
    if fed is not None:
        yield fed[0]
    for pattern in (_RETURNED, _COPIED, _FOLDED, _LAYOUT, _COMPOSED):
        match = pattern.fullmatch(name)
        if match is not None:
            yield match[1]
            if match[1] != name:
                yield from user_names(match[1])
    arithmetic = _ARITHMETIC.fullmatch(name)
    if arithmetic is not None:
        yield f"{arithmetic[1] or ''}{arithmetic[2]}"
        yield arithmetic[2]


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
