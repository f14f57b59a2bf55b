"""The plug-in for pytest: a test fails at the first run in which a tensor passes a filter.

It does nothing, and imports nothing, unless ``--tfdbg-check``, ``--tfdbg`` or a test's marker asks
for it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from tfdbg_cli.commands.report.finding import Finding
    from tfdbg_cli.sessions.debugger.checked_test import CheckedTests

__all__ = ["pytest_addoption", "pytest_configure", "pytest_runtest_call", "pytest_runtest_setup"]


class _Request(NamedTuple):
    """What is asked for a test.

    Attributes:
        filters: their names.
        allow: nodes in whose names this regular expression is found may be bad.
    """

    filters: tuple[str, ...]
    allow: str


def pytest_addoption(parser: Any) -> None:
    """``--tfdbg-check`` and ``--tfdbg``."""
    group = parser.getgroup("tfdbg", "tensors (tfdbg_cli)")
    group.addoption(
        "--tfdbg",
        action="store_true",
        help="open the debugger at such a run, before the test fails; without --tfdbg-check,"
        " the filter is origin_of_nonfinite",
    )
    group.addoption(
        "--tfdbg-check",
        metavar="FILTER[,...]",
        help="fail each test at the first run (a training step, a model's call, a Session.run) in"
        " which a tensor passes one of these filters: origin_of_nonfinite, has_inf_or_nan, ...",
    )


def pytest_configure(config: Any) -> None:
    """Make the marker known.

    Raises:
        pytest.UsageError: there is no terminal for a prompt.
    """
    if config.getoption("tfdbg") and config.getoption("numprocesses", None):
        raise pytest.UsageError(
            "--tfdbg opens a prompt, which processes of -n have no terminal for."
        )
    config.addinivalue_line(
        "markers",
        "tfdbg(check=FILTERS, allow=REGEX): fail the test at the first tensor that passes one of"
        " the filters; nodes whose names match REGEX may. check='': don't look.",
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: Any) -> Iterator[None]:
    """Fixtures may train, too."""
    with _checking(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: Any) -> Iterator[None]:
    """The test itself."""
    with _checking(item):
        return (yield)


@contextmanager
def _checking(item: Any) -> Iterator[None]:
    wanted = _wanted(item)
    if wanted is None:
        yield
        return
    checked = _begin(item.config, wanted)
    try:
        yield
    finally:
        _end()
    if checked.found:  # the program has caught the failure
        raise _failure(checked.found[0])


def _wanted(item: Any) -> _Request | None:
    asked = item.config.getoption("tfdbg_check") or ""
    mark = item.get_closest_marker("tfdbg")
    if not asked and (mark is not None or item.config.getoption("tfdbg")):
        from tfdbg_cli.filters.builtin import RECOMMENDED

        asked = RECOMMENDED
    allow = ""
    if mark is not None:
        unknown = {*mark.kwargs} - {"check", "allow"}
        if unknown or mark.args:
            raise pytest.UsageError("tfdbg takes check=FILTERS and allow=REGEX.")
        asked = mark.kwargs.get("check", asked)
        allow = mark.kwargs.get("allow", "")
    filters = tuple(name.strip() for name in asked.split(",") if name.strip())
    return _Request(filters, allow) if filters else None


def _begin(config: Any, wanted: _Request) -> CheckedTests:
    from tfdbg_cli.common.errors import UserError
    from tfdbg_cli.front.control import enable
    from tfdbg_cli.front.engine_watch import EngineWatch
    from tfdbg_cli.sessions.debugger.checked_test import CheckedTests
    from tfdbg_cli.sessions.debugger.debugger import Debugger
    from tfdbg_cli.sessions.debugger.gate import GateOptions

    options = GateOptions(wanted.filters)
    try:
        watch = EngineWatch.current
        if watch is None:
            is_asking = config.getoption("tfdbg")
            with _terminal(config):  # the debugger's is that of its beginning
                debugger = Debugger(batch=not is_asking)
            debugger.gate = CheckedTests(
                options,
                debugger.filters,
                _failure,
                functools.partial(_terminal, config) if is_asking else None,
                lambda: pytest.exit.Exception("the debugger was left"),
            )
            watch = EngineWatch(debugger)
            watch.start()
        checked = watch.debugger.gate
        if not isinstance(checked, CheckedTests):
            raise UserError("The debugger is in use already: --tfdbg-check goes without it.")
        checked.begin(options, wanted.allow)
    except UserError as error:
        raise pytest.UsageError(str(error)) from None
    watch.debugger.choice = None
    enable()
    watch.debugger.request_stop()
    return checked


def _end() -> None:
    from tfdbg_cli.front.control import disable

    disable()


@contextmanager
def _terminal(config: Any) -> Iterator[None]:
    """Nothing is captured within, and keys can be read."""
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is None:
        yield
        return
    capture.suspend(in_=True)
    try:
        yield
    finally:
        capture.resume()


def _failure(finding: Finding) -> BaseException:
    text = "\n".join([f"tfdbg: {finding.headline}", *finding.story])
    return pytest.fail.Exception(text, pytrace=False)
