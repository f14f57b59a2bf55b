"""Python expressions of the user's: the names they see, and errors in the user's own words."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.tensors.feeds import feed_name, feed_tensor
from tfdbg_cli.commands.tensors.program_names import resolve_program_name
from tfdbg_cli.commands.tensors.references import parse_template, reference_value
from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.errors import UserError, did_you_mean, one_line
from tfdbg_cli.common.interpreter.program_signals import PassedOn
from tfdbg_cli.common.interpreter.unwarned import unwarned
from tfdbg_cli.common.printable import cut
from tfdbg_cli.dumps.dump import InconvertibleTensorProto

__all__ = ["RESERVED", "check_name", "evaluate", "select"]

#: Names that have a meaning in every expression.
RESERVED = ("np", "numpy", "fetches", "feeds", "selected", "newaxis", "_")


class _UnknownName(UserError, KeyError):
    """A fetch or feed that there isn't: also a KeyError, so that ``get`` and ``in`` work."""


class _RunValues(Mapping[str, Any]):
    """Values by name, with and without ``:0``, read when they are asked for."""

    _kind = ""

    def __init__(self, context: Context) -> None:
        self._context = context

    def _names(self) -> Iterable[str]:
        raise NotImplementedError

    def _read(self, name: str) -> Any:
        raise NotImplementedError

    def __getitem__(self, name: str) -> Any:
        known = list(self._names())
        full = next((each for each in (name, f"{name}:0") if each in known), None)
        if full is None:
            raise _UnknownName(
                f'{self._kind} have no "{name}".',
                did_you_mean(str(name), known)
                or (f"They have {', '.join(known)}." if known else "This run has none."),
            )
        value = self._read(full)
        if isinstance(value, InconvertibleTensorProto):
            raise UserError(f'The value of "{full}" is not an array: {value}.')
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(list(self._names()))

    def __contains__(self, name: object) -> bool:
        known = list(self._names())
        return name in known or f"{name}:0" in known

    def __repr__(self) -> str:
        return f"<{self._kind}: {', '.join(self._names()) or 'none'}>"


class Feeds(_RunValues):
    """What was fed."""

    _kind = "feeds"

    def _names(self) -> Iterable[str]:
        return self._context.run_info.feeds

    def _read(self, name: str) -> Any:
        return feed_tensor(self._context, feed_name(self._context, name))


class Fetches(_RunValues):
    """What was fetched or is an output; the last of the dumps of a tensor."""

    _kind = "fetches"

    def _names(self) -> Iterable[str]:
        info = self._context.run_info
        return dict.fromkeys([*info.fetches, *info.outputs])

    def _read(self, name: str) -> Any:
        if self._context.dump is None:
            raise UserError(f'"{name}" has no value yet.', "run executes the run.")
        found = self._context.dump.by_tensor(resolve_program_name(self._context, name))
        if not found:
            raise UserError(
                f'The fetch "{name}" was not dumped.',
                "It is an operation without a value, or the run did not watch it.",
            )
        return self._context.dump.value(found[-1])


class SelectedValues(_RunValues):
    """What `select` has chosen; the last of the dumps of a tensor."""

    _kind = "selected"

    def _names(self) -> Iterable[str]:
        return self._context.selected

    def _read(self, name: str) -> Any:
        dump = self._context.need_dump()
        return dump.value(dump.tensor(name)[-1])


def check_name(name: str) -> None:
    """Whether a result can have this name.

    Raises:
        UserError: Python could not read it, or it means something else already.
    """
    if not name.isidentifier():
        raise UserError(f'"{name}" is not a name for a result.', "Use letters, digits and _.")
    if keyword.iskeyword(name) or name in RESERVED or name.startswith("_"):
        raise UserError(f'"{name}" can\'t name a result.', f"Python and eval use {name} already.")


def _namespace(context: Context) -> dict[str, Any]:
    """A dict of its own for each expression: its comprehensions and lambdas see every name."""
    return {
        **context.names,
        "np": np,
        "numpy": np,
        "newaxis": None,
        "fetches": Fetches(context),
        "feeds": Feeds(context),
        "selected": SelectedValues(context),
    }


def evaluate(context: Context, text: str, execution: int | None = None) -> Any:
    """The value of an expression.

    Its names are ``np``, ``fetches``, ``feeds``, ``selected``, what ``eval -o`` has stored,
    Python's built-in functions, ``_`` for the tensor of the current place, and references in
    backticks (see `references`). Python runs it as it is. Warnings are not shown.

    Args:
        context: where the values are.
        text: the expression.
        execution: which dump of a tensor that was dumped several times, for references without
            an index.

    Raises:
        UserError: it is malformed, or failed; the exception of Python is the cause.
    """
    return _evaluate(context, text, "", "The expression failed", {}, execution)


def select(context: Context, value: np.ndarray[Any, Any], slicing: str) -> Any:
    """What ``value[...]`` selects where the brackets hold an expression over ``_``, the value.

    Args:
        context: for the other names in the expression.
        value: an array.
        slicing: with its brackets.

    Raises:
        UserError: it is malformed, failed, or is not an index.
    """
    names = {"_": value}
    return _evaluate(context, slicing, "_", f"{slicing} does not fit", names, None)


def _evaluate(
    context: Context,
    text: str,
    head: str,
    failed: str,
    names: Mapping[str, Any],
    execution: int | None,
) -> Any:
    template = parse_template(head + text)
    namespace = {**_namespace(context), **names}
    for name, reference in template.references.items():
        namespace[name] = reference_value(context, reference, execution)
    try:
        with unwarned(), np.errstate(all="ignore"):
            code = compile(template.code, "<expression>", "eval")
            if "_" in code.co_names and "_" not in namespace:
                namespace["_"] = _current_tensor(context, execution)
            return eval(code, namespace)
    except (UserError, PassedOn):
        raise
    except SyntaxError as error:
        # Python gives no place for what is missing at the end.
        place = template.place(error.offset - 1) - len(head) if error.offset else len(text)
        rest = text[max(place, 0) :].strip() if error.lineno == 1 else ""
        where = f'at "{cut(rest, 40)}"' if rest else "at its end"
        message = template.in_words_of_user(error.msg)
        raise UserError(f"{failed}: SyntaxError: {message}, {where}.") from error
    except NameError as error:
        hint = _name_hint(error.name or "", namespace, names)
        raise UserError(f"{failed}: {one_line(error)}.", hint) from error
    except (Exception, SystemExit) as error:
        message = template.in_words_of_user(one_line(error)).rstrip(".")
        raise UserError(f"{failed}: {message}.", _index_hint(error, names)) from error


def _current_tensor(context: Context, execution: int | None) -> Any:
    """The value of the current place."""
    name, number = context.here("A tensor for _")
    (reference,) = parse_template(f"`{name}`").references.values()
    return reference_value(context, reference, number if execution is None else execution)


def _name_hint(name: str, namespace: Mapping[str, Any], own: Mapping[str, Any]) -> str:
    known = [each for each in (*namespace, *dir(builtins)) if not each.startswith("_")]
    hint = did_you_mean(name, known) if len(name) > 2 else ""
    if not hint and "_" in own:
        return "_ is the tensor: [_ > 3]; others stand in backticks."
    return hint or "Write tensors in backticks: `node:slot`."


def _index_hint(error: BaseException, names: Mapping[str, Any]) -> str:
    value = names.get("_")
    if isinstance(error, IndexError) and value is not None:
        return f"The shape is {value.shape}."
    return ""
