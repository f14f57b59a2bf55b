"""Runs many programs of one framework, which is imported once: each runs in a forked child.

Started by `Programs` as a process of its own, with the names of modules to import. A request
is a line of JSON: ``[is_debugged, [argument, ...]]``, the arguments being those of ``python`` or of
``python -m tfdbg_cli``; the answer is ``[status, standard output, standard error]``.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import json
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import textwrap
import threading
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

__all__ = ["BothWays", "Done", "Programs", "environment", "shared"]

ROOT = Path(__file__).resolve().parents[1]


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
    """The server, as a test uses it.

    Args:
        environment: of the programs.
        modules: what is imported once.
    """

    def __init__(
        self, environment: Mapping[str, str], modules: Sequence[str] = ("torch._dynamo",)
    ) -> None:
        self._server = subprocess.Popen(
            [sys.executable, __file__, *modules],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def plain(self, *arguments: str | Path) -> Done:
        """``python ARGUMENTS``."""
        return self._ask(False, arguments)

    def debugged(self, *arguments: str | Path) -> Done:
        """``python -m tfdbg_cli ARGUMENTS``."""
        return self._ask(True, arguments)

    def _ask(self, is_debugged: bool, arguments: Sequence[str | Path]) -> Done:
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(json.dumps([is_debugged, [str(a) for a in arguments]]) + "\n")
        self._server.stdin.flush()
        return Done(*json.loads(self._server.stdout.readline()))

    def close(self) -> None:
        """End the server."""
        self._server.communicate()


@functools.cache
def shared(*modules: str) -> Programs:
    """The server that all modules of a test process share; its programs have no settings."""
    folder = Path(tempfile.mkdtemp(prefix="programs"))
    made = Programs(environment(folder) | {"TF_CPP_MIN_LOG_LEVEL": "3"}, modules)

    def close() -> None:
        made.close()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(close)
    return made


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


def _child(is_debugged: bool, arguments: list[str], out: IO[bytes], err: IO[bytes]) -> None:
    """Never returns."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    sys.path.pop(0)  # the folder of this file
    status = _run(is_debugged, arguments)
    # What the interpreter does at its end, for which there are no public names.
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status if isinstance(status, int) else int(status is not None))


def _serve() -> None:
    for name in sys.argv[1:]:
        importlib.import_module(name)
    if "torch" in sys.modules:
        torch = sys.modules["torch"]
        torch.set_num_threads(1)
        # Threads that are the first to use PyTorch's kernels, several at once, don't always get the
        # bits that others get: once in 500 times, without any debugger.
        torch.tanh(torch.nn.functional.linear(*torch.zeros(2, 6, 6), torch.zeros(6))).sum()
    for request in sys.stdin:
        is_debugged, arguments = json.loads(request)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            child = os.fork()
            if not child:
                _child(is_debugged, arguments, out, err)
            status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode(errors="replace"))
        print(json.dumps([status, *texts]), flush=True)


if __name__ == "__main__":
    _serve()
