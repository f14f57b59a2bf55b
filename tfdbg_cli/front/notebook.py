"""IPython and Jupyter: ``%load_ext tfdbg_cli`` gives the magics ``%tfdbg`` and ``%%tfdbg``."""

from __future__ import annotations

import ast
import atexit
import re
import sys
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from tfdbg_cli.commands.reply import Toast
from tfdbg_cli.commands.run.choices import RunChoice
from tfdbg_cli.common.documents import Line, line
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.common.streams import in_kernel
from tfdbg_cli.front.engine_watch import EngineWatch
from tfdbg_cli.front.launcher import remove_frames
from tfdbg_cli.sessions.debugger.notebook import NotebookDebugger
from tfdbg_cli.ui.base import CommandQueue
from tfdbg_cli.ui.notebook import NotebookUI
from tfdbg_cli.ui.text import TextUI

__all__ = ["load_ipython_extension", "unload_ipython_extension"]

_NAME = "tfdbg"
# Words that the magic understands itself.
_OWN = {
    "on": "debug the sessions of the notebook",
    "off": "leave them alone",
    "more": "the rest of the last output",
}
# What a debugged cell that can't be parsed is called.
_CELL = "<cell>"
_LEAVING = {"exit", "quit", "q"}
_TYPED = re.compile(r"\s*%{0,2}tfdbg\s+(?:(?:-b|--batch)\s+)?")


