"""The command line: ``python -m tfdbg_cli``, and ``tfdbg`` where it is installed."""

from __future__ import annotations

import argparse
import os
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from tfdbg_cli.common.errors import UserError, did_you_mean
from tfdbg_cli.common.printable import printable
from tfdbg_cli.common.streams import tell
from tfdbg_cli.common.version import __version__
from tfdbg_cli.comparing.options import TERMS
from tfdbg_cli.front.completion import SHELLS, completion_script
from tfdbg_cli.front.options import WRONG_USE, OptionParser, add_terms, add_ui_options, check_theme
from tfdbg_cli.front.unseen import SEEN, UNSEEN

if TYPE_CHECKING:
    from tfdbg_cli.sessions.debugger.debugger import Debugger
    from tfdbg_cli.sessions.debugger.gate import GateOptions

__all__ = ["main"]

_USAGE = """tfdbg [options] SCRIPT [args ...]
       tfdbg [options] -m MODULE [args ...]
       tfdbg [options] --model MODEL.onnx [--inputs FILE.npz]
       tfdbg [options] --dump-dir DIR [--against DIR]
       tfdbg [options] --grpc ADDRESS
       tfdbg [options] pm SCRIPT [args ...]
       tfdbg [options] attach [ADDRESS]
       tfdbg scan TREE [-f FILTER] [--executor WHO]
       tfdbg compare TREE_A TREE_B [--executor WHO]"""

_DESCRIPTION = """\
Runs a program as python does and stops before and after each of its runs (a
Session.run; with PyTorch a training step, an inference), to look at the
tensors, the graph and the source lines that made them. Everything after SCRIPT
or MODULE belongs to the program."""

