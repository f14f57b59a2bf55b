"""``tfdbg --model``: one command, no script; what is wrong with a model is one line."""

import os
import subprocess
import sys
import zipfile

import numpy as np
import pytest

pytest.importorskip("onnxruntime")
pytest.importorskip("onnx")

import ml_dtypes
import onnx

MODEL = """g (float[N,4] x) => (float[N,3] y) {
    [scale] h = Mul(x, x)
    [log] l = Log(h)
    [head] z = MatMul(l, w)
    [clip] y = Relu(z)
}"""
WEIGHTS = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["" : 17]>\n{MODEL}')
    model.graph.initializer.append(onnx.numpy_helper.from_array(WEIGHTS, "w"))
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "zeros.npz", x=np.zeros((2, 4), np.float32))
    np.savez(folder / "ones.npz", x=np.ones((2, 4), np.float32))
    np.savez(folder / "other.npz", xx=np.ones((2, 4), np.float32))
    (folder / "text.onnx").write_text("no model at all")
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    copy.graph.node[1].op_type = "Frobnicate"
    onnx.save(copy, folder / "unknown_op.onnx")
    sub = folder / "sub"
    sub.mkdir()
    onnx.save_model(
        model, sub / "short.onnx", save_as_external_data=True, location="w.bin", size_threshold=0
    )
    outside = onnx.load(sub / "short.onnx", load_external_data=False)
    with open(sub / "w.bin", "r+b") as file:
        file.truncate(10)
    outside.graph.initializer[0].external_data[0].value = "../secret"
    (folder / "secret").write_bytes(WEIGHTS.tobytes())
    (sub / "outside.onnx").write_bytes(outside.SerializeToString())
    # As a cache of the Hugging Face Hub has it; and data that is a link to anywhere else.
    (folder / "blobs").mkdir()
    (folder / "linked").mkdir()
    linked = onnx.load(sub / "short.onnx", load_external_data=False)
    (folder / "blobs" / "a1").write_bytes(linked.SerializeToString())
    (folder / "blobs" / "b2").write_bytes(WEIGHTS.tobytes())
    (folder / "linked" / "model.onnx").symlink_to("../blobs/a1")
    (folder / "linked" / "w.bin").symlink_to("../blobs/b2")
    (sub / "w2.bin").symlink_to("../secret")
    linked.graph.initializer[0].external_data[0].value = "w2.bin"
    (sub / "link.onnx").write_bytes(linked.SerializeToString())
    return folder


def tfdbg(folder, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", "--batch", *arguments],
        cwd=folder,
        env={**os.environ, "XDG_CONFIG_HOME": str(folder / "config")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr.splitlines()


def test_the_first_bad_node_is_found(folder):
    status, shown, _ = tfdbg(folder, "--model", "model.onnx", "--inputs", "zeros.npz")
    assert status == 0
    assert "It began in [Log] log:0  float32 [2, 4]  8 -inf of 8" in shown
    assert "the logarithm of 0" in shown


def test_a_model_and_its_data_may_be_links_into_one_folder(folder):
    status, shown, notes = tfdbg(folder, "--model", "linked/model.onnx", "--inputs", "zeros.npz")
    assert (status, notes) == (0, [])
    assert "It began in [Log] log:0  float32 [2, 4]  8 -inf of 8" in shown


def test_random_inputs_are_said_and_the_same_for_a_seed(folder):
    command = ("--model", "model.onnx", "--dim", "N=3", "--seed", "7", "-c", "run", "-c", "pt x:0")
    first, second = (tfdbg(folder, *command) for _ in range(2))
    assert first == second
    assert "tfdbg: random inputs (seed 7): x [3, 4]" in first[2]
    assert "shape: (3, 4)" in first[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("model.onnx", "--inputs", "other.npz"), 'the model has no input "xx"'),
        (("model.onnx", "--dim", "Q=3"), 'no input has a dimension "Q"'),
        (("text.onnx",), "can't be read as ONNX"),
        (("unknown_op.onnx",), "(node log, Frobnicate of h)"),
        (("none.onnx",), "there is no model none.onnx"),
        (("sub/short.onnx",), "w.bin is too short"),
        (("sub/outside.onnx",), "outside of the model's folder: it is not read"),
        (("sub/link.onnx",), "outside of the model's folder: it is not read"),
    ],
)
def test_what_is_wrong_is_one_line(folder, arguments, said):
    status, shown, notes = tfdbg(folder, "--model", *arguments)
    assert (status, shown, len(notes)) == (2, "", 1), notes
    assert said in notes[0]


