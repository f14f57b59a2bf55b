"""Runs many programs of one framework, which is imported once: each runs in a forked child.

Started by `Programs` as a process of its own, with the names of modules to import. A request is
a line of JSON, a list of programs that run at the same time, each of them ``[is_debugged,
[argument, ...], environment, folder, stdin]``, the arguments being those of ``python`` or of
``python -m tfdbg_cli``; the answer is a list with ``[status, stdout, stderr]`` of each.
Debugged programs are children of a child that has imported the debugger, which takes most of the
time of a small program. Plain programs have nothing of it.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import gc
import importlib
import json
import os
import re
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import threading
import traceback
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

# What `python -m tfdbg_cli` imports before the program's first line.
_DEBUGGER = (
    "tfdbg_cli.__main__",
    "tfdbg_cli.front.engine_watch",
    "tfdbg_cli.front.launcher",
    "tfdbg_cli.sessions.debugger.debugger",
    "tfdbg_cli.ui.plain",
)

# What a program imports, and what its server does then.
_SLOW = {
    "torch": ("torch._dynamo",),
    "tensorflow|keras|tf_keras": ("tensorflow", "keras"),
    "jax": ("jax",),
}

# Seconds that a program has. None takes a tenth of it.
_LIMIT = 600

__all__ = [
    "BothWays",
    "Done",
    "Programs",
    "debugger_in",
    "environment",
    "framework_of",
    "python_in",
    "shared",
]

ROOT = Path(__file__).resolve().parents[1]


def debugger_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``python -m tfdbg_cli ARGUMENTS`` in a folder, with settings there."""
    return python_in(folder, "-m", "tfdbg_cli", *arguments)


def python_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``python ARGUMENTS`` in a folder; where a framework takes seconds, from a server."""
    scripts = [folder / word for word in arguments if word.endswith(".py")]
    if scripts and scripts[-1].is_file() and (modules := framework_of(scripts[-1])):
        programs = Programs(environment(folder), modules, folder)
        done = programs.python(*arguments)
        return subprocess.CompletedProcess(arguments, done.status, done.out, done.err)
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )


def framework_of(script: Path) -> tuple[str, ...]:
    """The modules that a program imports and that take seconds; empty: none."""
    text = script.read_text(encoding="utf-8")
    for name, modules in _SLOW.items():
        if re.search(rf"^(import|from) ({name})\b", text, re.M):
            return modules
    return ()


def environment(folder: Path) -> dict[str, str]:
    """That of programs with settings, a history and caches of their own in a folder."""
    homes = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "TORCHINDUCTOR_CACHE_DIR")
    return {
        **os.environ,
        **{name: str(folder / name) for name in homes},
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "200",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        # PyTorch's compiler says so on Python 3.13.0, as it happens: it depends on what is guarded.
        "PYTHONWARNINGS": "ignore:Guards may run slower:RuntimeWarning",
    }


@dataclass(frozen=True)
class Done:
    """A program that has ended."""

    status: int
    out: str
    err: str


class Programs:
    """The server, as a test uses it. All tests of a thread share the server of some modules.

    Args:
        environment: of the programs.
        modules: what is imported once.
        folder: where they run; none: where the tests do.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        modules: Sequence[str] = ("torch._dynamo",),
        folder: Path | None = None,
    ) -> None:
        self._environment = dict(environment)
        self._folder = str(folder or ".")
        self._server = _server(threading.get_ident(), *modules)

    def plain(self, *arguments: str | Path, stdin: str = "") -> Done:
        """``python ARGUMENTS``."""
        return self._ask(self._program(False, arguments, stdin=stdin))[0]

    def debugged(self, *arguments: str | Path, stdin: str = "") -> Done:
        """``python -m tfdbg_cli ARGUMENTS``."""
        return self._ask(self._program(True, arguments, stdin=stdin))[0]

    def python(self, *arguments: str | Path, stdin: str = "") -> Done:
        """``python ARGUMENTS``, of which the first may be ``-m tfdbg_cli``."""
        if arguments[:2] == ("-m", "tfdbg_cli"):
            return self.debugged(*arguments[2:], stdin=stdin)
        return self.plain(*arguments, stdin=stdin)

    def ranks(self, *arguments: str | Path, places: Sequence[Mapping[str, str]] = ()) -> list[Done]:
        """``python ARGUMENTS`` as two processes of one program.

        Args:
            arguments: of which the first may be ``-m tfdbg_cli``.
            places: what tells each of them which it is; none: what ``torchrun`` tells them.
        """
        is_debugged = arguments[:2] == ("-m", "tfdbg_cli")
        words = arguments[2 * is_debugged :]
        return self._ask(
            *(self._program(is_debugged, words, place) for place in places or _two_places())
        )

    def _program(
        self,
        is_debugged: bool,
        arguments: Sequence[str | Path],
        more: Mapping[str, str] | None = None,
        stdin: str = "",
    ) -> list[object]:
        words = [str(each) for each in arguments]
        return [is_debugged, words, {**self._environment, **(more or {})}, self._folder, stdin]

    def _ask(self, *programs: list[object]) -> list[Done]:
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(json.dumps(programs) + "\n")
        self._server.stdin.flush()
        return [Done(*each) for each in json.loads(self._server.stdout.readline())]


