"""Trace blocks around runs of ONNX Runtime."""

import importlib.util

import numpy as np
import pytest

import tfdbg_cli
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.tracing.errors import TraceError

pytestmark = [
    pytest.mark.onnx,
    pytest.mark.skipif(
        importlib.util.find_spec("onnxruntime") is None, reason="ONNX Runtime is not installed"
    ),
]

MODEL = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N] x) => (float[N] y, float[N] z) <float w = {2}> {
    [scale] h = Mul(x, w)
    [log] l = Log(h)
    [clip] y = Relu(l)
    [turn] z = Neg(l)
}"""
X = {"x": np.float32([1, 2])}


@pytest.fixture
def session():
    import onnx.parser
    import onnxruntime

    return onnxruntime.InferenceSession(onnx.parser.parse_model(MODEL).SerializeToString())


def test_a_value_is_read_and_changed(session):
    plain = session.run(None, X)
    with tfdbg_cli.trace(session, ["y", "z"], X) as t:
        h = t["scale:0"].value
        t["log:0"].value = np.float32([-1, 5])
    assert h.tolist() == [2, 4]
    assert [value.tolist() for value in t.result] == [[0, 5], [1, -5]]
    for one, other in zip(session.run(None, X), plain, strict=True):
        assert one.tobytes() == other.tobytes()


def test_all_outputs_and_a_part_of_a_value(session):
    with tfdbg_cli.trace(session, None, X) as t:
        t["log:0"].value[0] = 7
        assert t["clip:0"].value[0] == 7
    y, z = t.result
    assert (y[0], z[0]) == (7, -7)
    assert z[1] == -np.log(np.float32(4))


def test_it_is_applied_to_later_runs(session):
    with tfdbg_cli.trace(session).every() as t:
        t["scale:0"].value = np.clip(t["scale:0"].value, 1, None)
    zeros = {"x": np.zeros(2, np.float32)}
    assert session.run(["y"], zeros)[0].tolist() == [0, 0]
    assert np.isfinite(session.run(["z"], zeros)[0]).all()
    t.remove()
    assert np.isinf(session.run(["z"], zeros)[0]).all()


def test_mistakes_are_told(session):
    with pytest.raises(TraceError, match="no fetches"), tfdbg_cli.trace(session) as t:
        pass
    with pytest.raises(TraceError, match="Did you mean"), tfdbg_cli.trace(session, None, X) as t:
        _ = t["lgo:0"].value
    with pytest.raises(UserError, match=r"shape \[2\]"), tfdbg_cli.trace(session, ["y"], X) as t:
        t["turn:0"].value = np.zeros(3, np.float32)
