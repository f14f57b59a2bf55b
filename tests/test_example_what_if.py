"""examples/what_if.py: the NaN repaired in a trace block, and live from the prompt."""

import math
import re

import pytest
from examples_kit import ENGINES, EXAMPLES, debug, python, screens

EXAMPLE = "what_if.py"


def losses(output):
    return [float(found) for found in re.findall(r"^Loss at step \d+: (\S+)$", output, re.M)]


@pytest.fixture(params=ENGINES, scope="module")
def engine(request):
    return request.param


@pytest.fixture(scope="module")
def broken(engine):
    return losses(python(EXAMPLES / EXAMPLE, "--engine", engine, "--max-steps", "4").out)


def test_the_bug(broken):
    assert math.isfinite(broken[0])
    assert all(math.isnan(loss) for loss in broken[1:])


def test_a_trace_block_repairs_it(engine, broken):
    done = python(EXAMPLES / EXAMPLE, "--repair", "--engine", engine)
    assert done.status == 0
    repaired = losses(done.out)
    assert len(repaired) == 20
    assert all(map(math.isfinite, repaired))
    assert repaired[-1] < 0.5
    assert "a probability was 0: clipped" in done.out


def test_it_is_repaired_live_from_the_prompt(engine, broken):
    override = "override Softmax:0 np.clip(`Softmax:0`, 1e-8, 1)"
    commands = [
        "s -t 3", "b -f has_inf_or_nan", "cont", override, "cont cross_entropy/Mean",
        "pt cross_entropy/Mean:0", "diff", "exit", "lt -f has_inf_or_nan",
    ]  # fmt: skip
    done = debug(commands, EXAMPLE, "--engine", engine, "--max-steps", "2")
    assert done.status == 0, done.err
    shown = screens(done.out)
    stopped = "\n".join(shown["cont"])
    assert "cross_entropy/Log:0 passes has_inf_or_nan, and cross_entropy/mul is about" in stopped
    assert "Went back before what had read it: 1 node(s) (cross_entropy/Log)" in "\n".join(
        shown[override]
    )
    rows = [row for row in shown["diff"] if "cross_entropy/Mean:0" in row]
    assert re.search(r"1 nan +ok", rows[0])
    assert "0 dumped tensor(s) passing" in "\n".join(shown["lt -f has_inf_or_nan"])
    # The step was made with it: the weights are good, and so is its loss.
    first, second = losses(done.out)
    assert first == broken[0]
    assert math.isfinite(second)
