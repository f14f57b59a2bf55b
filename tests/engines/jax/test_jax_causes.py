"""`why` gives the reasons that the ops of compiled functions show."""

from __future__ import annotations

import pytest
from causes_cases import LOCAL, Case
from causes_kit import Told, cases_of, told
from program_server import Programs, environment
from samples import night

pytest.importorskip("jax")

_PROGRAM = """
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map

inf = jnp.inf
one = jnp.ones((2, 3))
one_zero = jnp.array([[1.0, 1, 1], [1, 1, 0]])
mask = jnp.array([[0.0, 0, 0], [-inf, -inf, -inf]])
W = jnp.array([[1.0, 4.0, 2.0], [3.0, 0.5, 2.0]])
BAD = W.at[0, 1].set(jnp.nan)


def broken(x):
    return np.full_like(x, np.nan)


def sharded(function):
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("d",))
    return shard_map(function, mesh=mesh, in_specs=P("d"), out_specs=P("d"))


def step(compute, params, w, bad):
    global zero, weights
    zero, weights = w * one_zero, params["weights"]
    return compute(w, bad)


for name, compute in [
{cases}]:
    print("case:", name, flush=True)
    params = {"weights": BAD if "weights" in name else W}
    jax.jit(step, static_argnums=0)(compute, params, W, BAD if "nan of the batch" in name else W)
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Told:
    folder = tmp_path_factory.mktemp("causes")
    return told(Programs(environment(folder), ("jax",)), folder, "jax", _PROGRAM)


@pytest.mark.parametrize("case", cases_of("jax"))
def test_the_reason(answers: Told, case: Case) -> None:
    answers.check(case)


@pytest.mark.parametrize("case", cases_of("jax", LOCAL))
def test_nothing_began(answers: Told, case: Case) -> None:
    answers.check_local(case)


@night
def test_remedies_make_most_of_them_clean(answers: Told) -> None:
    answers.check_remedies()
