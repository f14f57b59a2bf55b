"""``tfdbg new-engine NAME`` makes a package whose own tests pass."""

import os
import subprocess
import sys

import pytest
from package_kit import ROOT, environment_of, own_tests


def new_engine(folder, *words):
    return subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", "new-engine", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_its_tests_pass_as_it_is_made(tmp_path):
    made = new_engine(tmp_path, "small_grad")
    assert (made.returncode, made.stderr) == (0, "")
    assert "tfdbg-small-grad is made." in made.stdout
    done = own_tests(tmp_path / "tfdbg-small-grad", tmp_path / "installed")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_program_is_debugged_by_it(tmp_path):
    new_engine(tmp_path, "small")
    package = tmp_path / "tfdbg-small"
    script = tmp_path / "program.py"
    script.write_text(
        "import numpy as np\n"
        "from tfdbg_small import stand_in as small\n"
        "def train(x):\n"
        "    return small.sqrt(small.add(x, -2.0))\n"
        "print(small.step(train, np.array([1.0, 3.0])))\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", "--batch", "-c", "run -f", "-c", "ni -a add", script],
        env=environment_of(package, tmp_path / "installed"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "Why:   the square root of a negative number at [0]" in done.stdout
    assert "small.sqrt(small.add(x, -2.0))" in done.stdout
    assert "_arg_1:\n    -2.0" in done.stdout
    assert done.stdout.splitlines()[-1] == "[nan  1.]"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("torch", "There is an engine named torch: tfdbg_cli.engines.torch.engine:ENGINE."),
        ("No-Name", '"No-Name" is no name for an engine.'),
        ("there", "There is a folder tfdbg-there already."),
    ],
)
def test_a_name_that_will_not_do_is_one_line(tmp_path, name, said):
    (tmp_path / "tfdbg-there").mkdir()
    done = new_engine(tmp_path, name)
    assert done.returncode == 2
    assert done.stderr.startswith(f"tfdbg: {said}")
    assert len(done.stderr.splitlines()) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["tfdbg-there"]
