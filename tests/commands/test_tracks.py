"""Numbers over runs: what is followed, listed, drawn, saved."""

from __future__ import annotations

import csv
import math
import struct
import sys
import types
import xml.etree.ElementTree as xml

import numpy as np
import pytest
from command_kit import Shell

from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump, write_run_folder
from tfdbg_cli.dumps.series.points import CAPACITY, Series
from tfdbg_cli.dumps.series.tracks import Mark, Tracks


def tracks_of(**series):
    found = Tracks([Series(name) for name in series])
    for name, values in series.items():
        for run, value in enumerate(values, 1):
            found[name].add(run, value, 100.0 + run)
    return found


def offline(tracks):
    return Shell(MemoryDump(), "offline", info=RunInfo(1, tracks=tracks))


def text(shell, command, width=80):
    reply = shell.service.run(command, width)
    assert reply.message is None, reply.message
    return reply.document.text


def test_only_the_last_numbers_are_kept_in_their_order():
    series = Series("loss")
    for run in range(1, CAPACITY + 6):
        series.add(run, run / 2)
    points = series.points()
    assert (series.count, len(series)) == (CAPACITY + 5, CAPACITY)
    assert points.runs.tolist() == [*range(6, CAPACITY + 6)]
    assert (points.values == points.runs / 2).all()


def test_numbers_that_are_elsewhere_are_read_when_somebody_looks(tmp_path):
    tracks, asked = Tracks(), []

    def read():
        asked.append(1)
        tracks.note("loss", 7, 1.5)

    tracks.sources.append(read)
    assert not asked
    assert "1.5 at run 7" in text(offline(tracks), "track")
    assert asked == [1]
    write_run_folder(MemoryDump(run_info=RunInfo(8, tracks=tracks)), tmp_path / "run")
    assert asked == [1, 1]


def test_the_list_has_a_sparkline_and_the_last_number_of_each():
    told = text(offline(tracks_of(loss=[3.0, 2.0, 1.0, math.nan], rate=[0.1])), "track")
    assert "loss  █▅▁×" in told
    assert "nan at run 4" in told
    assert "0.1 at run 1" in told


def test_a_curve_has_axes_numbers_and_marks():
    tracks = tracks_of(loss=[*np.linspace(4, 1, 50), math.inf, math.nan])
    tracks.marks = [Mark(20, False), Mark(52, True)]
    lines = text(offline(tracks), "plot loss").split("\n")
    assert "nan at run 52, lowest 1 at 50, highest 4 at 1, 2 bad" in lines[0]
    assert lines[1].rstrip().endswith("∞×")
    assert lines[2].startswith("      4 ┤")
    assert lines[-3].startswith("      1 ┤")
    assert "▲" in lines[-2]
    assert lines[-2].endswith("×")
    assert lines[-1].split() == ["1", "26", "52"]
    assert all(len(line) <= 80 for line in lines)


@pytest.mark.parametrize("width", [30, 50, 80, 160])
def test_a_curve_fits_the_window(width):
    document = offline(tracks_of(loss=np.sin(np.arange(500)))).service.run("plot", 80).document
    lines = document.resized(width).text.split("\n")
    assert {len(line) for line in lines[1:-2]} == {width}


def test_a_peak_of_one_run_among_thousands_is_drawn():
    values = np.zeros(9000)
    values[4567] = 8.0
    lines = text(offline(tracks_of(loss=values)), "plot").split("\n")
    first = lines[1].partition("┤")[2]
    drawn = [at for at, mark in enumerate(first) if mark != "\u2800"]
    assert len(drawn) == 1
    assert abs(drawn[0] / len(first) - 4567 / 9000) < 0.02


def test_the_cursor_tells_run_and_number():
    document = offline(tracks_of(loss=[4.0, 2.5, math.nan], rate=[1.0, 2.0])).service.run("plot")
    document = document.document
    rows = [n for n in range(document.line_count) if document.cells(n)]
    cells = document.cells(rows[0])
    assert document.element(cells[0].indices).lines(0, 1)[0].text == "loss at run 1 = 4.0"
    assert document.element(cells[-1].indices).lines(0, 1)[0].text == "loss at run 3 = nan"
    last = document.cells(rows[-1])
    assert document.element(last[0].indices).lines(0, 1)[0].text == "rate at run 1 = 1.0"


