"""Named filters: the built-in ones, the user's, and those of installed packages."""

from __future__ import annotations

import functools
import inspect
import runpy
from typing import Any

from tfdbg_cli.common.errors import UserError, did_you_mean, one_line
from tfdbg_cli.common.packages import entry_points
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.dumps.dump import (
    InconvertibleTensorProto,
    Predicate,
    marked_as,
    takes_dump,
)
from tfdbg_cli.filters.arguments import SIGN, example, required, usage, with_arguments
from tfdbg_cli.filters.builtin import BUILTIN, FOLLOWS

__all__ = ["FilterRegistry", "load_filters"]


class FilterRegistry:
    """Name -> filter. Those of `tfdbg_cli.filters.builtin` are always there.

    Filters of installed packages (entry point group ``tfdbg_cli.filters``) are imported when they
    are first used.

    Args:
        settings: the thresholds of the built-in filters; ``None``: the defaults.
    """

    def __init__(self, settings: Settings | None = None) -> None:
        self._settings = settings
        self._filters: dict[str, Predicate] = dict(BUILTIN)
        self._lenient: dict[str, tuple[Predicate, Predicate]] = {}
        # As it is written -> the name, and the filter with its arguments; as long as none is added.
        self._with: dict[str, tuple[str, Predicate]] = {}
        self._points = {point.name: point for point in entry_points("tfdbg_cli.filters")}

    def add(self, name: str, tensor_filter: Predicate) -> None:
        """Add a filter, or replace the one of that name.

        Args:
            name: as ``run -f`` takes it.
            tensor_filter: ``f(datum, tensor) -> bool``, or ``f(datum, tensor, dump) -> bool``
                where it has to know more of the run, such as the inputs of the tensor. Its
                keyword-only parameters are arguments: ``run -f NAME:ARGUMENT``.

        Raises:
            TypeError: the name is not a str, or the filter can't be called.
            ValueError: the name is empty.
        """
        if not isinstance(name, str):
            raise TypeError(f"Input argument filter_name is expected to be str, but is {name!r}.")
        if not name:
            raise ValueError("Input argument filter_name cannot be empty.")
        if not callable(tensor_filter):
            raise TypeError(
                f"Input argument filter_callable is expected to be callable, but is "
                f"{tensor_filter!r}."
            )
        self._filters[name] = tensor_filter
        self._with.clear()

    def is_replaced(self, name: str) -> bool:
        """Whether a built-in filter's name stands for another one."""
        return name in BUILTIN and self._filters[name] is not BUILTIN[name]

    def names(self) -> list[str]:
        """All names, the built-in ones first."""
        return list(dict.fromkeys([*self._filters, *self._points]))

    def __contains__(self, name: str) -> bool:
        """Whether there is a filter of a name, its arguments included."""
        try:
            self.get(name)
        except UserError:
            return False
        return True

    def get(self, name: str) -> Predicate:
        """A filter by name, with the arguments that are written behind it: ``overflows:float16``.

        Raises:
            UserError: there is none, its package can't be imported, or an argument is missing or
                is none of those that it can have.
        """
        if name not in self._with:  # each run asks: a signature costs its time
            base, texts = self._parsed(name)
            found = self._named(base)
            takes = bool(texts or required(found))
            self._with[name] = base, with_arguments(base, found, texts) if takes else found
        return self._with[name][1]

    def usage(self, name: str) -> str:
        """A filter's name with the arguments that it takes: ``underflows:DTYPE[:SHARE]``."""
        found = self._filters.get(name)
        return name if found is None else usage(name, found)

    def examples(self, name: str) -> list[str]:
        """How a filter can be written, with each argument that it needs."""
        found = self._filters.get(name)
        return [name] if found is None else [*example(name, found)]

    def _parsed(self, name: str) -> tuple[str, list[str]]:
        """The name of a filter and its arguments, which ``overflows_float16`` has as well."""
        if name in self._filters or name in self._points:
            return name, []
        for base in self._filters if SIGN not in name else ():
            for way in self.examples(base) if name.startswith(f"{base}_") else ():
                if name == way.replace(SIGN, "_"):
                    name = way
        base, *texts = name.split(SIGN)
        return base, texts

    def _named(self, name: str) -> Predicate:
        """The filter itself."""
        if name not in self._filters and name in self._points:
            try:
                self._filters[name] = self._points[name].load()
            except Exception as error:
                raise UserError(
                    f'The filter "{name}" can\'t be loaded: {one_line(error)}.'
                ) from error
        found = self._filters.get(name)
        if found is None:
            raise UserError(
                f'There is no tensor filter named "{name}".',
                did_you_mean(name, self.names()) or f"There are {', '.join(self.names())}.",
            )
        return found

    def summary(self, name: str) -> str:
        """The first line of a filter's docstring; empty where it has none, or isn't loaded yet."""
        found = self._filters.get(name)
        # None itself has a docstring since Python 3.13.
        said = None if found is None else getattr(found, "__doc__", None)
        lines = (said or "").strip().splitlines()
        return lines[0].strip() if lines else ""

    def predicate(self, name: str) -> Predicate:
        """A filter by name, as `run -f` and `lt -f` apply it: with the thresholds as they are set.

        It takes two arguments, or three where `takes_dump` says so: see `bound`.

        Uninitialized variables and resource handles reach it as `InconvertibleTensorProto`; where
        that makes the filter raise, the tensor doesn't pass.

        Raises:
            UserError: as `get`.
        """
        bound = self.get(name)
        found = self._set(self._with[name][0], bound)
        known = self._lenient.get(name)
        if known is None or known[0] is not found:
            known = self._lenient[name] = found, _lenient(found)
        return known[1]

    def _set(self, name: str, tensor_filter: Predicate) -> Predicate:
        """A filter with its thresholds, but for those that were given as arguments."""
        if self._settings is None or name not in FOLLOWS or self.is_replaced(name):
            return tensor_filter
        given = getattr(tensor_filter, "keywords", {})
        values = {
            key: self._settings.get(setting)
            for key, setting in FOLLOWS[name].items()
            if key not in given
        }
        return functools.partial(tensor_filter, **values) if values else tensor_filter


