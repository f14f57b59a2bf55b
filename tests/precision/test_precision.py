"""``precision``: what it foretells of a narrower type is what a converted program gives."""

import importlib.util
import json
import re
import textwrap
from pathlib import Path

import numpy as np
import pytest
from examples_kit import needs
from program_server import debugger_in, python_in

FOLDER = Path(__file__).parent
PROGRAM = FOLDER / "transformer.py"
# Nobody waits for these: a busy machine gets them as well.
SECONDS = "--seconds 600"

# Each has an op that leaves float16, and others that don't.
PROGRAMS = {
    "numpy": """
        import numpy as np
        from tfdbg_cli.engines import numpy as tf
        x = tf.placeholder(tf.float32, [3], name="x")
        loss = tf.reduce_mean(tf.multiply(tf.multiply(x, x) * 1e5, 1e-5))
        with tf.Session() as session:
            session.run(loss, {x: np.array([1, 2, 3], np.float32)})
    """,
    "tensorflow": """
        import tensorflow as tf
        w = tf.Variable(tf.ones((4, 8)) * 0.01)
        @tf.function
        def f(x):
            return tf.reduce_sum(tf.tanh(x @ w * 3000) * 1e6, -1) * 1e-6
        f(tf.reshape(tf.range(12.), (3, 4)))
    """,
    "sessions": """
        import numpy as np
        import tensorflow.compat.v1 as tf
        tf.disable_v2_behavior()
        x = tf.placeholder(tf.float32, [4, 3], name="x")
        w = tf.get_variable("w", initializer=tf.ones(3))
        loss = tf.reduce_mean(tf.reduce_sum(tf.square(x * w), -1) * 1e5) * 1e-5
        train = tf.train.GradientDescentOptimizer(1e-9).minimize(loss)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            session.run([train, loss], {x: np.ones((4, 3), np.float32)})
    """,
    "jax": """
        import jax
        import jax.numpy as jnp
        @jax.jit
        def f(w, x):
            return (jnp.tanh(x @ w * 3000) * 1e6).sum(-1) * 1e-6
        f(jnp.ones((4, 8)) * 0.01, jnp.arange(12.0).reshape(3, 4))
    """,
}


ENGINES = [
    "numpy",
    pytest.param("tensorflow", marks=needs("tensorflow")),
    pytest.param("sessions", marks=needs("tensorflow")),
    pytest.param("jax", marks=needs("jax")),
]


def debugged(folder, *arguments, program=PROGRAM):
    done = debugger_in(folder, *arguments, *([str(program)] if program else []))
    assert "Traceback" not in done.stderr, done.stderr
    return done


def rows_of(out):
    return {row["name"]: row for row in map(json.loads, filter(_is_row, out.splitlines()))}


def _is_row(line):
    return line.startswith('{"name"')


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_tells_what_overflows(engine, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAMS[engine]))
    output, keep = tmp_path / "rows.json", tmp_path / "keep.json"
    done = debugged(
        tmp_path,
        *("--precision", "float16", "--precision-output", str(output)),
        *("--precision-keep", str(keep)),
        program=program,
    )
    assert done.returncode == 0, done.stderr
    rows = rows_of(output.read_text())
    bad = {name for name, row in rows.items() if row["error_at_end"] == "inf"}
    assert bad
    assert all(rows[name]["line"] for name in bad)
    # The last product brings the numbers back into the range: its result is off by rounding alone.
    assert any(0 < float(row["own_error"] or 0) < 1e-3 for row in rows.values())
    told = done.stderr
    assert "All in float16: overflow at " in told
    assert "stay in float32: it is off by " in told
    assert all(name in keep.read_text() for name in bad if "gradients" not in name)


