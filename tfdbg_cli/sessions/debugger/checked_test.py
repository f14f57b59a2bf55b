"""What the pytest plug-in asks: a test fails at the first run in which a tensor passes a filter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tfdbg_cli.commands.context import Context, compile_regex
from tfdbg_cli.commands.report.finding import Finding
from tfdbg_cli.commands.run.control import ExitChoice, RunChoice
from tfdbg_cli.filters.registry import FilterRegistry
from tfdbg_cli.sessions.debugger.gate import Gate, GateOptions

__all__ = ["CheckedTests"]


class CheckedTests(Gate):
    """A gate for one test after the other.

    Args:
        options: for the first one.
        registry: of filters.
        failure: makes the error that ends a test, of the finding.

    Attributes:
        found: in the test that runs.

    Raises:
        UserError: there is no such filter.
    """

    def __init__(
        self,
        options: GateOptions,
        registry: FilterRegistry,
        failure: Callable[[Finding], BaseException],
    ) -> None:
        super().__init__(options, registry)
        self._registry = registry
        self._failure = failure
        self._allow = ""
        self.found: list[Finding] = []

    def begin(self, options: GateOptions, allow: str) -> None:
        """A test begins.

        Args:
            options: its filters.
            allow: a regular expression: nodes in whose names it is found may be bad.

        Raises:
            UserError: there is no such filter, or it is no regular expression.
        """
        if allow:
            compile_regex(allow, "allow")
        self.use(options, self._registry)
        self._allow, self.found = allow, []

    def answer(self, context: Context, title: str, command: str, dump: str) -> Any:
        if context.mode == "run-end" and command.startswith(("lt -f", "why -f")):
            finding = self.find(context, title)
            # Runs of other tests tell nothing of this one.
            finding.story = [each for each in finding.story if not each.startswith("Loss:")]
            self.found.append(finding)
            return ExitChoice(ends_program=True, error=self._failure(finding))
        return RunChoice(filter_name=self.name, exclude=self._allow)

    def finish(self, runs: int) -> None:
        """Pytest tells."""
