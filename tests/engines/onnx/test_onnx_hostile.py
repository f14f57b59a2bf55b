"""Models and inputs that come from anybody: one line, no control characters, no other files."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

import onnx
from onnx import TensorProto, helper, numpy_helper

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.kit.stacks import Stack
from tfdbg_cli.engines.onnx import serving
from tfdbg_cli.engines.onnx.graph import nodes_of
from tfdbg_cli.engines.onnx.model import read_model

ACTS = "\x1b[2J\u202e"


def value(name):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])


def saved(path, nodes, given="x", made="y"):
    graph = helper.make_graph(nodes, "g", [value(given)], [value(made)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)
    return model


def served(path, inputs=""):
    return serving.main([str(path), str(inputs), "0"])


def test_names_of_a_model_reach_no_terminal(tmp_path, capsys):
    given, made = f"x{ACTS}", f"y{ACTS}"
    saved(tmp_path / "m.onnx", [helper.make_node("Abs", [given], [made])], given, made)
    assert served(tmp_path / "m.onnx") == 0
    out, err = capsys.readouterr()
    assert "y\\x1b[2J\\u202e: float32 [2], all finite" in out
    assert (out + err).replace("\n", "").isprintable()


@pytest.mark.parametrize("op", ["(", "(a+)+$", "[", ACTS])
def test_an_op_that_is_no_word_is_refused_in_a_line(tmp_path, capsys, op):
    saved(tmp_path / "m.onnx", [helper.make_node(op, ["x"], ["y"])])
    assert served(tmp_path / "m.onnx") == 2
    err = capsys.readouterr().err
    assert err.startswith("tfdbg: ") and err.count("\n") == 1 and err[:-1].isprintable()


def test_places_of_a_model_may_say_anything(tmp_path):
    node = helper.make_node("Abs", ["x"], ["y"], name="n")
    for place in (
        f'File "{__file__}", line {"9" * 5000}, in f',
        f'File "/etc/passwd{ACTS}", line 1, in f',
    ):
        node.metadata_props.add(key="pkg.torch.onnx.stack_trace", value=place)
    content = saved(tmp_path / "m.onnx", [node]).SerializeToString()
    nodes = {each.name: each for each in nodes_of(read_model(content), Stack(()))}
    assert not nodes["n"].frames


@pytest.mark.parametrize("location", ["../secret", "secret", "/etc/hostname"])
def test_values_of_attributes_are_not_read_from_files(tmp_path, monkeypatch, location):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_bytes(b"read!!!!")
    tensor = numpy_helper.from_array(np.float32([1, 2]), "w")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=location)
    nodes = [helper.make_node("Constant", [], ["y"], value=tensor, name="n")]
    content = saved(tmp_path / "m.onnx", nodes).SerializeToString()
    found = {each.name: each for each in nodes_of(read_model(content), Stack(()))}
    assert found["n"].attributes["value"] == "float32 [2]"


def damaged():
    head = b"\x93NUMPY\x01\x00\x76\x00"
    yield b""
    yield b"PK\x03\x04garbage"
    yield head + b"(" * 118
    large = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }"
    yield head + large.ljust(117) + b"\n"
    yield head + b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(117) + b"\nx"


@pytest.mark.parametrize("content", [*damaged()], ids=range(5))
def test_damaged_inputs_are_refused_in_a_line(tmp_path, capsys, content):
    saved(tmp_path / "m.onnx", [helper.make_node("Abs", ["x"], ["y"])])
    (tmp_path / "inputs").write_bytes(content)
    assert served(tmp_path / "m.onnx", tmp_path / "inputs") == 2
    err = capsys.readouterr().err
    assert err.startswith("tfdbg: ") and f"{tmp_path / 'inputs'} can't be read: " in err
    assert err.count("\n") == 1


def test_archives_that_are_damaged_anywhere(tmp_path, capsys):
    """Each byte of an archive of inputs changed: read as it was, or refused in a line."""
    saved(tmp_path / "m.onnx", [helper.make_node("Abs", ["x"], ["y"])])
    np.savez(tmp_path / "whole.npz", x=np.float32([1, 2]))
    content = (tmp_path / "whole.npz").read_bytes()
    session = serving._session(str(tmp_path / "m.onnx"))
    path = tmp_path / "damaged.npz"
    for at in range(len(content)):
        path.write_bytes(content[:at] + bytes([content[at] ^ 0xFF]) + content[at + 1 :])
        try:
            found = serving._loaded(str(path), session)
        except UserError:
            continue
        assert {name: array.tolist() for name, array in found.items()} in ({}, {"x": [1, 2]})
