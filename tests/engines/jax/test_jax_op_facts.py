"""What is said of JAX's ops, tried on JAX."""

import contextlib
import functools
import itertools

import jax
import numpy as np
import pytest
from jax import lax
from jax.experimental import layout
from jax.extend import core
from jax.extend.core import primitives
from samples import sample

from tfdbg_cli.engines.jax.twins.loops import inner_jaxprs
from tfdbg_cli.engines.jax.twins.op_facts import FACTS, op_of
from tfdbg_cli.testing.op_facts_contract import (
    Call,
    ComputedOp,
    Operand,
    OpFactsContract,
    Unsupported,
)

X = Operand((3, 4))
LINE = Operand((12,))
AT = np.array([2, 0], np.int32)
MASK = np.arange(12).reshape(3, 4) % 2 == 0
PLACE = jax.sharding.PartitionSpec()
enable_x64 = jax.enable_x64 if hasattr(jax, "enable_x64") else jax.experimental.enable_x64
#: Ops of explicit shardings: JAX before 0.9 has other ones, or other ways to them.
PLACING = {"layout_constraint", "pvary", "reshard"}
HAS_PLACING = jax.__version_info__ >= (0, 9)
FLOATS = ("float16", "bfloat16", "float32", "float64")
KINDS = (*FLOATS, "complex64", "complex128", "int8", "uint16", "int32", "uint64", "bool")


def conversions():
    for given, made in itertools.product(KINDS, (*FLOATS, "complex64")):
        function = functools.partial(lax.convert_element_type, new_dtype=np.dtype(made))
        yield Call((Operand((12,), given),), function)


def gathers():
    for mode, last in (("clip", 9), ("fill", 9), ("promise_in_bounds", 1)):
        at = np.array([2, 0, last], np.int32)
        yield Call((X, at), lambda x, at, mode=mode: x.at[at].get(mode=mode))


def scattered(kind):
    numbers = lax.ScatterDimensionNumbers((1,), (0,), (0,))

    def call(x, updates):
        return kind(x, AT[:, None], updates, numbers, mode="drop")

    return [Call((X, Operand((2, 4))), call)]


def reductions(function):
    for axes in ((0,), (1,), (0, 1)):
        yield Call((X,), functools.partial(function, axes=axes))


def convolutions():
    for strides, padding, dilation in (
        ((1,), "VALID", (1,)),
        ((1,), "SAME", (1,)),
        ((2,), "VALID", (1,)),
        ((1,), "VALID", (2,)),
        ((1,), [(-1, 0)], (1,)),
    ):

        def call(x, w, strides=strides, padding=padding, dilation=dilation):
            return lax.conv_general_dilated(x, w, strides, padding, rhs_dilation=dilation)

        yield Call((Operand((1, 2, 5)), Operand((1, 2, 2))), call)


def products():
    yield Call((X, Operand((4, 2))), lax.dot)
    yield Call((X, X), lambda x, y: lax.dot_general(x, y, (((), ()), ((0,), (0,)))))


@functools.cache
def mesh():
    return jax.make_mesh((1,), ("d",), axis_types=(jax.sharding.AxisType.Explicit,))


def varied(x):
    def call(x):
        return lax.pcast(x, ("d",), to="varying")

    specs = {"in_specs": PLACE, "out_specs": jax.sharding.PartitionSpec("d")}
    return jax.shard_map(call, mesh=mesh(), **specs)(x)


def placed(x):
    plain = jax.sharding.Mesh(jax.devices()[:1], "d")
    return lax.with_sharding_constraint(x, jax.sharding.NamedSharding(plain, PLACE))


def laid_out(x):
    return layout.with_layout_constraint(x, layout.Layout((0, 1)))


def resharded(x):
    return jax.sharding.reshard(x, jax.sharding.NamedSharding(mesh(), PLACE))