def load_ipython_extension(shell: Any) -> None:
    """Called by ``%load_ext tfdbg_cli``: register the magics and debug the sessions.

    Args:
        shell: IPython's ``InteractiveShell``.
    """
    unload_ipython_extension(shell)
    shell._tfdbg = _Magics(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Called by ``%unload_ext tfdbg_cli``: leave IPython and the frameworks as they were."""
    magics = getattr(shell, "_tfdbg", None)
    if magics is not None:
        del shell._tfdbg
        magics.close()


def _make_ui(settings: Settings, color: bool) -> TextUI:
    """The line UI on a terminal, HTML in a kernel, and plain displays where there is neither."""
    if not in_kernel() and sys.stdin.isatty() and sys.stdout.isatty():
        from tfdbg_cli.ui.line import LineUI

        return LineUI(settings, color=color)
    return NotebookUI()


class _Magics:
    """What was registered with one shell."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        color = str(getattr(shell, "colors", "")).lower() != "nocolor"
        self.debugger = NotebookDebugger(lambda settings: _make_ui(settings, color))
        self._ui = self.debugger.ui
        earlier = EngineWatch.current
        if earlier is not None and not earlier.program_started:
            earlier.finish()  # `enable` has made it before the extension was loaded
        self._engines = EngineWatch(self.debugger)
        self._matcher = self._make_matcher()
        self._raises_in_cell = False
        magic = self._magic
        shell.register_magic_function(magic, "line_cell", _NAME)
        shell.Completer.custom_matchers.append(self._matcher)
        self._show_traceback = shell.showtraceback
        shell.showtraceback = self._showtraceback
        atexit.register(self._engines.finish)
        if EngineWatch.current is None:
            self._engines.start()
        else:  # the notebook is a program under the launcher
            self._engines.watch()

    def close(self) -> None:
        shell = self._shell
        if shell.__dict__.get("showtraceback") == self._showtraceback:
            del shell.showtraceback
        if self._matcher in shell.Completer.custom_matchers:
            shell.Completer.custom_matchers.remove(self._matcher)
        for kind in ("line", "cell"):
            shell.magics_manager.magics[kind].pop(_NAME, None)
        atexit.unregister(self._engines.finish)
        self._engines.finish()

    # the magics

    def _magic(self, line: str, cell: str | None = None) -> None:
        """Debug tensors: find the operation that made the first NaN.

        %tfdbg                    how it stands
        %tfdbg COMMAND            a debugger command on the last run that was debugged
        %tfdbg run [options]      debug the next run of a session, in whatever cell it is
        %tfdbg more               the rest of the last output
        %tfdbg off, %tfdbg on     leave the sessions alone; debug them again
        %%tfdbg [-b] [COMMANDS]   run the cell and stop before and after each run; the commands
                                  (separated by ;) come first, then you are asked (-b: you are not)

        `%tfdbg help` lists the commands.
        """
        if cell is not None:
            self._run_cell(line.strip(), cell)
        else:
            self._command(line.strip())

    # IPython would put variables into {2} of a regex and $x of a shell command.
    _magic._ipython_magic_no_var_expand = True  # type: ignore[attr-defined]

    def _command(self, text: str) -> None:
        if not text:
            self._ui.print_lines(self._status())
        elif text == "more":
            if not self._ui.print_rest():
                self._say("Nothing was cut.")
        elif text == "on":
            self._engines.turn(True)
            self._say("On: %tfdbg run debugs the next run of a session.")
        elif text == "off" or text.split(maxsplit=1)[0] in _LEAVING:
            self._engines.turn(False)
            self.debugger.plan(None)
            self._say("Off: sessions run as without the debugger. %tfdbg on undoes it.")
        else:
            self._execute(text)

    def _execute(self, text: str) -> None:
        debugger = self.debugger
        before = dict(debugger.names)
        queue = CommandQueue()
        leave = self._ui.execute(debugger.service, queue, debugger.history.add(text))
        # What eval -o stores is there for the cells, too.
        new = {n: v for n, v in debugger.names.items() if before.get(n, debugger) is not v}
        self._shell.push(new)
        if leave is None:
            return
        choice = leave.action
        if isinstance(choice, RunChoice):
            self._engines.turn(True)
            debugger.plan(choice if choice.is_debug else None, queue)
            self._say(_describe(debugger.choice))

    def _run_cell(self, text: str, cell: str) -> None:
        words = text.split(None, 1)
        is_batch = bool(words) and words[0] in ("-b", "--batch")
        if is_batch:
            text = words[1] if len(words) > 1 else ""
        # A SyntaxError is raised from here, before anything runs.
        ast.parse(self._shell.transform_cell(cell), _CELL)
        was_on = self._engines.is_on
        self._engines.turn(True)
        self._raises_in_cell = True
        try:
            with self.debugger.cell([text] if text else [], batch=is_batch):
                result = self._shell.run_cell(cell, store_history=False)
                left = list(iter(self.debugger.queue.take, None))
        finally:
            self._raises_in_cell = False
            if not was_on:
                self._engines.turn(False)
        if left:
            self._say(f"{len(left)} command(s) were not run: {'; '.join(left)}", "warning")
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            raise error

    def _say(self, text: str, role: str = "info") -> None:
        self._ui.print_message(Toast(text, role))

    def _status(self) -> Iterator[Line]:
        debugger, engines = self.debugger, self._engines
        if not engines.is_on:
            yield line("tfdbg is ", ("off", "bold"), "; %tfdbg on debugs the sessions again.")
        else:
            names = ", ".join(engines.names) or "no framework is imported yet"
            yield line("tfdbg is ", ("on", "bold"), f" ({names}).")
            yield line(
                f"{debugger.run_count} run(s) of {debugger.session_count} session(s) so far."
            )
            yield line(_describe(debugger.choice))
        last = debugger.last_stop or "no run was debugged yet"
        yield line("Last debugged: ", (last, "bold" if debugger.last_stop else ""))
        yield line(("%tfdbg help lists the commands, %tfdbg? the ways to use it.", "dim"))

    # tracebacks

    def _showtraceback(self, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> Any:
        """IPython's, without the debugger's frames; a debugged cell leaves it to the outer one."""
        if self._raises_in_cell:
            return None
        error = exc_tuple[1] if exc_tuple is not None else sys.exc_info()[1]
        if isinstance(error, SyntaxError) and error.filename == _CELL:
            kwargs["running_compiled_code"] = False  # there is nothing to see of how it was run
        if isinstance(error, BaseException):
            remove_frames(error)
            error.__traceback__ = _from_cell(error.__traceback__)
            exc_tuple = (type(error), error, error.__traceback__)
        return self._show_traceback(exc_tuple, *args, **kwargs)

    # completion

    def _make_matcher(self) -> Callable[[Any], Any]:
        from IPython.core.completer import SimpleCompletion, context_matcher

        @context_matcher(identifier="tfdbg_cli", priority=10)  # type: ignore[untyped-decorator]
        def matcher(context: Any) -> dict[str, Any]:
            text = context.text_until_cursor
            typed = _TYPED.match(text)
            if typed is None:
                return {"completions": []}
            command = text[typed.end() :]
            found = self.debugger.service.complete(command, len(command))
            word = command[found.start :]
            names = [candidate.text for candidate in found.candidates]
            if not command[: found.start].strip() and not text.lstrip().startswith("%%"):
                names += [name for name in _OWN if name.startswith(word)]
            return {
                "completions": [SimpleCompletion(name, type="tfdbg") for name in names],
                "matched_fragment": word,
                "suppress": True,
                "ordered": True,
            }

        made: Callable[[Any], Any] = matcher
        return made


def _describe(choice: RunChoice | None) -> str:
    """What happens at the next runs, in a sentence."""
    if choice is None:
        return "Runs go by undebugged until %tfdbg run, or in a cell with %%tfdbg."
    which = "The next run" if choice.times == 1 else f"Run {choice.times} from now"
    if choice.filter_name:
        which = "Each run" if choice.times == 1 else f"Each run from the {choice.times}th on"
        return f"{which} is debugged until a tensor passes {choice.filter_name}."
    return f"{which} is {'timed' if choice.is_profile else 'debugged'}."


def _from_cell(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from the innermost cell on: a debugged cell runs inside another one."""
    found = at = trace
    while at is not None:
        # IPython's own mark for the frame that runs a cell's code.
        if at.tb_frame.f_locals.get("__tracebackhide__") == "__ipython_bottom__":
            found = at
        at = at.tb_next
    return found
