"""Doors in ONNX Runtime's session class: the program's runs go to the debugger."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Mapping
from typing import Any

from tfdbg_cli.engines.base import WrapSession
from tfdbg_cli.engines.kit.patching.patches import PatchSet
from tfdbg_cli.engines.onnx.private import NAMES, IOBinding, Session, named_values
from tfdbg_cli.engines.onnx.requests import Request, bound_request, note_binding

__all__ = ["install", "plain_run", "straight"]

_lock = threading.RLock()
_wraps: list[WrapSession] = []
_patches = PatchSet(NAMES.framework)
_here = threading.local()


class straight:
    """Runs made within go straight to ONNX Runtime: those of the debugger itself."""

    def __enter__(self) -> None:
        self._before = getattr(_here, "is_ours", False)
        _here.is_ours = True

    def __exit__(self, *_: object) -> None:
        _here.is_ours = self._before


def plain_run(session: Any, names: Any, feeds: Any, options: Any = None) -> Any:
    """``session.run``, past the doors."""
    return _past(session.run, names, feeds, options)


def _past(run: Callable[..., Any], *arguments: Any) -> Any:
    with straight():
        return run(*arguments)


def _wrapper(session: Any) -> Any:
    """Who debugs a session; ``None``: nobody."""
    if getattr(_here, "is_ours", False):
        return None
    with _lock:
        wrap = _wraps[-1] if _wraps else None
    return None if wrap is None else wrap(session)


def _names(session: Any, names: Any) -> list[str]:
    return list(names) if names else [each.name for each in session.get_outputs()]


def _run(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: Any, output_names: Any, input_feed: Any, run_options: Any = None) -> Any:
        wrapper = _wrapper(self)
        if wrapper is None:
            return original(self, output_names, input_feed, run_options)
        plain = functools.partial(_past, original, self, output_names, input_feed, run_options)
        names = _names(self, output_names)
        request = Request(names, input_feed, run_options, plain, gives_arrays=True)
        return wrapper.run(request.names, input_feed, request)

    return run


def _run_with_ort_values(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(
        self: Any, output_names: Any, input_dict_ort_values: Any, run_options: Any = None
    ) -> Any:
        wrapper = _wrapper(self)
        if wrapper is None:
            return original(self, output_names, input_dict_ort_values, run_options)
        plain = functools.partial(
            _past, original, self, output_names, input_dict_ort_values, run_options
        )
        request = Request(_names(self, output_names), input_dict_ort_values, run_options, plain)
        return wrapper.run(request.names, input_dict_ort_values, request)

    return run


def _run_with_ortvaluevector(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(
        self: Any,
        run_options: Any,
        feed_names: Any,
        feeds: Any,
        fetch_names: Any,
        fetches: Any,
        fetch_devices: Any,
    ) -> Any:
        arguments = (run_options, feed_names, feeds, fetch_names, fetches, fetch_devices)
        wrapper = _wrapper(self)
        if wrapper is None:
            return original(self, *arguments)
        plain = functools.partial(_past, original, self, *arguments)

        def outputs(_: Any) -> Mapping[str, Any]:
            return named_values(fetch_names, fetches)

        given = named_values(feed_names, feeds)
        # What an output is put into may be what an input is.
        request = Request(fetch_names, given, run_options, plain, outputs, is_bound=True)
        return wrapper.run(request.names, given, request)

    return run


def _run_with_iobinding(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: Any, iobinding: Any, run_options: Any = None) -> Any:
        wrapper = _wrapper(self)
        if wrapper is None:
            return original(self, iobinding, run_options)
        plain = functools.partial(_past, original, self, iobinding, run_options)
        request = bound_request(iobinding, run_options, plain)
        if not request.names:
            return plain()
        return wrapper.run(request.names, request.feeds, request)

    return run


def _bind(original: Callable[..., Any]) -> Callable[..., Any]:
    def bind(self: Any, name: Any, *arguments: Any, **options: Any) -> Any:
        found = original(self, name, *arguments, **options)
        note_binding(self, str(name), *arguments, **options)
        return found

    return bind


def install(wrap: WrapSession) -> Callable[[], None]:
    """Debug every session of the process, also those that exist already.

    Args:
        wrap: gives the wrapper of a session.

    Returns:
        A function that undoes it; it may be called more than once.

    Raises:
        UserError: this ONNX Runtime has other sessions; nothing was changed.
    """
    NAMES.check()
    with _lock:
        if not _wraps:
            with _patches.together():
                _patches.replace(Session, "run", _run)
                _patches.replace(Session, "run_with_ort_values", _run_with_ort_values)
                _patches.replace(Session, "run_with_ortvaluevector", _run_with_ortvaluevector)
                _patches.replace(Session, "run_with_iobinding", _run_with_iobinding)
                for name in ("bind_input", "bind_cpu_input", "bind_ortvalue_input"):
                    _patches.replace(IOBinding, name, _bind)
        _wraps.append(wrap)
    NAMES.tell_version()

    def undo() -> None:
        with _lock:
            _wraps.remove(wrap)
            if not _wraps:
                _patches.undo()

    undoing = contextlib.ExitStack()  # closed once more, it does nothing
    undoing.callback(undo)
    return undoing.close
