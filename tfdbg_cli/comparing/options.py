"""The options by which two runs are compared; nothing slow is imported for them."""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["TERMS", "Term"]


class Term(NamedTuple):
    """An option.

    Attributes:
        name: ``--rtol``.
        metavar: of its value.
        help: what it does.
        default: without it.
        kind: of its value.
    """

    name: str
    metavar: str
    help: str
    default: Any = None
    kind: Any = str


#: The options, wherever runs are compared.
TERMS = (
    Term(
        "--rtol",
        "N",
        "allowed, relative to the largest element; default: by the dtype and the op",
        kind=float,
    ),
    Term("--atol", "N", "allowed absolute difference, added to --rtol", kind=float),
    Term("--bar", "BAR", "judge by the cosine of the angle alone: cosine:0.999", ""),
    Term(
        "--rules",
        "FILE",
        "allowed differences of some ops: lines like MatMul float16 rtol=1e-2",
        "",
    ),
    Term("--map", "FILE", r"names that correspond: lines like layer(\d+)/(.*) -> block\1/\2", ""),
)