def _two_places() -> list[dict[str, str]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    return [{"RANK": rank, "LOCAL_RANK": rank, **shared} for rank in "01"]


@functools.cache
def _server(thread: int, *modules: str) -> subprocess.Popen[str]:
    folder = Path(tempfile.mkdtemp(prefix="programs"))
    process = subprocess.Popen(
        [sys.executable, __file__, *modules],
        env=environment(folder) | {"TF_CPP_MIN_LOG_LEVEL": "3"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

    def close() -> None:
        process.communicate()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(close)
    return process


@functools.cache
def shared(*modules: str) -> Programs:
    """Programs that have no settings, for all modules of a test process."""
    folder = Path(tempfile.mkdtemp(prefix="programs"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Programs(environment(folder) | {"TF_CPP_MIN_LOG_LEVEL": "3"}, modules)


class BothWays:
    """Runs programs alone and under the debugger.

    Args:
        programs: runs them.
        folder: where they are.
        prelude: what all of them begin with.
    """

    def __init__(self, programs: Programs, folder: Path, prelude: str) -> None:
        self.programs, self.folder = programs, folder
        self._alone: dict[Path, Done] = {}
        (folder / "prelude.py").write_text(prelude)

    def write(self, text: str, name: str = "program") -> Path:
        """A program of this text, behind the prelude."""
        path = self.folder / f"{name}.py"
        path.write_text(f"from prelude import *\n{textwrap.dedent(text)}")
        return path

    def alone(self, path: Path) -> Done:
        """What it does without the debugger."""
        if path not in self._alone:
            self._alone[path] = self.programs.plain(path)
        return self._alone[path]


def _run(is_debugged: bool, arguments: list[str]) -> Any:
    """Do what ``python`` would; the status."""
    try:
        if is_debugged:
            from tfdbg_cli.__main__ import main

            sys.argv = ["tfdbg_cli", *arguments]
            return main()
        sys.argv = arguments
        sys.path.insert(0, os.path.dirname(arguments[0]))
        runpy.run_path(arguments[0], run_name="__main__")
    except SystemExit as request:
        return request.code
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _child(is_debugged: bool, arguments: list[str], files: Sequence[IO[bytes]]) -> None:
    """Never returns."""
    for number, file in enumerate(files):
        os.dup2(file.fileno(), number)
    sys.path.pop(0)  # the folder of this file
    faulthandler.enable()
    status = _run(is_debugged, arguments)
    # What the interpreter does at its end, for which there are no public names.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else int(status is not None))


def _ended(child: int) -> int:
    """Wait for the end of a program; its status. One that hangs is aborted and tells where."""
    if hasattr(os, "pidfd_open"):
        ends = os.pidfd_open(child)
        if not select.select([ends], [], [], _LIMIT)[0]:
            os.kill(child, signal.SIGABRT)
        os.close(ends)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _done(request: str, descriptors: Sequence[int] = ()) -> str:
    """Run programs to their ends; the answer, as a line.

    Args:
        request: what is asked for.
        descriptors: those that the programs aren't to hold open.
    """
    with contextlib.ExitStack() as open_files:
        started = []
        for program in json.loads(request):
            files = [open_files.enter_context(tempfile.TemporaryFile()) for _ in range(3)]
            started.append((_started(program, files, descriptors), files))
        answers = []
        for child, files in started:
            texts: list[object] = [_ended(child)]
            for file in files[1:]:
                file.seek(0)
                texts.append(file.read().decode(errors="replace"))
            answers.append(texts)
    return json.dumps(answers) + "\n"


def _started(program: Sequence[Any], files: Sequence[IO[bytes]], descriptors: Sequence[int]) -> int:
    """Fork a program; its process."""
    is_debugged, arguments, environment, folder, stdin = program
    files[0].write(stdin.encode())
    files[0].seek(0)
    child = os.fork()
    if not child:
        for number in descriptors:
            os.close(number)
        for name in set(os.environ) - set(environment):
            del os.environ[name]
        os.environ.update(environment)
        if options := environment.get("PYTHONWARNINGS"):
            # As the interpreter does when it starts, for which there is no public name.
            warnings._processoptions(options.split(","))  # type: ignore[attr-defined]
        os.chdir(folder)
        _child(is_debugged, arguments, files)
    return child


class _Debugger:
    """The child that has imported the debugger, with the engines of what is imported."""

    def __init__(self) -> None:
        (asked, ask), (answer, answered) = os.pipe(), os.pipe()
        if not os.fork():
            os.close(ask)
            os.close(answer)
            self._serve(open(asked), open(answered, "w"))  # noqa: SIM115
        os.close(asked)
        os.close(answered)
        self._ask, self._answer = open(ask, "w"), open(answer)  # noqa: SIM115
        self.descriptors = ask, answer

    def done(self, request: str) -> str:
        """Run a program to its end; the answer, as a line."""
        self._ask.write(request)
        self._ask.flush()
        answer = self._answer.readline()
        if not answer:  # else whoever has asked would wait for ever
            sys.exit("The process that has imported the debugger has ended.")
        return answer

    def _serve(self, asked: IO[str], answered: IO[str]) -> None:
        """Never returns."""
        for name in _DEBUGGER:
            importlib.import_module(name)
        from tfdbg_cli.engines.registry import entries

        for entry in entries():
            if entry.is_imported:
                importlib.import_module(entry.target.partition(":")[0])
        gc.freeze()
        for request in asked:
            answered.write(_done(request, (asked.fileno(), answered.fileno())))
            answered.flush()
        os._exit(0)


def _may_fork_twice() -> bool:
    """Whether a child of a child may compute gradients: not with the threads of PyTorch 2.14."""
    torch = sys.modules.get("torch")
    return torch is None or tuple(map(int, torch.__version__.split(".")[:2])) < (2, 14)


def _serve() -> None:
    for name in sys.argv[1:]:
        importlib.import_module(name)
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        torch.set_num_threads(1)
        # Threads that are the first to use PyTorch's kernels, several at once, don't always get the
        # bits that others get: once in 500 times, without any debugger.
        torch.tanh(torch.nn.functional.linear(*torch.zeros(2, 6, 6), torch.zeros(6))).sum()
    # Else each program copies all of its framework's memory to look through it.
    gc.freeze()
    debugger = None
    for request in sys.stdin:
        if json.loads(request)[0][0] and _may_fork_twice():
            debugger = debugger or _Debugger()
            answer = debugger.done(request)
        else:
            answer = _done(request, debugger.descriptors if debugger else ())
        print(answer, end="", flush=True)


if __name__ == "__main__":
    _serve()
