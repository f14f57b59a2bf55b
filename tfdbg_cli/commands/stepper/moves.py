"""Moving through a run: ``step``, ``cont``, ``until``, breakpoints, and leaving the stepper."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable

from tfdbg_cli.commands.context import STEPPER_MODES, Context, compile_regex
from tfdbg_cli.commands.list_command import exclude_argument, filter_argument
from tfdbg_cli.commands.registry import Argument, Command, Result, positive
from tfdbg_cli.commands.reply import Candidate, Leave, Toast
from tfdbg_cli.commands.run.choices import ExitChoice, StepperExit
from tfdbg_cli.commands.stepper.screens import (
    list_document,
    moved_document,
    need_walk,
    where_document,
)
from tfdbg_cli.common.documents import TextDocument, line
from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.stepping.breakpoints import Breakpoint
from tfdbg_cli.stepping.walk import Halt

__all__ = ["COMMANDS"]


def _nodes(context: Context, typed: str) -> Iterable[Candidate]:
    """The nodes of the run that is stepped through."""
    walk = context.walk
    if walk is None:
        return []
    return [Candidate(name) for name in walk.names() if name.startswith(typed)][:400]


def _breakpoints(context: Context, typed: str) -> Iterable[Candidate]:
    """Their numbers."""
    found = list(context.walk.breakpoints) if context.walk is not None else []
    known = [Candidate(str(each.number), each.describe()) for each in found]
    return [each for each in (*known, Candidate("all")) if each.text.startswith(typed)]


_count = positive("number of steps")


def _where(context: Context, arguments: argparse.Namespace) -> Result:
    return where_document(context)


def _list(context: Context, arguments: argparse.Namespace) -> Result:
    count = len(need_walk(context).stepper.steps)
    lower = max((arguments.lower or 1) - 1, 0)
    upper = min(arguments.upper or count, count)
    if lower >= upper:
        raise UserError(f"The run has nodes 1 to {count}.")
    return list_document(context, lower, upper)


def _step(context: Context, arguments: argparse.Namespace) -> Result:
    walk = need_walk(context)
    times = arguments.count or arguments.times
    if arguments.back:
        undone = walk.back(times)
        context.refresh()
        names = ", ".join(step.node for step in undone[:8])
        more = f" and {len(undone) - 8} more" if len(undone) > 8 else ""
        return moved_document(context, Halt(f"Undone: {names}{more}"))
    if arguments.iteration and not walk.stepper.can_iterate:
        raise UserError("Loops of this run are stepped as one node.", "Leave -i out.")
    return moved_document(context, walk.step(times, arguments.iteration))


def _cont(context: Context, arguments: argparse.Namespace) -> Result:
    walk = need_walk(context)
    if arguments.restore_variable_values and walk.stepper.updated:
        walk.stepper.restore()
    return moved_document(context, walk.go(arguments.target))


def _until(context: Context, arguments: argparse.Namespace) -> Result:
    return moved_document(context, need_walk(context).go(arguments.target, before=True))


def _break(context: Context, arguments: argparse.Namespace) -> Result:
    breakpoints = need_walk(context).breakpoints
    text, name = arguments.what, arguments.filter
    if arguments.filter_exclude_node_names and not name:
        raise UserError("-fenn is valid only together with -f FILTER.")
    if not text and not name:
        if not len(breakpoints):
            return TextDocument(
                [line("There are no breakpoints."), line(("break NAME sets one.", "dim"))]
            )
        return TextDocument([line(f"{each.number}  {each.describe()}") for each in breakpoints])
    if text and name:
        raise UserError("A breakpoint is a name or a filter, not both.", "Set two.")
    exclude = None
    if arguments.filter_exclude_node_names:
        exclude = compile_regex(arguments.filter_exclude_node_names, "-fenn")
    predicate = context.filters.predicate(name) if name else None
    walk = need_walk(context)
    if text and not walk.stepper.is_open_ended:
        probe = Breakpoint(0, text)
        if not any(map(probe.is_at, walk.stepper.steps)):
            raise UserError(
                f'No node of this run is called "{text}" or is of that type.',
                did_you_mean(text, walk.names()) or "list_sorted_nodes lists them.",
            )
    made = breakpoints.add(text, name, predicate, exclude)
    if predicate is not None:
        need_walk(context).watch()
    return Toast(f"Breakpoint {made.number}: {made.describe()}", "success")


def _delete(context: Context, arguments: argparse.Namespace) -> Result:
    wanted = arguments.number
    if wanted != "all" and not re.fullmatch("[0-9]{1,9}", wanted):
        raise UserError(f'"{wanted}" is not a number of a breakpoint.', "break lists them.")
    breakpoints = need_walk(context).breakpoints
    count = breakpoints.delete(None if wanted == "all" else int(wanted))
    return Toast(f"{count} breakpoint(s) deleted.", "success")


def _exit(context: Context, arguments: argparse.Namespace) -> Result:
    need_walk(context)
    if arguments.keep and arguments.discard:
        raise UserError("--keep and --discard can't be combined.")
    leaves = None
    if arguments.end:
        leaves = ExitChoice(ends_program=True)
    elif arguments.detach:
        leaves = ExitChoice()
    if arguments.discard:
        if context.discard is None:
            raise UserError("This run can't be discarded from here.", "exit lets it go on.")
        context.discard()
    return Leave(StepperExit(arguments.discard, leaves))


_TARGET = Argument(("target",), "a node or tensor of the run", "NODE", complete=_nodes)

WHERE = Command(
    "where",
    ("w",),
    "stepper",
    "Show the nodes around the next one.",
    _where,
    modes=STEPPER_MODES,
    examples=(("w", "the nodes around the next one, and how to go on"),),
)

LIST = Command(
    "list_sorted_nodes",
    ("lsn",),
    "stepper",
    "List the run's nodes in order of execution, with their states.",
    _list,
    (
        Argument(("-l", "--lower"), "the first node to list, from 1", "LOWER", kind=_count),
        Argument(("-u", "--upper"), "the last node to list", "UPPER", kind=_count),
    ),
    modes=STEPPER_MODES,
    examples=(("lsn", "all nodes"), ("lsn -l 10 -u 20", "the tenth to the twentieth")),
    details=(
        "The letters: P placeholder (its value is fed), U unfeedable (it can't be "
        "overridden), H reached by step or cont, I computed on the way, O overridden, D a "
        "variable that was updated. The original's alias lt is list_tensors here."
    ),
)

STEP = Command(
    "step",
    ("st", "s"),
    "stepper",
    "Compute the next node, or undo the last one.",
    _step,
    (
        Argument(("count",), "how many nodes", "NUM", nargs="?", kind=_count),
        Argument(("-t", "--times"), "the same", "NUM", default=1, kind=_count),
        Argument(("-b", "--back"), "undo: the state is as before the last step"),
        Argument(("-i", "--iteration"), "compute one iteration of a loop (NumPy engine, JAX)"),
    ),
    modes=STEPPER_MODES,
    examples=(
        ("step", "the next node"),
        ("st 10", "the next ten"),
        ("step -b", "undo the last step"),
        ("step -b 5", "undo the last five"),
    ),
)

CONT = Command(
    "cont",
    ("ct",),
    "stepper",
    "Go on to a node or tensor, to a breakpoint, or to the end of the run.",
    _cont,
    (
        Argument(
            ("target",),
            "go on until this node is computed; without it: to a breakpoint or the end",
            "NODE",
            nargs="?",
            default="",
            complete=_nodes,
        ),
        Argument(
            ("-r", "--restore_variable_values"),
            "first reset variables to their values at the beginning",
        ),
    ),
    modes=STEPPER_MODES,
    examples=(
        ("cont Softmax", "go on until Softmax is computed"),
        ("ct", "go on to the next breakpoint"),
    ),
    details="Breakpoints on the way also stop it. Ctrl-C stops it after the current node.",
)

UNTIL = Command(
    "until",
    ("unt",),
    "stepper",
    "Go on until a node is the next one.",
    _until,
    (_TARGET,),
    modes=STEPPER_MODES,
    examples=(("until Softmax", "stop before Softmax"),),
)

BREAK = Command(
    "break",
    ("b",),
    "stepper",
    "Stop before nodes of a name or op type, or before the op that reads a tensor which "
    "passes a filter.",
    _break,
    (
        Argument(
            ("what",),
            "a node, an op type, or a regex for names; none: list the breakpoints",
            "NAME",
            nargs="?",
            default="",
            complete=_nodes,
        ),
        filter_argument("a tensor filter", "--filter"),
        exclude_argument("with -f: nodes whose name matches this regex don't count"),
    ),
    modes=STEPPER_MODES,
    examples=(
        ("break Softmax", "before the node, and before nodes of that type"),
        ("b -f", "before the op that would read the first bad tensor"),
        ("b", "list them"),
    ),
)

DELETE = Command(
    "delete",
    ("del",),
    "stepper",
    "Delete a breakpoint.",
    _delete,
    (Argument(("number",), "the breakpoint's number, or all", "NUMBER", complete=_breakpoints),),
    modes=STEPPER_MODES,
    examples=(("delete 1", "the first one"), ("delete all", "all of them")),
)

EXIT = Command(
    "exit",
    ("quit", "q"),
    "stepper",
    "Leave the stepper: finish the run, or undo it.",
    _exit,
    (
        Argument(("--keep",), "finish the run with the overrides (the default)"),
        Argument(("--discard",), "undo everything, and stop at the run-start again"),
        Argument(
            ("-d", "--detach"), "finish the run, and let the program go on without the debugger"
        ),
        Argument(("--end",), "end the program (exit status 1)"),
    ),
    modes=STEPPER_MODES,
    examples=(
        ("exit", "finish the run, and look at it"),
        ("exit --discard", "as if it had never happened"),
    ),
)

COMMANDS = (WHERE, LIST, STEP, CONT, UNTIL, BREAK, DELETE, EXIT)
