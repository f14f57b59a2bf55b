"""Whatever JAX can compile is watched, and gives what it would give."""

import functools
import gc
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax
from jax.experimental import checkify, io_callback
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from jax_kit import bits, waiting, watched
from samples import sample

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.base import RunAction, Watch
from tfdbg_cli.engines.jax.engine import ENGINE
from tfdbg_cli.filters.builtin import has_inf_or_nan
from tfdbg_cli.filters.origins import origin_of_nonfinite

CASES = {}
# The flag of types whose attributes Python has looked up.
_CACHED = 1 << 19
enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64


def case(*nodes):
    """A program of one function, and some of the nodes that its runs have."""

    def add(function):
        CASES[function.__name__] = (function, nodes)
        return function

    return add


def _ones(*shape):
    return jnp.ones(shape)


@case("scan/tanh", "scan/carry", "scan", "gradients/scan/mul")
def scan_with_gradient():
    def cell(h, x):
        h = jnp.tanh(h + x)
        return h, h

    return jax.jit(jax.value_and_grad(lambda h, xs: lax.scan(cell, h, xs)[0].sum()))(
        _ones(2), _ones(5, 2)
    )


@case("while/mul", "while/cond/lt")
def while_loop():
    step = functools.partial(lax.while_loop, lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 2))
    return jax.jit(lambda x: step((0, x)))(_ones(3))


@case("while/log", "while/cond/lt")
def while_under_vmap():
    def until(x):
        step = functools.partial(lax.while_loop, lambda c: c[0] < x)
        return step(lambda c: (c[0] + 1, c[1] + jnp.log(c[1] + 2)), (0.0, x))

    return jax.jit(jax.vmap(until))(jnp.array([1.0, 3.0]))


@case("scan/add")
def fori_loop():
    return jax.jit(lambda x: lax.fori_loop(0, 4, lambda i, c: c + i, x))(_ones(3))


@case("cond/branch_1/sin")
def cond():
    return jax.jit(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x))(True, _ones(3))


@case("cond/branch_2/tan")
def switch():
    return jax.jit(lambda p, x: lax.switch(p, [jnp.sin, jnp.cos, jnp.tan], x))(2, _ones(3))


@case("select_n")
def cond_under_vmap():
    function = jax.vmap(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x))
    return jax.jit(function)(jnp.array([True, False]), _ones(2))


@case()
def associative_scan():
    return jax.jit(lambda x: lax.associative_scan(jnp.add, x))(jnp.arange(8.0))


@case("exp")
def custom_derivatives():
    @jax.custom_vjp
    def own(x):
        return jnp.exp(x)

    own.defvjp(lambda x: (jnp.exp(x), x), lambda x, g: (g * x,))

    @jax.custom_jvp
    def other(x):
        return jnp.sin(x)

    other.defjvps(lambda t, _, x: t * jnp.cos(x))
    return jax.jit(jax.value_and_grad(lambda x: (own(x) + other(x)).sum()))(_ones(3))


@case("recompute/cos")
def remat():
    inner = jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    return jax.jit(jax.grad(lambda x: inner(x).sum()))(_ones(3))


@case("random_bits")
def typed_and_raw_keys():
    draw = jax.jit(lambda key: (jax.random.bits(key, (2,)), jax.random.key_data(key)))
    return draw(jax.random.key(1)), jax.jit(jax.random.split)(jax.random.PRNGKey(1))


@case("scan/normal/normal_real/mul")
def keys_in_a_loop():
    def draw(carry, key):
        return carry, jax.random.normal(key)

    return jax.jit(lambda key: lax.scan(draw, 0.0, jax.random.split(key, 3)))(jax.random.key(0))


@case("mul")
def static_arguments():
    function = jax.jit(
        lambda x, n, *, mode: x * n if mode == "a" else x, static_argnums=1, static_argnames="mode"
    )
    return function(_ones(2), 3, mode="a")


@case("add")
def donated_arguments():
    x = _ones(3)
    result = jax.jit(lambda x, y: x + y, donate_argnums=0)(x, _ones(3))
    assert x.is_deleted()
    return result


