"""Programs by chance, and what each level of the debugger tells of them."""

from __future__ import annotations

import functools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agree_ops import DIALECTS
from program_server import Programs, framework_of

__all__ = [
    "EXACT",
    "KEPT",
    "Difference",
    "Program",
    "Told",
    "differences",
    "draw",
    "shrunk",
    "told_of",
]

TESTS = Path(__file__).resolve().parents[1]
#: The level that is right.
EXACT = "values"
#: Its dumps, kept and read again.
KEPT = "kept"
_LIST = "tensor(s) passing filter"
_STOP = re.compile(
    r"^--- run-end(?:(?!^@@ ).)*?^The dump is kept in (\S+)\.$(?:(?!^@@ ).)*",
    re.MULTILINE | re.DOTALL,
)
_BEGINS = r"^(?:It began in \[[^\]]*\]|No op made|What went bad|Nothing)"
_VERDICT = re.compile(
    _BEGINS + r".*?(?=^The dump|^This run|^\d+ dumped|^--- |\Z)", re.MULTILINE | re.DOTALL
)
_TRIED = re.compile(r"^Tried:.*\n(?: .*\n)*", re.MULTILINE)
_APART = "XLA rewrote some of these ops"
_TABLE = r"""
import json
from tfdbg_cli.engines.torch.record.op_facts import RULES
print(json.dumps(sorted(RULES)))
"""
# What was bad before the run; a verdict on it where no result comes of it.
_GIVEN = "given"
_UNUSED = {"What went bad", f"It began in {_GIVEN}"}
# What depends on random numbers, or on memory.
_NO_TABLE = re.compile(r"bernoulli|rand|new_|backward|^(eye|ones|zeros)$")


@dataclass(frozen=True)
class Program:
    """A program: ops on three arrays, one after the other.

    Attributes:
        engine: of `DIALECTS`.
        shape: what is around its lines.
        dtype: of the arrays.
        seed: of their elements.
        steps: names of ops, and the numbers of the two arrays that each is given.
    """

    engine: str
    shape: str
    dtype: str
    seed: int
    steps: tuple[tuple[str, int, int], ...]

    def text(self, number: int) -> str:
        """Its source: a function ``program_NUMBER``."""
        dialect, lines = DIALECTS[self.engine], []
        for at, (op, a, b) in enumerate(self.steps):
            names = {"out": f"v{at + 3}", "a": f"v{a}", "b": f"v{b}"}
            line = _op(self.engine, op).format(**names)
            lines.append(line if "\n" in line or self.engine == "onnx" else f"v{at + 3} = {line}")
        return dialect.shapes[self.shape].format(
            n=number,
            lines=textwrap.indent("\n".join(lines), _indent(dialect.shapes[self.shape])),
            out=f"v{len(self.steps) + 2}",
            seed=self.seed,
            dtype=self.dtype,
        )

    def without(self, at: int) -> Program:
        """The same but for one step: its first operand stands for it."""
        gone = self.steps[at][1]

        def moved(operand: int) -> int:
            found = gone if operand == at + 3 else operand
            return found - 1 if found > at + 3 else found

        left = [step for n, step in enumerate(self.steps) if n != at]
        return replace(self, steps=tuple((op, moved(a), moved(b)) for op, a, b in left))


@dataclass(frozen=True)
class Told:
    """What a level has told of a program.

    Attributes:
        first: the first bad tensor, with its health; where it began, for that filter; empty: none.
        began: the op in which it began, as the verdict says it; empty: nothing is said of that.
        is_out: something bad came out of the program.
        is_apart: what was compiled has computed otherwise than its ops do one by one, as is said.
        is_done: the program ran to its end.
        verdict: all of it, but for what was tried, which takes the program.
        is_lasting: the dump that was kept tells the same one.
    """

    first: str = ""
    began: str = ""
    is_out: bool = False
    is_done: bool = False
    is_apart: bool = False
    verdict: str = ""
    is_lasting: bool = True

    def is_same(self, level: str, exact: Told) -> bool:
        """Whether a level tells what the exact one does; a list has no verdict.

        What was bad before the run has another name where the op that made it belongs to the run.
        """
        if level == KEPT:
            return self.first == exact.first and self.is_lasting
        first, right = _plain(self.first), _plain(exact.first)
        began = {_plain(self.began), _plain(exact.began)}
        is_known = len(began) == 1 or (right.startswith(_GIVEN) and began == _UNUSED)
        return first == right and (level == "lt" or is_known)


def _plain(words: str) -> str:
    return re.sub(r"(?:lift_fresh(?:_\d+)?|input/\w+):0|\[(?:lift_fresh|Input)\]", _GIVEN, words)


