"""Telling the statements of a block that are the run from those that watch it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tfdbg_cli.tracing.block import own_nodes

__all__ = ["Strand", "strands"]


class Strand(NamedTuple):
    """One statement of a block.

    Attributes:
        statement: it.
        is_observer: it watches the run; otherwise it is a part of it.
        waits_for: index of the last statement of the run that has to be done before an observer.
    """

    statement: ast.stmt
    is_observer: bool
    waits_for: int = -1


def strands(
    statements: Sequence[ast.stmt], tracer: frozenset[str], is_module: Callable[[str], bool]
) -> list[Strand]:
    """Which of a block's statements are observers.

    Those that mention the tracer are, and later ones that mention a name that an observer sets.

    Args:
        statements: of the block.
        tracer: the names of the tracer.
        is_module: whether a name is that of an imported module: calling its functions sets nothing.
    """
    found: list[Strand] = []
    marked = set(tracer)
    makers: dict[str, int] = {}
    for index, node in enumerate(statements):
        mentioned = {item.id for item in ast.walk(node) if isinstance(item, ast.Name)}
        changed = {name for name in _changed(node) if not is_module(name)}
        if mentioned & marked:
            waits = max((makers[name] for name in mentioned & makers.keys()), default=-1)
            found.append(Strand(node, True, waits))
            marked |= changed
        else:
            found.append(Strand(node, False))
            makers.update(dict.fromkeys(changed, index))
    return found


def _changed(statement: ast.stmt) -> set[str]:
    """The names that a statement sets, or whose objects it may change."""
    names: set[str] = set()
    for node in own_nodes([statement]):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            names |= _base(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            # A method that is called for nothing but its effect.
            if isinstance(node.value.func, ast.Attribute):
                names |= _base(node.value.func)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            names.add(node.name)
    return names


def _base(node: ast.expr) -> set[str]:
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return {node.id} if isinstance(node, ast.Name) else set()