@case("mul")
def small_dtypes():
    given = [_ones(2).astype(name) for name in ("bfloat16", "float8_e4m3fn", "int8", "float16")]
    return jax.jit(lambda *xs: [x * 2 for x in xs])(*given)


@case("convert_element_type")
def int4():
    return jax.jit(lambda x: x.astype(jnp.int4))(_ones(2)).astype(jnp.int8)


try:
    sharded = jax.shard_map
except AttributeError:  # before JAX 0.6
    from jax.experimental.shard_map import shard_map as sharded

if jax.__version_info__ >= (0, 9):  # before, it was compiled in a way of its own

    @case("shard_map")
    def pmap():
        return jax.pmap(lambda x: x * 2)(_ones(1, 3))


@case("shard_map")
def shard_map():
    mesh = Mesh(np.array(jax.devices()[:1]), ("d",))
    total = sharded(lambda x: lax.psum(jnp.log(x), "d"), mesh=mesh, in_specs=P("d"), out_specs=P())
    return jax.jit(total)(jax.device_put(jnp.arange(8.0), NamedSharding(mesh, P("d"))))


@case("log")
def ahead_of_time():
    return jax.jit(jnp.log).lower(_ones(2)).compile()(_ones(2))


@case("log")
def checked():
    checked = jax.jit(checkify.checkify(lambda x: jnp.log(x).sum()))
    return checked(_ones(2))[1]


@case()
def linearized():
    _, linear = jax.linearize(jnp.log, _ones(2))
    return jax.jit(linear)(_ones(2))


@case()
def pulled_back():
    _, back = jax.vjp(jnp.log, _ones(2))
    return jax.jit(back)(_ones(2))


@case("call_exported")
def exported():
    return jax.jit(export.export(jax.jit(jnp.log))(_ones(2)).call)(_ones(2))


@case("f/log", "f/log_1")
def nested():
    @jax.jit
    def f(x):
        return jnp.log(x)

    return jax.jit(lambda x: f(x) + f(x * 2))(_ones(2))


@case("log")
def double_precision():
    with enable_x64(True):
        return jax.jit(jnp.log)(np.ones(2))


@case("log")
def called_by_grad():
    return jax.grad(jax.jit(lambda x: jnp.log(x).sum()))(_ones(2))


@case("constant", "mul")
def closed_over():
    array = _ones(3)
    return jax.jit(lambda x: x * array)(_ones(3))


@case()
def trees_without_arrays():
    return jax.jit(lambda x, y=None: {"a": (x, None), "b": y})(_ones(2))


@case()
def sorted_and_solved():
    function = jax.jit(lambda x: (jnp.argsort(x), lax.top_k(x, 2)[0], jnp.linalg.inv(jnp.eye(3))))
    return function(jnp.arange(4.0))


SOME = (
    "checked",
    "pulled_back",
    "scan_with_gradient",
    "while_under_vmap",
    "cond",
    "custom_derivatives",
    "donated_arguments",
    "shard_map",
    "double_precision",
)


@pytest.mark.parametrize("name", [*sample(CASES, SOME)])
def test_it_gives_what_it_would_give_and_every_op_is_seen(name):
    function, nodes = CASES[name]
    plain = function()
    with watched() as hosts:
        debugged = function()
    assert bits(debugged) == bits(plain)
    dumps = [end.dump for end in hosts.ends]
    assert dumps
    labels = [label for dump in dumps for label, _ in dump.run_info().details]
    assert "Incomplete" not in labels
    for dump in dumps:
        values = [datum.get_tensor() for datum in dump.data()]
        assert len(values) == len(dump.data())
        assert [node.frames for node in dump.graph().nodes.values()]
    seen = {datum.node_name for dump in dumps for datum in dump.data()}
    assert set(nodes) <= seen, seen


def test_functions_of_the_programs_are_called_once():
    calls = []

    def called(x):
        calls.append("called")
        return np.asarray(x) + len(calls)

    @jax.jit
    def function(x):
        jax.debug.callback(lambda: calls.append("told"))
        kept = io_callback(called, jax.ShapeDtypeStruct((2,), jnp.float32), x, ordered=True)
        return kept + jax.pure_callback(called, jax.ShapeDtypeStruct((2,), jnp.float32), kept)

    with watched() as hosts:
        result = function(_ones(2))
        jax.effects_barrier()
    assert sorted(calls) == ["called", "called", "told"]
    dump = hosts.dump()
    assert dump.by_node("add")[0].get_tensor().tolist() == result.tolist()
    assert not [text for label, text in dump.run_info().details if label == "Incomplete"]


