"""Run control: what the next run does."""

from __future__ import annotations

import argparse

from tfdbg_cli.commands.compare.arguments import comparison, terms_arguments
from tfdbg_cli.commands.context import (
    ALL_MODES,
    LIVE_MODES,
    STEPPER_MODES,
    Context,
    compile_regex,
)
from tfdbg_cli.commands.list_command import exclude_argument, filter_argument
from tfdbg_cli.commands.registry import Argument, Command, Result, positive
from tfdbg_cli.commands.reply import Choice, Leave, Question
from tfdbg_cli.commands.run.choices import ALL_RUNS, ExitChoice, RunChoice
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.comparing.reference import Reference
from tfdbg_cli.comparing.terms import Terms
from tfdbg_cli.filters.builtin import RECOMMENDED

__all__ = ["COMMANDS"]


_positive = positive("number of runs")

# The filter that `run -d` makes.
_DIFFERS = "differs"


def _check_profile(arguments: argparse.Namespace) -> None:
    """Refuse what `run -p` can't be combined with."""
    if arguments.no_debug:
        raise UserError("-n runs without the debugger, so it can't time the run as -p does.")
    if arguments.till_filter_pass or arguments.filter_exclude_node_names or arguments.till_differs:
        raise UserError(
            "-p keeps no tensors, so the filter of -f would see nothing.",
            "Use run -f to find the run, or run -p to time one.",
        )
    for option in ("node_name_filter", "op_type_filter", "tensor_dtype_filter"):
        if getattr(arguments, option) is not None:
            raise UserError(
                f"-p keeps no tensors, so --{option} has nothing to choose from.",
                "run -p times every op; the options of lp choose among them.",
            )


def _await_difference(context: Context, arguments: argparse.Namespace) -> None:
    """Make a filter of the reference of `run -d`."""
    if arguments.no_debug or arguments.till_filter_pass:
        raise UserError("-d looks at the tensors of each run: leave -n and -f out.")
    terms = Terms.of(arguments).anywhere()
    reference = Reference(arguments.till_differs, terms)
    reference.shown_by = comparison(terms, reference.folder)
    context.filters.add(_DIFFERS, reference)
    arguments.till_filter_pass = _DIFFERS


def _check_keep(context: Context, arguments: argparse.Namespace) -> None:
    if not context.keeps_dumps:
        raise UserError("-k is for programs started with --keep-dumps.")
    if arguments.no_debug or arguments.till_filter_pass or arguments.till_differs:
        raise UserError("-k keeps every run: leave -n, -f and -d out.")
    if arguments.times == 1:
        arguments.times = ALL_RUNS


def _run(context: Context, arguments: argparse.Namespace) -> Result:
    if arguments.kind and context.run_info.unit == "session":
        raise UserError("Runs of this program are all of one kind.", "Leave --kind out.")
    if arguments.profile:
        _check_profile(arguments)
        return Leave(RunChoice(arguments.times, is_profile=True, kind=arguments.kind or ""))
    if arguments.no_debug and arguments.till_filter_pass:
        raise UserError(
            "-n runs without the debugger, so the filter of -f would see nothing.",
            "Use -t N with -f to skip runs first.",
        )
    if arguments.filter_exclude_node_names and not arguments.till_filter_pass:
        raise UserError("-fenn is valid only together with -f FILTER.")
    if arguments.most and not arguments.till_filter_pass:
        raise UserError("--most goes with -f or -d.", "run -t N stops after the N-th run.")
    if arguments.keep:
        _check_keep(context, arguments)
    if arguments.till_differs:
        _await_difference(context, arguments)
    watch = (
        ("--node_name_filter", arguments.node_name_filter),
        ("--op_type_filter", arguments.op_type_filter),
        ("--tensor_dtype_filter", arguments.tensor_dtype_filter),
        ("-fenn", arguments.filter_exclude_node_names or None),
    )
    for option, regex in watch:
        if regex is not None:
            compile_regex(regex, option)
            if arguments.no_debug:
                raise UserError(f"{option} has no effect together with -n.")
    if arguments.till_filter_pass:
        context.filters.get(arguments.till_filter_pass)
    return Leave(
        RunChoice(
            times=arguments.times,
            is_debug=not arguments.no_debug,
            filter_name=arguments.till_filter_pass,
            most=arguments.most or 0,
            exclude=arguments.filter_exclude_node_names,
            node_name=arguments.node_name_filter,
            op_type=arguments.op_type_filter,
            tensor_dtype=arguments.tensor_dtype_filter,
            kind=arguments.kind or "",
            keeps=arguments.keep,
        )
    )


