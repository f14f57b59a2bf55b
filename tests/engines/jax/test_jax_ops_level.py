"""At the level of ops what is bad inside of a function is found where nothing shows it outside."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.stages import Lowered
from jax_kit import Found, bits, waiting

from tfdbg_cli.engines.jax.plans.replay import Replay
from tfdbg_cli.testing import contract_program

ROOT = Path(__file__).parents[3]
LONG = 60.0


def _finite(x):
    return jnp.where(jnp.isfinite(x), x, 0)


def dropped(x):
    return _finite(jnp.log(x)).sum()  # bad


def compared(x):
    return jnp.argmax(1 / x)  # bad


def scanned(x):
    def cell(total, v):
        return total + _finite(jnp.log(v)), None  # bad

    return lax.scan(cell, 0.0, x)[0]


def looped(x):
    def body(at_and_total):
        at, total = at_and_total
        return at + 1, total + _finite(jnp.log(x[0] - at))  # bad

    return lax.while_loop(lambda c: c[0] < 5, body, (0, jnp.zeros(())))[1]


def asked(x):
    # One of a batch is through earlier than the others.
    def until(v):
        return lax.while_loop(lambda at: jnp.log(at + v) < 1, lambda at: at + 1, 0.0)  # bad

    return jax.vmap(until)(x)


def chosen(x):
    return lax.switch(1 - x[0].astype(int), [jnp.sin, lambda v: _finite(jnp.log(v))], x)  # bad


def recomputed(x):
    inner = jax.checkpoint(lambda v: jnp.sqrt(v) * v)  # bad
    return jax.grad(lambda v: inner(v).sum())(x) > 0


ONES = np.ones(20, np.float32)
#: function -> what is bad to it, the node, and the iteration.
CASES = {
    dropped: ("x[3]", "log", 0),
    compared: ("x[3]", "div", 0),
    scanned: ("x[17]", "scan/log", 17),
    looped: ("x[0] = 3", "while/log", 3),
    asked: ("x[2]", "while/cond/log", 0),
    chosen: ("x[0]", "cond/branch_1/log", 0),
    recomputed: ("x[1]", "recompute/div", 0),
}


def _bad(text):
    x = ONES.copy()
    at, _, value = text.strip("x[").partition("]")
    x[int(at)] = float(value.strip(" =") or 0)
    return x


def _call_until_it_is_found(hosts, call):
    """The twin may still be being compiled."""
    end = time.monotonic() + LONG
    while not hosts.ends and time.monotonic() < end:
        result = call()
    return result


@pytest.mark.parametrize("function", CASES, ids=lambda each: each.__name__)
def test_what_reaches_no_output_is_found(function):
    text, node, execution = CASES[function]
    bad = _bad(text)
    compiled = jax.jit(function)
    clean = ONES * 9 if function is looped else ONES
    plain = compiled(clean), compiled(bad)
    with waiting() as hosts:
        compiled(bad)
    assert not hosts.ends
    with waiting(level="ops") as hosts:
        results = [compiled(clean)]
        assert not hosts.ends
        results.append(_call_until_it_is_found(hosts, lambda: compiled(bad)))
    assert bits(results) == bits(plain)
    found = Found(hosts)
    assert (found.node, found.execution) == (node, execution)
    assert Path(__file__).read_text().splitlines()[found.line - 1].endswith("# bad")
    assert dict(found.dump.run_info().details)["Level"] == "ops (setting level ops)"


def test_it_says_so_where_the_program_would_be_called_twice():
    calls = []

    @jax.jit
    def asks(x):
        given = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return jnp.log(jax.pure_callback(lambda v: calls.append(1) or np.asarray(v), given, x))

    with waiting(level="ops") as hosts:
        asks(ONES)
        asks(_bad("x[3]"))
    assert len(calls) == 2
    level = dict(hosts.dump().run_info().details)["Level"]
    assert level.startswith("outputs (setting level ops): ")
    assert level.endswith("asks: it calls pure_callback, which is not called twice")


def test_prints_come_once_and_donated_arguments_are_gone():
    told = []

    def step(x, y):
        jax.debug.callback(lambda: told.append(1))
        return x + _finite(jnp.log(y)), (y > 2).sum()

    compiled = jax.jit(step, donate_argnums=0)
    plain = compiled(jnp.asarray(ONES), _bad("x[3]"))
    jax.effects_barrier()
    calls = len(told)
    with waiting(level="ops") as hosts:

        def call():
            nonlocal calls
            x = jnp.asarray(ONES)
            result = compiled(x, _bad("x[3]"))
            assert x.is_deleted()
            calls += 1
            return result

        result = _call_until_it_is_found(hosts, call)
        jax.effects_barrier()
    assert len(told) == calls
    assert bits(result) == bits(plain)
    assert Found(hosts).node == "log"


def test_what_is_known_to_be_a_mask_is_not_replayed_again(monkeypatch):
    replays, plainly = [], Replay.run

    def run(replay, block, values):
        replays.append(block)
        return plainly(replay, block, values)

    monkeypatch.setattr(Replay, "run", run)

    @jax.jit
    def attend(x, mask):
        return jax.nn.softmax(jnp.where(mask, x, -jnp.inf)) * x

    mask = np.arange(20) < 7
    with waiting("origin_of_nonfinite", level="ops") as hosts:
        end = time.monotonic() + LONG
        while not replays and time.monotonic() < end:
            attend(ONES, mask)
        count = len(replays)
        attend(ONES, mask)
    assert len(replays) == count
    assert not hosts.ends


def test_what_is_only_written_down_counts_for_the_filter_of_all_that_is_bad():
    @jax.jit
    def function(x):
        return jnp.where(jnp.isfinite(jnp.where(x > 0, x, jnp.nan)), x, 0)

    nodes = []
    for level in ("values", "ops"):
        with waiting(level=level) as hosts:
            end = time.monotonic() + LONG
            while not hosts.ends and time.monotonic() < end:
                function(ONES)
        nodes.append(Found(hosts).node)
    assert nodes[0] == nodes[1]
    with waiting("origin_of_nonfinite", level="ops") as hosts:
        function(ONES)
    assert not hosts.ends


def test_it_says_so_where_xla_made_nothing_bad():
    @jax.jit
    def function(x):
        return lax.lt(x, x).astype(x.dtype) / x * 0  # XLA knows that it is 0

    with waiting(level="values") as hosts:
        found = function(ONES * 0)
    (end,) = hosts.ends
    said = [each for each in end.dump.warnings if "XLA rewrote some of these ops" in each]
    assert len(said) == bool(jnp.isfinite(found).all())


@pytest.mark.skipif(jax.__version_info__ >= (0, 12), reason="its XLA leaves the factors alone")
def test_it_says_so_where_only_what_xla_made_of_it_is_bad(monkeypatch):
    gaps, plainly = [], contract_program._Host.on_run_end

    def on_run_end(host, request):
        gaps.append(request.capture.gap)
        return plainly(host, request)

    monkeypatch.setattr(contract_program._Host, "on_run_end", on_run_end)

    @jax.jit
    def function(x):
        return jnp.clip((x * 1e30) * 1e30, 0, 1)  # XLA multiplies by 1e60

    with waiting(level="ops") as hosts:
        end = time.monotonic() + LONG
        while not any(gaps) and time.monotonic() < end:
            function(ONES * 1e-30)
        function(ONES * 1e-30)
    assert not hosts.ends
    (gap,) = filter(None, gaps)  # it is known from then on
    assert gap.endswith("it isn't there when its ops are done one by one")


def test_a_loop_that_might_not_end_another_time_is_left(monkeypatch):
    from tfdbg_cli.engines.jax.twins import health

    monkeypatch.setattr(health, "MOST_ITERATIONS", 3)

    @jax.jit
    def function(x):
        start = jnp.float32(0), x
        step = lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 2), start)
        return step[1] > 3, _finite(jnp.log(x)), 1 / (x + 1)

    with waiting(level="ops") as hosts:
        _call_until_it_is_found(hosts, lambda: function(_bad("x[3]")))
        level = dict(hosts.dump().run_info().details)["Level"]
    assert Found(hosts).node == "log"
    assert level.startswith("outputs (setting level ops): function: a loop of its twin was not at")


def test_the_program_goes_on_while_a_twin_is_compiled(monkeypatch):
    may_go_on, plainly = threading.Event(), Lowered.compile

    def compile_it(lowered, *args, **kwargs):
        assert may_go_on.wait(LONG)
        return plainly(lowered, *args, **kwargs)

    monkeypatch.setattr(Lowered, "compile", compile_it)
    function = jax.jit(lambda x, y: (_finite(jnp.log(x)), 1 / y))
    function(ONES, ONES)
    threads = threading.enumerate()
    with waiting(level="ops") as hosts:
        for _ in range(3):
            function(_bad("x[3]"), ONES)  # it goes unseen
        assert not hosts.ends
        assert threading.enumerate() == threads
        function(ONES, _bad("x[3]"))
        level = dict(hosts.dump().run_info().details)["Level"]
        assert level.endswith("its twin is still being compiled")
        may_go_on.set()
        end = time.monotonic() + LONG
        while len(hosts.ends) == 1 and time.monotonic() < end:
            function(_bad("x[3]"), ONES)
    (datum, *_) = [d for d in hosts.dump().data() if not np.isfinite(d.get_tensor()).all()]
    assert datum.node_name == "log"


AT_ITS_END = """\
import jax, jax.numpy as jnp

@jax.jit
def step(x):
    for number in range(10):
        x = jnp.clip(jnp.log(jnp.abs(jnp.tanh(x @ x) / (number - x[::-1]))), -1, 1)
    return x

for _ in range(2):
    print(step(jnp.ones((8, 8))).shape)
"""


def test_the_program_may_end_while_a_twin_is_compiled(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(AT_ITS_END)
    commands = ("config set level ops", "run -n", "run -f has_inf_or_nan")
    options = [word for each in commands for word in ("-c", each)]
    done = subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", "--batch", *options, script],
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(tmp_path / "config")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0
    text = "tfdbg: no tensor passed has_inf_or_nan up to the program's end, run 2"
    assert f"\n{text}" in f"\n{done.stderr}"
    assert all(each.startswith("tfdbg: ") for each in done.stderr.splitlines())
    assert done.stdout.count("(8, 8)\n") == 2
