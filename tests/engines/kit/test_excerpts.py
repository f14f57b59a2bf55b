"""Statements of a running function are cut out of its source and run once more."""

from __future__ import annotations

import excerpt_programs as programs
import pytest

from tfdbg_cli.engines.kit.excerpts import Refused


def test_private_names_are_those_of_the_class_also_in_functions_that_are_made_there():
    counter = programs.Counter()
    first, last = counter.turn()
    assert counter.count() == 2
    _, made = programs.again(first, last)
    assert counter.count() == 4
    assert {"last", "add"} <= made.keys()


def test_a_method_finds_its_class():
    lines, found = programs.Loud().count()
    assert lines.startswith("line")
    assert found == [0, "Loud"]


def test_what_was_bound_before_is_given_back_and_the_original_stays():
    (cut, made), total = programs.add()
    assert "total" in cut.variables.carried
    assert (made["total"], total) == (4, 4)


def test_what_must_not_run_twice_is_refused():
    with pytest.raises(Refused, match=r"calls next\(\)"):
        programs.take()