def test_many_runs_of_a_column_are_listed_and_can_be_zoomed_into():
    document = offline(tracks_of(loss=np.arange(1000.0))).service.run("plot").document
    found = document.element(document.cells(3)[10].indices)
    assert "stands out among runs" in found.text
    zoom = next(span.link for line in found for span in line.spans if span.link)
    shell = offline(tracks_of(loss=np.arange(1000.0)))
    assert shell.service.run(zoom.command).document.title.startswith("loss: runs ")


def test_stretches_of_runs():
    shell = offline(tracks_of(loss=np.arange(100.0)))
    for runs, shown in (("20:30", "20 to 30"), ("=-10:", "91 to 100"), (":5", "1 to 5")):
        option = f"-r{runs}" if runs.startswith("=") else f"-r {runs}"
        assert shell.service.run(f"plot {option}").document.title == f"loss: runs {shown}"
    menu = {item.caption: item for item in shell.service.run("plot -r 20:30").document.menu}
    assert menu["zoom out"].command == "plot -r 15:35"
    assert menu["earlier"].command == "plot -r 15:25"
    assert menu["later"].enabled
    for wrong in ("x", "1", "30:20", "5000:6000"):
        assert shell.service.run(f"plot -r {wrong}").failed


def test_logarithmic_curves_leave_out_what_has_no_logarithm():
    shell = offline(tracks_of(loss=[1e6, 0.0, 1.0, 1e-6], flat=[0.0, -1.0]))
    assert "(logarithmic)" in text(shell, "plot loss --log")
    assert "(logarithmic)" not in text(shell, "plot flat --log")


@pytest.mark.parametrize(
    "values",
    [[5.0], [math.nan], [math.inf, -math.inf], [1.7e308, -1.7e308], [0.0, 0.0], [5e-324, 0.0]],
)
def test_strange_numbers_are_drawn(values, tmp_path):
    shell = offline(tracks_of(odd=values))
    assert "odd" in text(shell, "plot")
    assert "odd" in text(shell, "plot --log")
    assert not shell.service.run(f"plot --save {tmp_path}/a.svg").failed
    xml.parse(tmp_path / "a.svg")


def test_nothing_is_followed():
    shell = offline(None)
    assert "No number is followed yet." in text(shell, "track")
    reply = shell.service.run("plot")
    assert reply.failed
    assert "track EXPRESSION" in reply.message.text
    assert (
        '"lost" is not followed'
        in offline(tracks_of(loss=[1])).service.run("plot lost").message.text
    )


def test_tables_and_pictures_are_saved(tmp_path):
    tracks = tracks_of(**{"loss": [2.0, math.nan, 0.5], "a<b&c": [1.0]})
    tracks.marks = [Mark(2, True)]
    shell = offline(tracks)
    assert "saved" in shell.service.run(f"plot --save {tmp_path}/all.csv").message.text
    rows = list(csv.reader((tmp_path / "all.csv").read_text().splitlines()))
    assert rows[0] == ["name", "run", "time", "value"]
    assert [row[0::3] for row in rows[1:]] == [
        ["loss", "2.0"],
        ["loss", "nan"],
        ["loss", "0.5"],
        ["a<b&c", "1.0"],
    ]
    shell.service.run(f"plot --save {tmp_path}/all.svg")
    texts = ["".join(each.itertext()) for each in xml.parse(tmp_path / "all.svg").iter()]
    assert any("a<b&c" in each for each in texts)
    assert shell.service.run(f"plot --save {tmp_path}/all.jpg").failed
    assert shell.service.run(f"plot --save {tmp_path}/none/all.svg").failed


def test_a_png_takes_matplotlib(tmp_path):
    reply = offline(tracks_of(loss=[1.0, 2.0])).service.run(f"plot --save {tmp_path}/a.png")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        assert reply.failed
        assert 'pip install "tfdbg_cli[plot]"' in reply.message.text
        assert not (tmp_path / "a.png").exists()
    else:
        assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")


