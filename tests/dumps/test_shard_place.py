"""Parts of distributed tensors: where they are is told in words, and the whole is made of them."""

import itertools

import numpy as np
import pytest

from tfdbg_cli.dumps.shard_place import ShardPlace, is_complete, joined

WHOLE = np.arange(48.0).reshape(8, 6)


def part_of(ways, at, mesh):
    """What a rank has: what is split last in front, as ``_S`` says, comes off first."""
    found = WHOLE
    order = sorted(range(len(ways)), key=lambda axis: (ways[axis].startswith("_"), axis))
    for axis in order:
        if "S(" in ways[axis]:
            dimension = int(ways[axis].partition("(")[2][0])
            found = np.split(found, mesh[axis], dimension)[at[axis]]
    for axis, way in enumerate(ways):
        if way in ("P", "P(sum)"):
            found = found / mesh[axis]
        elif way == "P(avg)":
            found = found + (1.0 if at[axis] else 1.0 - mesh[axis])
        elif way in ("P(max)", "P(min)"):
            found = found - at[axis] if way == "P(max)" else found + at[axis]
    return found


@pytest.mark.parametrize(
    ("ways", "mesh"),
    [
        (("S(0)",), (4,)),
        (("S(1)",), (3,)),
        (("R",), (2,)),
        (("P",), (2,)),
        (("P(sum)",), (4,)),
        (("P(avg)",), (3,)),
        (("P(max)",), (3,)),
        (("P(min)",), (3,)),
        (("S(0)", "S(1)"), (2, 3)),
        (("S(1)", "S(0)"), (2, 2)),
        (("S(0)", "S(0)"), (2, 2)),
        (("_S(0, 2)", "S(0)"), (2, 2)),
        (("R", "S(1)"), (2, 2)),
        (("S(0)", "R", "P(sum)"), (2, 2, 2)),
    ],
)
def test_the_whole_is_made_of_its_parts(ways, mesh):
    places = [*itertools.product(*map(range, mesh))]
    parts = {at: part_of(ways, at, mesh) for at in places}
    known = [ShardPlace(WHOLE.shape, ways, at, mesh) for at in places]
    for place in known:
        assert ShardPlace.read(f"a note, {place.note}.") == place
    assert is_complete(known)
    np.testing.assert_array_equal(joined(parts, known[0]), WHOLE)
    # Of replicas one is enough, of everything else all are needed.
    again = [at for at, way in enumerate(ways) if way == "R"]
    first = [place for place in known if not any(place.at[at] for at in again)]
    assert is_complete(first)
    kept = {place.at: parts[place.at] for place in first}
    np.testing.assert_array_equal(joined(kept, known[0]), WHOLE)
    if len(first) > 1:
        assert not is_complete(first[1:])
        assert not is_complete([*first[:-1], first[0]])


def test_parts_that_do_not_belong_together_are_no_whole():
    one, other = (ShardPlace((4,), ("S(0)",), (at,), (2,)) for at in (0, 1))
    assert is_complete([one, other]) is True
    for places in (
        [],
        [None],
        [one, None],
        [one, other._replace(shape=(5,))],
        [one, other._replace(ways=("R",))],
        [one, other._replace(mesh=(3,))],
        [each._replace(ways=("Q",)) for each in (one, other)],
        [each._replace(ways=("S(x)",)) for each in (one, other)],
    ):
        assert is_complete(places) is False


@pytest.mark.parametrize(
    "note",
    [
        "",
        "this rank's shard of [4], placed S(0), at [0] of a mesh of [2",
        "this rank's shard of [4], placed S(0), S(1), at [0] of a mesh of [2]",
        "this rank's shard of [4], placed S(0), at [0, 1] of a mesh of [2]",
        "this rank's shard of [4], placed S(0), at [0] of a mesh of [2, 2]",
    ],
)
def test_what_tells_no_place(note):
    assert ShardPlace.read(note) is None
