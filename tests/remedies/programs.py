"""Prints which programs with a fault a remedy makes clean: the numbers of docs/fix.md.

``PYTHONPATH=.:tests python tests/remedies/programs.py PROGRAM.py… docs/cookbook.md``: of a page,
each program that begins with a comment of its name. Those whose bad tensor doesn't begin in an op,
or that have none, don't count.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from program_server import debugger_in

# Reasons that lie outside of the run.
_OUTSIDE = re.compile(r"it came in|it reads .* (?:before this run|never written)|the number ")


def programs(paths: list[str], folder: Path) -> Iterator[Path]:
    """The programs of files and pages."""
    for path in map(Path, paths):
        if path.suffix == ".py":
            yield path.resolve()
            continue
        for name, text in re.findall(r"```python\n# (\S+\.py)\n(.*?)```", path.read_text(), re.S):
            (folder / name).write_text(text)
            yield folder / name


def fixes(program: Path, *commands: str) -> tuple[str, list[dict[str, Any]]]:
    """The reason of a program's first bad tensor, and the remedies in their order."""
    flags = [part for each in (*commands, "run -f", "fix --json") for part in ("-c", each)]
    done = debugger_in(program.parent, "--batch", *flags, program.name)
    found = re.search(r"^It began in (.*)\n(?:Why: +(.*)\n)?", done.stdout, re.MULTILINE)
    lines = [each for each in done.stdout.splitlines() if each.startswith('{"change"')]
    reason = (found[2] or f"not known: {found[1]}") if found else ""
    return reason, [json.loads(each) for each in lines]


def main() -> None:
    """Print it."""
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for program in programs(sys.argv[1:], Path(folder)):
            reason, tried = fixes(program)
            if not reason or _OUTSIDE.match(reason):
                continue
            if not any(each["clean"] for each in tried):  # as the screen advises
                tried = fixes(program, "config set level values")[1] or tried
                counts["only at the level values"] += any(each["clean"] for each in tried)
            clean = [each["clean"] for each in tried]
            place = clean.index(True) + 1 if True in clean else 0
            counts["all"] += 1
            counts["by the first"] += place == 1
            counts["by one of the first three"] += 0 < place <= 3
            told = f"{tried[0]['change']}: {tried[0]['then']}" if tried else "no remedy"
            print(f"{program.stem:28} {place or '-'}  {reason[:60]}\n{'':31} {told[:120]}")
    print(", ".join(f"{name}: {count}" for name, count in counts.items()))


if __name__ == "__main__":
    main()