def masked(data):
    """The checksum of TensorFlow's records, bit by bit: CRC-32C, turned and moved."""
    found = 0xFFFFFFFF
    for byte in data:
        found ^= byte
        for _ in range(8):
            found = (found >> 1) ^ (0x82F63B78 if found & 1 else 0)
    found ^= 0xFFFFFFFF
    return ((found >> 15 | found << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_scalars_for_tensorboard_are_records_with_checksums(tmp_path):
    tracks = tracks_of(loss=[2.0, math.nan, 1e300, -1e300])
    for _ in range(2):  # none is in the way of another
        reply = offline(tracks).service.run(f"plot --tensorboard {tmp_path}/logs")
        assert "1 scalar(s) written" in reply.message.text
        assert f"{tmp_path}/logs/events.out.tfevents." in reply.message.text
    files = sorted((tmp_path / "logs").iterdir())
    assert len(files) == 2
    for file in files:
        assert file.name.startswith("events.out.tfevents.")
        data, numbers = file.read_bytes(), []
        assert b"\x1a\x0dbrain.Event:2" in data[:40]  # the version, with its length
        while data:
            (size,) = struct.unpack_from("<Q", data)
            record, behind = data[12 : 12 + size], data[12 + size : 16 + size]
            assert data[8:12] == struct.pack("<I", masked(data[:8]))
            assert behind == struct.pack("<I", masked(record))
            numbers.append(struct.unpack("<f", record[-4:])[0])
            if len(numbers) == 2:
                value = b"\x0a\x0b\x0a\x04loss\x15" + struct.pack("<f", 2.0)
                step = b"\x09" + struct.pack("<d", 101.0) + b"\x10\x01"
                assert record == step + b"\x2a\x0d" + value
            data = data[16 + size :]
        assert repr(numbers[1:]) == "[2.0, nan, inf, -inf]"


@pytest.mark.tensorflow
def test_tensorflow_reads_these_scalars(tmp_path):
    tf = pytest.importorskip("tensorflow")
    tracks = tracks_of(**{"loss": [2.0, math.inf, 1e300, 0.25], "norm/fc1": [3.0]})
    offline(tracks).service.run(f"plot --tensorboard {tmp_path}")
    (file,) = tmp_path.iterdir()
    events = list(tf.compat.v1.train.summary_iterator(str(file)))
    assert events[0].file_version == "brain.Event:2"
    found = [
        (value.tag, event.step, event.wall_time, value.simple_value)
        for event in events[1:]
        for value in event.summary.value
    ]
    assert found == [
        ("loss", 1, 101.0, 2.0),
        ("loss", 2, 102.0, math.inf),
        ("loss", 3, 103.0, math.inf),
        ("loss", 4, 104.0, 0.25),
        ("norm/fc1", 1, 101.0, 3.0),
    ]


def test_run_folders_keep_the_numbers(tmp_path):
    tracks = tracks_of(loss=[2.0, math.nan, -math.inf, 0.1])
    tracks.follow("top", "`x:0`.max()").add(5, math.inf, 7.0)
    tracks.marks = [Mark(3, True)]
    write_run_folder(MemoryDump(run_info=RunInfo(4, tracks=tracks)), tmp_path / "run")
    info = RunFolderDump(tmp_path / "run").run_info()
    points = info.tracks["loss"].points()
    assert points.runs.tolist() == [1, 2, 3, 4]
    assert points.times.tolist() == [101.0, 102.0, 103.0, 104.0]
    assert repr(points.values.tolist()) == "[2.0, nan, -inf, 0.1]"
    top = info.tracks["top"]
    assert (top.expression, *map(list, top.points())) == ("`x:0`.max()", [5], [7.0], [math.inf])
    assert info.tracks.marks == [Mark(3, True)]


def test_of_many_series_the_last_numbers_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("tfdbg_cli.dumps.series.stored._MOST_NUMBERS", 8)
    monkeypatch.setattr("tfdbg_cli.dumps.series.stored._LEAST_NUMBERS", 3)
    tracks = tracks_of(none=[], a=[1.0, 2.0, 3.0, 4.0], b=[5.0], c=[0.0])
    write_run_folder(MemoryDump(run_info=RunInfo(4, tracks=tracks)), tmp_path / "run")
    found = RunFolderDump(tmp_path / "run").run_info().tracks
    kept = {name: [*map(list, found[name].points())] for name in found}
    assert kept["a"] == [[2, 3, 4], [102.0, 103.0, 104.0], [2.0, 3.0, 4.0]]
    assert [*kept] == ["a", "b", "c"] and kept["b"] == [[1], [101.0], [5.0]]


def test_what_an_engine_tells_goes_on_and_stops_are_marked():
    tracks = Tracks()
    for run in (1, 2):
        tracks.note("loss", run, run / 2)
    assert tracks.follow("else").expression == ""
    tracks.follow("mine", "1 + 1")
    tracks.note("mine", 1, 0.0)  # somebody has asked for something else of this name
    assert tracks["loss"].points().runs.tolist() == [1, 2] and not len(tracks["mine"])
    for run in range(1003):
        tracks.mark(run, is_bad=run % 2 == 1)
    assert (len(tracks.marks), tracks.marks[0], tracks.marks[-1]) == (
        1000,
        Mark(3, True),
        Mark(1002, False),
    )


def test_a_short_series_keeps_the_last_ones_too():
    series = Series("loss", capacity=3)
    for run in range(5):
        series.add(run, run / 2, run + 0.5)
    assert [*map(list, series.points())] == [[2, 3, 4], [2.5, 3.5, 4.5], [1.0, 1.5, 2.0]]
    assert (series.count, len(series)) == (5, 3)


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"[]",
        b'{"series": 3, "marks": [[1], [-1, true], 5]}',
        b'{"series": [{"runs": [1], "times": [], "values": [2]}, 7]}',
        b'{"series": [{"name": "a", "runs": [1, "x"], "times": [1, 1], "values": [1, 1]}]}',
        b'{"series": [{"name": "a", "runs": [-5], "times": [1], "values": [1]}]}',
        b'{"series": [{"name": "a", "runs": [5], "times": [1], "values": [1%s]}]}' % (b"0" * 400),
    ],
)
def test_damaged_numbers_are_left_out(damage, tmp_path):
    tracks = tracks_of(loss=[2.0])
    write_run_folder(MemoryDump(run_info=RunInfo(4, tracks=tracks)), tmp_path / "run")
    (tmp_path / "run" / "series.json").write_bytes(damage)
    dump = RunFolderDump(tmp_path / "run")
    shell = Shell(dump, "offline", info=dump.run_info())
    assert shell.service.run("plot").failed
    assert not shell.service.run("track").failed
    assert dump.warnings