@dataclass(frozen=True)
class Difference:
    """A level that tells something else.

    Attributes:
        program: of which.
        level: that tells it.
        filter_name: of what was asked.
        exact: what the level of everything tells.
        told: what this one tells.
    """

    program: Program
    level: str
    filter_name: str
    exact: Told
    told: Told


def _indent(shape: str) -> str:
    line = next(line for line in shape.splitlines() if line.strip() == "{lines}")
    before = shape[: shape.index(line)].rstrip().splitlines()[-1]
    inner = "    " if before.endswith(":") else ""
    return " " * (len(before) - len(before.lstrip())) + inner


@functools.cache
def _table(engine: str) -> Mapping[str, str]:
    """Ops by their names in the engine's own table."""
    if engine != "torch":
        return {}
    environment = {**os.environ, "PYTHONPATH": str(TESTS.parent)}
    done = subprocess.run(
        [sys.executable, "-c", _TABLE], capture_output=True, env=environment, check=True
    )
    names = [name.removeprefix("aten::") for name in json.loads(done.stdout)]
    return {
        f"aten {name} {at}": f'aten("{name}", {at}, {{a}}, {{b}})'
        for name in names
        if not _NO_TABLE.search(name)
        for at in range(2)
    }


def _op(engine: str, name: str) -> str:
    return DIALECTS[engine].ops.get(name) or _table(engine)[name]


def draw(engine: str, seed: str) -> Program:
    """A program by chance: something is made bad in it more often than not, and often hidden."""
    chance, dialect = random.Random(seed), DIALECTS[engine]
    names = [*dialect.ops, *_table(engine)]
    steps: list[tuple[str, int, int]] = []
    for _ in range(chance.randint(2, 7)):
        kind = chance.random()
        if kind < 0.4:
            op = chance.choice(dialect.makers)
        elif kind < 0.6 and steps:
            op = chance.choice(dialect.swallowers)
        else:
            op = chance.choice(names)
        last = len(steps) + 2
        a = last if steps and chance.random() < 0.75 else chance.randint(0, last)
        steps.append((op, a, chance.randint(0, last)))
    found = Program(
        engine,
        chance.choice(list(dialect.shapes)),
        chance.choice(dialect.dtypes),
        chance.randrange(1 << 30),
        tuple(steps),
    )
    if dialect.drops_unused:
        for at in reversed(range(len(found.steps) - 1)):
            if not any(at + 3 in operands for _, *operands in found.steps[at + 1 :]):
                found = found.without(at)
    return found


def told_of(
    programs: Sequence[Program], level: str, filter_name: str, folder: Path
) -> tuple[list[Told], str]:
    """What a level tells of programs of one engine, and what is said at the end.

    Args:
        programs: one after the other, each a run.
        level: a value of the setting, or ``lt``: what is listed of a debugged run, or `KEPT`.
        filter_name: what is waited for.
        folder: where files may be written to.
    """
    engine = programs[0].engine
    asked = EXACT if level == KEPT else level
    script = folder / f"{engine}-{asked}.py"
    parts = [
        DIALECTS[engine].head.replace("{tests}", str(TESTS)).replace("{{", "{").replace("}}", "}")
    ]
    parts += [program.text(number) for number, program in enumerate(programs)]
    calls = "\n".join(f"    program_{number}," for number in range(len(programs)))
    parts.append(
        f"""
import gc
gc.disable()  # what is alive at a run's end doesn't depend on when Python collects
gc.freeze()  # nor does a collection look at the frameworks' own half a million objects
for number, program in enumerate([
{calls}
]):
    try:
        program()
    except Exception as error:
        print(f"@@ {{number}} failed {{type(error).__name__}}: {{str(error)[:200]!r}}", flush=True)
    gc.collect()
"""
    )
    script.write_text("\n".join(parts), encoding="utf-8")
    commands = [f"config set level {asked}"] if level != "lt" else []
    each = ["run", f"lt -f {filter_name}"] if level == "lt" else [f"run -f {filter_name}"]
    commands += each * (len(programs) + 2)
    homes = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")
    environment = {
        **os.environ,
        **{name: str(folder / f"home-{engine}-{level}") for name in homes},
        "PYTHONPATH": str(TESTS.parent),
        "COLUMNS": "200",
        "OMP_NUM_THREADS": "1",
        "JAX_PLATFORMS": "cpu",
        "CUDA_VISIBLE_DEVICES": "",
    }
    modules = framework_of(script) or ("numpy",)
    keeps = ("--dump-root", folder / KEPT, "--keep-dumps") if level == KEPT else ()
    server = Programs(environment, modules, folder)
    done = server.debugged(
        "--batch", "--engine", engine, *keeps, "-c", "-", script, stdin="\n".join(commands)
    )

    def again(stop: re.Match[str]) -> str:
        looks = (f"-c{command} -f {filter_name}" for command in ("why", "lt"))
        found = server.debugged("--batch", "--dump-dir", stop[1], *looks)
        shutil.rmtree(stop[1])
        return found.out

    found = [_told(done.out, number) for number in range(len(programs))]
    if keeps:
        out = _STOP.sub(again, done.out)
        for number, live in enumerate(found):
            told = _told(out, number)
            found[number] = replace(told, is_lasting=told.verdict == live.verdict)
    if not found[-1].is_done and "@@ 0" not in done.out:
        raise RuntimeError(f"{script}: {done.out[-2000:]}{done.err[-2000:]}")
    return found, done.err