def test_a_function_that_was_compiled_before_is_seen_and_afterwards_it_is_not():
    function = jax.jit(jnp.log)
    kind = type(function)
    before = kind.__flags__ | _CACHED, kind.__call__
    function(_ones(2))
    with watched() as hosts:
        function(_ones(2))
    function(_ones(2))
    assert len(hosts.ends) == 1
    assert (kind.__flags__ | _CACHED, kind.__call__) == before


def test_operations_outside_of_compiled_functions_are_no_runs_and_that_is_said():
    function = jax.jit(jnp.log)
    with watched() as hosts:
        x = jnp.arange(3.0) * 2 + 1
        function(x)
        with ENGINE.block("all"):
            y = jnp.exp(x)
            function(y)
    first, block = (end.dump for end in hosts.ends)
    ((_, text),) = [each for each in first.run_info().details if each[0] == "Not seen"]
    assert int(text.split()[0]) >= 2
    assert "tfdbg_cli.run()" in text
    nodes = block.graph().nodes
    assert {"exp", "log"} <= {node.op_type for node in nodes.values()}
    (log,) = [node for node in nodes.values() if node.op_type == "log"]
    assert log.inputs == ("exp:0",)


def test_errors_of_tracing_are_the_programs_own():
    function = jax.jit(lambda a, b: a @ b)
    with pytest.raises(TypeError) as plain:
        function(_ones(2, 3), _ones(2, 3))
    with watched(), pytest.raises(TypeError) as debugged:
        function(_ones(2, 3), _ones(2, 3))
    assert str(debugged.value) == str(plain.value)
    with watched() as hosts, pytest.raises(jax.errors.ConcretizationTypeError):
        jax.jit(bool)(_ones())
    assert hosts.ends[-1].error is not None


new_ref = getattr(jax, "new_ref", None) or jax._src.core.mutable_array  # before JAX 0.7


class TestMutableArrays:
    def test_they_are_written_to_once_and_done_again_on_copies(self):
        @jax.jit
        def function(total, x):
            total[...] += x
            total[0] = x[0] * 9
            return total[...] * 2

        total = new_ref(_ones(2))
        with watched() as hosts:
            results = [function(total, _ones(2)).tolist() for _ in range(2)]
        assert results == [[18, 4], [18, 6]]
        assert total[...].tolist() == [9, 3]
        dump = hosts.dump()
        assert dump.by_tensor("total:0")[0].get_tensor().tolist() == [9, 2]
        assert dump.by_tensor("total/written:0")[0].get_tensor().tolist() == [9, 3]
        info = dump.run_info()
        assert info.outputs == {"result": "mul_1:0", "total": "total/written:0"}
        assert "Incomplete" not in dict(info.details)
        with pytest.raises(UserError, match="mutable arrays"):
            ENGINE.call_stepper(function, [total, _ones(2)], {})

    def test_what_is_bad_in_them_is_waited_for(self):
        @jax.jit
        def function(total, x):
            total[...] = jnp.log(x)
            inner = new_ref(total[...] + 1)
            inner[...] = inner[...] * 2

        total = new_ref(_ones(2))
        with waiting("origin_of_nonfinite") as hosts:
            for x in (_ones(2), jnp.zeros(2)):
                function(total, x)
        (bad,) = hosts.ends  # of the first one there was nothing to see
        found = bad.dump.find(origin_of_nonfinite)
        assert [each.tensor_name for each in found] == ["log:0"]

    def test_one_that_is_no_argument(self):
        total = new_ref(_ones(2))

        @jax.jit
        def function(x):
            total[...] += x

        with watched() as hosts:
            function(_ones(2))
        assert total[...].tolist() == [2, 2]
        labels = dict(hosts.dump().run_info().details)
        assert "that are none of its arguments" in labels["Incomplete"]


