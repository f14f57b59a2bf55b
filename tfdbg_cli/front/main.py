"""What a command line asks for: a program, dumps, or a command of its own."""

from __future__ import annotations

import argparse
import functools
import gc
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NoReturn

from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.interpreter.garbage import collector_paused
from tfdbg_cli.common.printable import printable
from tfdbg_cli.common.streams import tell
from tfdbg_cli.front.command_line import USAGE, CommandLine, make_parser, parse
from tfdbg_cli.front.completion import completion_script
from tfdbg_cli.front.launchers import right_order
from tfdbg_cli.front.options import (
    WRONG_USE,
    check_names,
    check_options,
    check_post_mortem,
    check_remote,
    check_terms,
)

if TYPE_CHECKING:
    from tfdbg_cli.sessions.debugger.debugger import Debugger
    from tfdbg_cli.sessions.sending.sending import Sending

__all__ = ["main"]


@collector_paused()
def _make_debugger(options: argparse.Namespace, wants_program: bool) -> Debugger:
    from tfdbg_cli.sessions.debugger.debugger import Debugger
    from tfdbg_cli.sessions.ranks.interface import find_place

    check = check_options(options, wants_program)
    if options.digest and (not options.keep_dumps or options.dump_format == "tfdbg"):
        raise UserError("--digest is about the run folders of --keep-dumps.")
    place = find_place(leader=options.rank) if wants_program else None
    if options.post_mortem:
        check_post_mortem(options, wants_program, is_alone=place is None)
    if place is not None and options.rank >= place.size:
        raise UserError(f"there is no rank {options.rank}.", f"Use 0 to {place.size - 1}.")
    if wants_program:
        # Our modules stay to the end: the program's collections are spared going through them.
        gc.freeze()
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
        keep_dumps=options.keep_dumps or options.check is not None,
        dump_limit=options.dump_limit,
        as_directory=options.dump_format == "tfdbg",
        digest=options.digest,
        report=options.report if place is None or place.rank == options.rank else None,
        filters=options.filters,
        check=check,
        post_mortem=options.post_mortem,
        log=options.log if place is None or place.rank == options.rank else None,
        sending=_sending(options) if place is None or place.rank == options.rank else None,
        owns_stdin=not wants_program or options.model is not None,
    )


def _sending(options: argparse.Namespace) -> Sending | None:
    if not options.send_to:
        return None
    from tfdbg_cli.sessions.sending.sending import Sending

    return Sending(options.send_to)


def _before_the_program(line: CommandLine, debugger: Debugger) -> None:
    """Listen for people at other terminals and for a signal; say what can't be debugged so."""
    options, order = line.options, right_order(line)
    if order:
        tell(printable(order))
    if options.signal is not None:
        from tfdbg_cli.front.control import catch_signal, signal_number

        catch_signal(signal_number(options.signal))
    if options.listen is not None and not debugger.ranks.is_silent:
        debugger.listen(options.listen, wait=not options.no_wait)


def _look(options: argparse.Namespace, debugger: Debugger) -> int:
    from tfdbg_cli.comparing.terms import Terms
    from tfdbg_cli.sessions.offline.look import look

    if options.listen is not None:
        debugger.listen(options.listen)
    try:
        look(options.dump_dir, debugger, against=options.against, terms=Terms.of(options))
    finally:
        debugger.close()
    return int(debugger.queue.failed and debugger.queue.batch)


def _receive(address: str, debugger: Debugger) -> int:
    from tfdbg_cli.net.address import parse_address
    from tfdbg_cli.sessions.wrappers.grpc_look import look_at_runs

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


def _other_command(line: CommandLine) -> int:
    """What stands in the place of a script and is none."""
    if line.script in ("scan", "compare"):
        from tfdbg_cli.front import trees

        return _printed(trees.scan_main if line.script == "scan" else trees.compare_main, line)
    if line.script == "mcp":
        from tfdbg_cli.front.agents import main as agents

        return agents(line.args)
    if line.script == "new-engine":
        from tfdbg_cli.front.new_engine import main as new_engine

        return _printed(new_engine, line)
    from tfdbg_cli.front.attach import main as attach

    return attach(line.args, line.options)


