"""Runs a script or module as python would, with the debugger on the frameworks it imports."""

from __future__ import annotations

import atexit
import builtins
import contextlib
import functools
import importlib
import io
import os
import pkgutil
import sys
import threading
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader, SourcelessFileLoader
from types import CodeType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, TypeAlias

from tfdbg_cli.common.errors import UserError, one_line, related
from tfdbg_cli.common.interpreter.recursion import depth, lift
from tfdbg_cli.common.streams import tell
from tfdbg_cli.common.traits import all_traits
from tfdbg_cli.dumps.source_text import keep_source
from tfdbg_cli.dumps.sources import is_debugger_code
from tfdbg_cli.front import start
from tfdbg_cli.front.engine_watch import EngineWatch
from tfdbg_cli.front.import_hook import ImportHook

if TYPE_CHECKING:
    from tfdbg_cli.sessions.debugger.debugger import Debugger

__all__ = [
    "CANNOT_OPEN",
    "Load",
    "module_loader",
    "remove_frames",
    "run_program",
    "script_loader",
]

# What is imported later, by a stop and by functions; nobody imports Python's tests.
_LATER = (sys.stdlib_module_names - {"test"}) | {"numpy"}
# Of these no module's import brings one.
_BY_FUNCTIONS = ("numpy", "pdb", "bdb", "cmd", "code", "codeop")
# They import nothing of the program's.
_ROOMS = (
    *("common", "net", "dumps", "tensors", "filters", "stepping", "commands", "ui", "sessions"),
    *("engines.base", "engines.kit"),
)

#: Exit status when the script can't be opened, python's own.
CANNOT_OPEN = 2


#: Compiles the program and makes its ``__main__``.
Load: TypeAlias = Callable[[], tuple[CodeType, ModuleType]]


def script_loader(path: str, args: Sequence[str]) -> Load | None:
    """Find a file, or a directory or zip file with a ``__main__.py``: ``python path args``.

    Like python's, the process is the program's from here on: ``sys.argv``, ``sys.path`` and
    ``__main__`` stay as the program left them.

    Args:
        path: as the user wrote it.
        args: the program's arguments.

    Returns:
        What `run_program` takes; ``None``: the file can't be opened, which has been said.
    """
    from pkgutil import get_importer

    sys.argv = [path, *args]
    filename = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    if get_importer(filename) is not None:
        # Python puts it in front even with -P, else its __main__ could not be found.
        _set_path0(filename, insert=sys.flags.safe_path)
        return functools.partial(_find_module, "__main__", in_path0=True)

    try:
        with io.open_code(filename) as file:
            source = b"" if filename.endswith(".pyc") else file.read()
    except OSError as error:
        tell(f"can't open file {filename!r}: [Errno {error.errno}] {error.strerror}")
        return None
    keep_source(filename, source)
    _set_path0(os.path.dirname(os.path.realpath(filename)))
    return functools.partial(_load_file, filename, source)


def module_loader(name: str, args: Sequence[str]) -> Load:
    """Find a module or package: ``python -m name args``; otherwise as `script_loader`."""
    sys.argv = ["-m", *args]
    _set_path0(os.getcwd())
    return functools.partial(_find_module, name)


# What python does before the program's first line.


def _set_path0(directory: str, insert: bool = False) -> None:
    """Replace the entry that python made for the debugger; with ``-P`` it has made none."""
    _uncover(directory)
    if insert or start.IS_PATH_CLEAN:
        sys.path.insert(0, directory)
    elif not sys.flags.safe_path:
        sys.path[:1] = [directory]


def _uncover(directory: str) -> None:
    """Let the program import modules of its own whose names the debugger has used already."""
    if not _hidden(directory, {*sys.modules, *_LATER}):
        return
    # What we import later is to be the installation's, too.
    for room in _ROOMS:
        package = importlib.import_module(f"{_PACKAGE}.{room}")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            with contextlib.suppress(ImportError):  # of another system
                importlib.import_module(found.name)
    for name in _BY_FUNCTIONS:
        importlib.import_module(name)
    hidden = _hidden(directory, set(sys.modules))
    for name in [name for name in sys.modules if name.partition(".")[0] in hidden]:
        del sys.modules[name]


def _hidden(directory: str, names: set[str]) -> set[str]:
    """Those of some names, used by the debugger, that modules of a folder have."""
    with contextlib.suppress(OSError):  # a zip file
        names = names & {entry.partition(".")[0] for entry in os.listdir(directory)}
    return {
        name
        for name in names - start.AT_START
        if "." not in name and name != _PACKAGE and _has_module(directory, name)
    }


def _has_module(directory: str, name: str) -> bool:
    """Whether a folder has a module or a package (no mere folder) of a name, other than ours."""
    spec = PathFinder.find_spec(name, [directory])
    origin = spec.origin if spec is not None else None
    return origin is not None and origin != getattr(sys.modules.get(name), "__file__", None)


