"""Which variables a stretch of statements reads, sets and changes."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tfdbg_cli.engines.kit.statements import mangled

__all__ = ["Variables", "uses_of"]

_ASSIGNMENTS = (ast.Assign, ast.AnnAssign, ast.AugAssign)


@dataclass(frozen=True)
class Variables:
    """The variables of some statements.

    Attributes:
        names: those that have to be there; of a module only those of `carried`.
        used: all names, whatever they are.
        stored: those that they set.
        carried: those that may be read, or whose value may be changed, before they are set, and
            that don't hold the same afterwards: a second time needs what they held the first time.
        iterated: those that loops go through.
    """

    names: frozenset[str]
    used: frozenset[str]
    stored: frozenset[str]
    carried: frozenset[str]
    iterated: frozenset[str]


def uses_of(
    statements: Sequence[ast.stmt],
    owned: Collection[str] | None,
    receiver: str = "",
    owner: str = "",
) -> Variables:
    """The variables of statements that run one after the other.

    Args:
        statements: of one block.
        owned: the names that are variables of the function; ``None``: those that the statements
            set or change.
        receiver: the first argument of a method.
        owner: the class around it, with which private names are spelled out.
    """
    seen = _Uses()
    seen.block(statements)

    def spelled(names: Iterable[str]) -> frozenset[str]:
        return frozenset(mangled(name, owner) for name in names)

    used, stored = spelled(seen.loaded | seen.stored), spelled(seen.stored)
    names, carried = used, spelled((seen.early & seen.stored) | seen.changed)
    if owned is None:
        # All others are looked up where they are.
        names = carried
    else:
        if "super" in names:  # it reads these without naming them
            names |= {"__class__", receiver}
        names &= {*owned}
        carried &= names
    return Variables(names, used, stored, carried, spelled(seen.iterated))


class _Uses:
    """Collects the uses of names in the order in which statements run.

    Attributes:
        loaded, stored: names that are read; that are bound or unbound.
        early: names that may be read before they are bound.
        changed: names of objects that may be changed in place: by a method, or an element.
        iterated: names that loops go through.
    """

    def __init__(self) -> None:
        self.loaded: set[str] = set()
        self.stored: set[str] = set()
        self.early: set[str] = set()
        self.changed: set[str] = set()
        self.iterated: set[str] = set()
        self._bound: set[str] = set()  # for certain

    def block(self, statements: Iterable[ast.stmt]) -> None:
        """Statements one after the other."""
        for node in statements:
            if isinstance(node, ast.With):
                for item in node.items:
                    self._expression(item)
                self.block(node.body)
                continue
            if isinstance(node, ast.AnnAssign) and node.value is None:
                continue  # it sets nothing
            self._expression(node)
            if isinstance(node, _ASSIGNMENTS):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                bound = (item for target in targets for item in ast.walk(target))
                self._bound |= {
                    item.id
                    for item in bound
                    if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)
                }

    def _expression(self, root: ast.AST) -> None:
        for node in ast.walk(root):
            if isinstance(node, ast.Name):
                if isinstance(node.ctx, ast.Load):
                    self._load(node.id)
                else:
                    self.stored.add(node.id)
            elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
                self._load(node.target.id)
                self.changed.add(node.target.id)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                self.stored.add(node.name)
            elif isinstance(node, ast.alias):
                self.stored.add((node.asname or node.name).split(".")[0])
            elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
                self.stored.add(node.name)
            elif isinstance(node, ast.Attribute | ast.Subscript):
                self._part(node)
            elif isinstance(node, ast.For | ast.comprehension) and isinstance(node.iter, ast.Name):
                self.iterated.add(node.iter.id)

    def _load(self, name: str) -> None:
        self.loaded.add(name)
        if name not in self._bound:
            self.early.add(name)

    def _part(self, node: ast.Attribute | ast.Subscript) -> None:
        base: ast.expr = node
        while isinstance(base, ast.Attribute | ast.Subscript):
            base = base.value
        if isinstance(base, ast.Name) and base.id not in self._bound:
            is_method = isinstance(node, ast.Attribute) and node.value is base
            if is_method or not isinstance(node.ctx, ast.Load):
                self.changed.add(base.id)
