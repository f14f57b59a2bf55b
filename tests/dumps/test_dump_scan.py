"""Listing a dump folder of many files: the same as file by file, and nothing done for each."""

import gc
import os
from collections import Counter

import pytest
from directory_kit import CPU0, CPU1
from dump_samples import START

from tfdbg_cli.common.interpreter.garbage import collector_paused
from tfdbg_cli.dumps.tfdbg_dir.names import decode_node_name, parse_dump_name

ODD = (
    "a_00_D_7",
    "a_0_D_7-2",
    "a_0_D_7-10",
    "a_0_D_1_0_D_3",
    "a%41_0_D_7",
    "aA_0_D_8",
    "ä_0_D_5",
    "a_0_D_٣",
    "a_0_D_²",
    "a_ 0_D_5",
    "_0_D_5",
    "a__D_5",
    "a_0__5",
    "a_0_D_",
    "0_D_5",
    "a_0_D_5\n",
    "a_0_D_+5",
    ".a_0_D_5",
    ".hidden",
    "x_123_D_5",
)
PLAIN = ("a_0_D_9", "a_0_D_10", "a_0_D_2", "a_1_D_1", "b_0_D_9", "b_0_E_9", "a_0_D_1")


def file_by_file(root):
    """What a dump holds, found out slowly; and the names that are of no dump."""
    found, foreign = [], set()
    for device in (CPU0, CPU1):
        top = root / f"_tfdbg_device_{device.replace('/', ',').replace(':', '_')}"
        for folder, _, names in os.walk(top):
            scope = "".join(f"{part}/" for part in os.path.relpath(folder, top).split("/"))
            for base in names:
                name = parse_dump_name(base)
                if name is None:
                    foreign.add(base)
                    continue
                node = decode_node_name(scope.removeprefix("./") + name.node_base)
                key = (node, name.output_slot, name.debug_op, device)
                found.append((name.timestamp, name.suffix, *key))
    found.sort()
    counts = Counter()
    listed = []
    for time, _, *key in found:
        listed.append((time, *key, counts[tuple(key)]))
        counts[tuple(key)] += 1
    return listed, {base for base in foreign if not base.startswith(".")}


@pytest.mark.parametrize("names", [PLAIN, ODD, PLAIN + ODD], ids=["plain", "odd", "both"])
def test_a_listing_is_the_same_as_file_by_file(maker, names):
    for device in (CPU0, CPU1):
        for scope in ("", "scope/", "scope/inner/", "%41/", "A/"):
            folder = maker.tensor(f"{scope}good", time=START, device=device).parent
            for base in names:
                (folder / base).write_bytes(b"x")
    dump = maker.open()
    listed, foreign = file_by_file(maker.root)
    data = [
        (d.timestamp, d.node_name, d.output_slot, d.debug_op, d.device_name, d.execution)
        for d in dump.data()
    ]
    # Equal times of several files: the order of names is the order of the files' own time.
    assert sorted(data) == sorted(listed)
    assert [each[0] for each in data] == [each[0] for each in listed]
    text = "\n".join(dump.warnings)
    assert all(f"{base} is not a dump file" in text for base in foreign) or "more problems" in text


def test_what_is_empty_is_found_when_warnings_are_looked_at(maker):
    path = maker.tensor("x", 1.0)
    content = path.read_bytes()
    path.write_bytes(b"")
    dump = maker.open()
    assert len(dump.data()) == 1
    assert any("The file is empty" in line for line in dump.warnings)
    later = maker.open()
    path.write_bytes(content)
    assert later.warnings == []


def test_many_dumps_are_listed_without_going_through_all_objects(maker):
    folder = maker.tensor("x").parent
    for number in range(20_000):
        (folder / f"n{number}_0_D_{START + number}").touch()
    kept = [[] for _ in range(1000)]
    passes = []

    def count(phase, info):
        passes.append(info["generation"]) if phase == "start" else None

    gc.collect()
    gc.callbacks.append(count)
    try:
        dump = maker.open()
    finally:
        gc.callbacks.remove(count)
    assert dump.size == 20_001 and kept
    assert passes.count(2) <= 1 and len(passes) <= 5


def test_the_collector_is_as_it_was_after_a_pause():
    assert gc.isenabled()
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            pass
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with collector_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
