"""Scripts, the ways to debug them, and whether that has changed what became of them."""

from __future__ import annotations

import difflib
import functools
import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fate_processes import Client, Companion, Done, Processes, Typist

__all__ = ["APART", "PRELOADED", "WAYS", "Fate", "Script", "Way", "corpus", "engine_of"]

_HERE = Path(__file__).parent
_NEVER = str(_HERE / "never.py")
# Scripts stand alone: in place of the import they have the text.
_SHARED = "from by_filters import by_filters, user\n", (_HERE / "by_filters.py").read_text()

#: In front of a program's first line, on it: its stdout is a file of its own where asked for.
APART = (
    "import os as _os; _n = _os.environ.pop('FATE_STDOUT', None);"
    " _n and (_os.dup2(_n := _os.open(_n, 1025), 1), _os.close(_n)); del _os, _n\n"
)
_MODULES = "torch", "tensorflow", "keras", "tf_keras", "jax", "onnxruntime", "onnx", "transformers"

#: What processes of an engine's scripts may have imported before they begin. The first optimizer
#: imports PyTorch's compiler, which takes longer than most of the scripts.
PRELOADED = {
    "torch": "torch._dynamo",
    "tensorflow": "tensorflow",
    "jax": "jax",
    "onnx": "onnx",  # ONNX Runtime has a thread, which no child of a fork has
    "numpy": "numpy",
    "plain": "numpy",
}


@dataclass(frozen=True)
class Script:
    """A program.

    Attributes:
        name: ``theme/name``.
        text: its source.
    """

    name: str
    text: str

    @property
    def missing(self) -> list[str]:
        """Modules that it needs and that aren't installed."""
        asked = re.findall(rf"^(?:import|from) ({'|'.join(_MODULES)})\b", self.text, re.M)
        return [name for name in asked if not _is_there(name)]

    @property
    def is_alone(self) -> bool:
        """Whether it wants a python that has imported nothing yet, as its title says."""
        return self._remark == "alone"

    def known(self, way: str) -> str:
        """Why it is known to differ in a way, as its title says; empty: it isn't."""
        found = re.fullmatch(r"differs in ([\w ]+): (.+)", self._remark)
        return found[2] if found is not None and way in found[1].split() else ""

    @property
    def _remark(self) -> str:
        return self.text.splitlines()[1].removeprefix("# ")