@pytest.mark.parametrize("engine", [*ENGINES, pytest.param("torch", marks=needs("torch"))])
def test_without_rounding_a_run_computed_again_is_the_run(engine, tmp_path):
    program = PROGRAM if engine == "torch" else tmp_path / "program.py"
    if engine != "torch":
        program.write_text(textwrap.dedent(PROGRAMS[engine]))
    level = ("-c", "config set level values") if engine == "torch" else ()
    filters = ("--batch", "--filters", str(FOLDER / "exact_filter.py"))
    done = debugged(tmp_path, *filters, *level, "-c", "run -f exact", program=program)
    told = re.findall(r"^exact (\d+) ops of (\d+), error (.*), bad (.*)$", done.stderr, re.M)
    assert told, done.stderr
    for count, of, error, bad in told:
        assert (count, float(error), bad) == (of, 0.0, "none")


def test_types_are_told_apart(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAMS["numpy"]))
    out = debugged(
        tmp_path,
        *("--batch", "-c", "run", "-c", "precision --to float16,bfloat16 --json"),
        *("-c", "report report.html"),
        program=program,
    ).stdout
    found = [json.loads(line) for line in out.splitlines() if _is_row(line)]
    overflow = {row["to"] for row in found if row["overflow"]}
    assert {row["to"] for row in found} == {"float16", "bfloat16"}
    assert overflow == {"float16"}
    assert "In a narrower type" in (tmp_path / "report.html").read_text()


def test_without_the_program_the_ranges_are_told(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAMS["numpy"]))
    debugged(
        tmp_path, *("--batch", "--keep-dumps", "--dump-root", "dumps", "-c", "run"), program=program
    )
    [folder] = (tmp_path / "dumps").glob("run_*")
    done = debugged(
        tmp_path,
        *("--batch", "--dump-dir", str(folder), "-c", "precision"),
        *("-c", "precision --keep x.json"),
        program=None,
    )
    assert "the program is gone" in done.stdout
    assert "100.0 %" in done.stdout
    assert "can't be recomputed" in done.stdout + done.stderr
    assert not (tmp_path / "x.json").exists()


class TestPytorch:
    """The modules that are kept keep the program within what was foretold, under autocast."""

    pytestmark = needs("torch")

    def test_kept_modules(self, tmp_path):
        import torch

        done = debugged(
            tmp_path,
            *("--batch", "-c", "run", "-c", f"precision {SECONDS} --json"),
            *(
                "-c",
                f"precision --by module {SECONDS}",
                "-c",
                f"precision --keep keep.py {SECONDS}",
            ),
        )
        rows = rows_of(done.stdout)
        assert rows["layers.1.down/addmm"]["overflow"] > 0.5
        assert rows["layers.1.down/addmm"]["error_at_end"] == "inf"
        assert float(rows["layers.0.qkv/addmm"]["error_at_end"]) < 1e-3
        assert "modules and ops stay in float32" in done.stdout
        program, keep = loaded(PROGRAM), loaded(tmp_path / "keep.py")
        with torch.no_grad():
            right = program.made()(program.batch(0))
            with torch.autocast("cpu", dtype=torch.float16):
                assert not program.made()(program.batch(0)).isfinite().all()
                found = keep.keep_float32(program.made())(program.batch(0)).float()
        assert (found - right).norm() / right.norm() < 0.01

    def test_ops_of_no_module_are_changed_by_hand(self, tmp_path):
        import torch

        program = tmp_path / "program.py"
        program.write_text(
            "import torch\n"
            "torch.manual_seed(0)\n"
            "class Model(torch.nn.Module):\n"
            "    def __init__(self):\n"
            "        super().__init__()\n"
            "        self.a = torch.nn.Linear(8, 64)\n"
            "    def forward(self, x, by_hand=False):\n"
            "        h = torch.sigmoid(self.a(x)) * 1e-4\n"
            "        with torch.autocast('cpu', enabled=not by_hand):\n"
            "            h = h.float() if by_hand else h\n"
            "            return h * h * 1e8\n"
            "model, x = Model(), torch.rand(16, 8)\n"
            "with torch.no_grad(): right = model(x)\n"
        )
        done = debugged(
            tmp_path, "--batch", "-c", "run", "-c", "precision --keep keep.py", program=program
        )
        assert "2 of these are ops of no module" in done.stdout, done.stdout
        used, keep = loaded(program), loaded(tmp_path / "keep.py")
        assert keep.MODULES == []
        assert [each.split(":")[-1] for each in keep.OPS] == ["11", "11"]
        foretold = float(done.stdout.split("it is off by ")[1].split(" ")[0])
        model = keep.keep_float32(used.model)
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.float16):
            found, narrow = model(used.x, by_hand=True), model(used.x)
        assert (found - used.right).norm() / used.right.norm() < 2 * foretold < 0.01
        assert (narrow - used.right).norm() / used.right.norm() > 0.1

    def test_the_error_of_an_op_is_that_of_float16_itself(self, tmp_path):
        import torch

        torch.manual_seed(0)
        layer, x = torch.nn.Linear(64, 64), torch.rand(32, 64)
        program = tmp_path / "program.py"
        program.write_text(
            "import torch\n"
            "torch.manual_seed(0)\n"
            "layer, x = torch.nn.Linear(64, 64), torch.rand(32, 64)\n"
            "with torch.no_grad(): layer(x)\n"
        )
        done = debugged(
            tmp_path, *("--batch", "-c", "run", "-c", "precision --json"), program=program
        )
        [row] = [row for row in rows_of(done.stdout).values() if row["op_type"] == "addmm"]
        with torch.no_grad():
            right, half = layer(x), layer.half()(x.half()).float()
        error = float((half - right).norm() / right.norm())
        assert abs(row["own_error"] - error) < 0.1 * error


