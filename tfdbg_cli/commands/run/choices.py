"""What `run`, `exit` and the stepper ask of whoever holds the program: choices, as plain data."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field

from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.common.errors import compile_regex

__all__ = ["ALL_RUNS", "ExitChoice", "RunChoice", "RunFilter", "StepperExit"]

#: How many runs there are up to the end of a program that nobody knows.
ALL_RUNS = sys.maxsize


@dataclass(frozen=True)
class RunFilter:
    """A filter that runs are searched for.

    Attributes:
        name: of the filter.
        exclude: nodes whose name this regex is found in don't count; empty: all count.
    """

    name: str
    exclude: str = ""

    @property
    def options(self) -> str:
        """As `lt`, `why`, `runs` and `use` take it."""
        exclude = f" -fenn {quoted(self.exclude)}" if self.exclude else ""
        return f"-f {quoted(self.name)}{exclude}"

    @property
    def pattern(self) -> re.Pattern[str] | None:
        """What excludes nodes; ``None``: nothing.

        Raises:
            UserError: it is no regex.
        """
        return compile_regex(self.exclude, "-fenn") if self.exclude else None


@dataclass(frozen=True)
class RunChoice:
    """What `run` asks of the session.

    Attributes:
        times: the run that counts is the N-th from now; those before it go undebugged.
        is_debug: whether that run is debugged; if not, the next stop is the run-start after it.
        filter_name: debug run after run until a tensor passes this filter; empty: no filter.
        exclude: nodes whose name this is found in don't count for the filter.
        node_name, op_type, tensor_dtype: which tensors to watch; ``None``: all.
        is_profile: whether that run is timed op by op; no tensors are kept then.
        kind: only runs whose kind begins with this count; empty: all.
        is_stepper: whether that run is stepped through.
        most: with a filter: the program stops at the end of the run of this number, counted from
            the first debugged one, even if no tensor passes; 0: it doesn't.
        keeps: those before it are debugged, too, and their dumps are kept.
    """

    times: int = 1
    is_debug: bool = True
    filter_name: str = ""
    most: int = 0
    exclude: str = ""
    node_name: str | None = None
    op_type: str | None = None
    tensor_dtype: str | None = None
    is_profile: bool = False
    kind: str = ""
    is_stepper: bool = False
    keeps: bool = False

    @property
    def awaited(self) -> RunFilter:
        """The filter."""
        return RunFilter(self.filter_name, self.exclude)


@dataclass(frozen=True)
class ExitChoice:
    """What `exit` asks of the session: to let the program go on, or to end it.

    Attributes:
        ends_program: it ends.
        status: with which status.
        error: what is raised for that; ``None``: SystemExit.
    """

    ends_program: bool = False
    status: int = 1
    error: BaseException | None = None
    extra: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StepperExit:
    """What leaving the stepper asks of the session.

    Attributes:
        is_discarded: the run was given up; its run-start comes again.
        exit: to leave the debugger, too, or to end the program.
    """

    is_discarded: bool = False
    exit: ExitChoice | None = None
