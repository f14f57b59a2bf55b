"""Filters that take the dump: told apart from those that don't, and given it by every caller."""

import functools
import inspect
import sys
from pathlib import Path

import numpy as np
import pytest
from filter_kit import INF, Op, dump_of, passing

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import InconvertibleTensorProto, bound, takes_dump
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.dumps.run_folder.writer import write_run_folder
from tfdbg_cli.dumps.tfdbg_dir.debug_dump_dir import DebugDumpDir
from tfdbg_cli.dumps.tfdbg_dir.writer import write_dump_directory
from tfdbg_cli.filters.builtin import BUILTIN, FOLLOWS, has_inf_or_nan
from tfdbg_cli.filters.origins import origin_of_nonfinite
from tfdbg_cli.filters.registry import FilterRegistry, load_filters

sys.path.append(str(Path(__file__).parents[1] / "commands"))

from command_kit import Shell, make_dump


def first_of_run(datum, tensor, dump):
    """Whether a tensor is the first of its run."""
    return dump.data()[0] is datum


class Method:
    def two(self, datum, tensor):
        return True

    def three(self, datum, tensor, dump):
        return True


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (has_inf_or_nan, False),
        (origin_of_nonfinite, True),
        (first_of_run, True),
        (lambda datum, tensor, limit=3: True, False),
        (lambda datum, tensor, dump=None: True, True),
        (lambda datum, tensor, dump=None, limit=3: True, True),
        (lambda datum, tensor, other: True, True),
        (lambda datum, tensor, *rest: True, False),
        (lambda *rest: True, False),
        (lambda datum: True, False),
        (lambda a, b, c, d: True, False),
        (functools.partial(lambda datum, tensor, dump, limit: True, limit=3), True),
        (Method().two, False),
        (Method().three, True),
        (max, False),
        (np.isnan, False),
    ],
)
def test_who_wants_the_dump(predicate, expected):
    assert takes_dump(predicate) is expected


@pytest.fixture
def dump():
    return dump_of(
        Op("x", "Input", (), [0.0, 1.0]),
        Op("log", "log", ["x"], [-INF, 0.0]),
        Op("neg", "neg", ["log"], [INF, 0.0]),
    )


def test_find_gives_the_dump(dump):
    assert passing(dump, first_of_run) == ["x"]
    (found,) = dump.iter_find(first_of_run)
    assert found is dump.data()[0]
    assert bound(first_of_run, dump)(dump.data()[1], None) is False
    assert bound(has_inf_or_nan, dump) is has_inf_or_nan


def test_dumps_on_disk_give_themselves(dump, tmp_path):
    write_run_folder(dump, tmp_path / "ours")
    write_dump_directory(dump, tmp_path / "original")
    for folder in ("ours", "original"):
        again = open_dump(tmp_path / folder)
        assert passing(again, first_of_run) == ["x"]
        assert passing(again, origin_of_nonfinite) == ["log"]
    assert isinstance(again, DebugDumpDir)


def test_the_registry_keeps_the_number_of_parameters(dump):
    filters = FilterRegistry()
    filters.add("first", first_of_run)
    assert filters.summary("first") == "Whether a tensor is the first of its run."
    for name in (way for each in filters.names() for way in filters.examples(each)):
        predicate = filters.predicate(name)
        assert takes_dump(predicate) is takes_dump(filters.get(name))
        assert isinstance(passing(dump, predicate), list)
    assert passing(dump, filters.predicate("first")) == ["x"]


def test_what_is_no_array_does_not_pass_and_does_not_raise():
    dump = dump_of(Op("x", "Input", (), [1.0]))
    dump.add("handle", 0, InconvertibleTensorProto("a handle"))
    filters = FilterRegistry()
    filters.add("mine", lambda datum, tensor, dump: tensor.size > 0)
    for name in (way for each in filters.names() for way in filters.examples(each)):
        found = passing(dump, filters.predicate(name))
        assert "handle" not in found, name


def test_files_may_define_both_kinds(tmp_path):
    path = tmp_path / "filters.py"
    path.write_text(
        "def two(datum, tensor):\n    return True\n"
        "def three(datum, tensor, dump):\n    return len(dump.data()) == 3\n"
        "def helper(a):\n    return a\n"
        "def other(a, b, c, d):\n    return a\n"
    )
    filters = FilterRegistry()
    assert load_filters(str(path), filters) == ["two", "three"]
    assert takes_dump(filters.predicate("three"))
    path.write_text("def helper(a):\n    return a\n")
    with pytest.raises(UserError, match=r"f\(datum, tensor, dump\)"):
        load_filters(str(path), filters)


def test_lt_and_its_completion(dump):
    shell = Shell(dump)
    shell.filters.add("first_of_run", first_of_run)
    text = shell.text("lt -f first_of_run")
    assert "1 dumped tensor(s)" in text and "x:0" in text
    assert "log:0" in shell.text("lt -f origin_of_nonfinite")
    assert "neg:0" not in shell.text("lt -f origin_of_nonfinite")
    assert shell.complete("lt -f orig") == ["lt -f origin_of_nonfinite"]
    assert "the filter raised" not in shell.text("lt -f dead")


def test_real_run_of_the_numpy_engine():
    shell = Shell(make_dump())
    names = shell.text("lt -f origin_of_nonfinite")
    assert "bad/Log:0" in names
    assert "bad/Mul:0" not in names


def test_the_filters_that_are_always_there_follow_settings_by_their_parameters():
    names = "has_inf_or_nan origin_of_nonfinite exploding vanishing dead overflow_risk"
    assert [*BUILTIN] == [
        *names.split(),
        "overflows",
        "underflows",
        "clipped",
        "constant",
        "broadcast",
        "stuck",
        "unused",
    ]
    followed = {
        (name, parameter, setting)
        for name, parameters in FOLLOWS.items()
        for parameter, setting in parameters.items()
    }
    assert followed == {
        ("exploding", "above", "exploding_above"),
        ("vanishing", "below", "vanishing_below"),
        ("overflow_risk", "share", "overflow_share"),
    }
    for name, predicate in BUILTIN.items():
        options = [*inspect.signature(predicate).parameters.values()][2:]
        asked = {each.name for each in options if each.kind == each.KEYWORD_ONLY}
        if name not in ("overflows", "underflows", "clipped", "unused"):
            assert asked == set(FOLLOWS.get(name, ()))
