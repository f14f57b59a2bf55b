"""Names of nodes and tensors: ``a/b``, ``a/b:1`` and, for a control input, ``^a/b``."""

from __future__ import annotations

import re
from collections.abc import Container

__all__ = [
    "execution_name",
    "free_name",
    "node_name_of",
    "parse_execution",
    "parse_tensor_name",
    "parse_watch_key",
    "slot_of",
    "split_tensor_name",
    "tensor_name_of",
]

_EXECUTION = re.compile(r"(.+) \(#(\d{1,9})\)", re.DOTALL)

# No node has more outputs; Python refuses to read numbers of some thousand digits.
_LONGEST_SLOT = 9


def parse_tensor_name(name: str) -> tuple[str, int | None]:
    """Split ``a/b:1`` into ``("a/b", 1)``; ``a/b`` gives ``("a/b", None)``."""
    node, colon, slot = name.rpartition(":")
    if colon and slot.isdecimal() and node and len(slot) <= _LONGEST_SLOT:
        return node, int(slot)
    return name, None


def split_tensor_name(name: str) -> tuple[str, int]:
    """Split ``a/b:1`` into ``("a/b", 1)``; ``a/b`` is the first output of ``a/b``."""
    node, slot = parse_tensor_name(name)
    return node, slot or 0


def node_name_of(name: str) -> str:
    """The node of a tensor or node name; a leading ``^`` (control input) is dropped."""
    if name[-2:] == ":0" and name[0] not in ":^":  # nearly always
        return name[:-2]
    return parse_tensor_name(name.removeprefix("^"))[0]


def slot_of(name: str) -> int:
    """The output slot of a tensor name, 0 where none is written."""
    return parse_tensor_name(name)[1] or 0


def tensor_name_of(name: str) -> str:
    """The tensor that a name means: that of a node stands for its first output."""
    if name.endswith(")"):
        tensor, number = parse_execution(name)
        if number is not None:
            return execution_name(tensor_name_of(tensor), number)
    return name if parse_tensor_name(name)[1] is not None else f"{name}:0"


def execution_name(name: str, number: int) -> str:
    """One of the values that a tensor has in a run: ``a/b:1 (#17)``; they count from 0."""
    return f"{name} (#{number})"


def free_name(name: str, taken: Container[str], mark: str = "_") -> str:
    """A name, or the first one with a number behind it that isn't taken: ``name_1``."""
    found, number = name, 0
    while found in taken:
        number += 1
        found = f"{name}{mark}{number}"
    return found


def parse_execution(name: str) -> tuple[str, int | None]:
    """Split ``a/b:1 (#17)`` into ``("a/b:1", 17)``; ``a/b:1`` gives ``("a/b:1", None)``."""
    found = _EXECUTION.fullmatch(name)
    return (found[1], int(found[2])) if found is not None else (name, None)


def parse_watch_key(key: str) -> tuple[str, int | None, str]:
    """Split ``a/b:1:DebugIdentity`` into node, slot and debug op; no slot: not a watch key."""
    tensor, _, debug_op = key.rpartition(":")
    return *parse_tensor_name(tensor), debug_op
