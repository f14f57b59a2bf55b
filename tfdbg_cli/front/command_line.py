"""What can be asked for on the command line, and what was."""

from __future__ import annotations

import argparse
import os
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.common.version import __version__
from tfdbg_cli.front.completion import SHELLS
from tfdbg_cli.front.options import OptionParser, add_terms, add_ui_options
from tfdbg_cli.front.unseen import SEEN, UNSEEN

__all__ = ["EXAMPLES", "USAGE", "CommandLine", "make_parser", "parse"]

USAGE = """tfdbg [options] SCRIPT [args ...]
       tfdbg [options] -m MODULE [args ...]
       tfdbg [options] --model MODEL.onnx [--inputs FILE.npz]
       tfdbg [options] --dump-dir DIR [--against DIR]
       tfdbg [options] --grpc ADDRESS
       tfdbg [options] pm SCRIPT [args ...]
       tfdbg [options] attach [ADDRESS]
       tfdbg scan TREE [-f FILTER] [--executor WHO]
       tfdbg compare TREE_A TREE_B [--executor WHO]
       tfdbg mcp [--root DIR] [--allow RIGHTS]
       tfdbg new-engine NAME"""

_DESCRIPTION = """\
Runs a program as python does and stops before and after each of its runs (a
Session.run; with PyTorch a training step, an inference), to look at the
tensors, the graph and the source lines that made them. Everything after SCRIPT
or MODULE belongs to the program."""

EXAMPLES = """\
examples:
  tfdbg train.py --steps 100
      stop at each run; there, "run -f" goes on to the first with a bad tensor
  tfdbg --batch -c "run -f" -c lt train.py
      the same without a terminal: print the tensors of that run, then let the
      program go on
  tfdbg --listen 5678 train.py
      in a job without a terminal; "tfdbg attach 5678" debugs it from another
"""


def _frameworks() -> str:
    """What is debugged today, and what isn't."""

    def table(entries: Sequence[tuple[str, str]]) -> str:
        return "\n".join(
            textwrap.fill(what, 79, initial_indent=f"  {name:<13} ", subsequent_indent=" " * 16)
            for name, what in entries
        )

    return f"debugged today:\n{table(SEEN)}\nnot debugged today:\n{table(UNSEEN)}"


# What deepspeed and torch.distributed.launch put in front of a script's arguments.
_LOCAL_RANK = re.compile(r"--local[-_]rank=\d+")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def _size(text: str) -> int:
    """Bytes from ``500M``, ``4G``, ``1.5GiB`` or a plain number; the units are powers of 1024."""
    match = _SIZE.fullmatch(text.strip())
    size = float(match[1]) * _UNITS[match[2].upper()] if match else 0
    if not 1 <= size < 1 << 62:
        raise argparse.ArgumentTypeError(
            f'"{text}" is not a size; write 500M, 4G or a number of bytes'
        )
    return int(size)


def _number(what: str, digits: int = 9) -> Callable[[str], int]:
    """The kind of an option that is a whole number; ``what`` says that something is none."""

    def read(text: str) -> int:
        if not text.isdecimal() or len(text) > digits:
            raise argparse.ArgumentTypeError(f'"{text}" {what}')
        return int(text)

    return read


_count = _number("is not a number of runs")
_rank = _number("is not a rank; ranks count from 0")
_seed = _number("is not a seed; write a number from 0 on", 18)


def _positive_count(text: str) -> int:
    if not _count(text):
        raise argparse.ArgumentTypeError("it counts from 1")
    return int(text)


class CommandLine(NamedTuple):
    """What was asked for.

    Attributes:
        options: ours, parsed.
        script: a path, or ``None``.
        module: a module's name after ``-m``, or ``None``.
        args: the program's own.
        own: the debugger's options, as they were written.
    """

    options: argparse.Namespace
    script: str | None
    module: str | None
    args: list[str]
    own: list[str]


