"""`why` gives the reasons that the nodes of models show."""

from __future__ import annotations

import pytest
from causes_cases import LOCAL, Case
from causes_kit import Told, cases_of, told
from program_server import Programs, environment

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

_PROGRAM = """
import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

W = np.float32([[1, 4, 2], [3, 0.5, 2]])
BAD = W.copy()
BAD[0, 1] = np.nan
HELD = {
    "nought": 0, "one": 1, "three": 3, "thirty": 30, "hundred": 100, "half": 0.5, "below": -1.5,
    "tiny": 1e-38, "two_and_half": 2.5, "twenty_thousand": 20000, "large": 1e25, "huge": 1e38,
    "nearly": 0.8499e38, "inf": np.inf, "three_ones": [1, 1, 1], "weights": BAD,
    "unlike": [1, -1, 0],
    "one_zero": [[1, 1, 1], [1, 1, 0]], "mask": [[0, 0, 0], [-np.inf] * 3],
}
PLACES = {"at_0": [0], "at_00": [0, 0], "at_11": [1, 1]}
HELD = {name: np.float32(value) for name, value in HELD.items()}
HELD |= {name: np.int64(value) for name, value in PLACES.items()}


def session_of(text):
    nodes = [onnx.parser.parse_node(each.strip()) for each in text.split(";")]
    read = {name for node in nodes for name in node.input}
    if "zero" in read:
        nodes.insert(0, onnx.parser.parse_node("zero = Mul(w, one_zero)"))
        read |= {"w", "one_zero"}
    kinds = [helper.make_tensor_value_info(n, 1, (2, 3)) for n in ("w", "bad") if n in read]
    held = [numpy_helper.from_array(HELD[name], name) for name in HELD if name in read]
    graph = helper.make_graph(nodes, "g", kinds, [helper.make_empty_tensor_value_info("y")], held)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = onnx.shape_inference.infer_shapes(model)
    return onnxruntime.InferenceSession(model.SerializeToString())


for name, text in [
{cases}]:
    print("case:", name, flush=True)
    session = session_of(text)
    session.run([], {each.name: {"w": W, "bad": BAD}[each.name] for each in session.get_inputs()})
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("causes")
    return told(Programs(environment(folder), ("onnx", "onnxruntime")), folder, "onnx", _PROGRAM)


@pytest.mark.parametrize("case", cases_of("onnx"))
def test_the_reason(answers: Told, case: Case) -> None:
    answers.check(case)


@pytest.mark.parametrize("case", cases_of("onnx", LOCAL))
def test_nothing_began(answers: Told, case: Case) -> None:
    answers.check_local(case)


def test_remedies_make_most_of_them_clean(answers: Told) -> None:
    answers.check_remedies()


def test_no_advice_is_about_training(answers: Told) -> None:
    answers.check_silence("learning rate")
    answers.check_silence("loss from logits")
    answers.check_silence("start run -f earlier")


def test_a_weight_of_a_model_is_of_no_line_of_the_program(answers: Told) -> None:
    answers.check_silence("[Initializer] mask:0, line")
