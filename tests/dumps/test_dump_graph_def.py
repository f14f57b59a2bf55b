import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.proto import wire
from tfdbg_cli.dumps.proto.attr_values import AttrValue, encode_text, render
from tfdbg_cli.dumps.proto.graph_def import graph_chunks, graph_of, node_def_of, parse_graph_def
from tfdbg_cli.dumps.proto.tensor_proto import put_shape, tensor_chunks
from tfdbg_cli.dumps.tfdbg_dir.reconstruct import reconstruct_non_debug_graph_def


def to_bytes(graph):
    return b"".join(graph_chunks(map(node_def_of, graph.nodes.values())))


def read(data):
    return graph_of(parse_graph_def(data))


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (wire.put_varint(3, -5), "-5"),
        (wire.put_float(4, 0.1), "0.1"),
        (wire.put_float(4, float("nan")), "nan"),
        (wire.put_varint(5, 1), "True"),
        (wire.put_varint(6, 14), "bfloat16"),
        (wire.put_varint(6, 101), "float32_ref"),
        (wire.put_text(2, "SAME"), "SAME"),
        (wire.put_text(2, ""), '""'),
        (wire.put_text(2, "5"), '"5"'),
        (wire.put_text(2, "two\nlines"), '"two\\nlines"'),
        (wire.put_bytes(2, b"\xff"), "b'\\xff'"),
        (wire.put_bytes(7, wire.put_varint(3, 1)), "<unknown>"),
        (wire.put_bytes(1, wire.put_packed_varints(3, [1, 2])), "[1, 2]"),
        (wire.put_bytes(1, wire.put_text(2, "a") + wire.put_text(2, "")), '["a", ""]'),
        (wire.put_bytes(1, wire.put_packed_varints(6, [1, 3])), "[float32, int32]"),
        (wire.put_bytes(10, wire.put_text(1, "body")), "body"),
        (wire.put_bytes(10, b""), ""),
        (wire.put_bytes(10, wire.put_varint(2, 1) + wire.put_text(1, "f")), "f"),
        (wire.put_bytes(1, wire.put_bytes(9, wire.put_text(1, "f"))), "[f]"),
        (wire.put_bytes(1, wire.put_bytes(99, b"?")), "[]"),
        (b"", ""),
        (b"\x0a\x70", "<damaged: Field 1 needs 112 bytes, but only 0 are there.>"),
    ],
)
def test_attributes_are_readable_text(data, text):
    assert render(data) == text


def test_a_small_tensor_is_shown_by_its_value_and_a_large_one_by_its_size():
    small = b"".join(tensor_chunks(np.array([[1, 2]], np.int32)))
    assert render(wire.put_bytes(8, small)) == "int32 (1, 2): [[1, 2]]"
    large = b"".join(map(bytes, tensor_chunks(np.zeros((100, 10)))))
    assert render(wire.put_bytes(8, large)) == "float64 (100, 10), 8000 bytes"


TEXTS = [
    "5",
    "-3",
    "0.1",
    "1e-08",
    "inf",
    "nan",
    "True",
    "float32",
    "qint8",
    "(2, 3)",
    "(?, 2)",
    "(4,)",
    "()",
    "<unknown>",
    "[1, 2]",
    "[1.5, 2.0]",
    "[float32, int64]",
    '["a", "b"]',
    "[]",
    "SAME",
    "a b",
    "05",
    "1e400",
    '"quoted"',
    '"half',
    "[a, b]",
    "function at 0x7f",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_survives_as_an_attribute(text):
    assert render(encode_text(text)) == text


@given(st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1))
def test_any_printable_text_survives_as_an_attribute(text):
    assert render(encode_text(text)) == text


@given(st.binary(max_size=40))
def test_any_bytes_are_rendered(data):
    assert isinstance(render(data), str)


def test_typed_text_becomes_a_typed_attribute():
    assert encode_text("float32") == wire.put_varint(6, 1)
    assert encode_text("7") == wire.put_varint(3, 7)
    assert encode_text("True") == wire.put_varint(5, 1)
    texts = wire.put_text(2, "a") + wire.put_text(2, "b, c")
    assert encode_text('["a", "b, c"]') == wire.put_bytes(1, texts)
    assert encode_text('"7"') == wire.put_text(2, "7")
    types = wire.put_bytes(1, wire.put_packed_varints(6, [1, 3]))
    assert encode_text("[float32, int32]") == types
    assert encode_text("[float32, no]") == wire.put_text(2, "[float32, no]")
    assert encode_text("[]") == wire.put_bytes(1, b"")


def test_what_is_no_utf_8_is_still_a_device():
    data = wire.put_text(1, "a") + wire.put_text(2, "A") + wire.put_bytes(4, b"/cpu\xff")
    (node,) = parse_graph_def(wire.put_bytes(1, data)).node
    assert node.device == "/cpu\ufffd"


def make_graph():
    return Graph(
        [
            Node("a", "Const", attributes={"value": "[1, 2]", "dtype": "float32"}, device="/cpu:0"),
            Node("scope/aten::mm", "mm", ["a:0", "a:1"], ["a"]),
            Node("odd^%41", "Odd", ["scope/aten::mm:3"], ["scope/aten::mm"]),
            Node("none", ""),
        ]
    )