def _invoke_stepper(context: Context, arguments: argparse.Namespace) -> Result:
    if arguments.kind and context.run_info.unit == "session":
        raise UserError("Runs of this program are all of one kind.", "Leave --kind out.")
    return Leave(RunChoice(arguments.times, kind=arguments.kind or "", is_stepper=True))


def _exit(context: Context, arguments: argparse.Namespace) -> Result:
    if not context.is_live:
        return Leave(ExitChoice())
    if arguments.end:
        return Leave(ExitChoice(ends_program=True))
    if arguments.detach:
        return Leave(ExitChoice())
    return Question(
        "Leave the debugger?",
        (
            Choice("c", "continue the program without the debugger", "exit --detach"),
            Choice("e", "end the program", "exit --end"),
            Choice("s", "stay", ""),
        ),
    )


KIND = Argument(
    ("--kind",),
    "PyTorch: only runs of this kind count",
    "KIND",
    choices=("training", "inference", "gradient", "block"),
)

RUN = Command(
    "run",
    ("r",),
    "run control",
    "Run this run or the next ones, with or without watching tensors.",
    _run,
    (
        Argument(
            ("-t", "--times"), "stop after the N-th run from now", "N", default=1, kind=_positive
        ),
        Argument(("-n", "--no_debug"), "execute the run without the debugger"),
        filter_argument("execute runs until a tensor passes this filter", "--till_filter_pass"),
        exclude_argument("with -f: nodes whose name matches this regex don't count"),
        Argument(
            ("--most",),
            "with -f or -d: stop at the end of the N-th run even if it is none of these",
            "N",
            kind=_positive,
        ),
        Argument(
            ("-d", "--till_differs"),
            "execute runs until one differs from the run of the same number in this folder",
            "DIR",
            default="",
            complete=completers.files,
        ),
        *terms_arguments("; of -d"),
        Argument(
            ("-k", "--keep"),
            "keep the dumps of all runs up to the N-th of -t, or to the end of the program",
        ),
        Argument(("-p", "--profile"), "time the ops of the run instead of keeping its tensors"),
        KIND,
        Argument(
            ("--node_name_filter",),
            "watch only nodes whose name matches",
            "REGEX",
            complete=completers.node_patterns,
        ),
        Argument(
            ("--op_type_filter",),
            "watch only ops whose type matches",
            "REGEX",
            complete=completers.op_types,
        ),
        Argument(
            ("--tensor_dtype_filter",),
            "watch only tensors whose dtype matches",
            "REGEX",
            complete=completers.dtypes,
        ),
    ),
    modes=LIVE_MODES,
    examples=(
        ("run", "execute the run and look at its tensors"),
        ("run -f", f"go on until something becomes nan or infinite ({RECOMMENDED})"),
        ("run -f --most 100", "the same, but for a hundred runs at most"),
        ("run -f has_inf_or_nan", "stop at any nan or infinity, also at those of masks"),
        ("run -d /tmp/good", "go on until a run differs from the run of the same number there"),
        ("run -k", "with --keep-dumps: keep every run of the program, for run -d and compare"),
        ("run -t 10", "nine runs undebugged, then one with the debugger"),
        ("run -n", "execute the run undebugged and stop before the next one"),
        ("run -p", "time every op of the run: lp lists them, ps shows them in the source"),
        ("run --node_name_filter hidden", "watch only the nodes of one scope"),
        ("run -t 10 --kind training", "PyTorch: the tenth optimizer step from now"),
    ),
    details=f"-f without a name waits for {RECOMMENDED}: the first tensor that an op made "
    "bad from clean inputs, and that reached a result, a gradient or a parameter. "
    "It ignores masks of -inf. Use has_inf_or_nan if every nan and infinity is a "
    "mistake, even one that nothing depends on.",
)

EXIT = Command(
    "exit",
    ("quit", "q"),
    "run control",
    "Leave the debugger: let the program go on without it, or end the program.",
    _exit,
    (
        Argument(("-d", "--detach"), "let the program go on without the debugger"),
        Argument(("--end",), "end the program (exit status 1)"),
    ),
    modes=ALL_MODES - STEPPER_MODES,
    examples=(
        ("exit", "asks whether the program should go on or end"),
        ("exit --detach", "let the program go on without further stops"),
    ),
)

INVOKE_STEPPER = Command(
    "invoke_stepper",
    ("s",),
    "run control",
    "Step through this run or the next one: stop at nodes, change values, go back.",
    _invoke_stepper,
    (
        Argument(
            ("-t", "--times"), "step through the N-th run from now", "N", default=1, kind=_positive
        ),
        KIND,
    ),
    modes=LIVE_MODES,
    examples=(
        ("s", "stop before the first node of the run"),
        ("s -t 10", "nine runs undebugged, then step through one"),
    ),
)

COMMANDS = (RUN, INVOKE_STEPPER, EXIT)
