"""Breakpoints by names, types and filters, and what is said of the moments of modules' calls."""

import re

import numpy as np
import pytest

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.filters.builtin import has_inf_or_nan
from tfdbg_cli.filters.origins import origin_of_nonfinite
from tfdbg_cli.stepping.breakpoints import Breakpoints
from tfdbg_cli.stepping.calls import INPUT, OUTPUT, Spot, numbered, paths_of
from tfdbg_cli.stepping.stepper import Step

LOG = Step("net/log", "Log", ["x:0", "y:0"], ["net/log:0"])
BLOCK = Step("while", "While", ["x:0"], ["while:0"], members=("while", "while/body/add"))


@pytest.mark.parametrize(
    ("text", "is_at_log", "is_at_block"),
    [
        ("Log", True, False),
        ("net/log", True, False),
        ("net/log:0", True, False),
        ("net/.*", True, False),
        ("^log", False, False),
        ("log$", True, False),
        ("While", False, True),
        ("while/body/add", False, True),
        ("body", False, True),
        ("Lo", False, False),
    ],
)
def test_a_step_is_met_by_type_name_and_regex(text, is_at_log, is_at_block):
    points = Breakpoints()
    made = points.add(text)
    assert [made.is_at(step) for step in (LOG, BLOCK)] == [is_at_log, is_at_block]
    assert points.at(LOG) is (made if is_at_log else None)


def test_breakpoints_are_numbered_described_and_deleted():
    points = Breakpoints()
    assert (len(points), points.has_filters) == (0, False)
    first, second = points.add("Log"), points.add(filter_name="bad", predicate=has_inf_or_nan)
    third = points.add("", "bad", has_inf_or_nan, re.compile("^x"))
    assert [each.number for each in points] == [1, 2, 3]
    assert [each.describe() for each in points] == ["Log", "-f bad", "-f bad -fenn ^x"]
    assert points.has_filters and (second.text, second.is_at(LOG)) == ("", False)
    with pytest.raises(UserError, match="There is no breakpoint 7") as caught:
        points.delete(7)
    assert caught.value.hint == "There are 1, 2, 3."
    assert points.delete(2) == 1 and [*points] == [first, third]
    assert points.delete() == 2 and len(points) == 0
    with pytest.raises(UserError) as caught:
        points.delete(1)
    assert caught.value.hint == ""
    assert points.add("Neg").number == 4
    with pytest.raises(UserError, match="is not a regular expression"):
        points.add("(")


def dump_of(**values):
    dump = MemoryDump()
    for name, value in values.items():
        dump.add(name, 0, np.array(value, np.float32), timestamp=1)
    return dump


def test_a_tensor_that_passes_a_filter_stops_whoever_reads_it_once():
    points = Breakpoints()
    excluded = points.add("", "bad", has_inf_or_nan, re.compile("y"))
    dump = dump_of(x=np.nan, y=np.inf, z=1.0)
    points.look(dump.data(), lambda: pytest.fail("nobody wants the dump"))
    assert points.caught(LOG) == (excluded, "x:0")
    assert points.caught(LOG) is None
    both = points.add("", "all", has_inf_or_nan)
    points.look(dump.data(), lambda: dump)
    assert points.caught(LOG) == (both, "x:0")
    assert points.caught(LOG) == (both, "y:0")
    assert points.caught(LOG) is None
    points.look(dump.data(), lambda: dump)
    points.forget()
    assert points.caught(LOG) is None
    points.look(dump.data(), lambda: dump)
    points.delete(both.number)
    assert points.caught(LOG) is None and len(points) == 1


def test_a_filter_that_wants_the_dump_gets_it():
    made, seen = [], []

    def whole(datum, value, dump):
        seen.append((datum.tensor_name, float(value), dump))
        return datum.node_name == "y"

    dump = dump_of(x=1.0, y=2.0)

    def make():
        made.append(1)
        return dump

    points = Breakpoints()
    point = points.add("", "mine", whole)
    points.look(dump.data(), make)
    assert points.caught(LOG) == (point, "y:0")
    assert seen == [("x:0", 1.0, dump), ("y:0", 2.0, dump)] and len(made) == 2
    # Of a filter that only bad tensors pass nobody makes the dump for others.
    points = Breakpoints()
    points.add("", "origin_of_nonfinite", origin_of_nonfinite)
    points.look(dump.data(), lambda: pytest.fail("nothing is bad"))
    assert points.caught(LOG) is None
    # A tensor that isn't in the dump passes no filter of it.
    points = Breakpoints()
    points.add("", "mine", whole)
    points.look(dump.data(), MemoryDump)
    assert points.caught(LOG) is None
    points.look([], lambda: pytest.fail("there is nothing to look at"))


def test_what_filters_raise_is_told_once():
    points = Breakpoints()

    def raises(datum, value):
        if datum.node_name != "z":
            raise ValueError(f"no {datum.node_name}")
        return True

    points.add("", "odd", raises)
    points.add("Log")
    point = points.add("", "bad", has_inf_or_nan)
    dump = dump_of(x=np.nan, y=1.0, z=1.0)
    points.look(dump.data(), lambda: dump)
    assert points.take_failures() == [
        'The filter "odd" raised at x:0: ValueError: no x (and 1 more tensors); the run goes on.'
    ]
    assert points.caught(LOG) == (point, "x:0")
    points.look(dump.data(), lambda: dump)
    assert points.take_failures() == []
    points = Breakpoints()
    points.add("", "odd", raises)
    points.look(dump_of(y=1.0).data(), lambda: dump)
    (line,) = points.take_failures()
    assert line == 'The filter "odd" raised at y:0: ValueError: no y; the run goes on.'


def test_calls_of_modules_are_named_by_path_and_number():
    assert [numbered(path) for path in ("fc-1", "a/fc-12", "fc", "fc-x", "-1")] == [
        ("fc", 1),
        ("a/fc", 12),
        None,
        None,
        None,
    ]
    assert paths_of("fc/") == {"fc"} and paths_of("a/fc-1/") == {"a/fc-1", "a/fc"}
    spots = [Spot(None, "fc", 0, INPUT), Spot(None, "", 2, OUTPUT)]
    assert [spot.label for spot in spots] == [
        "the input of fc",
        "the output of the model, call 2",
    ]
