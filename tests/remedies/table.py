"""Prints the table of docs/fix.md: kinds of reasons, and how many cases a remedy makes clean.

``PYTHONPATH=.:tests python tests/remedies/table.py``: each case of `causes_cases`, on each engine.
"""

from __future__ import annotations

import importlib
import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from causes_kit import told
from program_server import Programs, environment

ROOT = Path(__file__).resolve().parents[1]
ENGINES = {
    "torch": ("torch/test_torch_causes", ("torch._dynamo",)),
    "tensorflow": ("tensorflow/test_tf_causes", ("tensorflow",)),
    "jax": ("jax/test_jax_causes", ("jax",)),
    "onnx": ("onnx/test_onnx_causes", ("onnx", "onnxruntime")),
    "numpy": ("numpy/test_numpy_causes", ("numpy",)),
}


def program_of(engine: str) -> str:
    """The program that computes an engine's cases, with ``{cases}`` where they are to stand."""
    path, _ = ENGINES[engine]
    sys.path.insert(0, str((ROOT / "engines" / path).parent))
    module = importlib.import_module(path.rpartition("/")[2])
    return str(getattr(module, "_PROGRAM", "") or module._BOTH + module._FUNCTION)


def remedies(engine: str) -> Iterator[tuple[str, str]]:
    """The reasons of an engine's cases, and their remedies."""
    _, modules = ENGINES[engine]
    text = program_of(engine)
    commands = ("config set level values",) if engine == "torch" else ()
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(environment(Path(folder)), modules)
        yield from told(programs, Path(folder), engine, text, *commands).remedies()


def main() -> None:
    """Print it."""
    rows: dict[str, dict[str, list[str]]] = {}
    for engine in ENGINES:
        for reason, remedy in remedies(engine):
            kind = re.split(r" at (?=\d|\[)|: |, | of \[", reason)[0]
            kind = re.sub(r"b?float\d+", "a dtype", kind)
            kind = re.sub(r"-?[1-9][\d.e+]*(?=$| elem| row| leave)", "some", kind)
            kind = re.sub(
                r" (?:(?:of|below|at -1 or|at a \w+ of \w+ 0 or) some| inside).*$", "", kind
            )
            kind = kind.replace("some row(s)", "rows").replace(
                "numbers up to some", "large numbers"
            )
            rows.setdefault(kind, {}).setdefault(engine, []).append(remedy)
    print(f"| reason | first remedy | {' | '.join(ENGINES)} |")
    print("|---" * (2 + len(ENGINES)) + "|")
    for kind, found in rows.items():
        first = next((each for all_ in found.values() for each in all_ if each), "none")
        cells = [
            f"{sum(map(bool, found[each]))} of {len(found[each])}" if each in found else ""
            for each in ENGINES
        ]
        print(f"| {kind} | `{first.rpartition(': ')[0] or first}` | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
