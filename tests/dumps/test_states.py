"""Which run has written a parameter, as kept runs tell it."""

import json

import numpy as np

from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.dumps.run_folder.json_fields import sealed
from tfdbg_cli.dumps.run_folder.states import States, Writers
from tfdbg_cli.dumps.run_folder.writer import write_run_folder
from tfdbg_cli.dumps.run_info import RunInfo


def run(number, **values):
    graph = Graph([Node("step", "Add"), *(Node(name, "Variable") for name in "wb")])
    dump = MemoryDump(graph, run_info=RunInfo(call_count=number, engine="numpy"))
    for at, (name, value) in enumerate(values.items()):
        dump.add(name, 0, np.float32(value), timestamp=at)
    return dump


def test_kept_runs_say_which_run_has_written_a_parameter(tmp_path):
    states = States()

    def written(number, **values):
        path = tmp_path / f"run_{number}"
        write_run_folder(run(number, **values), path, states=states)
        return open_dump(path).run_info().written

    assert written(1, w=[1, 2], step=1) == {"w:0": (0, 0)}
    assert written(2, w=[1, 2], b=3, step=2) == {"w:0": (0, 0), "b:0": (0, 1)}
    assert written(3, w=[1, 5], b=3) == {"w:0": (2, 2), "b:0": (0, 1)}
    assert written(7, w=[1, 6], step=2) == {"w:0": (3, 6)}
    assert written(8, w=[1, 6], b=np.nan) == {"w:0": (3, 6), "b:0": (3, 7)}


def test_a_run_that_is_written_again_says_the_same():
    states = States()
    states.seen(1, {"w:0": b"a"})
    assert states.seen(2, {"w:0": b"b"}) == states.seen(2, {"w:0": b"b"}) == {"w:0": (1, 1)}
    assert states.seen(2, {"w:0": b"c"}) == {"w:0": (1, 1)}


def test_runs_are_told_in_words():
    texts = [str(Writers(*runs)) for runs in ((0, 0), (0, 4), (3, 3), (3, 6))]
    assert texts == ["before run 1", "before run 5", "by run 3", "by one of the runs 3 to 6"]


def test_folders_that_say_nothing_or_nonsense_open(tmp_path):
    write_run_folder(run(1, w=1), tmp_path / "run")
    assert open_dump(tmp_path / "run").run_info().written == {}
    path = tmp_path / "run" / "run.json"
    document = json.loads(path.read_text())
    document.pop("crc32")
    document["run"]["written"] = {"w:0": [1, 2], "b:0": [1, -2], "c:0": 3, "d:0": [1, 2, 3]}
    path.write_bytes(sealed(json.dumps(document)))
    dump = open_dump(tmp_path / "run")
    assert dump.run_info().written == {"w:0": (1, 2)}
    assert any("written" in text for text in dump.warnings)
