"""What a run was asked for, and the ways on from a stop: the first screen of a run-start."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from tfdbg_cli.commands.context import (
    PROFILE_MODES,
    Context,
)
from tfdbg_cli.commands.json_lines import JSON_ARGUMENT, json_document
from tfdbg_cli.commands.registry import Command, Result
from tfdbg_cli.commands.run.records import run_record
from tfdbg_cli.commands.series.step_facts import StepFact, step_facts
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.units import describe_run, has_debug_ops
from tfdbg_cli.commands.wrapping import columns_of, wrapped
from tfdbg_cli.common.documents import Line, MenuItem, TextDocument, line
from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.filters.builtin import RECOMMENDED

__all__ = ["COMMANDS", "list_item"]


def list_item(context: Context) -> MenuItem:
    """The menu item for what a run has left: its timings, or its tensors."""
    name = "list_profile" if context.mode in PROFILE_MODES else "list_tensors"
    return MenuItem(name, name, enabled=context.dump is not None)


def _run_info(context: Context, arguments: argparse.Namespace) -> Result:
    info = context.run_info
    if arguments.json:
        record = run_record(context, describe_run(context.run_info))
        return json_document(1, lambda at: record)
    bar = "=" * 38
    told = [
        line(bar),
        *(
            _session_run(info)
            if info.unit == "session"
            else _program_run(info, columns_of(context), step_facts(context.numbers()[0], info))
        ),
    ]
    if info.error is not None:
        how = "The program failed after the run: " if info.error.is_late else "The run failed: "
        told += [line(), line((how, "error"), info.error.message)]
    told += _from_file(context)
    told.append(line(bar))
    lines: list[Line] = context.take_notes()
    if not context.is_live:
        lines += [*told, line(), line("For all commands, see ", ("help", "link", "help"), ".")]
    elif context.mode == "run-start":  # whoever sees this for the first time wants to go on
        lines += [*_ways_on(context), line(), *told, line(), *_more_ways(context)]
    else:
        lines += [*told, line(), *_ways_on(context), line(), *_more_ways(context)]
    menu = [MenuItem("run", "run"), MenuItem("exit", "exit")] if context.is_live else []
    if context.dump is not None:
        menu.insert(0, list_item(context))
    return TextDocument(lines, menu=menu)


def _from_file(context: Context) -> list[Line]:
    """What the settings file changes about the program's runs: nobody set it in this session."""
    settings = context.settings
    found = [
        f"{item.name} {value}"
        for item, value in settings.items()
        if settings.origin(item.name) == "file" and value != item.default and not item.is_look
    ]
    if not found or not (context.is_live or context.mode == "stepper"):
        return []
    text = f"Set by the settings file: {', '.join(found)} ({settings.path})"
    return [line(), *wrapped([line((text, "dim"))], columns_of(context), 2)]


def _ways_on(context: Context) -> list[Line]:
    """What to type, a line each: seven lines of 48 columns are all that a small screen has."""
    info = context.run_info
    ways = [
        ("run", "watch its tensors"),
        ("run -f", "until NaN or inf"),
        ("run -n", "don't watch it"),
        *([("run -p", "time its ops")] if info.can_profile else []),
        *([("invoke_stepper", "step by step")] if info.can_step else []),
        ("help", "all commands"),
    ]
    width = max(len(command) for command, _ in ways) + 2
    lines = [line("Select one of the following commands to proceed:")]
    for command, text in ways:
        pad = " " * (width - len(command))
        lines.append(line("  ", (command, "link", command), pad, text))
    return lines


def _more_ways(context: Context) -> list[Line]:
    """The commands that take a number or a name."""
    lines = [
        line("  ", ("run -t <T>", "bold")),
        line("    Execute T-1 runs without the debugger, then one with it"),
        line("  ", ("run -f <filter_name>", "bold")),
        line("    Keep executing runs until a dumped tensor passes a filter."),
        line("    Registered filter(s):"),
    ]
    filters = context.filters
    for name in sorted(filters.names(), key=lambda name: name != RECOMMENDED):
        way = next(iter(filters.examples(name)), name)
        shown = f"run -f {filters.usage(name) if way != name else name}"
        mark = "  recommended: run -f alone" if name == RECOMMENDED else ""
        lines.append(line("      * ", (shown, "link", f"run -f {quoted(way)}"), (mark, "dim")))
    return lines


def _session_run(info: RunInfo) -> list[Line]:
    """What a run of a session was asked for, in the original's words or those of its framework."""
    lines = []
    is_original = has_debug_ops(info)
    if info.call_count:
        call = "Session.run() call" if is_original else "InferenceSession.run() call"
        lines.append(line((f"{call} #{info.call_count}:", "bold")))
    if info.runner:
        return [*lines, line(), line(f"  {info.runner}")]
    lines += [line(), line("Fetch(es):" if is_original else "Outputs:")]
    lines += [line(f"  {name}") for name in info.fetches] or [line("  (None)")]
    return [*lines, line(), line("Feed dict:" if is_original else "Inputs:"), *_feeds(info)]


def _program_run(info: RunInfo, columns: int, facts: Iterable[StepFact]) -> list[Line]:
    """What is known of a run that is a stretch of the program."""
    head = info.kind[:1].upper() + info.kind[1:]
    lines = [line((f"{head} #{info.number or info.call_count}: ", "bold"), info.runner)]
    details = [*info.details, *((fact.label, fact.text) for fact in facts)]
    if info.number and info.call_count != info.number:
        details.append(("Run", f"{info.call_count} of the program"))
    width = max((len(label) for label, _ in details), default=0) + 2
    told = [line((f"{label + ':':{width}}", "dim"), text) for label, text in details]
    if told:
        lines += [line(), *wrapped(told, columns, width)]
    lines += [line(), line("Inputs:"), *_feeds(info)]
    if info.outputs:
        lines += [line(), line("Outputs:")]
        for name, tensor in info.outputs.items():
            lines.append(line(f"  {name} = ", (tensor, "link", f"pt {quoted(tensor)}")))
    return lines


def _feeds(info: RunInfo) -> list[Line]:
    """A line for each feed, with its shape where that is known without asking."""
    shapes = getattr(info.feeds, "shapes", {})
    lines = []
    for name in info.feeds:
        shape = shapes.get(name, "")
        lines.append(line("  ", (name, "link", f"pf {quoted(name)}"), f"  {shape}" * bool(shape)))
    return lines or [line("  (Empty)")]


RUN_INFO = Command(
    "run_info",
    ("ri",),
    "run control",
    "Show the run's inputs and outputs, and the commands to go on with.",
    _run_info,
    (JSON_ARGUMENT,),
    examples=(("ri", "inputs and outputs of this run"),),
)

COMMANDS = (RUN_INFO,)
