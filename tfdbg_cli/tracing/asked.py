"""What a block asks of its run, as far as its text tells: all else need not be watched."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

__all__ = ["asked_for", "scope_of_node"]

# What asks for nothing that has to be recorded.
_LIGHT = frozenset({"every", "module", "remove", "result", "stop"})
_REPEATED = (
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.comprehension,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.Lambda,
    ast.ClassDef,
)
# Names that begin so are no ops of a module's forward pass.
_OTHERS = frozenset({"gradients", "input", "optimizer", "recompute"})


def asked_for(
    statements: Sequence[ast.stmt], names: frozenset[str], function: ast.AST
) -> frozenset[str] | None:
    """The tensors whose values a block reads or changes.

    Args:
        statements: of the block.
        names: the variables that hold the tracer.
        function: that the block is in; what it asks after the block counts as well.

    Returns:
        Their names, as they are written. ``None``: it can't be told, so all have to be watched.
    """
    if not all(name.isidentifier() for name in names):
        return None
    parents = {child: node for node in ast.walk(function) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in names and isinstance(node.ctx, ast.Load):
            parent = parents.get(node)
            if isinstance(parent, ast.Attribute) and parent.attr in _LIGHT:
                continue
            if isinstance(parent, ast.Subscript) and parent.value is node:
                continue
            if isinstance(parent, ast.withitem):
                continue
            return None
    uses: list[tuple[str, bool]] = []
    for use in _uses(statements, names):
        if use is None:
            return None
        uses.append(use)
    return frozenset(key for key, _ in uses) if _is_in_order(uses) else None


def _uses(
    statements: Sequence[ast.AST], names: frozenset[str]
) -> Iterator[tuple[str, bool] | None]:
    """The tensors in the order of the text, and whether they are assigned to; ``None``: unclear."""
    found: list[tuple[tuple[int, int], tuple[str, bool] | None]] = []
    pending = [(node, False) for node in statements]
    while pending:
        node, is_repeated = pending.pop()
        is_repeated = is_repeated or isinstance(node, _REPEATED)
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.Subscript) and _is_tracer(node, names):
            yield None  # a handle by itself: what is asked of it isn't known
        elif isinstance(node, ast.Attribute) and _is_tracer(node.value, names):
            key = node.value.slice  # type: ignore[attr-defined]
            is_known = isinstance(key, ast.Constant) and isinstance(key.value, str)
            if is_repeated or node.attr != "value" or not is_known:
                yield None
                continue
            # What is assigned is computed before.
            is_load = isinstance(node.ctx, ast.Load)
            place = (node.lineno, node.col_offset) if is_load else (node.end_lineno or 0, 10_000)
            found.append((place, (key.value, not is_load)))
            children = []
        pending += [(child, is_repeated) for child in children]
    yield from (use for _, use in sorted(found, key=lambda item: item[0]))


def _is_tracer(node: ast.AST, names: frozenset[str]) -> bool:
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id in names
    )


def _is_in_order(uses: Sequence[tuple[str, bool]]) -> bool:
    """Whether nothing else is asked for between the first use of a tensor and its last change.

    Whether something has used it in between can't be told where not all is watched.
    """
    for index, (key, is_change) in enumerate(uses):
        if is_change:
            first = next(at for at, (other, _) in enumerate(uses) if other == key)
            if any(other != key for other, _ in uses[first:index]):
                return False
    return True


def scope_of_node(node: str) -> str | None:
    """What the name of a module's op begins with: ``fc1/``; ``None``: it is none."""
    path, slash, op = node.rpartition("/")
    if "/" in path or path in _OTHERS or not op or (not slash and "." in node):
        return None
    return path + slash