#: Primitive -> its calls, where it isn't a function of one array in `lax` of the same name.
CALLS = {
    **{
        name: [Call((X, X), getattr(lax, name))]
        for name in ("add", "complex", "div", "max", "min", "mul", "rem", "sub")
    },
    "add_any": [Call((X, X), primitives.add_jaxvals_p.bind)],
    "broadcast_in_dim": [
        Call((X,), lambda x: lax.broadcast_in_dim(x, (2, *x.shape), (1, 2))),
        Call((Operand((1, 4)),), lambda x: lax.broadcast_in_dim(x, (0, 4), (0, 1))),
    ],
    "clamp": [Call((X, X, X), lax.clamp)],
    "concatenate": [
        Call((X, Operand((2, 4))), lambda x, y: lax.concatenate([x, y], 0)),
    ],
    "conv_general_dilated": [*convolutions()],
    "convert_element_type": [*conversions()],
    "copy": [Call((X,), primitives.copy_p.bind)],
    "device_put": [Call((X,), jax.device_put)],
    "dot_general": [*products()],
    "dynamic_slice": [Call((X,), lambda x: lax.dynamic_slice(x, (AT[0], AT[1]), (1, 2)))],
    "dynamic_update_slice": [
        Call((X, Operand((2, 4))), lambda x, y: lax.dynamic_update_slice(x, y, (AT[0], AT[1])))
    ],
    "gather": [*gathers()],
    "integer_pow": [
        Call((X,), functools.partial(lax.integer_pow, y=y)) for y in (-3, -1, 0, 2, 3, 4, 7)
    ],
    "optimization_barrier": [Call((X, X), lambda x, y: lax.optimization_barrier((x, y)))],
    "pad": [
        Call((X, Operand(())), functools.partial(lax.pad, padding_config=(rows, (0, 0, 1))))
        for rows in ((1, 2, 0), (0, -1, 0), (-1, 0, 1))
    ],
    "reduce_precision": [
        Call((X,), functools.partial(lax.reduce_precision, exponent_bits=5, mantissa_bits=10))
    ],
    "reshape": [Call((X,), lambda x: lax.reshape(x, (x.size,)))],
    "rev": [Call((X,), lambda x: lax.rev(x, (0,)))],
    "scatter": scattered(lax.scatter),
    "scatter-add": scattered(lax.scatter_add),
    "select_n": [Call((MASK, X, X), lax.select_n)],
    "slice": [Call((X,), lambda x: lax.slice(x, (1, 0), (3, 4), (1, 2)))],
    "split": [Call((X,), lambda x: lax.split(x, (1, 3), axis=1))],
    "squeeze": [Call((Operand((1, 4)),), lambda x: lax.squeeze(x, (0,)))],
    "top_k": [Call((X,), lambda x: lax.top_k(x, 2))],
    "transpose": [Call((X,), lambda x: lax.transpose(x, (1, 0)))],
    **{
        name: [*reductions(getattr(lax, name, None) or getattr(lax, f"{name}_p").bind)]
        for name in ("reduce_max", "reduce_min", "reduce_prod", "reduce_sum")
    },
    **{
        name: [
            Call((X,), functools.partial(getattr(lax, name), axis=axis, reverse=reverse))
            for axis in (0, 1)
            for reverse in (False, True)
        ]
        for name in ("cummax", "cummin", "cumprod", "cumsum")
    },
    "sharding_constraint": [Call((X,), placed)],
    "pvary": [Call((X,), varied)],
    "reshard": [Call((X,), resharded)],
    "layout_constraint": [Call((X,), laid_out)],
}


@functools.cache
def compiled(name, function, kinds):
    """A function, its equation of a name, and all that these make."""
    given = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in kinds]
    (equation,) = found(jax.make_jaxpr(function)(*given).jaxpr, name)
    return jax.jit(function), equation


def found(jaxpr, name):
    for equation in jaxpr.eqns:
        if equation.primitive.name == name:
            yield equation
        for inner in inner_jaxprs(equation):
            yield from found(inner, name)


@pytest.fixture(autouse=True)
def _with_wide_numbers():
    with enable_x64(True):
        yield


@pytest.mark.filterwarnings("ignore:Casting complex values")
class TestJaxFacts(OpFactsContract):
    facts = FACTS
    absent = FACTS.keys() - {*sample(FACTS, 12)} | {*(() if HAS_PLACING else PLACING)}
    dtypes = (*sample(OpFactsContract.dtypes, ("float16", "float32", "complex64")),)

    def calls(self, name):
        return CALLS[name] if name in CALLS else [Call((X,), getattr(lax, name))]

    def compute(self, name, call, operands):
        around = jax.set_mesh(mesh()) if name == "reshard" else contextlib.nullcontext()
        with around:
            kinds = tuple((each.shape, each.dtype) for each in operands)
            try:
                function, equation = compiled(name, call.more, kinds)
                made = [np.asarray(each) for each in jax.tree.leaves(function(*operands))]
            except (AssertionError, TypeError, ValueError, jax.errors.JaxRuntimeError) as error:
                raise Unsupported from error
        op = op_of(equation)
        keys = [each for each in equation.invars if not isinstance(each, core.Literal)]
        return ComputedOp(op, keys, made)
