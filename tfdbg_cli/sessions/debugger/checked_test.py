"""What the pytest plug-in asks: a test fails at the first run in which a tensor passes a filter."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from tfdbg_cli.commands.context import Context, compile_regex
from tfdbg_cli.commands.report.finding import Finding
from tfdbg_cli.commands.run.choices import ExitChoice, RunChoice
from tfdbg_cli.filters.registry import FilterRegistry
from tfdbg_cli.sessions.debugger.gate import Gate, GateOptions

__all__ = ["CheckedTests"]


class CheckedTests(Gate):
    """A gate for one test after the other.

    Args:
        options: for the first one.
        registry: of filters.
        failure: makes the error that ends a test, of the finding.
        prompt: within what it makes the terminal is the debugger's: somebody is asked at the
            failing run; ``None``: nobody is.
        quitting: makes the error that ends all tests, where that is what they want.

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
        prompt: Callable[[], AbstractContextManager[Any]] | None = None,
        quitting: Callable[[], BaseException] | None = None,
    ) -> None:
        super().__init__(options, registry)
        self._prompt, self._quitting = prompt, quitting
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
            UserError: there is no such filter, or it is not a regular expression.
        """
        if allow:
            compile_regex(allow, "allow")
        self.use(options, self._registry)
        self._allow, self.found = allow, []

    def prompt(self, context: Context, command: str) -> AbstractContextManager[Any] | None:
        is_hit = context.mode == "run-end" and command.startswith(("lt -f", "why -f"))
        return self._prompt() if self._prompt is not None and is_hit else None

    def answer(self, context: Context, title: str, command: str, dump: str, said: Any) -> Any:
        if context.mode == "run-end" and command.startswith(("lt -f", "why -f")):
            finding = self.find(context, title, self._allow)
            # Runs of other tests tell nothing of this one.
            finding.story = [each for each in finding.story if not each.startswith("Loss")]
            self.found.append(finding)
            is_over = isinstance(said, ExitChoice) and said.ends_program
            if is_over and self._quitting is not None:
                return ExitChoice(ends_program=True, error=self._quitting())
            return ExitChoice(ends_program=True, error=self._failure(finding))
        return RunChoice(filter_name=self.name, exclude=self._allow)

    def finish(self, runs: int) -> None:
        """Pytest tells."""