def _lenient(predicate: Predicate) -> Predicate:
    """A filter for which values that are no arrays simply don't pass if it can't take them."""

    def apply(tensor: Any, *arguments: Any) -> bool:
        try:
            return bool(predicate(*arguments))
        except Exception:
            if isinstance(tensor, InconvertibleTensorProto):
                return False
            raise

    lenient: Predicate
    if takes_dump(predicate):
        lenient = lambda datum, tensor, dump: apply(tensor, datum, tensor, dump)  # noqa: E731
    else:
        lenient = lambda datum, tensor: apply(tensor, datum, tensor)  # noqa: E731
    return marked_as(lenient, predicate)


def load_filters(path: str, registry: FilterRegistry) -> list[str]:
    """Add every public function of two or three arguments that a Python file defines.

    A file may also add remedies of its own (`tfdbg_cli.remedies.candidates.remedy`).

    Args:
        path: the file; it is run once.
        registry: where the filters go, under the names of the functions.

    Returns:
        The names that were added.

    Raises:
        UserError: the file can't be read or run, or defines no filter.
    """
    try:
        names: dict[str, Any] = runpy.run_path(path, run_name="tfdbg_filters")
    except OSError as error:
        raise UserError(f"The filters file {path} can't be read: {error.strerror or error}.") from (
            error
        )
    except (Exception, SystemExit) as error:
        raise UserError(f"The filters file {path} failed: {one_line(error)}.") from error
    added, has_remedies = [], False
    for name, value in names.items():
        if name.startswith("_") or not inspect.isfunction(value):
            continue
        if value.__globals__.get("__name__") != "tfdbg_filters":  # imported, not defined here
            continue
        has_remedies = has_remedies or getattr(value, "is_remedy", False)
        bare = functools.partial(value, **dict.fromkeys(required(value)))
        if not (takes_dump(bare) or _takes_two(bare)):
            continue
        registry.add(name, value)
        added.append(name)
    if not added and not has_remedies:
        raise UserError(
            f"The filters file {path} defines no filter.",
            "A filter is a function f(datum, tensor) -> bool at the top level of the file, "
            "or f(datum, tensor, dump). Keyword-only parameters are its arguments.",
        )
    return added


def _takes_two(function: Predicate) -> bool:
    try:
        inspect.signature(function).bind(None, None)
    except TypeError:
        return False
    return True
