"""What docs/stability.md promises stays: a change of it fails here, and is a new major version.

``TFDBG_STABLE=write`` writes stable/promises.json anew: for what is added, or for a major version.
"""

import importlib
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tfdbg_cli.common.settings import Settings
from tfdbg_cli.dumps.run_folder import writer
from tfdbg_cli.engines import registry  # noqa: F401 (it makes their settings known)
from tfdbg_cli.front.command_line import make_parser
from tfdbg_cli.front.help_json import help_json
from tfdbg_cli.front.options import WRONG_USE
from tfdbg_cli.sessions.debugger.gate import CHECK_FAILED

ROOT = Path(__file__).resolve().parents[1]
STABLE = ROOT / "tests" / "stable" / "promises.json"
RUN = ROOT / "tests" / "stable" / "run_of_1.0"
# Where docs/api.md ends its stable part.
_OPEN = "\n### Protocols\n"
_DIRECTIVE = re.compile(
    r"^\.\. (auto\w+|module):: (\S+)\n(?:   :members:(.*(?:\n      .*)*))?", re.M
)


def _signature(made):
    """The parameters, without their types."""
    try:
        found = inspect.signature(made)
    except (TypeError, ValueError):
        return ""
    plain = [each.replace(annotation=each.empty) for each in found.parameters.values()]
    return str(found.replace(parameters=plain, return_annotation=found.empty))


def _members(found, chosen):
    """What docs/api.md shows of a class: the names that it lists, or all that are its own."""
    own = [name for name in vars(found) if not name.startswith("_")]
    shown = re.split(r"[,\s]+", chosen.strip()) if chosen.strip() else sorted(own)
    return [f"{name}{_signature(getattr(found, name, None))}" for name in shown]


def _texts(module):
    return [name for name in module.__all__ if isinstance(getattr(module, name), str)]


def _python():
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8").partition(_OPEN)[0]
    module, found = None, {}
    for kind, name, chosen in _DIRECTIVE.findall(text):
        if kind in ("module", "automodule"):
            module = importlib.import_module(name)
            if kind == "automodule":
                found[name] = {each: str(getattr(module, each)) for each in _texts(module)}
            continue
        made = getattr(module, name)
        known = {"signature": _signature(made)} if callable(made) else {}
        if inspect.isclass(made) and chosen is not None:
            known["members"] = _members(made, chosen)
        found[f"{module.__name__}.{name}"] = known
    return found


def _paths(schema, at=""):
    """The fields that a JSON Schema knows, each with its type."""
    yield f"{at}: {schema.get('type', schema.get('$ref', ''))}"
    for name, inner in schema.get("properties", {}).items():
        need = "" if name in schema.get("required", ()) else "?"
        yield from _paths(inner, f"{at}.{name}{need}")
    if isinstance(schema.get("items"), dict):
        yield from _paths(schema["items"], f"{at}[]")


def _command_line(known):
    return {"/".join(each["flags"]): each["choices"] or each["value"] for each in known["options"]}


def _commands(known):
    return {
        each["name"]: {
            "aliases": each["aliases"],
            "stops": each["stops"],
            "arguments": [" ".join(a["flags"]) or a["value"] for a in each["arguments"]],
        }
        for each in known["commands"]
    }


def _entry_points():
    text = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tfdbg_cli").rglob("*.py"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return {
        "groups": sorted(set(re.findall(r"\"(tfdbg_cli\.[a-z]+)\"", text)) & _GROUPS),
        "scripts": sorted(project["scripts"]),
        "senders": sorted(project["entry-points"]["tfdbg_cli.senders"]),
    }


_GROUPS = {f"tfdbg_cli.{each}" for each in ("commands", "engines", "filters", "senders", "traits")}


def _all():
    known = json.loads(help_json(make_parser()[0]))
    return {
        "python": _python(),
        "command line": _command_line(known),
        "commands": _commands(known),
        "json": {name: sorted(_paths(each)) for name, each in known["$defs"].items()},
        "run folders": {name: vars(writer)[name] for name in writer.__all__ if name.isupper()},
        "entry points": _entry_points(),
        "settings": {each.name: each.choices for each, _ in Settings(None).items()},
        "exit statuses": {"check failed": CHECK_FAILED, "wrong use": WRONG_USE},
    }


@pytest.fixture(scope="module")
def found():
    found = json.loads(json.dumps(_all()))
    if os.environ.get("TFDBG_STABLE") == "write":
        STABLE.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return found


def test_all_of_it_is_found(found):
    assert len(found["python"]) > 60
    assert len(found["commands"]) > 50
    assert found["entry points"]["groups"] == sorted(_GROUPS)


@pytest.mark.parametrize(
    "kind",
    [
        *("python", "command line", "commands", "json", "run folders"),
        *("entry points", "exit statuses", "settings"),
    ],
)
def test_what_is_promised_is_as_it_was(found, kind):
    promised = json.loads(STABLE.read_text(encoding="utf-8"))[kind]
    now = found[kind]
    changed = {name: now.get(name) for name in promised if now.get(name) != promised[name]}
    assert not changed, "a promise of docs/stability.md"
    new = {name for name in now.keys() - promised.keys() if not name.startswith("fake_")}
    assert not new, "TFDBG_STABLE=write adds what is new"  # (those are an engine's of the tests)


def test_a_folder_of_version_1_0_is_read():
    commands = [part for text in ("lt", "pt y:0", "why", "li y") for part in ("-c", text)]
    done = subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", "--batch", "--dump-dir", str(RUN), *commands],
        capture_output=True,
        text=True,
        check=True,
    )
    said = " ".join(done.stdout.split())
    for each in (
        "2 dumped tensor(s)",
        "[ 0., -inf]",
        "Why: the logarithm of 0 at [1]",
        'y = tf.log(x, name="y")',
        "[Placeholder] x:0",
    ):
        assert each in said, done.stdout
    assert not done.stderr