def make_parser() -> tuple[OptionParser, dict[str, bool]]:
    """The parser, and for each of its option strings whether it takes a value."""
    parser = OptionParser(
        prog="tfdbg",
        usage=USAGE,
        description=_DESCRIPTION,
        epilog=f"{EXAMPLES}\n{_frameworks()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        add_help=False,
        allow_abbrev=False,
    )
    add = parser.add_argument_group("the program").add_argument
    actions = [
        add("-m", dest="module", metavar="MODULE", help="run a module or package as a program"),
        add("--engine", metavar="NAME", help="debug only this framework (default: all in use)"),
    ]
    actions += add_ui_options(parser.add_argument_group("commands and the terminal"))
    add = parser.add_argument_group("an ONNX model instead of a program").add_argument
    actions += [
        add(
            "--model",
            metavar="FILE.onnx",
            help="run an ONNX model once, and look at every node for nan and infinities",
        ),
        add(
            "--inputs",
            metavar="FILE.npz",
            help="with --model: its inputs by their names; those that aren't there are random;"
            " several files ('calib/*.npz') are a run each",
        ),
        add("--seed", type=_seed, metavar="N", help="with --model: of random inputs (default: 0)"),
        add(
            "--dim",
            action="append",
            default=[],
            metavar="NAME=SIZE",
            help="with --model: the size of a dimension that has a name (default: 1); repeatable",
        ),
    ]
    add = parser.add_argument_group("runs of earlier or of others").add_argument
    actions += [
        add("--dump-dir", metavar="DIR", help="look at dumps of earlier runs; runs no program"),
        add(
            "--against",
            metavar="DIR",
            help="with --dump-dir: compare with the runs of this folder; with --batch the exit"
            " status is 1 if they differ",
        ),
        add(
            "--grpc",
            metavar="ADDRESS",
            help="receive runs of TensorFlow (GrpcDebugWrapperSession) at [HOST:]PORT and stop at"
            " the end of each; runs no program",
        ),
    ]
    actions += add_terms(parser.add_argument_group("what --against compares by"))
    add = parser.add_argument_group("where dumps go").add_argument
    actions += [
        add("--dump-root", metavar="DIR", help="where dumps go"),
        add("--keep-dumps", action="store_true", help="keep dumps when the program ends"),
        add(
            "--dump-format",
            choices=("folder", "tfdbg"),
            default="folder",
            help="kept dumps are run folders, with everything, or tfdbg: directories that"
            " TensorFlow's own debug_data.DebugDumpDir reads (default: %(default)s)",
        ),
        add(
            "--digest",
            action="store_true",
            help="keep hashes and statistics of tensors, not their values: a small reference for"
            " run -d and --against",
        ),
        add(
            "--dump-limit",
            type=_size,
            metavar="SIZE",
            help="how large the values of a run may grow in memory, such as 500M or 4G; otherwise"
            " half of the free memory",
        ),
    ]
    add = parser.add_argument_group("what is looked for and told").add_argument
    actions += [
        add(
            "--filters",
            action="append",
            default=[],
            metavar="FILE.py",
            help="load tensor filters from a file; repeatable",
        ),
        add(
            "--report",
            metavar="FILE.html",
            help="write a report at each stop of run -f and each run that fails; the second one"
            " is FILE-2.html",
        ),
        add(
            "--post-mortem",
            action="store_true",
            help="stop at no run; after an error that nobody caught, show the last run, and by pdb"
            " the Python frames. tfdbg pm SCRIPT is the same",
        ),
        add(
            "--log",
            metavar="FILE",
            help="append a line of JSON for each of these stops",
        ),
        add(
            "--send-to",
            metavar="NAME[:PLACE][,...]",
            help="send the verdict, a report and the numbers over runs of each of these stops to"
            " the open run of wandb or mlflow, or to tensorboard:DIR",
        ),
    ]
    add = parser.add_argument_group("in jobs: a check that ends the program").add_argument
    actions += [
        add(
            "--check",
            metavar="FILTER[,...]",
            help="ask nobody: at the first tensor that passes a filter print it, keep the run's"
            " dump, and end the program with status 3",
        ),
        add("--check-only", action="store_true", help="with --check: let the program go on"),
        add(
            "--after",
            type=_count,
            default=0,
            metavar="N",
            help="with --check: the first N runs aren't looked at",
        ),
        add(
            "--check-format",
            choices=("text", "json", "junit", "sarif", "markdown"),
            default="text",
            help="with --check: what --check-output gets (default: %(default)s)",
        ),
        add(
            "--check-output",
            metavar="FILE",
            help="with --check: write the result to this file as well as to stderr",
        ),
    ]
    add = parser.add_argument_group("narrower types").add_argument
    actions += [
        add(
            "--precision",
            metavar="TYPE[,...]",
            help="ask nobody: let the program run, and tell at its end what float16, bfloat16 or"
            " float8_e4m3fn would make of its ops",
        ),
        add(
            "--precision-every",
            type=_positive_count,
            default=1,
            metavar="N",
            help="with --precision: measure each N-th run (default: each one)",
        ),
        add(
            "--precision-keep",
            metavar="FILE",
            help="with --precision: write what has to stay in float32 to this file",
        ),
        add(
            "--precision-output",
            metavar="FILE",
            help="with --precision: write all rows to this file, as precision --json has them",
        ),
    ]
    add = parser.add_argument_group("other terminals and ranks").add_argument
    actions += [
        add(
            "--listen",
            metavar="ADDRESS",
            help="let people attach from other terminals, at [HOST:]PORT or unix:PATH;"
            " the first stop waits for somebody; port 0 takes a free one",
        ),
        add(
            "--rank",
            type=_rank,
            default=0,
            metavar="K",
            help="of a program that torchrun or the like has started: the rank at which you debug,"
            " for all of them (default: %(default)s)",
        ),
        add("--no-wait", action="store_true", help="with --listen: run on until somebody attaches"),
        add(
            "--signal",
            metavar="NAME",
            help="this signal (USR1, for example) stops the program at the end of its run",
        ),
    ]
    add = parser.add_argument_group("about tfdbg").add_argument
    actions += [
        add(
            "--version",
            action="version",
            version=f"tfdbg_cli {__version__}",
            help="print the version",
        ),
        add(
            "--print-completion",
            choices=SHELLS,
            metavar="SHELL",
            help=f"print what completes the options of tfdbg in {', '.join(SHELLS)}",
        ),
        add("-h", "--help", action="help", help="print this"),
        add(
            "--help-json",
            action="store_true",
            help="print options, commands and the schemas of their --json as JSON",
        ),
    ]
    return parser, {name: a.nargs != 0 for a in actions for name in a.option_strings}


