import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdbg_cli.dumps.elements import (
    node_name_of,
    parse_tensor_name,
    parse_watch_key,
    slot_of,
    split_tensor_name,
    tensor_name_of,
)
from tfdbg_cli.dumps.tfdbg_dir.names import (
    decode_node_name,
    device_name_to_device_path,
    device_path_to_device_name,
    encode_node_name,
    file_node_name,
    parse_dump_name,
    parse_feed_node_name,
)


@pytest.mark.parametrize(
    "device",
    [
        "/job:localhost/replica:0/task:0/device:CPU:0",
        "/job:localhost/replica:0/task:0/device:XLA_CPU:0",
        "/job:my_worker_1/replica:0/task:12/device:GPU:3",
        "/job:ps/replica:0/task:3/cpu:0",
        "/gpu:1",
        "cuda:0",
        "",
    ],
)
def test_a_device_name_survives_the_way_to_its_folder_and_back(device):
    folder = device_name_to_device_path(device)
    assert folder.startswith("_tfdbg_device_")
    assert "/" not in folder
    assert device_path_to_device_name("/some/where/" + folder) == device


def test_the_folder_of_a_device_is_the_original_s():
    device = "/job:localhost/replica:0/task:0/device:CPU:0"
    folder = "_tfdbg_device_,job_localhost,replica_0,task_0,device_CPU_0"
    assert device_name_to_device_path(device) == folder


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("a_0_DebugIdentity_1795188947307651", ("a", 0, "DebugIdentity", 1795188947307651, 0)),
        ("a_b_1_2_DebugNanCount_5-10", ("a_b_1", 2, "DebugNanCount", 5, 10)),
        ("_arg_x_0_0_0_DebugIdentity_7", ("_arg_x_0_0", 0, "DebugIdentity", 7, 0)),
    ],
)
def test_a_dump_name_is_read_from_its_end(name, parts):
    assert parse_dump_name(name) == parts


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a",
        "a_0_DebugIdentity",
        "_0_DebugIdentity_5",
        "a_x_Op_5",
        "a_0_Op_5-",
        "a_0__5",
        "a_0_Op_x",
    ],
)
def test_other_names_are_no_dumps(name):
    assert parse_dump_name(name) is None


def test_a_feed_node_names_its_tensor():
    assert parse_feed_node_name("_arg_input/x-input_0_3") == ("input/x-input", 0)
    assert parse_feed_node_name("_arg_split_1_12") == ("split", 1)
    assert parse_feed_node_name("x") is None


@given(st.text(min_size=1, max_size=30))
def test_any_name_can_be_encoded_for_a_graph(name):
    encoded = encode_node_name(name)
    assert ":" not in encoded and "^" not in encoded
    # A run of slashes is one: TensorFlow files such names likewise.
    if "//" not in name:
        assert decode_node_name(encoded) == name


@given(st.text(min_size=1, max_size=400))
def test_any_name_becomes_a_path_below_the_folder(name):
    pieces = file_node_name(name).split("/")
    assert all(piece not in ("", ".", "..") for piece in pieces)
    assert all(len(piece.encode()) <= 200 for piece in pieces)


def test_long_names_stay_different():
    assert file_node_name("a" * 500 + "1") != file_node_name("a" * 500 + "2")
    assert len(file_node_name("a" * 500)) < 100
    assert file_node_name("///") == file_node_name("/") == "_"


@pytest.mark.parametrize(
    ("name", "node", "slot"),
    [
        ("a/b:0", "a/b", 0),
        ("a/b:12", "a/b", 12),
        ("a/b", "a/b", None),
        ("call:out:1", "call:out", 1),
        ("a:b", "a:b", None),
        (":0", ":0", None),
        ("a:\N{SUPERSCRIPT TWO}", "a:\N{SUPERSCRIPT TWO}", None),
        ("", "", None),
    ],
)
def test_the_name_of_a_tensor_is_its_node_and_its_slot(name, node, slot):
    assert parse_tensor_name(name) == (node, slot)
    assert split_tensor_name(name) == (node, slot or 0)
    assert (node_name_of(name), slot_of(name)) == (node, slot or 0)
    assert node_name_of(f"^{name}") == node
    assert tensor_name_of(name) == (f"{name}:0" if slot is None else name)
    assert parse_watch_key(f"{name}:DebugNanCount") == (node, slot, "DebugNanCount")


@pytest.mark.parametrize(
    ("folder", "device"),
    [
        ("_tfdbg_device_,job_x,replica_0,task_0,device_GPU", "/job:x/replica:0/task:0/device:GPU"),
        ("_tfdbg_device_device_CPU_0", "device:CPU:0"),
        ("_tfdbg_device_,a_b_c", "/a:b_c"),
        ("_tfdbg_device_,job_a,device_XLA_GPU", "/job:a/device:XLA:GPU"),
    ],
)
def test_in_other_device_names_the_first_underscore_is_the_colon(folder, device):
    assert device_path_to_device_name(f"/there/{folder}") == device


def test_slashes_that_are_one_too_many_are_left_out():
    assert encode_node_name("a//b///c/d") == "a/b/c/d"


def test_half_of_a_character_in_a_name_is_no_trouble():
    names = [file_node_name(name) for name in ("a\udcff", "a\ud800/b", "a\udcff" * 200)]
    assert len(set(names)) == 3
    assert all(os.fsencode(name) for name in names)
