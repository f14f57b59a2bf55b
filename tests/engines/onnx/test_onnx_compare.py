"""A PyTorch model beside its exports: the example that ships, and its mirror."""

import re
from pathlib import Path

import pytest
from planted_kit import launched
from program_server import python_in

pytest.importorskip("onnxruntime")
pytest.importorskip("onnxscript")
pytest.importorskip("torch")

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "compare_export.py"
# The last one leaves its inputs there.
VARIANTS = {"half": "--half", "good": "", "eps": "--eps 1e-2"}
# One process makes what three would: PyTorch and its exporter take their time to be imported.
EXPORTING = """
import runpy, sys
example, *variants = sys.argv[1:]
for variant in variants:
    name, *options = variant.split()
    sys.argv = [example, "--export", name, *options]
    runpy.run_path(example, run_name="__main__")
"""
RUNNING = """
import sys
import numpy as np
import onnxruntime

inputs = np.load(sys.argv[1])
for name in sys.argv[2:]:
    session = onnxruntime.InferenceSession(name)
    dtype = {"tensor(float16)": np.float16}.get(session.get_inputs()[0].type, np.float32)
    print(session.run(None, {name: value.astype(dtype) for name, value in inputs.items()})[0].sum())
"""


@pytest.fixture(scope="module")
def screens(tmp_path_factory):
    """What comparisons of the model with its exports say, and the last one the other way round."""
    folder = tmp_path_factory.mktemp("export")
    names = [folder / f"{variant}.onnx" for variant in VARIANTS]
    exports = [f"{name} {each}" for name, each in zip(names, VARIANTS.values(), strict=True)]
    (folder / "exporting.py").write_text(EXPORTING)
    python_in(folder, "exporting.py", str(EXAMPLE), *exports).check_returncode()
    running = folder / "running.py"
    running.write_text(RUNNING)
    runs = ["-c", "run"] * (len(names) + 1)
    kept = ("--batch", "--keep-dumps", "--dump-root")
    onnx, torch = folder / "onnx", folder / "torch"
    given = (str(folder / "inputs.npz"), *map(str, names))
    status, _, err = launched(*kept, str(onnx), *runs, str(running), *given)
    assert status == 0, err
    run_twice = ("-c", "run", "-c", "run", str(EXAMPLE))
    status, _, err = launched(*kept, str(torch), *run_twice, modules=("torch._dynamo",))
    assert status == 0, err
    asked = [f"compare {onnx}/run_00000{number + 1}" for number in range(len(names))]
    asked += [f"{asked[2]} -a", f"{asked[0]} pow"]
    commands = (part for command in asked for part in ("-c", command))
    _, out, err = launched("--batch", "--dump-dir", str(torch), *commands)
    found = re.split(r"^--- .* ---$", out, flags=re.M)[-len(asked) :]
    back = f"compare {torch}"
    _, out, _ = launched("--batch", "--dump-dir", str(onnx / "run_000003"), "-c", back)
    return [*found, out]


def parted(screen):
    told = re.search(r"^They part at (.*)$", screen, re.M)
    return told[1] if told else ""


def test_a_good_export_is_within_the_bar(screens):
    assert parted(screens[1]) == ""
    assert ", 0 beyond the bar." in screens[1]


def test_another_epsilon_is_told_by_its_layer(screens):
    assert parted(screens[2]) == "second.norm/native_layer_norm:0: made here: its inputs agree."
    assert "inputs differ" in screens[2]


def test_what_overflows_in_float16_is_told_though_the_result_is_fine(screens):
    assert parted(screens[0]) == "pow:0: made here: its inputs agree."
    row = next(line for line in screens[0].splitlines() if line.startswith("made here"))
    assert "ok | 3 bad" in row
    assert "softmax:0" not in screens[0]
    assert re.search(r"^ +\[1, 3, \d\] .* inf", screens[4], re.M)


def test_tensors_are_matched_by_their_numbers(screens):
    """Shapes and ops aren't those of PyTorch: ``addmm`` of 10 rows is ``MatMul`` and ``Add``."""
    row = next(line for line in screens[3].splitlines() if "first.up/addmm:0" in line)
    assert re.search(r"value +first\.up/addmm:0  = node_linear_\d:0", row), row


def test_the_other_way_round(screens):
    assert parted(screens[5]).endswith(": made here: its inputs agree.")
    assert "layer_norm" in parted(screens[5])