@functools.cache
def _is_there(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def engine_of(script: Script) -> str:
    """The first word of its theme."""
    found = re.split("[_/]", script.name)[0]
    return found if found in PRELOADED else "plain"


def corpus() -> Iterator[Script]:
    """Those of the folder: a file for each theme, what precedes its first script is for all.

    Where nothing does, there is a text for all themes of the engine.
    """
    for path in sorted((_HERE / "corpus").glob("*.py")):
        first, *parts = re.split(r"^#%% ", path.read_text(encoding="utf-8"), flags=re.M)
        if not first:
            head = path.parent / "heads" / f"{path.stem.partition('_')[0]}.py"
            first = head.read_text(encoding="utf-8")
        for part in parts:
            title, _, text = part.partition("\n")
            name, _, remark = title.partition(" # ")
            note = f"# {remark}\n" if remark else "\n"
            yield Script(
                f"{path.stem}/{name.strip()}", f"{APART}{note}{first}{text.replace(*_SHARED)}"
            )


@dataclass(frozen=True)
class Way:
    """How a program is debugged.

    Attributes:
        options: of the debugger.
        typed: what somebody types at a terminal.
        listens: somebody attaches, looks and leaves.
        is_apart: stops are shown on stdout, so the program's own goes to another file.
        slow: the process must be a fresh one.
    """

    options: tuple[str, ...] = ()
    typed: tuple[str, ...] = ()
    listens: bool = False
    is_apart: bool = False

    def companion(self, processes: Processes, address: str) -> Companion:
        """Who sits at the program."""
        if self.typed:
            return Typist(self.typed)
        if self.listens:
            return Client(address, processes.err, processes.environment)
        return Companion()


WAYS = {
    "batch": Way(("--batch",)),
    "never": Way(("--batch", "--filters", _NEVER, "-c", "run -f never"), is_apart=True),
    "nonfinite": Way(("--batch", "-c", "run -f has_inf_or_nan", "-c", "fix"), is_apart=True),
    "detach": Way(("--batch", "-c", "exit --detach")),
    "keep": Way(
        ("--batch", "--keep-dumps", "--dump-root", "{dumps}", *("-c", "run") * 8), is_apart=True
    ),
    "digest": Way(
        ("--batch", "--keep-dumps", "--digest", "--dump-root", "{dumps}", "-c", "run -k"),
        is_apart=True,
    ),
    "check": Way(
        (
            *("--check", "has_inf_or_nan", "--check-only", "--log", "{dumps}.jsonl"),
            *("--dump-root", "{dumps}"),
        ),
        is_apart=True,
    ),
    "precision": Way(("--precision", "float16", "--precision-every", "2")),
    "mortem": Way(("--post-mortem", "--batch", "-c", "help lt"), is_apart=True),
    "pty": Way(
        ("--ui", "line", "--filters", _NEVER),
        typed=("run", "run", "run -f never", "exit --detach"),
        is_apart=True,
    ),
    "track": Way(
        (
            *("--batch", "-c", "track --norms", "-c", "track `Relu`.mean()"),
            *("-c", "track `relu`.mean()", "-c", "run -t 3", "-c", "run -t 100000"),
        ),
        is_apart=True,
    ),
    "listen": Way(("--listen", "unix:{address}"), listens=True),
}


class Fate:
    """Compares programs plain and debugged, in a folder of its own.

    Args:
        folder: for the programs.
        forked: whether programs begin in processes that have imported their framework already.
    """

    def __init__(self, folder: Path, forked: bool = False) -> None:
        self._folder, self._forked = folder, forked
        self._processes: dict[str, Processes] = {}
        self._plain: dict[tuple[Script, bool], Done] = {}

    def difference(self, script: Script, name: str) -> str:
        """What differs between a script run plain and run in a way; empty: nothing does.

        Raises:
            ValueError: the way needs a script that begins with `APART`.
        """
        way = WAYS[name]
        if way.is_apart and not script.text.startswith(APART):
            raise ValueError(f"Nobody would compare the stdout of {script.name}.")
        key = script, bool(way.typed)
        if key not in self._plain:
            self._plain[key] = self._run(script, way, plain=True)
        plain = self._plain[key]
        if missing := _MISSING.search(plain.stderr):
            return f"{script.name} asks for what nobody has: {missing[0].decode()}"
        debugged = self._run(script, way)
        found = compare(plain, debugged)
        if not found:
            return ""
        again = compare(plain, self._run(script, way, plain=True))
        if again:
            return f"{script.name} differs from itself: it can't be compared\n{again}"
        head = f"{script.name}, {name}: scripts/fate -k '^{script.name}$' -w {name}"
        return f"{head}\n{found}"

    def _run(self, script: Script, way: Way, plain: bool = False) -> Done:
        engine = engine_of(script) if self._forked and not script.is_alone else ""
        folder = self._folder / (engine or "fresh")
        if engine not in self._processes:
            modules = [PRELOADED[engine]] if engine else []
            self._processes[engine] = Processes(folder, *modules)
        processes = self._processes[engine]
        address, dumps = str(folder / "socket"), str(folder / "dumps")
        options = [
            option.replace("{address}", address).replace("{dumps}", dumps) for option in way.options
        ]
        arguments = [] if plain else ["-m", "tfdbg_cli", *options]
        companion = way.companion(processes, f"unix:{address}")
        return processes.run(script.text, arguments, companion, way.is_apart)

    def forget(self, script: Script) -> None:
        """It won't be asked for again."""
        for key in [key for key in self._plain if key[0] == script]:
            del self._plain[key]

    def close(self) -> None:
        """End its processes."""
        for processes in self._processes.values():
            processes.close()


def compare(plain: Done, debugged: Done) -> str:
    """What differs, as lines for people to read; empty: nothing does."""
    lines = []
    asked = debugged.status
    # Asked for by the person: a batch whose commands found nothing to run at fails, and says so.
    if plain.status == 0 and asked == 1 and b"command(s) were not run" in debugged.stderr:
        asked = 0
    # So does a check, which says that it has failed, or that there was nothing to check.
    if plain.status == 0 and asked in (1, 3) and _CHECKED.search(debugged.stderr):
        asked = 0
    if plain.status != asked:
        lines += [f"exit status: {plain.status} plain, {debugged.status} debugged"]
    lines += _diff("stdout", plain.stdout, debugged.stdout)
    lines += _diff("stderr", _steady(plain.stderr), _steady(debugged.stderr))
    for name in sorted({*plain.files, *debugged.files}):
        there = plain.files.get(name), debugged.files.get(name)
        if None in there:
            lines.append(f"file {name}: only {'debugged' if there[0] is None else 'plain'}")
        else:
            lines += _diff(f"file {name}", *there)
    return "\n".join(lines)


# What ends a script before it comes to what it is about.
_MISSING = re.compile(
    rb"(?m)^(AttributeError: module '(tfdbg_cli|tensorflow|torch|jax)|NameError).*"
)
_CHECKED = re.compile(rb"(?m)^tfdbg: (check.*(failed|nothing)|precision: no run)")
_CHECKED_STORY = re.compile(
    rb"(?ms)^(\S+\.py:\d+: [a-z_]+: |It began in|First: |float16, over ).*?(?=^tfdbg: )"
)


def _steady(stderr: bytes) -> bytes:
    """Without the debugger's lines, which it marks, times of logged lines, addresses of objects."""
    # What a check has found, or what was measured, is in front of the line that says so.
    text = _CHECKED_STORY.sub(b"", stderr)
    lines = [line for line in text.splitlines(True) if not line.startswith(b"tfdbg: ")]
    text = re.sub(rb"(?m)^([VIWEF]\d{4}) [^]]*]", rb"\1", b"".join(lines))
    text = re.sub(rb"(?m)^([A-Z]+):\d{4}-\d\d-\d\d [\d:,]+:", rb"\1:", text)
    return re.sub(rb" at 0x[0-9a-f]+", b" at 0x", text)


def _diff(what: str, plain: bytes, debugged: bytes) -> list[str]:
    if plain == debugged:
        return []
    texts = [each.decode("utf-8", "backslashreplace").splitlines() for each in (plain, debugged)]
    found = list(difflib.unified_diff(*texts, f"{what}, plain", f"{what}, debugged", "", "", 2, ""))
    return found[:60] if found else [f"{what}: not the same bytes"]