def _told(out: str, number: int) -> Told:
    end = re.search(rf"^@@ {number} (bad|clean|failed).*", out, re.MULTILINE)
    start = re.search(rf"^@@ {number}$", out, re.MULTILINE)
    if end is None or start is None:
        return Told()
    part = out[start.end() : end.start()]
    _, is_there, listed = part.partition(_LIST)
    first = re.search(r"Tensor name\n(.+)", listed) if is_there else None
    words = ""
    if first is not None:
        cells = re.split(r" {2,}", first[1].strip())
        words = f"{cells[-1].split()[-1]} ({cells[-1].rpartition(' ')[0].strip() or cells[-2]})"
    began, verdict = re.search(_BEGINS, part, re.MULTILINE), _VERDICT.search(_TRIED.sub("", part))
    return Told(
        words,
        began[0] if began is not None else "",
        end[1] == "bad",
        end[1] != "failed",
        _APART in part,
        verdict[0].strip() if verdict is not None else "",
    )


def differences(
    programs: Sequence[Program], filter_name: str, folder: Path
) -> tuple[list[Difference], dict[str, int]]:
    """Where levels tell something else of programs of one engine than the level of everything.

    Returns:
        Those, and how many programs there were of each kind.
    """
    engine = programs[0].engine
    exact, _ = told_of(programs, EXACT, filter_name, folder)
    counts = {
        "programs": len(programs),
        "bad": sum(bool(each.first) for each in exact),
        "hidden": sum(bool(each.first) and not each.is_out for each in exact),
        "failed": sum(not each.is_done for each in exact),
        "unseen": 0,
    }
    found = []
    for level, promises_all in _ways(engine).items():
        told, said = told_of(programs, level, filter_name, folder)
        for program, right, each in zip(programs, exact, told, strict=True):
            is_free = right.is_apart or (not promises_all and _is_free(program, right, each))
            if each.is_same(level, right) or not (right.is_done and each.is_done):
                continue
            if is_free:
                counts["unseen"] += 1
            else:
                found.append(Difference(program, level, filter_name, right, each))
        if not promises_all and counts["unseen"] and not told[-1].first:
            assert "config set level ops looks at all" in said, said
    return found, counts


def _ways(engine: str) -> Mapping[str, bool]:
    """What is compared with the exact level, and whether it promises to see all that that does."""
    return {**DIALECTS[engine].levels, "lt": True, KEPT: True}


def _is_free(program: Program, exact: Told, told: Told) -> bool:
    """Whether a level that looks at borders alone can't see what the exact one tells."""
    is_hidden = not told.first or _plain(told.first).startswith(_GIVEN)
    is_hidden = is_hidden or "[State]" in told.began  # what the step shows hides nothing else
    return program.shape == "gradient" or (not exact.is_out and is_hidden)


def shrunk(difference: Difference, folder: Path) -> Difference:
    """The same with as few steps as show it."""
    promises_all = _ways(difference.program.engine)[difference.level]
    while len(difference.program.steps) > 1:
        program = difference.program
        smaller = [program.without(at) for at in range(len(program.steps))]
        exact, _ = told_of(smaller, EXACT, difference.filter_name, folder)
        told, _ = told_of(smaller, difference.level, difference.filter_name, folder)
        for each, right, other in zip(smaller, exact, told, strict=True):
            is_free = right.is_apart or (not promises_all and _is_free(program, right, other))
            is_same = other.is_same(difference.level, right)
            if not is_same and right.is_done and other.is_done and not is_free:
                difference = replace(difference, program=each, exact=right, told=other)
                break
        else:
            return difference
    return difference