def test_a_training_run_is_one_that_computes_gradients():
    gradient = jax.jit(jax.grad(lambda x: jnp.sin(x).sum()))
    plain = jax.jit(jnp.sin)
    with watched() as hosts:
        gradient(_ones(2))
        plain(_ones(2))
        gradient(_ones(2))
    kinds = [end.dump.run_info().kind for end in hosts.ends]
    assert kinds == ["training run", "call", "training run"]
    # In a loop, as several steps are; solving equations knows a transpose, and is no gradient.
    loop = jax.jit(lambda x: jax.lax.scan(lambda c, _: (jax.grad(jnp.sin)(c), c), x, length=2)[0])
    solve = jax.jit(lambda x: jnp.linalg.solve(x, x))
    with watched() as looped:
        loop(jnp.float32(1))
        solve(jnp.eye(2))
    kinds = [end.dump.run_info().kind for end in looped.ends]
    assert kinds == ["training run", "call"]
    first, _, second = (end.dump.run_info().number for end in hosts.ends)
    assert second == first + 1


def test_results_that_were_computed_otherwise_are_told():
    function = jax.jit(lambda x: jnp.exp(x) / jnp.sum(jnp.exp(x)))
    x = jax.random.normal(jax.random.key(0), (1000,))
    with watched() as hosts:
        result = np.asarray(function(x))
    dump = hosts.dump()
    (datum,) = dump.by_tensor(dump.run_info().outputs["result"])
    is_same = datum.get_tensor().tobytes() == result.tobytes()
    told = [text for label, text in dump.run_info().details if label == "Replayed"]
    assert bool(told) is not is_same


def test_what_only_the_compiled_function_makes_is_told():
    """XLA divides by the product of two numbers, which is 0; op by op all is finite."""
    function = jax.jit(lambda x: x / 1e-30 / 1e-30)
    with waiting() as hosts:
        result = function(jnp.full(2, 1e-30))
    if np.isfinite(result).all():
        pytest.skip("this XLA divides twice")
    (end,) = hosts.ends
    assert "isn't there when its ops are done one by one" in end.capture.gap
    assert "whether it is finite" in dict(end.dump.run_info().details)["Replayed"]


@pytest.mark.parametrize("level", ["ops", "values"])
def test_what_no_result_depends_on_is_seen(level):
    """XLA leaves it out, but the program says it, and a gradient's reason may be there."""

    @jax.jit
    def function(x):
        jnp.log(x)
        jax.jit(lambda y: (jnp.sqrt(y), y / x))(x)[0] * 2
        left, _ = jax.jit(lambda y: (y + 1, jnp.log(y)))(x)
        jax.debug.print("{}", jnp.sum(left))
        total, logs = lax.scan(lambda c, y: (c + y, (y, jnp.log(y - 1))), x[0], x)
        return total, left, logs[0]

    with waiting(level=level) as hosts:
        jax.block_until_ready(function(jnp.zeros(3)))
    (end,) = hosts.ends
    bad = [each.tensor_name for each in end.dump.find(has_inf_or_nan)]
    assert bad[:3] == ["log:0", "lambda/div:0", "lambda/log:0"]
    assert bad[3:6] == ["scan/log:0"] * 3


def test_while_nothing_is_bad_nothing_is_replayed():
    function = jax.jit(jnp.log)
    with waiting() as hosts:
        for number in (2.0, 1.0, 0.0):
            function(jnp.full(2, number))
    (end,) = hosts.ends
    assert [datum.node_name for datum in end.dump.data()] == ["x", "log"]


def test_watching_for_some_ops_keeps_those():
    function = jax.jit(lambda x: jnp.log(x) + jnp.exp(x))
    with watched(Watch(op_type="^exp$")) as hosts:
        function(_ones(2))
    assert [datum.tensor_name for datum in hosts.dump().data()] == ["exp:0"]


