"""The inside of `shard_map`, on four devices."""

import json
import os
import subprocess
import sys
from pathlib import Path

import jax
import pytest

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def seen():
    """What was seen of each function of the program, and what it has printed."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(HERE.parents[2]),
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "JAX_PLATFORMS": "cpu",
    }
    command = [sys.executable, str(HERE / "shards_program.py")]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    *printed, found = done.stdout.splitlines()
    return json.loads(found), printed


def test_each_op_shows_with_the_values_of_all_shards(seen):
    found, printed = seen
    tensors = found["collectives"]["tensors"]
    assert "shard_map/log:0 [2, 2, 2, 2]" in tensors
    (summed,) = [each for each in tensors if each.startswith("shard_map/psum")]
    # Where JAX knows that it is the same along an axis, it shows once.
    is_known = jax.__version_info__ >= (0, 6)
    assert summed.endswith("[1, 2, 2, 2]" if is_known else "[2, 2, 2, 2]")
    assert [each for each in tensors if "scan/mul:0" in each] == [
        f"shard_map/scan/mul:0 {[1 if is_known else 2, 2, 2]}"
    ] * 2
    assert tensors[-2:] == ["shard_map:0 [4]", "shard_map:1 [2, 4]"]
    note = found["collectives"]["notes"]["shard_map/log:0"]
    assert note == "by shard: the first 2 of its indices are a, b; nan or infinite in [1, 0]"
    assert len(printed) == 4 * 4  # two calls, each plainly and for its gradient


@pytest.mark.parametrize("name", ["unchecked", "same_way", "keys", "one_device", "training"])
def test_nothing_is_done_as_a_whole(seen, name):
    found, _ = seen
    assert found[name]["details"] == ["everything"]
    assert any("shard_map/" in each for each in found[name]["tensors"])


def test_a_loop_in_which_devices_go_different_ways_is_one_op(seen):
    found, _ = seen
    assert found["diverging"]["details"] == [
        "shard_map/while was done as one op: its devices go different ways",
        "shard_map/cond was done as one op: its devices go different ways",
        "everything",
    ]
    assert "shard_map/while:0 [2, 2, 2, 2]" in found["diverging"]["tensors"]


def test_the_backward_pass(seen):
    found, _ = seen
    assert any(each.startswith("gradients/shard_map/") for each in found["training"]["tensors"])


def test_what_calls_back_is_not_done_twice(seen):
    found, _ = seen
    assert found["calling_back"]["tensors"][-1] == "shard_map/sin:0 [2, 2, 2, 2]"
    assert (
        "is called by several devices: it is not done twice" in found["calling_back"]["details"][0]
    )


@pytest.mark.skipif(jax.__version_info__ < (0, 6), reason="shard_map takes no axis_names")
def test_only_one_axis_of_the_mesh_is_split_along(seen):
    found, _ = seen
    assert "shard_map/exp:0 [2, 2, 4]" in found["one_axis"]["tensors"]


@pytest.mark.parametrize("results", ["own", "twin"])
def test_the_level_of_ops_looks_inside(seen, results):
    tensor, note, details = seen[0][f"results {results}"]
    assert tensor == "shard_map/scan/log:0"
    assert note.endswith("nan or infinite in [1, 0]")
    assert details["Level"] == "ops (setting level ops)"
    assert ("Results" in details) == (results == "twin")
