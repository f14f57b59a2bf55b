"""The story of examples/debug_mnist.py: without the debugger, and run by run under it."""

import json
import re

import numpy as np
import pytest
from examples_kit import ENGINES, EXAMPLES, ROOT, needs, python

EXAMPLE = EXAMPLES / "debug_mnist.py"

# With PyTorch the program is the same, the names of its nodes are not.
PROGRAMS = [*ENGINES, pytest.param("torch", marks=needs("torch"))]

# Runs the example unmodified, every run of it debugged, and reports on each run.
WATCH_ALL = """
import json, runpy, sys
import numpy as np
from tfdbg_cli.engines.registry import load
from tfdbg_cli.sessions.wrappers.framework import *

engine, example, *arguments = sys.argv[1:]
runs = []

class Watch(BaseDebugWrapperSession):
    def on_session_init(self, request):
        return OnSessionInitResponse(OnSessionInitAction.PROCEED)

    def on_run_start(self, request):
        self.fetches = list(request.run_info.fetches)
        return OnRunStartResponse(OnRunStartAction.DEBUG_RUN)

    def on_run_end(self, request):
        bad = []
        for datum in request.dump.data():
            value = datum.get_tensor()
            if isinstance(value, np.ndarray) and value.dtype.kind == "f":
                if not np.isfinite(value).all():
                    bad.append((datum.tensor_name, float(np.min(value))))
        runs.append({"fetches": self.fetches, "count": len(request.dump.data()), "bad": bad[:1],
                     "names": sorted(request.dump.tensor_names())})
        return OnRunEndResponse()

if engine == "tensorflow":
    import tensorflow
wrappers = {}
load(engine).install(lambda session: wrappers.setdefault(id(session), Watch(session)))
sys.argv = [example, "--engine", engine, *arguments]
runpy.run_path(example, run_name="__main__")
print("RUNS " + json.dumps(runs))
"""


def output(*arguments, cwd=ROOT):
    """What a program prints that fails nowhere and warns of nothing."""
    done = python(*arguments, cwd=cwd, warnings="error::RuntimeWarning")
    assert done.status == 0, done.err
    return done.out


def accuracies(text):
    return [float(found) for found in re.findall(r"^Accuracy at step \d+: (\S+)$", text, re.M)]


def watch_all(folder, engine, *arguments):
    program = folder / "watch_all.py"
    program.write_text(WATCH_ALL)
    printed = output(program, engine, EXAMPLE, *arguments)
    return json.loads(printed.rpartition("RUNS ")[2])


@pytest.mark.parametrize("engine", PROGRAMS)
def test_it_trains_and_then_sticks_at_chance(engine, tmp_path):
    found = accuracies(output(EXAMPLE, "--engine", engine, "--max-steps", "20", cwd=tmp_path))
    assert len(found) == 20
    assert found[1] > found[0] + 0.05
    assert found[1] > 0.15
    assert len(set(found[8:])) == 1
    assert found[-1] == pytest.approx(0.1, abs=0.02)


@pytest.mark.parametrize("engine", PROGRAMS)
def test_the_stable_version_learns(engine):
    found = accuracies(output(EXAMPLE, "--engine", engine, "--stable"))
    assert len(found) == 60
    assert found[-1] > 0.9


@pytest.mark.parametrize("engine", ENGINES)
def test_the_first_bad_tensor_is_the_logarithm_in_an_early_training_run(engine, tmp_path):
    runs = watch_all(tmp_path, engine, "--max-steps", "8")
    first = next(index for index, run in enumerate(runs) if run["bad"])
    assert 2 <= first + 1 <= 15
    assert runs[first]["fetches"] == ["train/Adam"]
    assert runs[first]["bad"] == [["cross_entropy/Log:0", -np.inf]]
    for name in (
        "input/x-input:0",
        "input/y-input:0",
        "hidden/weights/Variable/read:0",
        "hidden/biases/Variable/read:0",
        "hidden/Wx_plus_b/MatMul:0",
        "hidden/Wx_plus_b/add:0",
        "hidden/Relu:0",
        "logits/Wx_plus_b/add:0",
        "Softmax:0",
        "cross_entropy/Log:0",
        "cross_entropy/mul:0",
        "cross_entropy/Neg:0",
        "train/gradients/cross_entropy/Log_grad/mul:0",
        "train/beta1_power/read:0",
    ):
        assert name in runs[first]["names"]
    assert runs == watch_all(tmp_path, engine, "--max-steps", "8")


@pytest.mark.parametrize("engine", ENGINES)
def test_in_the_stable_version_nothing_is_ever_bad(engine, tmp_path):
    runs = watch_all(tmp_path, engine, "--stable")
    assert len(runs) == 121
    assert all(run["count"] > 0 for run in runs)
    assert [run for run in runs if run["bad"]] == []


def test_the_data_is_what_its_readme_says():
    with np.load(EXAMPLES / "data" / "digits.npz") as file:
        images, labels = file["images"], file["labels"]
    assert images.shape == (1797, 8, 8)
    assert images.dtype == labels.dtype == np.uint8
    assert images.max() == 16
    assert np.bincount(labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    text = (EXAMPLES / "data" / "README.md").read_text(encoding="utf-8")
    for fact in ("10.24432/C50P49", "CC BY 4.0", "Alpaydin", "Kaynak", "1797"):
        assert fact in text
