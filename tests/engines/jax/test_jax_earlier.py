"""Large arguments that calls write over: not copied while a bad result is waited for, and there
for the replay all the same."""

import re
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from jax_kit import Found, bits, program, waiting
from samples import night

ROOT = Path(__file__).parents[3]
STATE = "args/0/w/0"

# 72 MB of state, of which what the call before has returned comes back. No sum has an order of
# chance, as products of matrices may on a busy machine. The program keeps the sums
# that the debugger has to find again.
TRAINING = """\
import functools, weakref, jax, jax.numpy as jnp, numpy as np
from tests_of import before, between

def loss_fn(params, x):
    first, second = (each[0, 0] for each in params["w"])
    return jnp.log(jnp.mean(x) + 0.01 * first * second)  # bad

@functools.partial(jax.jit, donate_argnums=0, donate_argnames="count", static_argnames="times")
def train_step(state, x, *, count, times):
    loss, grads = jax.value_and_grad(loss_fn)(state, x)
    state = jax.tree.map(lambda p, g: 0.99 * p - 0.1 * times * g, state, grads)
    CALLED
    return state, count + 1, loss

keys = jax.random.split(jax.random.key(0))
state = {"w": [jax.random.normal(key, (3000, 3000)) * 0.001 for key in keys]}
count = jnp.zeros((), jnp.int32)
batch, losses = np.empty((2, 3000), np.float32), []
for i in range(5):
    batch[:] = (1 - 2 * (i == 3)) * np.linspace(0, i + 1, 3000)  # in the same buffer
    state = between(state, i)
    before(i, state)
    given, seen = state["w"][0], weakref.ref(state["w"][0])
    state, count, loss = train_step(state, batch, count=count, times=2)
    gone = [given.is_deleted()]
    del given
    losses.append((float(loss), gone, seen() is None))
final = state, count, losses
"""


class _Steps:
    """What the program tells of itself: its state before each step, what it does in between."""

    def __init__(self, between=lambda state, step: state):
        self.states = {}
        self.between = between

    def before(self, step, state):
        self.states[step] = np.array(state["w"][0][:50])


def _run(path, monkeypatch, between=lambda state, step: state, called=""):
    steps = _Steps(between)
    monkeypatch.setitem(sys.modules, "tests_of", steps)
    return steps, program(path, TRAINING.replace("CALLED", called))


def _replayed(dump):
    """What is said of arguments that were computed again."""
    return [text for label, text in dump.run_info().details if label == "Arguments"]


def test_the_call_is_replayed_with_the_state_that_it_had(tmp_path, monkeypatch):
    path = tmp_path / "train.py"
    _, plain = _run(path, monkeypatch)
    with waiting() as hosts:
        steps, debugged = _run(path, monkeypatch)
    assert bits(debugged["final"]) == bits(plain["final"])
    found = Found(hosts)
    assert TRAINING.splitlines()[found.line - 1].endswith("# bad")
    datum = next(d for d in found.dump.data() if d.node_name == STATE)
    assert np.array_equal(datum.get_tensor()[:50], steps.states[3])
    (text,) = _replayed(found.dump)
    assert re.search(r"those( of \d calls? earlier)? were read from disk", text)


@pytest.mark.parametrize(
    ("between", "called"),
    [
        (lambda state, step: jax.tree.map(lambda each: each * 0.5, state), ""),
        (lambda state, step: state, 'jax.debug.callback(lambda: before("called", state_of_x))'),
    ],
    ids=["state that something else has made", "a function that calls the program"],
)
def test_what_cant_be_computed_again_is_copied(tmp_path, monkeypatch, between, called):
    called = called.replace("state_of_x", "{'w': [np.zeros((50, 1))]}")
    path = tmp_path / "train.py"
    _, plain = _run(path, monkeypatch, between, called)
    with waiting() as hosts:
        steps, debugged = _run(path, monkeypatch, between, called)
    assert bits(debugged["final"]) == bits(plain["final"])
    found = Found(hosts)
    assert TRAINING.splitlines()[found.line - 1].endswith("# bad")
    datum = next(d for d in found.dump.data() if d.node_name == STATE)
    assert np.array_equal(datum.get_tensor()[:50], steps.states[3])
    assert not _replayed(found.dump)


def test_state_that_another_function_gets_between_two_hits(tmp_path, monkeypatch):
    """The second hit has its own state, whatever the first has left behind."""
    path = tmp_path / "train.py"
    signs = {1: -1.0, 3: -1.0}
    flip = jax.jit(
        lambda state, sign: jax.tree.map(lambda each: each * sign, state), donate_argnums=0
    )

    def between(state, step):
        return flip(state, signs[step]) if step in signs else state

    _, plain = _run(path, monkeypatch, between)
    with waiting() as hosts:
        steps, debugged = _run(path, monkeypatch, between)
    assert bits(debugged["final"]) == bits(plain["final"])
    for end in hosts.ends:
        for datum in end.dump.data():
            if datum.node_name == STATE:
                kept = datum.get_tensor()[:50]
                assert any(np.array_equal(kept, each) for each in steps.states.values())


PEAK = """
import resource, sys
{program}
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@night
def test_waiting_adds_no_copy_of_the_state(tmp_path):
    (tmp_path / "tests_of.py").write_text(
        "def before(step, state): pass\ndef between(state, step): return state\n"
    )
    text = TRAINING.replace("CALLED", "").replace("i == 3", "False").replace("3000", "6000")
    path = tmp_path / "train.py"
    path.write_text(PEAK.format(program=text))

    def peak(*debugger):
        # The peak of whoever starts a process is where its own begins.
        starter = "import subprocess, sys; sys.exit(subprocess.run(sys.argv[1:]).returncode)"
        command = [sys.executable, "-c", starter, sys.executable, *debugger, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=True)
        return int(done.stdout.split()[-1]) << 10

    plain = peak()
    waited = peak("-m", "tfdbg_cli", "--batch", "-c", "run -f has_inf_or_nan")
    assert waited - plain < 0.5 * 2 * 6000 * 6000 * 4