def test_a_graph_round_trips():
    graph = make_graph()
    found = read(to_bytes(graph))
    assert list(found.nodes) == list(graph.nodes)
    for name, node in graph.nodes.items():
        other = found.node(name)
        assert (other.op_type, other.device) == (node.op_type, node.device)
        assert (other.inputs, other.control_inputs) == (node.inputs, node.control_inputs)
        assert dict(other.attributes) == dict(node.attributes)
    assert to_bytes(found) == to_bytes(graph)


class Message:
    """As TensorFlow's."""

    def __init__(self, data):
        self.data = data

    def SerializeToString(self):
        return self.data

    FromString = classmethod(lambda cls, data: cls(data))


def test_what_a_graph_has_besides_is_kept():
    library, version = wire.put_bytes(2, b"functions"), wire.put_varint(3, 21)
    node = wire.put_text(1, "a") + wire.put_text(2, "Const")
    more = wire.put_bytes(6, b"debug info") + wire.put_bytes(7, b"type")
    data = wire.put_bytes(1, node + more) + library + version
    found = parse_graph_def(data)
    assert found.rest == library + version and found.node[0].rest == more
    assert parse_graph_def(found.SerializeToString()) == found
    debugged = wire.put_bytes(1, wire.put_text(1, "__copy_a_0") + wire.put_text(2, "Copy")) + data
    for form in (debugged, bytearray(debugged), memoryview(debugged), parse_graph_def(debugged)):
        assert reconstruct_non_debug_graph_def(form) == found
    message = Message(debugged)
    assert reconstruct_non_debug_graph_def(message).data == found.SerializeToString()


def test_a_graph_cut_anywhere_is_a_dump_error_or_a_part_of_it():
    data = to_bytes(make_graph())
    whole = set(read(data).nodes)
    for end in range(len(data)):
        try:
            assert set(read(data[:end]).nodes) <= whole
        except DumpError:
            pass


@pytest.mark.tensorflow
def test_tensorflow_reads_the_graph():
    graph_pb2 = pytest.importorskip("tensorflow.core.framework.graph_pb2")
    found = graph_pb2.GraphDef.FromString(to_bytes(make_graph()))
    assert [node.name for node in found.node] == ["a", "scope/aten%3A%3Amm", "odd%5E%2541", "none"]
    assert list(found.node[1].input) == ["a", "a:1", "^a"]
    assert found.node[0].attr["dtype"].type == 1
    assert list(found.node[0].attr["value"].list.i) == [1, 2]


@pytest.mark.tensorflow
def test_a_written_graph_can_be_imported_and_run():
    tf = pytest.importorskip("tensorflow")
    with tf.Graph().as_default() as graph:
        a = tf.constant([1.0, 2.0], name="a")
        tf.split(a, 2, name="halves")
        tf.add(a, 1.0, name="b")
    data = graph.as_graph_def().SerializeToString()
    written = tf.compat.v1.GraphDef.FromString(to_bytes(read(data)))
    with tf.Graph().as_default() as again:
        tf.import_graph_def(written, name="")
    with tf.compat.v1.Session(graph=again) as session:
        assert session.run("b:0").tolist() == [2.0, 3.0]


@pytest.mark.tensorflow
def test_reference_ops_are_those_of_tensorflow():
    pytest.importorskip("tensorflow")
    from tensorflow.core.framework import op_def_pb2
    from tensorflow.python.client import pywrap_tf_session

    from tfdbg_cli.dumps.tfdbg_dir.partition import has_ref_output

    buffer = pywrap_tf_session.TF_GetAllOpList()
    ops = op_def_pb2.OpList.FromString(pywrap_tf_session.TF_GetBuffer(buffer)).op
    tests_own = ("RefOut", "DebugGradientRefIdentity")
    expected = {
        op.name
        for op in ops
        if op.output_arg and op.output_arg[0].is_ref and not op.name.startswith(tests_own)
    }
    assert {op.name for op in ops if has_ref_output(op.name)} == expected


def test_an_attribute_tells_its_kind_and_no_other():
    text, number = AttrValue(wire.put_text(2, "SAME")), AttrValue(wire.put_varint(3, 7))
    flag, kind = AttrValue(wire.put_varint(5, 1)), AttrValue(wire.put_varint(6, 3))
    assert [each.s for each in (text, number, flag)] == [b"SAME", b"", b""]
    assert [each.i for each in (text, number, flag)] == [0, 7, 0]
    assert [each.b for each in (text, number, flag)] == [False, False, True]
    assert (kind.type, number.type) == (3, 0)
    assert text == AttrValue(wire.put_text(2, "SAME")) != number
    assert len({text, AttrValue(text.SerializeToString()), number}) == 2
    assert str(text) and "SAME" in repr(text)


def test_an_empty_small_tensor_is_shown_with_its_zeros():
    tensor = wire.put_varint(1, 3) + put_shape(2, [2])
    assert render(wire.put_bytes(8, tensor)) == "int32 (2,): [0, 0]"