def _load_file(filename: str, source: bytes) -> tuple[CodeType, ModuleType]:
    main = _new_main()
    main.__file__ = filename
    code: CodeType | None
    if filename.endswith(".pyc"):
        sourceless = SourcelessFileLoader("__main__", filename)
        main.__loader__, code = sourceless, sourceless.get_code("__main__")
    else:
        main.__loader__ = SourceFileLoader("__main__", filename)
        code = compile(source, filename, "exec", dont_inherit=True)
    assert code is not None
    return code, main


class _NotFoundError(Exception):
    """There is no such module, or it can't be run; the message is python's."""


def _find_module(name: str, in_path0: bool = False) -> tuple[CodeType, ModuleType]:
    # The two functions are what `python -m` itself and pdb use; with them the rules and the
    # messages are those of the python that runs.
    import runpy

    main = _new_main()
    if in_path0:
        _, spec, code = runpy._get_main_module_details(_NotFoundError)  # type: ignore[attr-defined]
    else:
        _, spec, code = runpy._get_module_details(name, _NotFoundError)  # type: ignore[attr-defined]
        sys.argv[0] = spec.origin
    _describe(main, spec)
    return code, main


def _describe(main: ModuleType, spec: ModuleSpec) -> None:
    main.__spec__ = spec
    main.__loader__ = spec.loader
    main.__package__ = spec.parent
    main.__file__ = spec.origin
    main.__dict__["__cached__"] = spec.cached


def _new_main() -> ModuleType:
    """An empty ``__main__``, with the names that python gives it, in its place."""
    main = ModuleType("__main__")
    names: dict[str, Any] = {"__builtins__": builtins, "__cached__": None}
    if sys.version_info < (3, 14):
        names["__annotations__"] = {}
    main.__dict__.update(names)
    sys.modules["__main__"] = main
    return main


# The run.


def _frames_beneath() -> int:
    """How many more frames are beneath what is executed by the caller than ``python`` has."""
    found = {"depth": depth}
    exec("here = depth()", found)
    here: Any = found["here"]
    return int(here) - (2 if sys.version_info < (3, 12) else 1) - 1


def run_program(load: Load, debugger: Debugger, engines: Sequence[str] | None = None) -> int:
    """Run a program.

    The engines are uninstalled and the debugger is closed when the interpreter ends, after the
    program's threads and exit handlers.

    Args:
        load: of `script_loader` or `module_loader`.
        debugger: what the sessions of the program are wrapped with.
        engines: only debug these; ``None``: all that are known.

    Returns:
        The exit status.

    Raises:
        KeyboardInterrupt: the program ended with it, and its traceback has been printed.
    """
    watch = EngineWatch(debugger, engines)
    _choose_threads(debugger)
    _keep_out_of_threads()
    # Registered before the program can register anything, so it runs last.
    finish = _Finish(watch)
    atexit.register(finish)
    watch.start()
    uncaught: BaseException | None = None
    status = 0
    beneath = 0
    try:
        code, main = load()
        watch.program_started = True
        beneath = _frames_beneath()
        lift(beneath)
        exec(code, main.__dict__)
    except _NotFoundError as error:
        print(f"{sys.executable}: {error}", file=sys.stderr)
        return 1
    except SystemExit as error:
        status = _exit_status(error)
        if status and not debugger.is_ended:
            debugger.outcome = one_line(error)
    except BaseException as error:
        uncaught = error
    finally:
        lift(-beneath)
    if isinstance(uncaught, Exception):
        try:
            watch.failed(uncaught)
        except SystemExit:
            pass  # it ends anyway, with its own error
        except Exception as error:
            tell(one_line(error))
    if uncaught is not None:
        debugger.outcome = one_line(uncaught)
        # Out here, what a hook of the program's raises doesn't get our context.
        status = _print_uncaught(uncaught)
        if isinstance(uncaught, Exception):
            try:
                watch.show_last_run(uncaught)
            except Exception as error:
                tell(one_line(error))
        if isinstance(uncaught, KeyboardInterrupt) and status == 1:
            finish.is_interrupted = True
            raise uncaught
    return status or _own_status(debugger)


def _choose_threads(debugger: Debugger) -> None:
    """Threads that a command names before the first stop have runs from the start, as main has.

    There may be no stop otherwise. At the first one the command itself is run.
    """
    for text in debugger.queue.waiting:
        match text.split(maxsplit=3):
            case ["config", "set", "threads", pattern]:
                with contextlib.suppress(UserError):  # it is told at the stop
                    pattern = pattern.strip("'\"")
                    debugger.settings.set("threads", f"MainThread|(?:{pattern})")
            case ["config", "set", *_]:
                pass
            case _:
                return


class _Finish:
    """Takes the debugger off at the program's end.

    Args:
        watch: what has put it on.

    Attributes:
        is_interrupted: Python ends by a KeyboardInterrupt.
    """

    def __init__(self, watch: EngineWatch) -> None:
        self._watch = watch
        self.is_interrupted = False

    def __call__(self) -> None:
        self._watch.finish()
        if self.is_interrupted:
            # Python has forgotten that, if a text was run as code since then (for a named tuple).
            with contextlib.suppress(KeyboardInterrupt):
                exec("raise KeyboardInterrupt")


