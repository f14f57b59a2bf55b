"""``lt`` lists what TensorFlow's own analyzer lists of the same dump directory."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from stop_kit import stop_over

from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.dumps.tfdbg_dir.names import parse_feed_node_name

PROGRAM = Path(__file__).parents[2] / "dumps" / "tf_program.py"
ROW = re.compile(r"\[(\d+\.\d{3})\] +(\S+) +(\S+) +(\S+:\d+)\Z")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run as TensorFlow's own wrapper dumps it."""
    root = tmp_path_factory.mktemp("tf") / "session"
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run([sys.executable, PROGRAM, root], check=True, capture_output=True, env=env)
    return min(root.iterdir())


@pytest.fixture(scope="module")
def theirs(run, tmp_path_factory):
    """Their rows: ``(ms, op type, tensor)``; feeds under the names that users gave them."""
    analyzer_cli = pytest.importorskip("tensorflow.python.debug.cli.analyzer_cli")
    cli_config = pytest.importorskip("tensorflow.python.debug.cli.cli_config")
    debug_data = pytest.importorskip("tensorflow.python.debug.lib.debug_data")
    config = cli_config.CLIConfig(str(tmp_path_factory.mktemp("config") / "config"))
    analyzer = analyzer_cli.DebugAnalyzer(debug_data.DebugDumpDir(str(run)), config)
    analyzer.add_tensor_filter("has_inf_or_nan", debug_data.has_inf_or_nan)

    def rows(*arguments):
        found = (ROW.match(text) for text in analyzer.list_tensors(list(arguments)).lines)
        return [(match[1], match[3], users_name(match[4])) for match in found if match]

    return rows


@pytest.fixture(scope="module")
def ours(run):
    """Our rows alike, from the list that a user reads."""
    dump = open_dump(run)
    service = stop_over(dump, "offline", title="", title_role="offline", initial_command="lt")

    def rows(command):
        reply = service.run(command, 200)  # room for all columns, however long the names
        assert reply.document is not None, reply.message
        found = []
        for text in (line.text for line in reply.document):
            if text.startswith("["):
                words = re.sub(r" \(#\d+\)\Z", "", text).split()
                found.append((words[0].strip("[]"), words[2], words[-1]))
        return found

    rows.dump, rows.service = dump, service
    return rows


def users_name(tensor):
    fed = parse_feed_node_name(tensor.rpartition(":")[0])
    return tensor if fed is None else f"{fed[0]}:{fed[1]}"


def is_feed(row):
    return row[2] in {"input/x:0", "text:0"}


def test_the_same_tensors_with_their_times_and_op_types(ours, theirs):
    assert len(ours("lt")) > 100
    same = [row for row in ours("lt") if not is_feed(row)]
    assert Counter(same) == Counter(row for row in theirs() if not is_feed(row))
    assert Counter(row[2] for row in ours("lt")) == Counter(row[2] for row in theirs())


@pytest.mark.parametrize("reverse", [False, True], ids=["ascending", "descending"])
@pytest.mark.parametrize("key", ["timestamp", "op_type", "tensor_name"])
def test_the_same_order(ours, theirs, key, reverse):
    at = {"timestamp": 0, "op_type": 1, "tensor_name": 2}[key]
    mine = ours(f"lt -s {key}{' -r' if reverse else ''}")
    other = theirs("-s", key, *(["-r"] if reverse else []))
    # Feeds have other names and op types there. TensorFlow leaves the order of ties open.
    assert [r[at] for r in mine if not is_feed(r)] == [r[at] for r in other if not is_feed(r)]


def test_sorting_by_size_goes_by_the_tensors_and_not_by_their_files(ours):
    sizes = {datum.tensor_name: datum.nbytes for datum in ours.dump.data()}
    found = [sizes[row[2]] for row in ours("lt -s dump_size")]
    assert found == sorted(found) and found[0] < found[-1]


@pytest.mark.parametrize(
    ("flag", "regex"), [("-t", "^Cast"), ("-t", "^(Add|Less)"), ("-n", "^hidden"), ("-n", "^wl/.*")]
)
def test_the_same_filters_where_the_regex_is_anchored(ours, theirs, flag, regex):
    found = ours(f"lt {flag} {regex}")
    assert found
    assert Counter(found) == Counter(theirs(flag, regex))
    anywhere = ours(f"lt {flag} {regex.removeprefix('^')}")
    assert set(found) <= set(anywhere)


def test_a_regex_finds_what_lies_inside_the_name(ours, theirs):
    assert theirs("-n", "Relu") == []
    assert "hidden/Relu:0" in [row[2] for row in ours("lt -n Relu")]


def test_the_same_bad_tensors(ours, theirs):
    found = ours("lt -f has_inf_or_nan")
    assert [row[2] for row in found] == ["log:0"]
    assert found == theirs("-f", "has_inf_or_nan")
    assert ours("lt -f has_inf_or_nan -fenn ^log") == []
    assert theirs("-f", "has_inf_or_nan", "-fenn", "^log") == []


def test_the_statistics_are_those_of_the_values(ours):
    document = ours.service.run("lt --json").document
    records = [json.loads(line.text) for line in document]
    assert len(records) == len(ours.dump.data())
    for record, datum in zip(records, ours.dump.data(), strict=True):
        value = datum.get_tensor()
        assert (record["tensor"], record["error"]) == (datum.tensor_name, None)
        assert record["bytes"] == datum.nbytes
        if not isinstance(value, np.ndarray) or value.dtype == object or not value.size:
            assert record["min"] is record["mean"] is None
            continue
        assert (record["dtype"], record["shape"]) == (datum.dtype, list(value.shape))
        wide = np.abs(value) if value.dtype.kind == "c" else value.astype(np.float64)
        good = wide[np.isfinite(wide)]
        assert record["min"] == pytest.approx(float(good.min()))
        assert record["max"] == pytest.approx(float(good.max()))
        assert record["mean"] == pytest.approx(float(good.mean()))
        if record["health"] is not None:
            assert record["health"]["nan"] == np.isnan(wide).sum()
