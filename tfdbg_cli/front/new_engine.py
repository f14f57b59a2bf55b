"""``tfdbg new-engine NAME``: a package with an engine whose tests pass, to go on from."""

from __future__ import annotations

import argparse
import re
import string
from collections.abc import Sequence
from pathlib import Path

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.registry import entries
from tfdbg_cli.front.options import OptionParser

__all__ = ["main"]

_TEMPLATE = Path(__file__).parent / "engine_template"
# Where each part of the template goes.
_FILES = {
    "pyproject.toml.in": "pyproject.toml",
    "README.md.in": "README.md",
    "init.py.in": "$package/__init__.py",
    "stand_in.py.in": "$package/stand_in.py",
    "traits.py.in": "$package/traits.py",
    "engine.py.in": "$package/engine.py",
    "test.py.in": "tests/test_$name.py",
}
_NAME = re.compile(r"[a-z][a-z0-9_]*")


def main(argv: Sequence[str]) -> int:
    """Make the package.

    Args:
        argv: what follows ``new-engine``.

    Returns:
        The exit status.

    Raises:
        UserError: no name for an engine, or one that is taken; the folder is there already.
    """
    parser = OptionParser(
        prog="tfdbg new-engine",
        description="Makes a package with an engine for a framework: a folder tfdbg-NAME here. Its "
        "tests pass as it is made; its README says how to go on.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("name", metavar="NAME", help="of the framework, as Python imports it")
    name = parser.parse_args(argv).name
    if not _NAME.fullmatch(name):
        hint = "Write it in small letters, digits and underscores, as Python imports it."
        raise UserError(f'"{name}" is no name for an engine.', hint)
    taken = next((each for each in entries() if each.name == name), None)
    if taken is not None:
        raise UserError(f"There is an engine named {name}: {taken.target}.", "Choose another name.")
    words = {"name": name, "package": f"tfdbg_{name}", "dashed": name.replace("_", "-")}
    folder = Path(f"tfdbg-{words['dashed']}")
    try:
        folder.mkdir()
        for source, place in _FILES.items():
            path = folder / string.Template(place).substitute(words)
            path.parent.mkdir(exist_ok=True)
            text = (_TEMPLATE / source).read_text(encoding="utf-8")
            path.write_text(string.Template(text).substitute(words), encoding="utf-8")
    except FileExistsError as error:
        raise UserError(f"There is a folder {folder} already.") from error
    except OSError as error:
        raise UserError(f"{folder} can't be written: {error.strerror or error}.") from error
    print(f"{folder} is made. Next: cd {folder}, pip install -e '.[test]', pytest")
    print(f"{folder / 'README.md'} says how to go on.")
    return 0