def live(tracks=None):
    shell = Shell(None, "run-start", info=RunInfo(1))
    shell.context.tracks = Tracks() if tracks is None else tracks
    return shell


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("track 1+1", "names no tensor"),
        ('track "`a:0`.mean("', "not a Python expression"),
        ("track `a", "A backtick isn't closed"),
        ("track --norms `a`", "takes no expression and no"),
        ("track -d loss", "is not followed"),
        ("track -d a `b`", "takes the name"),
    ],
)
def test_what_cannot_be_followed(command, told):
    reply = live().service.run(command)
    assert reply.failed
    assert told in reply.message.text


@pytest.mark.parametrize("has_torch", [True, False])
def test_norms_before_the_first_run(monkeypatch, has_torch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    if has_torch:
        monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    tracks = Tracks()
    message = live(tracks).service.run("track --norms").message
    assert tracks.has_norms
    assert message.role == ("info" if has_torch else "warning")
    assert ("track --norms needs a finished run" in message.text) == (not has_torch)


def test_what_is_followed_begins_anew_and_ends():
    tracks = Tracks()
    shell = live(tracks)
    assert "plot mean" in shell.service.run("track `a:0`.mean() --as mean").message.text
    assert tracks["mean"].expression == "`a:0`.mean()"
    tracks["mean"].add(1, 5.0)
    shell.service.run("track `a:0`.max() --as mean")
    assert not len(tracks["mean"])
    shell.service.run("track -d mean")
    assert not tracks
    tracks.note("loss", 1, 2.0)
    assert shell.service.run("track `a:0` --as loss").failed
    assert "already" in shell.service.run("track loss").message.text


def test_nothing_can_be_followed_offline():
    assert (
        "There is no running program here"
        in offline(tracks_of(loss=[1])).service.run("track `a`").message.text
    )
