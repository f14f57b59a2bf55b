"""Measures how much there is to hold in mind: lines of code, circles of imports, functions passed.

``python scripts/house.py [--lines]``: without ``--lines`` PyTorch is needed, for the path that a
NaN of ``torch.log`` takes through the house, and for the calls of a step that is only waited in:
they are what a small step pays, and no busy machine changes them.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import sys
import tempfile
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import networkx

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "tfdbg_cli"
_NO_CODE = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    tokenize.ENDMARKER,
}
_DESCRIBED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)

# Prints the functions of the package that a program passes, by `sys.setprofile`.
_PROFILED = f"""
import atexit, greenlet, inspect, runpy, sys, threading
seen = dict()
def note(frame, event, argument):
    code = frame.f_code
    if event == "call" and code.co_flags & inspect.CO_OPTIMIZED:  # no module's and no class's body
        if code.co_filename.startswith({str(PACKAGE)!r}):
            place = code.co_filename, code.co_qualname
            seen[place] = seen.get(place, 0) + 1
def write():
    sys.setprofile(None)
    with open(script + ".seen", "w") as file:
        file.writelines("%s\\t%s\\t%d\\n" % (*each, count) for each, count in seen.items())
script = sys.argv.pop(1)
atexit.register(write)
threading.setprofile(note)
greenlet.settrace(lambda *switched: sys.setprofile(note))  # each greenlet has its own
sys.setprofile(note)
runpy.run_module("tfdbg_cli", run_name="__main__", alter_sys=True)
"""
_EMPTY = """
import torch
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
"""
_PROGRAM = f"""
{_EMPTY}
for step in range(3):
    loss = torch.log(model(torch.ones(2)) * 0 + 1 - 2.0 * (step == 2)).sum()
    loss.backward()
    optimizer.step()
"""
_STEPS = """
import torch
from torch import nn
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
loss, optimizer = nn.CrossEntropyLoss(), torch.optim.Adam(model.parameters())
for step in range(%d):
    optimizer.zero_grad()
    loss(model(torch.ones(4, 8)), torch.zeros(4, dtype=torch.long)).backward()
    optimizer.step()
"""
_FEW, _MORE = 40, 60
_WAYS = {
    "a run": ["run", "exit"],
    "a run, pt": ["run", "pt log:0", "exit"],
    "run -f to its verdict": ["run -f has_inf_or_nan", "exit"],
}


def lines_of_code(path: Path) -> int:
    """How many lines of a file are neither blank nor comment nor docstring."""
    text = path.read_text(encoding="utf-8")
    docs: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, _DESCRIBED) and ast.get_docstring(node, clean=False) is not None:
            docs.update(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in _NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - docs)


def room_of(path: Path) -> str:
    """The room that a file stands in; each engine is one."""
    folders = path.relative_to(PACKAGE).parts[:-1]
    return "/".join(folders[: 2 if folders[:1] == ("engines",) else 1]) or "."


def imports_of(path: Path, names: set[str], *, for_typing: bool) -> Iterator[str]:
    """The modules of the package that a module imports when it is imported itself.

    Args:
        path: the module.
        names: of all modules.
        for_typing: those that only a type checker imports count as well.
    """
    waiting: list[ast.stmt] = [*ast.parse(path.read_text(encoding="utf-8")).body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If):
            if for_typing or "TYPE_CHECKING" not in ast.unparse(node.test):
                waiting += node.body
            waiting += node.orelse
        elif isinstance(node, ast.Try):
            waiting += node.body
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names if each.name in names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for each in node.names:
                inner = f"{node.module}.{each.name}"
                if inner in names or node.module in names:
                    yield inner if inner in names else node.module


def circles(*, for_typing: bool) -> list[int]:
    """How many modules the circles of imports have, the largest first."""
    files = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in PACKAGE.rglob("*.py")
    }
    graph = networkx.DiGraph()
    for name, path in files.items():
        found = imports_of(path, {*files}, for_typing=for_typing)
        graph.add_edges_from((name, each) for each in found if each != name)
    sizes = map(len, networkx.strongly_connected_components(graph))
    return sorted((size for size in sizes if size > 1), reverse=True)


def passed(commands: Sequence[str], program: str, folder: Path) -> Counter[tuple[str, str]]:
    """The functions of the package that a program passes under the debugger, and how often."""
    script = folder / "program.py"
    script.write_text(program, encoding="utf-8")
    given = [part for command in commands for part in ("-c", command)]
    subprocess.run(
        [sys.executable, "-c", _PROFILED, str(script), "--batch", *given, str(script)],
        env={"PATH": "", "PYTHONPATH": str(ROOT), "HOME": str(folder)},
        capture_output=True,
        check=False,  # an empty program has no run to stop at, which is a status but 0
    )
    seen = Path(f"{script}.seen").read_text(encoding="utf-8").splitlines()
    rows = [each.split("\t") for each in seen]
    return Counter({(file, function): int(count) for file, function, count in rows})


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--lines", action="store_true", help="lines and circles alone")
    options = parser.parse_args()
    rooms: Counter[str] = Counter()
    files = [*PACKAGE.rglob("*.py")]
    for path in files:
        rooms[room_of(path)] += lines_of_code(path)
    for room, count in sorted(rooms.items()):
        print(f"{count:7,}  {room}")
    print(f"{sum(rooms.values()):7,}  lines of code in {len(files)} files")
    for for_typing, words in ((False, ""), (True, ", those for type checking included")):
        sizes = ", ".join(map(str, circles(for_typing=for_typing))) or "none"
        print(f"circles of imports{words}: {sizes}")
    if options.lines:
        return
    with tempfile.TemporaryDirectory() as folder:
        empty = passed(["run", "exit"], _EMPTY, Path(folder))
        for words, commands in _WAYS.items():
            found = passed(commands, _PROGRAM, Path(folder)).keys() - empty.keys()
            print(f"{words}: {len(found)} functions in {len({file for file, _ in found})} files")
        waiting = ["config set level modules", "run -f"]
        few, more = (
            passed(waiting, _STEPS % count, Path(folder)).total() for count in (_FEW, _MORE)
        )
        print(f"a step of an MLP that is waited in: {(more - few) / (_MORE - _FEW):.0f} calls")


if __name__ == "__main__":
    main()