def test_inputs_are_judged_before_they_are_read(folder):
    """A file of 100 kB that says to hold 16 GB, of which 64 MB are there."""
    with (
        zipfile.ZipFile(folder / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w", force_zip64=True) as file,
    ):
        header = {"descr": "<f4", "fortran_order": False, "shape": (10**9, 4)}
        np.lib.format.write_array_header_1_0(file, header)
        for _ in range(64):
            file.write(bytes(1 << 20))
    np.savez(folder / "wide.npz", x=np.ones((2, 5), np.float32))
    np.savez_compressed(folder / "long.npz", x=np.zeros((1 << 21, 4, 2), np.float32))
    plain, _ = peak(folder, "--model", "model.onnx", "--inputs", "ones.npz", "-c", "run")
    for name, said in (
        ("bomb.npz", "needs 16,000,000,000 bytes, and 67,108,864 are there."),
        ("wide.npz", "x has the shape [?, 4]; the value has [2, 5]."),
        ("long.npz", "x has the shape [?, 4]; the value has [2097152, 4, 2]."),
    ):
        used, notes = peak(folder, "--model", "model.onnx", "--inputs", name, "-c", "run")
        assert len(notes) == 1 and said in notes[0], notes
        assert used < plain + (16 << 10)


# A process that is started has its parent's peak for its own, so it has a small parent.
PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def peak(folder, *arguments):
    """The most memory that it takes, in KiB, and what it says."""
    program = (sys.executable, "-m", "tfdbg_cli", "--batch")
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *program, *arguments],
        cwd=folder,
        env={**os.environ, "XDG_CONFIG_HOME": str(folder / "config")},
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout), done.stderr.splitlines()


def test_random_inputs_that_have_no_room(folder):
    model = onnx.load(folder / "model.onnx")
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1 << 40
    onnx.save(model, folder / "large.onnx")
    for model in (("large.onnx",), ("model.onnx", "--dim", f"N={1 << 40}")):
        status, shown, notes = tfdbg(folder, "--model", *model, "-c", "run")
        assert (status, shown, len(notes)) == (2, "", 1), notes
        assert "the random values of x take 70,368,744,177,664 bytes" in notes[0]


def test_external_data_whose_length_is_not_said(folder):
    model = onnx.load(folder / "model.onnx")
    model.graph.initializer.append(
        onnx.numpy_helper.from_array(np.array([[1, -2], [3, 4]], ml_dtypes.int4), "small")
    )
    onnx.save_model(
        model, folder / "unsaid.onnx", save_as_external_data=True, location="all", size_threshold=0
    )
    model = onnx.load(folder / "unsaid.onnx", load_external_data=False)
    for tensor in model.graph.initializer:
        said = [each for each in tensor.external_data if each.key == "length"]
        tensor.external_data.remove(said[0])
    (folder / "unsaid.onnx").write_bytes(model.SerializeToString())
    with open(folder / "all", "ab") as file:
        file.truncate(file.tell() + (1 << 29))  # of which nothing is on the disk
    commands = ("run", "pt w:0", "pt small:0")
    _, shown, _ = tfdbg(
        folder, "--model", "unsaid.onnx", *(part for each in commands for part in ("-c", each))
    )
    assert "9., 10., 11." in shown and "[ 3,  4]" in shown
    used, _ = peak(folder, "--model", "unsaid.onnx", "-c", "run", "-c", "pt w:0")
    assert used < 1 << 18


def test_options_about_models_need_one(folder):
    status, _, notes = tfdbg(folder, "--seed", "3", "script.py")
    assert (status, notes) == (2, ["tfdbg: --seed is about a model: --model says which."])
