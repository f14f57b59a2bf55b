"""Calls back when the program has imported one of some modules, without importing it itself."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["ImportHook"]


class ImportHook:
    """A finder that finds nothing itself: it lets the others find and notes when it has run.

    Args:
        modules: the names to watch for.
        imported: called with a name, in the importing thread, once the module's code has run and
            before the import statement returns. It must not raise.
    """

    def __init__(self, modules: Sequence[str], imported: Callable[[str], None]) -> None:
        self._modules = set(modules)
        self._imported = imported
        self._looking: set[str] = set()

    def install(self) -> None:
        """Start watching. Modules that are imported already are reported at once."""
        sys.meta_path.insert(0, self)
        for name in sorted(self._modules):
            if sys.modules.get(name) is not None:  # ``None`` bars an import
                self._report(name)

    def uninstall(self) -> None:
        """Stop watching; may be called more than once."""
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """What the other finders say, with a loader that reports back for the watched modules."""
        if fullname not in self._modules or fullname in self._looking:
            return None
        self._looking.add(fullname)  # another hook for it asks us in turn
        try:
            return self._find(fullname, path, target)
        finally:
            self._looking.discard(fullname)

    def _find(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None
    ) -> ModuleSpec | None:
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec: ModuleSpec | None = find(fullname, path, target) if find is not None else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _ReportingLoader(spec.loader, self._report)  # type: ignore[assignment]
                return spec
        return None

    def _report(self, name: str) -> None:
        if name in self._modules:
            self._modules.discard(name)
            self._imported(name)


class _ReportingLoader:
    """A module's own loader until the module runs, then out of the way."""

    def __init__(self, loader: Any, report: Callable[[str], None]) -> None:
        self._loader = loader
        self._report = report

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._loader.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._report(module.__name__)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)