def test_values_beyond_the_limit_are_on_disk():
    def rounds(x, key):
        y = jnp.bfloat16(2) * x.astype(jnp.bfloat16)
        c, _ = lax.scan(lambda c, v: (jnp.sin(c) + v, None), x, jnp.arange(20.0))
        return c + y.sum() + jax.random.uniform(key)

    function = jax.jit(rounds)
    given = _ones(1000), jax.random.key(0)
    held = {}
    for limit in (None, 10_000):
        before = {id(each): each for each in jax.live_arrays()}  # held, so that ids are theirs
        with watched(Watch(limit=limit)) as hosts:
            function(*given)
        (end,) = hosts.ends
        data = end.dump.data()
        new = [each for each in jax.live_arrays() if id(each) not in before]
        held[limit] = (
            sum(each.nbytes for each in new),
            [
                (each.tensor_name, each.get_tensor().tobytes(), each.dtype, each.note)
                for each in data
            ],
        )
    # Each of 4,000 bytes or less; what the call has given back is the program's.
    assert held[None][0] > 40 * 4000 > 20_000 > held[10_000][0]
    assert held[None][1] == held[10_000][1]


def test_a_run_is_timed_op_by_op():
    def cell(h, x):
        return jnp.tanh(h + x), h

    function = jax.jit(lambda h, xs: lax.scan(cell, h, xs)[0] * 2)
    with watched() as hosts:
        hosts.action = RunAction.PROFILE_RUN
        result = function(_ones(2), _ones(5, 2))
    assert bits(result) == bits(function(_ones(2), _ones(5, 2)))
    (end,) = hosts.ends
    dump = end.dump
    assert not dump.data()
    entries = list(dump.profile())
    names = [entry.node for entry in entries]
    # Each iteration, in the order in which it was done; the loop itself is what is in it.
    assert names == ["scan/add", "scan/tanh"] * 5 + ["mul"]
    starts = [entry.start for entry in entries]
    assert starts == sorted(starts) and starts[0] == 0
    assert all(0 < entry.op_time == entry.exec_time for entry in entries)
    assert [device.name for device in dump.profile().devices] == ["CPU:0"]
    assert {"scan/add", "mul"} <= dump.graph().nodes.keys()
    assert "done one by one" in dump.warnings[0]


def test_what_is_not_compiled_at_all_is_called_once():
    calls = []

    @jax.jit
    def by_hand(x):
        calls.append(x.shape)
        return jnp.log(x) if x.sum() > 0 else x  # no tracer has such a sum

    with watched() as hosts:
        with jax.disable_jit():
            by_hand(_ones(2))
        assert (len(calls), hosts.starts) == (1, [])
        jax.jit(jnp.log)(_ones(2))
        assert len(hosts.ends) == 1


def test_arrays_that_the_program_lets_go_of_are_gone():
    """Without a garbage collection: what was looked at keeps them no longer than itself."""
    gc.disable()
    try:
        with waiting():
            seen = weakref.ref(jax.jit(jnp.log)(jnp.ones(3)))
            assert seen() is None
        with watched() as hosts:
            seen = weakref.ref(jax.jit(jnp.log)(jnp.zeros(3)))
            assert len(hosts.ends) == 1
            hosts._all.clear()  # whoever debugs has looked
        assert seen() is None
    finally:
        gc.enable()


def test_a_bad_argument_that_is_donated_is_copied_while_jax_looks_for_bad_results():
    function = jax.jit(lambda x: jnp.where(jnp.isnan(x), 0, x), donate_argnums=0)
    bad = jnp.full(3, jnp.nan)
    with jax.debug_nans(True), watched() as hosts:
        np.testing.assert_array_equal(function(bad), np.zeros(3))
    assert np.isnan(hosts.dump().by_tensor("x:0")[0].get_tensor()).all()


def test_an_error_of_jax_debug_nans_is_shown_with_the_op_that_began_it():
    function = jax.jit(lambda x: jnp.log(x).sum())
    with jax.debug_nans(True), watched() as hosts, pytest.raises(FloatingPointError):
        function(jnp.array([1.0, -1.0]))
    (end,) = hosts.ends
    assert end.error is not None
    assert end.error.type_name == "FloatingPointError"
    assert np.isnan(hosts.dump().by_tensor("log:0")[0].get_tensor()).any()


def test_a_function_that_numpy_has_ended_while_it_was_traced_isn_t_called_again():
    traced = []

    def function(x):
        traced.append(x)
        with np.errstate(divide="raise"):
            return x * (np.ones(2) / np.zeros(2))

    with watched() as hosts, pytest.raises(FloatingPointError):
        jax.jit(function)(1.0)
    assert len(traced) == 1
    assert hosts.ends[0].error is None
