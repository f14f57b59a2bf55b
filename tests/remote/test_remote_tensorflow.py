"""The same with real TensorFlow sessions."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import pytest
from remote_kit import ROOT, Job

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(
        importlib.util.find_spec("tensorflow") is None, reason="TensorFlow is not installed"
    ),
]


def test_the_hunt_for_the_first_nan_from_another_terminal(job: Callable[..., Job]) -> None:
    example = str(ROOT / "examples" / "debug_mnist.py")
    program = f"import runpy\nrunpy.run_path({example!r}, run_name='__main__')\n"
    running = job(program=program, args=("--engine", "tensorflow", "--max-steps", "6"))
    done = running.batch(
        "run -f has_inf_or_nan", "lt", "pt -s cross_entropy/Log:0", "ni -t cross_entropy/Log"
    )
    assert done.returncode == 0, done.stderr
    assert " cross_entropy/Log:0" in done.stdout
    assert "-inf" in done.stdout
    assert "tf.log(y)" in done.stdout
    assert running.ends() == 0
    assert running.out.count("Accuracy at step") == 6