class TestOnnx:
    """The list makes the optimizer's model what was foretold."""

    pytestmark = needs("torch", "onnx", "onnxruntime")

    def test_a_converted_model_is_as_foretold(self, tmp_path):
        import onnx
        import onnxruntime
        from onnxruntime.transformers.onnx_model import OnnxModel

        model = tmp_path / "model.onnx"
        python_in(tmp_path, str(PROGRAM), "export", str(model)).check_returncode()
        inputs = [np.random.default_rng(at).integers(0, 50, (2, 16)) for at in range(3)]
        for at, x in enumerate(inputs):
            np.savez(tmp_path / f"calib{at}.npz", x=x)
        done = debugged(
            tmp_path,
            *("--precision", "float16", "--precision-keep", "keep.json"),
            *("--model", str(model), "--inputs", "calib*.npz"),
            program=None,
        )
        assert "3 run(s) measured" in done.stderr, done.stderr
        foretold = float(done.stderr.split("it is off by ")[1].split(" ")[0])
        kept = json.loads((tmp_path / "keep.json").read_text())
        session = onnxruntime.InferenceSession(model)
        for names in (kept["node_block_list"], []):
            changed = OnnxModel(onnx.load(model))
            changed.convert_float_to_float16(
                keep_io_types=True, node_block_list=names, op_block_list=kept["op_block_list"]
            )
            narrow = onnxruntime.InferenceSession(changed.model.SerializeToString())
            for x in inputs:
                [right], [found] = session.run(None, {"x": x}), narrow.run(None, {"x": x})
                if not names:
                    assert not np.isfinite(found).all()
                    continue
                assert np.isfinite(found).all()
                error = np.linalg.norm(found - right) / np.linalg.norm(right)
                assert error < 2 * foretold < 0.01


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--precision", "float17"), 'Nothing can be converted to "float17"'),
        (("--precision", "float16", "-c", "run"), "takes no commands"),
        (("--precision", "float16", "--check", "has_inf_or_nan"), "leave one out"),
        (("--precision-keep", "x"), "needs --precision"),
        (("--precision", "float16,bfloat16", "--precision-keep", "x"), "for one type"),
        (("--precision", "float16", "--precision-every", "0"), "counts from 1"),
    ],
)
def test_wrong_options(options, told, tmp_path):
    done = debugged(tmp_path, *options, program=FOLDER / "none.py")
    assert done.returncode == 2
    assert told in done.stderr


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
