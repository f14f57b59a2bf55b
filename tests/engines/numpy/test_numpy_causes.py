"""`why` gives the reasons that the ops of the NumPy engine show."""

from __future__ import annotations

import pytest
from causes_cases import LOCAL, Case
from causes_kit import Told, cases_of, told
from program_server import Programs, environment

_PROGRAM = """
import numpy as np
from tfdbg_cli.engines import numpy as tf

inf = tf.constant(np.float32(np.inf))
infinities = tf.constant(np.full((2, 3), np.inf, "float32"))
W = np.array([[1, 4, 2], [3, 0.5, 2]], "float32")
BAD = W.copy()
BAD[0, 1] = np.nan
w = tf.placeholder(tf.float32, (2, 3), name="w")
bad = tf.placeholder(tf.float32, (2, 3), name="bad")
nothing = tf.constant(W[:0])
single = tf.constant(W[:1, :1])
one = tf.constant(np.ones((2, 3), "float32"))
one_zero = tf.constant(np.array([[1, 1, 1], [1, 1, 0]], "float32"))
mask = tf.constant(np.array([[0, 0, 0], [-np.inf] * 3], "float32"))
weights = tf.Variable(BAD, name="weights")
zero = w * one_zero
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    for name, compute in [
{cases}]:
        print("case:", name, flush=True)
        made = compute(w, bad)
        given = {w: W, bad: BAD} if "nan of the batch" in name else {w: W}
        session.run(made, given)
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("causes")
    return told(Programs(environment(folder), ("numpy",)), folder, "numpy", _PROGRAM)


@pytest.mark.parametrize("case", cases_of("numpy"))
def test_the_reason(answers: Told, case: Case) -> None:
    answers.check(case)


@pytest.mark.parametrize("case", cases_of("numpy", LOCAL))
def test_nothing_began(answers: Told, case: Case) -> None:
    answers.check_local(case)


def test_remedies_make_most_of_them_clean(answers: Told) -> None:
    answers.check_remedies()
