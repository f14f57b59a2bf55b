"""Two pages for engines: what nodes say, of which core reads no more, and the interface."""

import ast
import re
from pathlib import Path

import tfdbg_cli
from tfdbg_cli.common import node_words
from tfdbg_cli.engines import base

ROOT = Path(tfdbg_cli.__file__).parent
PAGE = ROOT.parent / "docs" / "engines.md"
#: Rooms that read what an engine has written.
CORE = (
    *("comparing", "commands", "dumps", "filters", "precision", "remedies", "scanning"),
    *("sessions", "stepping", "tensors", "ui", "engines/kit"),
)
#: TensorFlow's names of what is fed begin alike.
OTHERS = ("dumps/tfdbg_dir/",)


def words():
    """The names of attributes that the module has."""
    for name in node_words.__all__:
        value = getattr(node_words, name)
        if not callable(value):
            yield from value if isinstance(value, tuple) else (value,)


ATTRIBUTES = {each for each in words() if each.startswith("_")} - {node_words.ARGUMENT}


def test_the_page_and_the_module_have_the_same_attributes():
    table = PAGE.read_text(encoding="utf-8").partition("### What a node says")[2]
    rows = re.findall(r"^\| (`.*?) \|", table.partition("\n- **")[0], re.M)
    told = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert {each for each in told if each.startswith("_")} == ATTRIBUTES
    assert told - ATTRIBUTES == {*node_words.RIGHT, *node_words.DIMENSIONS} - ATTRIBUTES


def test_the_page_has_the_names_of_nodes():
    text = PAGE.read_text(encoding="utf-8")
    assert f"`{node_words.INPUTS}x`" in text
    assert f"`{node_words.GRADIENTS}...`" in text


def test_core_reads_attributes_by_the_names_of_the_module():
    wrong = []
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        if not place.startswith(tuple(f"{room}/" for room in CORE)) or place.startswith(OTHERS):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = node.value if isinstance(node, ast.Constant) else None
            is_word = isinstance(text, str) and text in {*ATTRIBUTES, node_words.ARGUMENT}
            if is_word or (isinstance(text, str) and re.fullmatch(r"_arg_\w+", text)):
                wrong.append(f"{place}:{node.lineno}: {text}")
    assert wrong == []


def shown(part):
    """The names that a part of the page about the interface shows."""
    return set(re.findall(r"^\.\. auto(?:class|function|exception|data):: (\w+)", part, re.M))


def test_the_interface_of_engines_is_shown():
    page = (ROOT.parent / "docs" / "api.md").read_text(encoding="utf-8")
    assert set(base.__all__) <= shown(page.partition("### Protocols")[2])


def test_what_a_package_begins_with_is_stable():
    page = (ROOT.parent / "docs" / "api.md").read_text(encoding="utf-8")
    stable = shown(page.partition("### Stable")[2].partition("### Protocols")[0])
    template = (ROOT / "front" / "engine_template").glob("*.py.in")
    files = [*template, *(ROOT.parent / "examples" / "engine_autograd").rglob("*.py")]
    used = {
        name
        for path in files
        for names in re.findall(
            r"^from tfdbg_cli\.\S+ import (.+)$", path.read_text(encoding="utf-8"), re.M
        )
        for name in names.split(", ")
    }
    assert {"ProgramKit", "OpRecorder", "EngineContract"} <= used
    assert used <= stable
