"""Telling the statements of a block that are the run from those that watch it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, TypeGuard

from tfdbg_cli.tracing.statements import own_nodes

__all__ = ["SplitStatement", "strands"]


class SplitStatement(NamedTuple):
    """One statement of a block.

    Attributes:
        statement: it.
        is_observer: it watches the run; otherwise it is a part of it.
        waits_for: index of the last statement of the run that has to be done before an observer.
        unsettled: a name that this statement of the run sets, and that an observer above uses: what
            it would find depends on how far the run has come; empty: there is none.
    """

    statement: ast.stmt
    is_observer: bool
    waits_for: int = -1
    unsettled: str = ""


def strands(
    statements: Sequence[ast.stmt],
    tracer: Iterable[str],
    is_module: Callable[[str], bool],
    holders: Collection[str] = (),
) -> list[SplitStatement]:
    """Which of a block's statements are observers.

    Those that mention the tracer are, and later ones that mention a name that an observer sets.

    Args:
        statements: of the block.
        tracer: the names of the tracer, or what else it is called: ``self.t``.
        holders: names of objects whose attributes are variables in their own right: ``self``.
        is_module: whether a name is that of an imported module: calling its functions sets nothing.
    """
    found: list[SplitStatement] = []
    marked = set(tracer)
    used: set[str] = set()
    makers: dict[str, int] = {}
    for index, node in enumerate(statements):
        mentioned = set(_mentioned(node))
        changed = {name for name in _changed(node, holders) if not is_module(name)}
        if mentioned & marked:
            waits = max((makers[name] for name in mentioned & makers.keys()), default=-1)
            found.append(SplitStatement(node, True, waits))
            marked |= changed
            used |= {item.id for item in ast.walk(node) if _is_read(item)}
        else:
            unsettled = min(used & set(_bound(node)), default="")
            found.append(SplitStatement(node, False, unsettled=unsettled))
            makers.update(dict.fromkeys(changed, index))
    return found


def _mentioned(statement: ast.stmt) -> Iterator[str]:
    """The names in a statement; of what is reached from one, the way as well: ``self.t``."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute | ast.Subscript):
            yield ast.unparse(node)


def _is_read(node: ast.AST) -> TypeGuard[ast.Name]:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)


def _bound(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement sets or deletes."""
    for node in own_nodes([statement]):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).split(".")[0]
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            yield node.name


def _changed(statement: ast.stmt, holders: Collection[str]) -> set[str]:
    """The names that a statement sets, or whose objects it may change."""
    names = set(_bound(statement))
    for node in own_nodes([statement]):
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load):
            names |= _base(node, holders)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            function = node.value.func
            # A method that is called for nothing but its effect.
            names |= (
                _base(function.value, holders) if isinstance(function, ast.Attribute) else set()
            )
    return names


def _base(node: ast.expr, holders: Collection[str]) -> set[str]:
    """What is changed by changing a part of it: a variable, or an attribute that is like one."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        inner = node.value
        if isinstance(node, ast.Attribute) and isinstance(inner, ast.Name) and inner.id in holders:
            return {ast.unparse(node)}
        node = inner
    return {node.id} if isinstance(node, ast.Name) else set()