def _ours(argv: Sequence[str], takes_value: dict[str, bool]) -> int:
    """How many arguments are the debugger's: up to SCRIPT, ``--`` or the module of ``-m``.

    Raises:
        UserError: an option that isn't there.
    """
    index = 0
    while index < len(argv):
        text = argv[index]
        if not text.startswith("-") or text in {"-", "--"}:
            return index
        name, equals, _ = text.partition("=")
        attached = bool(equals)
        if not text.startswith("--"):
            name, attached = text[:2], len(text) > 2
        if name not in takes_value:
            known = [option for option in takes_value if option.startswith("--")]
            raise UserError(f"there is no option {name}.", did_you_mean(name, known))
        index += 1 if attached or not takes_value[name] else 2
        if name == "-m":
            return min(index, len(argv))
    return min(index, len(argv))


def parse(parser: OptionParser, takes_value: dict[str, bool], argv: Sequence[str]) -> CommandLine:
    """What was asked for.

    Args:
        parser, takes_value: as `make_parser` makes them.
        argv: without the name of the debugger.

    Raises:
        UserError: an option that isn't there, or doesn't go with another.
    """
    if argv and _LOCAL_RANK.fullmatch(argv[0]):  # a launcher's, and meant for the program
        line = parse(parser, takes_value, argv[1:])
        return line._replace(args=[argv[0], *line.args])
    split = _ours(argv, takes_value)
    rest = list(argv[split:])
    options = parser.parse_args(_attached(argv[:split], takes_value))
    if options.module is None and rest[:1] == ["--"]:
        del rest[0]
    script = rest.pop(0) if options.module is None and rest else None
    if script == "pm" and rest and not os.path.exists(script):
        return parse(parser, takes_value, [*argv[:split], "--post-mortem", *rest])
    if options.model is None:
        for name in ("inputs", "seed", "dim"):
            if getattr(options, name) not in (None, []):
                raise UserError(f"--{name} is about a model: --model says which.")
    elif options.module is not None or script is not None:
        raise UserError("--model runs a model: leave the program out.")
    else:
        seed = str(options.seed or 0)
        args = [options.model, options.inputs or "", seed, *options.dim]
        # Whoever attaches says what to wait for.
        if options.check is None and options.precision is None and options.listen is None:
            options.command = options.command or ["run -f"]
        return CommandLine(options, None, "tfdbg_cli.engines.onnx.serving", args, [])
    own = list(argv[:split])
    if options.module is not None:
        del own[-1 if own[-1].startswith("-m") else -2 :]
    return CommandLine(options, script, options.module, rest, own)


def _attached(argv: Sequence[str], takes_value: dict[str, bool]) -> list[str]:
    """The same with each option and its value in one, so that a value may start with a dash."""
    joined: list[str] = []
    arguments = iter(argv)
    for text in arguments:
        value = next(arguments, None) if takes_value.get(text) else None
        if value is None:
            joined.append(text)
        else:
            joined.append(f"{text}={value}" if text.startswith("--") else f"{text}{value}")
    return joined
