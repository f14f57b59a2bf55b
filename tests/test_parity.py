"""docs/parity.md names tests that exist, and nothing that the original had is missing."""

import ast
import re
from pathlib import Path

import pytest

from tfdbg_cli.commands.builtin import make_registry

TESTS = Path(__file__).parent
PARITY = TESTS.parent / "docs" / "parity.md"
MIGRATING = TESTS.parent / "docs" / "migrating.md"
DEFECTS = range(1, 46)

# The original's commands: name, alias, a stop at which they exist, flags.
ORIGINAL = (
    (
        *("run", "r", "run-start"),
        "-t --times -n --no_debug -f --till_filter_pass -fenn --filter_exclude_node_names "
        "--node_name_filter --op_type_filter --tensor_dtype_filter -p --profile",
    ),
    ("run_info", "ri", "run-start", ""),
    (
        *("print_feed", "pf", "run-start"),
        "-n --number -r --ranges -a --all -s --numeric_summary -w --write_path",
    ),
    (
        *("list_tensors", "lt", "run-end"),
        "-f --tensor_filter -fenn --filter_exclude_node_names -n --node_name_filter "
        "-t --op_type_filter -s --sort_by -r --reverse",
    ),
    (
        *("print_tensor", "pt", "run-end"),
        "-n --number -r --ranges -a --all -s --numeric_summary -w --write_path",
    ),
    ("node_info", "ni", "run-end", "-a --attributes -d --dumps -t --traceback"),
    ("list_inputs", "li", "run-end", "-c --control -d --depth -r --recursive -t --op_type"),
    ("list_outputs", "lo", "run-end", "-c --control -d --depth -r --recursive -t --op_type"),
    ("list_source", "ls", "run-end", "-p --path_filter -n --node_name_filter"),
    (
        *("print_source", "ps", "run-end"),
        "-t --tensors -m --max_elements_per_line -b --line_begin",
    ),
    ("eval", "ev", "run-end", "-a --all -w --write_path"),
    (
        *("list_profile", "lp", "profile"),
        "-d --device_name_filter -n --node_name_filter -t --op_type_filter -f --file_path_filter "
        "--min_lineno --max_lineno -e --execution_time -o --op_time -s --sort_by -r --reverse "
        "--time_unit",
    ),
    (
        *("print_source", "ps", "profile"),
        "--cost_type --time_unit -d --device_name_filter -n --node_name_filter "
        "-t --op_type_filter --init_line",
    ),
    ("config", "cfg", "offline", ""),
    ("mouse", "m", "offline", ""),
    ("help", "h", "offline", ""),
    ("version", "ver", "offline", ""),
    ("prev", "prev", "offline", ""),
    ("next", "next", "offline", ""),
    ("exit", "quit", "run-start", ""),
)


def functions(path):
    """The test functions of a file, with their docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.name: ast.get_docstring(node) or ""
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


@pytest.fixture(scope="module")
def spans():
    """Everything in the document that stands in backticks."""
    return re.findall(r"`([^`]+)`", PARITY.read_text(encoding="utf-8"))


def number_of(name):
    """The defect that a test is about, or ``None``."""
    found = re.match(r"test_defect_(\d\d)_", name)
    return int(found[1]) if found else None


@pytest.mark.slow
def test_every_test_that_is_named_exists(spans):
    named = [span.partition("::") for span in spans if "::" in span]
    assert len(named) > 150
    missing = []
    for file, _, name in named:
        path = TESTS / file
        if not path.is_file() or name not in functions(path):
            missing.append(f"{file}::{name}")
    assert missing == []


@pytest.mark.slow
@pytest.mark.parametrize("document", [PARITY, MIGRATING], ids=lambda path: path.name)
def test_every_row_names_a_test_that_exists(document):
    text = document.read_text(encoding="utf-8")
    for span in re.findall(r"`([^`]+::[^`]+)`", text):
        file, _, name = span.partition("::")
        assert name in functions(TESTS / file), span
    for row in text.splitlines():
        if not row.startswith("| "):
            continue
        assert "::test_" in row or row.endswith("| Test |"), row


def test_every_defect_has_tests_and_a_row():
    tests = {}
    for path in sorted(TESTS.rglob("test_*defects.py")):
        for name, text in functions(path).items():
            number = number_of(name)
            assert number in DEFECTS, f"{path.name}::{name}"
            assert text.startswith("The original") and "\n" not in text, f"{path.name}::{name}"
            tests.setdefault(number, set()).add(f"{path.relative_to(TESTS).as_posix()}::{name}")
    assert sorted(tests) == list(DEFECTS)
    rows = re.findall(r"^\| (\d+) \|.*$", PARITY.read_text(encoding="utf-8"), re.M)
    assert [int(number) for number in rows] == list(DEFECTS)
    for row in re.finditer(r"^\| (\d+) \|.*$", PARITY.read_text(encoding="utf-8"), re.M):
        assert tests[int(row[1])] <= set(re.findall(r"`([^`]+)`", row[0])), row[0]


@pytest.mark.parametrize(
    ("name", "alias", "mode", "flags"), ORIGINAL, ids=[f"{c[0]}-{c[2]}" for c in ORIGINAL]
)
def test_a_command_of_the_original_is_there_and_in_the_table(spans, name, alias, mode, flags):
    (command,) = [c for c in make_registry().commands if c.name == name and mode in c.modes]
    assert alias in (command.name, *command.aliases)
    words = [re.split(r"[\s,]+", span) for span in spans if "::" not in span]
    assert [name] in words and [alias] in words
    known = {flag for argument in command.arguments for flag in argument.flags}
    for flag in flags.split():
        assert flag in known
        assert any(w[0] in (name, alias) and flag in w for w in words), f"{name} {flag}"
