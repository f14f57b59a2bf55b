"""The feeds of a run by name: tensors, and the parts of sparse, ragged and other composite ones."""

from __future__ import annotations

from typing import Any

from tfdbg_cli.commands.context import Context
from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.dumps.feeds import as_tensor

__all__ = ["feed_name", "feed_parts", "feed_tensor", "has_feed"]

# What a ragged value is made of: its values may be ragged themselves.
_RAGGED = ("values", "row_splits")


def feed_parts(value: Any) -> dict[str, Any]:
    """The components of a composite feed by their names, e.g. ``indices`` of a sparse one.

    Named tuples (TensorFlow's ``SparseTensorValue`` and ``IndexedSlicesValue``) and ragged values
    are composite; those inside them are ``values.row_splits``. Empty for a plain feed.
    """
    names = getattr(value, "_fields", ()) if isinstance(value, tuple) else ()
    if not names and not isinstance(value, type) and all(hasattr(value, n) for n in _RAGGED):
        names = _RAGGED
    parts: dict[str, Any] = {}
    for name in names:
        part = getattr(value, name)
        inner = feed_parts(part)
        parts |= {f"{name}.{key}": item for key, item in inner.items()} if inner else {name: part}
    return parts


def _resolve(context: Context, text: str) -> tuple[str, str] | None:
    """The feed and the part that a text means; ``a`` is ``a:0``, ``a.values`` a part of ``a``."""
    feeds = context.run_info.feeds
    for name in (text, f"{text}:0"):
        if name in feeds:
            return name, ""
    at = text.rfind(".")
    while at > 0:
        for name in (text[:at], f"{text[:at]}:0"):
            if name in feeds and text[at + 1 :] in feed_parts(feeds[name]):
                return name, text[at + 1 :]
        at = text.rfind(".", 0, at)
    return None


def has_feed(context: Context, text: str) -> bool:
    """Whether there is a feed, or a part of one, of this name."""
    return _resolve(context, text) is not None


def feed_name(context: Context, text: str) -> str:
    """The full name of a feed or of a part of one.

    Raises:
        UserError: there is none; the hint names those that there are.
    """
    feeds = context.run_info.feeds
    is_session = context.run_info.kind == "run"
    if not feeds:
        what = (
            "The feed_dict of the current run is empty" if is_session else "The run has no inputs"
        )
        raise UserError(f"{what}.")
    found = _resolve(context, text)
    if found is None:
        what = "The feed_dict of the current run does not contain the key"
        raise UserError(
            f'{what} "{text}".' if is_session else f'The run has no input "{text}".',
            did_you_mean(text, feeds) or f"It has {', '.join(feeds)}.",
        )
    name, part = found
    return f"{name}.{part}" if part else name


def feed_tensor(context: Context, text: str) -> Any:
    """What was fed: an array, an `InconvertibleTensorProto`, or a composite value as it is.

    Raises:
        UserError: there is no such feed.
    """
    feed_name(context, text)
    found = _resolve(context, text)
    assert found is not None
    name, part = found
    value = context.run_info.feeds[name]
    parts = feed_parts(value)
    if part:
        return as_tensor(parts[part])
    return value if parts else as_tensor(value)