_EXAMPLES = """\
examples:
  tfdbg train.py --steps 100
      stop at each run; there, "run -f has_inf_or_nan" goes on to the first one
      with a bad tensor
  tfdbg --batch -c "run -f has_inf_or_nan" -c lt train.py
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


_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


def _size(text: str) -> int:
    """Bytes from ``500M``, ``4G``, ``1.5GiB`` or a plain number; the units are powers of 1024."""
    match = _SIZE.fullmatch(text.strip())
    size = float(match[1]) * _UNITS[match[2].upper()] if match else 0
    if not 1 <= size < 1 << 62:
        raise argparse.ArgumentTypeError(
            f'"{text}" is no size; write 500M, 4G or a number of bytes'
        )
    return int(size)


def _count(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise argparse.ArgumentTypeError(f'"{text}" is no number of runs')
    return int(text)


def _rank(text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise argparse.ArgumentTypeError(f'"{text}" is no rank; ranks count from 0')
    return int(text)


def _seed(text: str) -> int:
    if not text.isdecimal() or len(text) > 18:
        raise argparse.ArgumentTypeError(f'"{text}" is no seed; write a number from 0 on')
    return int(text)


class _CommandLine(NamedTuple):
    """What was asked for.

    Attributes:
        options: ours, parsed.
        script: a path, or ``None``.
        module: a module's name after ``-m``, or ``None``.
        args: the program's own.
    """

    options: argparse.Namespace
    script: str | None
    module: str | None
    args: list[str]


def _make_parser() -> tuple[OptionParser, dict[str, bool]]:
    """The parser, and for each of its option strings whether it takes a value."""
    parser = OptionParser(
        prog="tfdbg",
        usage=_USAGE,
        description=_DESCRIPTION,
        epilog=f"{_EXAMPLES}\n{_frameworks()}",
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
            help="with --model: its inputs by their names; those that aren't there are random",
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
            help="how large the values of a run may grow, such as 500M or 4G",
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
    ]
    add = parser.add_argument_group("in jobs: a check that ends the program").add_argument
    actions += [
        add(
            "--check",
            metavar="FILTER[,...]",
            help="ask nobody: at the first tensor that passes a filter tell of it, keep the run's"
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
            choices=("text", "json", "junit"),
            default="text",
            help="with --check: what --check-output gets (default: %(default)s)",
        ),
        add(
            "--check-output",
            metavar="FILE",
            help="with --check: where the result goes besides stderr",
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


def _parse(parser: OptionParser, takes_value: dict[str, bool], argv: Sequence[str]) -> _CommandLine:
    split = _ours(argv, takes_value)
    rest = list(argv[split:])
    options = parser.parse_args(_attached(argv[:split], takes_value))
    if options.module is None and rest[:1] == ["--"]:
        del rest[0]
    script = rest.pop(0) if options.module is None and rest else None
    if script == "pm" and rest and not os.path.exists(script):
        return _parse(parser, takes_value, [*argv[:split], "--post-mortem", *rest])
    if options.model is None:
        for name in ("inputs", "seed", "dim"):
            if getattr(options, name) not in (None, []):
                raise UserError(f"--{name} is about a model: --model says which.")
    elif options.module is not None or script is not None:
        raise UserError("--model runs a model and no program.")
    else:
        seed = str(options.seed or 0)
        args = [options.model, options.inputs or "", seed, *options.dim]
        options.command = options.command or ["run -f has_inf_or_nan"]
        return _CommandLine(options, None, "tfdbg_cli.engines.onnx.serving", args)
    return _CommandLine(options, script, options.module, rest)


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


def _check_names(options: argparse.Namespace) -> None:
    """Names that only other modules know; these are imported when a name has to be checked.

    Raises:
        UserError: there is no such engine or theme.
    """
    if options.engine is not None:
        from tfdbg_cli.engines.registry import entries

        names = [entry.name for entry in entries()]
        if options.engine not in names:
            raise UserError(
                f'there is no engine named "{options.engine}".',
                did_you_mean(options.engine, names) or f"There are {', '.join(names)}.",
            )
    check_theme(options.theme)


def _check_options(options: argparse.Namespace, wants_program: bool) -> GateOptions | None:
    """What ``--check`` asks for; ``None``: nothing.

    Raises:
        UserError: options that don't fit together.
    """
    if options.check is None:
        given = [
            name
            for name, value in (
                ("--check-only", options.check_only),
                ("--after", options.after),
                ("--check-output", options.check_output),
                ("--check-format", options.check_format != "text"),
            )
            if value
        ]
        if given:
            raise UserError(f"{given[0]} needs --check.")
        return None
    if not wants_program:
        raise UserError("--check is about the runs of a program.")
    if options.command or options.listen is not None:
        raise UserError("--check asks nobody and takes no commands: leave out -c and --listen.")
    if options.check_format != "text" and options.check_output is None:
        raise UserError("--check-format says what --check-output FILE gets.")
    from tfdbg_cli.sessions.debugger.gate import GateOptions

    return GateOptions(
        tuple(filter(None, (name.strip() for name in options.check.split(",")))),
        after=options.after,
        goes_on=options.check_only,
        format=options.check_format,
        output=options.check_output,
    )


def _check_post_mortem(options: argparse.Namespace, wants_program: bool, is_alone: bool) -> None:
    """Whether the other options fit ``--post-mortem``.

    Raises:
        UserError: they don't.
    """
    if not wants_program:
        raise UserError("--post-mortem needs a program.")
    if options.check is not None or options.listen is not None:
        raise UserError("--post-mortem stops after the program: leave out --check and --listen.")
    if not is_alone:
        raise UserError("--post-mortem is for programs of one process.", "Try --check, or --log.")


def _make_debugger(options: argparse.Namespace, wants_program: bool) -> Debugger:
    from tfdbg_cli.sessions.debugger.debugger import Debugger
    from tfdbg_cli.sessions.ranks.interface import find_place

    check = _check_options(options, wants_program)
    if options.digest and (not options.keep_dumps or options.dump_format == "tfdbg"):
        raise UserError("--digest is about the run folders of --keep-dumps.")
    place = find_place(leader=options.rank) if wants_program else None
    if options.post_mortem:
        _check_post_mortem(options, wants_program, is_alone=place is None)
    if place is not None and options.rank >= place.size:
        raise UserError(f"there is no rank {options.rank}.", f"Use 0 to {place.size - 1}.")
    return Debugger(
        place=place,
        leader=options.rank,
        ui=options.ui,
        commands=options.command,
        batch=options.batch or check is not None,
        color=not (options.no_color or os.environ.get("NO_COLOR")),
        mouse=False if options.no_mouse else None,
        theme=options.theme,
        dump_root=options.dump_root,
        keep_dumps=options.keep_dumps or check is not None,
        dump_limit=options.dump_limit,
        as_directory=options.dump_format == "tfdbg",
        digest=options.digest,
        report=options.report if place is None or place.rank == options.rank else None,
        filters=options.filters,
        check=check,
        post_mortem=options.post_mortem,
        log=options.log if place is None or place.rank == options.rank else None,
    )


def _check_remote(options: argparse.Namespace, wants_program: bool) -> None:
    """Whether the options about other terminals fit together.

    Raises:
        UserError: they don't.
    """
    if options.listen is None:
        if options.no_wait:
            raise UserError("--no-wait needs --listen.")
        return
    if not wants_program:
        raise UserError("--listen needs a program to attach to.")
    if options.batch:
        raise UserError(
            "--batch asks nobody, and --listen waits for somebody.",
            "With --no-wait the program runs on until somebody attaches.",
        )


def _open_doors(options: argparse.Namespace, debugger: Debugger) -> None:
    """Listen for people at other terminals, and for a signal."""
    if options.signal is not None:
        from tfdbg_cli.front.control import catch_signal, signal_number

        catch_signal(signal_number(options.signal))
    if options.listen is not None and not debugger.ranks.is_silent:
        debugger.listen(options.listen, wait=not options.no_wait)


def _check_terms(options: argparse.Namespace) -> None:
    """Refuse what is said of a comparison that nobody has asked for."""
    for term in TERMS:
        is_given = getattr(options, term.name.lstrip("-")) != term.default
        if is_given and options.against is None:
            raise UserError(f"{term.name} is about --against.")


def _look(options: argparse.Namespace, debugger: Debugger) -> int:
    from tfdbg_cli.comparing.terms import Terms
    from tfdbg_cli.sessions.offline.look import look

    try:
        look(options.dump_dir, debugger, against=options.against, terms=Terms.of(options))
    finally:
        debugger.close()
    return int(debugger.queue.failed and debugger.queue.batch)


def _receive(address: str, debugger: Debugger) -> int:
    from tfdbg_cli.net.address import parse_address
    from tfdbg_cli.sessions.compat.grpc_look import look_at_runs

    try:
        look_at_runs(parse_address(address), debugger)
    finally:
        debugger.close()
    return int(debugger.queue.failed and debugger.queue.batch)


def _die_of_interrupt() -> NoReturn:
    """End as python does after an uncaught KeyboardInterrupt whose traceback was printed."""
    # The interpreter alone can do it: it finalizes first and then sends itself the signal.
    sys.excepthook = lambda kind, error, trace: None
    raise KeyboardInterrupt


def _other_command(line: _CommandLine) -> int:
    """What stands in the place of a script and is none."""
    try:
        if line.script in ("scan", "compare"):
            from tfdbg_cli.front import trees

            return _printed(trees.scan_main if line.script == "scan" else trees.compare_main, line)
        from tfdbg_cli.front.attach import main as attach

        return attach(line.args, line.options)
    except KeyboardInterrupt:  # before it shows anything, or after
        _die_of_interrupt()


def _printed(main: Callable[[Sequence[str]], int], line: _CommandLine) -> int:
    """The exit status of what prints to stdout; 1 if that couldn't be written."""
    try:
        status = main(line.args)
        sys.stdout.flush()
        return status
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # `| head` has seen enough
            tell(f"stdout can't be written: {error.strerror or error}.")
        # Python writes the rest at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def main(argv: Sequence[str] | None = None) -> int:
    """The command line.

    Args:
        argv: the arguments after the program's name; ``None``: those of the process.

    Returns:
        The exit status: the program's own; 2 for a wrong command line or a script that can't be
        opened; with ``--batch`` 1 when a debugger command failed, or there was nothing to run the
        commands at, and the program did not fail; 3 when a tensor has passed a filter of
        ``--check``, 1 when there was nothing to check.

    Raises:
        SystemExit: ``--help``, ``--version``, or a wrong command line.
        KeyboardInterrupt: the program ended with one; its traceback has been printed.
    """
    parser, takes_value = _make_parser()
    try:
        line = _parse(parser, takes_value, sys.argv[1:] if argv is None else argv)
        options = line.options
        if options.print_completion is not None:
            print(completion_script(parser, options.print_completion), end="")
            return 0
        wants_program = line.script is not None or line.module is not None
        if options.dump_dir is None and options.grpc is None and not wants_program:
            print(f"usage: {_USAGE}\ntfdbg --help tells more.", file=sys.stderr)
            return WRONG_USE
        if options.dump_dir is not None and wants_program:
            raise UserError("--dump-dir looks at dumps and runs no program.")
        if options.against is not None and options.dump_dir is None:
            raise UserError("--against compares dumps: --dump-dir says which.")
        _check_terms(options)
        if options.grpc is not None and (wants_program or options.dump_dir is not None):
            raise UserError("--grpc looks at the runs of other programs: it goes alone.")
        if options.report is not None and not wants_program:
            hint = "At a dump, write -c 'report FILE.html'."
            raise UserError("--report is about the runs of a program.", hint)
        if options.log is not None and not wants_program:
            raise UserError("--log is about the runs of a program.")
        _check_names(options)
        if line.script in ("attach", "scan", "compare") and not os.path.exists(line.script):
            return _other_command(line)
        _check_remote(options, wants_program)
        debugger = _make_debugger(options, wants_program)
        if options.dump_dir is not None:
            return _look(options, debugger)
        if options.grpc is not None:
            return _receive(options.grpc, debugger)
        _open_doors(options, debugger)
    except UserError as error:
        parser.exit(WRONG_USE, f"tfdbg: {printable(' '.join(str(error).split()))}\n")

    from tfdbg_cli.front.engine_watch import EngineWatch
    from tfdbg_cli.front.launcher import run_module, run_script

    engines = None if options.engine is None else (options.engine,)
    try:
        if line.module is not None:
            status = run_module(line.module, line.args, debugger, engines)
            if options.model is not None and status == WRONG_USE and EngineWatch.current:
                EngineWatch.current.program_started = False  # there was nothing to run; it was said
            return status
        assert line.script is not None
        status = run_script(line.script, line.args, debugger, engines)
        if EngineWatch.current is None:
            debugger.close()  # the program hasn't even begun, so it won't end
        return status
    except KeyboardInterrupt:
        _die_of_interrupt()


if __name__ == "__main__":
    sys.exit(main())