def _own_status(debugger: Debugger) -> int:
    """1 if what was asked for could not be done.

    A dump could not be kept; a command of a batch failed, or none was run for want of a stop.
    """
    queue, gate = debugger.queue, debugger.gate
    if gate is not None:
        if not debugger.stops:
            threading._shutdown()  # type: ignore[attr-defined]
        return gate.status(debugger.run_count)
    if debugger.last_run is not None:
        return 0  # there is a stop only where the program has failed itself
    if debugger.store.has_failed or not queue.batch:
        return int(debugger.store.has_failed)
    if queue and not debugger.stops:
        # Python does this next: a thread may bring a run, and pools end what waits for work here.
        threading._shutdown()  # type: ignore[attr-defined]
    return int(queue.failed or (bool(queue) and not debugger.stops))


def _exit_status(error: SystemExit) -> int:
    """What python makes of a SystemExit; a code that is not a number is printed."""
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code
    stream = sys.stderr
    if stream is not None:
        for text in (error.code, "\n"):
            with contextlib.suppress(Exception):  # what can't be printed is left out, as by python
                stream.write(str(text))
                stream.flush()
    return 1


def _print_uncaught(error: BaseException) -> int:
    """Print the end of the program through the hook that it may have set, as python does."""
    remove_frames(error)
    kind, trace = type(error), error.__traceback__
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, trace
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    if sys.stdout is not None:
        try:
            sys.stdout.flush()
        except (OSError, ValueError):
            pass
    hook = getattr(sys, "excepthook", None)
    if hook is None:
        print("sys.excepthook is missing", file=sys.stderr)
        hook = sys.__excepthook__
    try:
        hook(kind, error, trace)
    except SystemExit as exit_:
        return _exit_status(exit_)
    except BaseException as second:
        remove_frames(second)
        print("Error in sys.excepthook:", file=sys.stderr)
        sys.__excepthook__(type(second), second, second.__traceback__)
        print("\nOriginal exception was:", file=sys.stderr)
        sys.__excepthook__(kind, error, trace)
    return 1


# Tracebacks without the debugger.


def _keep_out_of_threads() -> None:
    """What ends a thread is told without our frames too, whatever hook the program sets for it."""
    make = getattr(threading, "_make_invoke_excepthook", None)  # private, of each thread's making
    if make is None:
        return

    def make_without_us() -> Callable[[threading.Thread], None]:
        tell_of: Callable[[threading.Thread], None] = make()

        def without_us(thread: threading.Thread) -> None:
            error = sys.exc_info()[1]
            if error is not None:
                remove_frames(error)
            del error
            tell_of(thread)

        return without_us

    threading._make_invoke_excepthook = make_without_us  # type: ignore[attr-defined]


def remove_frames(error: BaseException) -> None:
    """Take the debugger's frames out of an exception, its causes, contexts and group members."""
    for each in related(error):
        each.__traceback__ = _without_ours(each.__traceback__)


def _without_ours(trace: TracebackType | None) -> TracebackType | None:
    kept: list[TracebackType] = []
    in_launcher = was_ours = False
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__")
        if was_ours and _is_detour(kept, trace):
            del kept[-2:]
        was_ours = _is_ours(module) or _is_in_place(trace.tb_frame.f_code)
        # runpy is ours where it finds the module to run, and the program's where that calls it.
        in_launcher = module == __name__ or (in_launcher and module == "runpy")
        if not in_launcher and not was_ours:
            kept.append(trace)
        elif module == ImportHook.__module__:
            # Python hides the import machinery, but not where our hook divides it.
            while kept and kept[-1].tb_frame.f_code.co_filename.startswith("<frozen importlib"):
                kept.pop()
        trace = trace.tb_next
    following = None
    for current in reversed(kept):
        current.tb_next = following
        following = current
    return following


def _is_in_place(code: CodeType) -> bool:
    """Whether a code is ours, or of the engine of another package, wherever it seems to be."""
    return not code.co_filename.startswith("<frozen ") and is_debugger_code(code)


def _is_detour(kept: list[TracebackType], trace: TracebackType) -> bool:
    """Whether a function of a framework called us, only to be called by us a second time."""
    if len(kept) < 2 or kept[-2].tb_frame.f_code is not trace.tb_frame.f_code:
        return False
    caller = kept[-1].tb_frame.f_globals.get("__name__")
    return any(caller in traits.detours for traits in all_traits())


_PACKAGE = __name__.partition(".")[0]
_FRAMEWORK = f"{_PACKAGE}.engines.numpy"


def _is_ours(module: Any) -> bool:
    """Whether a module is the debugger's; the embedded NumPy framework is the program's."""
    if not isinstance(module, str):
        return False
    if module == _FRAMEWORK or module.startswith(f"{_FRAMEWORK}."):
        return module == f"{_FRAMEWORK}.debugging"
    return module == _PACKAGE or module.startswith(f"{_PACKAGE}.")