def _about(parser: argparse.ArgumentParser, options: argparse.Namespace) -> str:
    """What other programs are told about this one."""
    if options.print_completion is not None:
        return completion_script(parser, options.print_completion)
    from tfdbg_cli.front.help_json import help_json

    return help_json(parser) + "\n"


def _printed(main: Callable[[Sequence[str]], int], line: CommandLine) -> int:
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
        opened; 1 when the debugger can't begin; with ``--batch`` 1 when a debugger command failed,
        or there was nothing to run the commands at, and the program did not fail; 3 when a tensor
        has passed a filter of ``--check``, 1 when there was nothing to check.

    Raises:
        SystemExit: ``--help``, ``--version``, or a wrong command line.
        KeyboardInterrupt: the program ended with one; its traceback has been printed.
    """
    # Frameworks note the stack of each op, and look for the line of each frame in its function's
    # table from the front: of those beneath the program none is long.
    try:
        program = _program_of(argv)
        return program if isinstance(program, int) else program()
    except KeyboardInterrupt:
        _die_of_interrupt()


def _program_of(argv: Sequence[str] | None) -> Callable[[], int] | int:
    """What runs the program, to the exit status; the status if that is all."""
    parser, takes_value = make_parser()
    try:
        line = parse(parser, takes_value, sys.argv[1:] if argv is None else argv)
        options = line.options
        if options.print_completion is not None or options.help_json:
            print(_about(parser, options), end="")
            return 0
        wants_program = line.script is not None or line.module is not None
        if options.dump_dir is None and options.grpc is None and not wants_program:
            print(f"usage: {USAGE}\ntfdbg --help lists the options.", file=sys.stderr)
            return WRONG_USE
        if options.dump_dir is not None and wants_program:
            raise UserError("--dump-dir looks at dumps and runs no program.")
        if options.against is not None and options.dump_dir is None:
            raise UserError("--against compares dumps: --dump-dir says which.")
        check_terms(options)
        if options.grpc is not None and (wants_program or options.dump_dir is not None):
            raise UserError(
                "--grpc looks at the runs of other programs: leave out the script and --dump-dir."
            )
        if options.report is not None and not wants_program:
            hint = "At a dump, write -c 'report FILE.html'."
            raise UserError("--report is about the runs of a program.", hint)
        for option in ("log", "send_to"):
            if getattr(options, option) is not None and not wants_program:
                name = option.replace("_", "-")
                raise UserError(f"--{name} is about the runs of a program.")
        check_names(options)
        others = ("attach", "scan", "compare", "mcp", "new-engine")
        if line.script in others and not os.path.exists(line.script):
            return _other_command(line)
        check_remote(options, wants_program)
        debugger = _make_debugger(options, wants_program)
        if options.dump_dir is not None:
            return _look(options, debugger)
        if options.grpc is not None:
            return _receive(options.grpc, debugger)
        from tfdbg_cli.front.launcher import (
            CANNOT_OPEN,
            module_loader,
            run_program,
            script_loader,
        )

        _before_the_program(line, debugger)
    except UserError as error:
        parser.exit(WRONG_USE, f"tfdbg: {printable(' '.join(str(error).split()))}\n")
    except OSError as error:  # too few descriptors for our modules, say
        tell(f"the system refuses something that the debugger needs: {one_line(error)}.")
        return 1

    if line.module is not None:
        load = module_loader(line.module, line.args)
    else:
        assert line.script is not None
        found = script_loader(line.script, line.args)
        if found is None:
            debugger.close()  # the program doesn't even begin, so it won't end
            return CANNOT_OPEN
        load = found
    engines = None if options.engine is None else (options.engine,)
    run = functools.partial(run_program, load, debugger, engines)
    return run if options.model is None else functools.partial(_run_model, run)


def _run_model(run: Callable[[], int]) -> int:
    from tfdbg_cli.front.engine_watch import EngineWatch

    status = run()
    if status == WRONG_USE and EngineWatch.current:
        EngineWatch.current.program_started = False  # there was nothing to run; it was said
    return status
