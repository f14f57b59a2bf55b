"""The search for mistakes that no test tells: what it makes, what it says, what it prevents."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mutants_kit import code_of, diff_of, mutants_of, reasons
from samples import sample

_SERVER = Path(__file__).with_name("mutate_server.py")
_ROOT = Path(__file__).parents[2]

_MODULE = '''\
"""A module."""
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    Answer = 1
__all__ = ["bounded"]
Pair = tuple[int, int]
MOST = 3


def bounded(number: int, most: int = 5) -> int:
    """Not more than `most`."""
    if number > most:
        raise ValueError("too large")
    return number


def count(number):
    at = 0
    while at < number:
        at += 1
    return at


def clean(path):
    os.remove(path + ".old")


class Shape:
    sides = 4

    def is_flat(self):
        return not self.sides

    def parts(self):
        yield from range(self.sides)

    def area(self):
        raise NotImplementedError


class Square(Shape):
    def __init__(self):
        super().__init__()
'''
_TESTS = """\
import pytest
from example import Shape, bounded, count

def test_bounded():
    assert bounded(3) == 3
    with pytest.raises(ValueError):
        bounded(9)

def test_count():
    assert count(3) == 3

def test_shape():
    assert Shape().is_flat() is False
"""


@pytest.fixture
def module(tmp_path):
    path = tmp_path / "example.py"
    path.write_text(_MODULE)
    (tmp_path / "test_example.py").write_text(_TESTS)
    return path


def _diffs(module, gut=False):
    return {diff_of(mutant): mutant for mutant in mutants_of(module, gut)}


def test_each_mutant_is_one_mistake_on_the_lines_that_it_names(module):
    diffs = _diffs(module)

    assert "- if number > most:\n+ if number >= most:" in diffs
    assert "- raise ValueError('too large')\n+ pass" in diffs
    assert "- at += 1\n+ at += 2" in diffs
    assert "- return at\n+ return None" in diffs
    assert "-MOST = 3\n+MOST = 4" in diffs
    head = "def bounded(number: int, most: int={}) -> int:"
    assert f"-{head.format(5)}\n+{head.format(6)}" in diffs
    found = diffs["- at += 1\n+ at += 2"]
    assert (found.function, found.lines) == ("count", (22, 22))
    assert diffs["- sides = 4\n+ sides = 5"].function == ""
    for mutant in diffs.values():
        names = {}
        exec(code_of(mutant), names)
        assert names["bounded"].__code__.co_firstlineno == 12


def test_types_wording_and_what_harms_is_left_alone(module):
    text = "\n".join(_diffs(module)) + "\n".join(_diffs(module, gut=True))

    for left in ("os.remove", "clean", "too large", "Not more", "__all__", "tuple", "Answer"):
        assert f"- {left}" not in text and f"-{left}" not in text
    assert ".old" not in text


def test_a_gutted_function_returns_nothing_and_a_generator_is_empty(module):
    gutted = {mutant.function: mutant for mutant in mutants_of(module, gut=True)}

    # What only says that others have to do it is no function yet.
    assert {*gutted} == {"bounded", "count", "Shape.is_flat", "Shape.parts", "Square.__init__"}
    names = {}
    exec(code_of(gutted["count"]), names)
    assert names["count"](3) is None
    exec(code_of(gutted["Shape.parts"]), names)
    assert list(names["Shape"]().parts()) == []


def test_each_judged_mistake_has_a_reason():
    text = "# Why.\na.py: C.f\n- x\n+ y\na.py: -\n-X = 1\n+X = 2\n\n# Else.\na.py: g\n- z\n+ pass\n"
    assert reasons(text) == {
        ("a.py", "C.f", "- x\n+ y"): "Why.",
        ("a.py", "-", "-X = 1\n+X = 2"): "Why.",
        ("a.py", "g", "- z\n+ pass"): "Else.",
    }
    judged = reasons(Path(__file__).with_name("judged.txt").read_text())
    assert all(judged.values())
    assert all(Path(_ROOT / module).exists() and diff for module, _, diff in judged)


def _answers(module, mutants, tests, anew):
    folder = module.parent / f"own-{anew}"
    folder.mkdir()
    (folder / "out").touch()
    names = [f"test_example.py::test_{name}" for name in tests]
    job = {
        "folder": str(folder),
        "out": str(folder / "out"),
        "root": str(module.parent),
        "tests": [str(module.parent / "test_example.py")],
        "select": "",
        "paths": [str(module)],
        "mutants": [[dataclasses.astuple(mutant), names, 0.1] for mutant in mutants],
        "anew": anew,
    }
    (folder / "job").write_text(json.dumps(job))
    environment = os.environ | {"PYTHONPATH": str(module.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, _SERVER, folder / "job"],
        env=environment,
        cwd=module.parent,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    lines = (folder / "out").read_text().splitlines()
    said = {answer["mutant"][1]: answer["said"] for answer in map(json.loads, lines)}
    assert len(said) == len(mutants), done.stdout + done.stderr
    return [said[mutant.number] for mutant in mutants]


@pytest.mark.parametrize("anew", [*sample([False, True], 2)])
def test_mutants_are_killed_survive_or_take_too_long(module, anew):
    # As those of a package that has a plugin of pytest's.
    hook = "import pytest\npytest.register_assert_rewrite('example')\n"
    (module.parent / "conftest.py").write_text(hook)
    diffs = _diffs(module)
    expected = {
        "- raise ValueError('too large')\n+ pass": "killed by test_example.py::test_bounded",
        # Nobody tries the border.
        "- if number > most:\n+ if number >= most:": "survived",
        # It would never end.
        "- at += 1\n+ at -= 1": "timed out",
        "- return not self.sides\n+ return self.sides": "killed by test_example.py::test_shape",
    }
    # Without ``super()`` it is a function of another kind.
    expected["- super().__init__()\n+ pass"] = "survived" if anew else "anew"
    if anew:
        expected["-MOST = 3\n+MOST = 4"] = "survived"
        expected["- sides = 4\n+ sides = None"] = "killed by test_example.py::test_shape"

    mutants = [diffs[text] for text in expected]
    said = _answers(module, mutants, ["bounded", "count", "shape"], anew)

    assert dict(zip(expected, said, strict=True)) == expected


def test_a_mutant_can_neither_write_elsewhere_nor_start_programs_nor_signal_others(module):
    outside = module.parent / "outside"
    module.write_text(
        "import os, subprocess\n"
        "def harm():\n"
        "    tried = []\n"
        f"    outside = {str(outside)!r}\n"
        "    for what in (lambda: open(outside, 'w'), lambda: os.mkdir(outside),\n"
        "                 lambda: subprocess.run(['true']), lambda: os.kill(os.getppid(), 0),\n"
        f"                 lambda: getattr(os, 'remove')({str(module)!r})):\n"
        "        try:\n"
        "            what()\n"
        "        except PermissionError:\n"
        "            tried.append('refused')\n"
        "    return tried\n"
    )
    tests = module.parent / "test_example.py"
    # It passes only where everything was refused.
    tests.write_text(
        "from example import harm\n"
        "def test_harm(tmp_path):\n"
        "    (tmp_path / 'inside').write_text('allowed')\n"
        "    assert harm() == ['refused'] * 5\n"
    )
    other = module.parent / "other.py"
    other.write_text("VALUE = 1\n")
    (mutant,) = [m for m in mutants_of(other) if m.kind == "constant"]

    assert _answers(module, [mutant], ["harm"], True) == ["survived"]
    assert module.exists() and not outside.exists()
