"""Ops against NumPy, and gradients against numeric differentiation."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp

from tfdbg_cli.engines import numpy as tf


@pytest.fixture(autouse=True)
def _fresh_graph():
    with tf.Graph().as_default():
        yield


def evaluate(fetches, feed_dict=None):
    with tf.Session(tf.get_default_graph(), seed=0) as session:
        return session.run(fetches, feed_dict)


def numeric_gradient(function, value, step=1e-6):
    """Central differences of a scalar function of a float64 array."""
    found = np.zeros_like(value)
    for index in np.ndindex(value.shape):
        moved = value.copy()
        moved[index] += step
        above = function(moved)
        moved[index] -= 2 * step
        found[index] = (above - function(moved)) / (2 * step)
    return found


def check_gradients(build, *values, tolerance=1e-5):
    """Compare ``gradients`` of ``build(*tensors)``, weighted unevenly, with differences."""
    values = [np.asarray(value, np.float64) for value in values]
    feeds = [tf.placeholder(tf.float64, [None] * value.ndim) for value in values]
    result = build(*feeds)
    with tf.Session(tf.get_default_graph()) as session:
        shape = session.run(result, dict(zip(feeds, values, strict=True))).shape
        weights = np.cos(np.arange(np.prod(shape))).reshape(shape)
        loss = tf.reduce_sum(result * weights)
        grads = tf.gradients(loss, feeds)
        for at, feed in enumerate(feeds):
            given_values = dict(zip(feeds, values, strict=True))

            def scalar(moved, feed=feed, given_values=given_values):
                return session.run(loss, {**given_values, feed: moved})

            found = session.run(grads[at], given_values)
            assert found.shape == values[at].shape
            np.testing.assert_allclose(
                found, numeric_gradient(scalar, values[at]), rtol=tolerance, atol=tolerance
            )


UNARY = [
    ("negative", np.negative),
    ("log", np.log),
    ("square", np.square),
]


@pytest.mark.parametrize(("name", "expected"), UNARY)
def test_unary_op_and_its_gradient(name, expected):
    x = np.array([[0.3, 1.7], [0.9, 2.5]])
    function = getattr(tf, name)
    np.testing.assert_allclose(evaluate(function(x)), expected(x), rtol=1e-12)
    check_gradients(function, x)
    assert function.__name__ == name


BINARY = [
    ("add", np.add),
    ("subtract", np.subtract),
    ("multiply", np.multiply),
    ("divide", np.divide),
]


@pytest.mark.parametrize(("name", "expected"), BINARY)
@pytest.mark.parametrize(
    ("left", "right"), [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 1), (1, 3)), ((), (2,)), ((1,), ())]
)
def test_binary_op_broadcasts_and_so_do_its_gradients(name, expected, left, right):
    stream = np.random.default_rng(3)
    x, y = stream.uniform(0.5, 3, left), stream.uniform(0.5, 3, right)
    function = getattr(tf, name)
    np.testing.assert_allclose(evaluate(function(x, y)), expected(x, y), rtol=1e-12)
    check_gradients(function, x, y)


@settings(max_examples=40, deadline=None)
@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3), st.data())
def test_gradients_have_the_shape_of_what_they_are_by(shapes, data):
    with tf.Graph().as_default():
        x, y = (np.ones(shape) * 1.5 for shape in shapes.input_shapes)
        static = data.draw(st.booleans())
        feeds = [tf.placeholder(tf.float64, v.shape if static else None) for v in (x, y)]
        result = feeds[0] * feeds[1] + feeds[0]
        grads = tf.gradients(result, feeds)
        made = evaluate([result, *grads], dict(zip(feeds, (x, y), strict=True)))
    size = np.prod(shapes.result_shape)
    assert made[0].shape == shapes.result_shape
    assert made[1].shape == x.shape
    assert made[2].shape == y.shape
    # The gradients of the sum are constant here: each element counts as often as it is repeated.
    np.testing.assert_allclose(np.sum(made[1]), 2.5 * size)
    np.testing.assert_allclose(np.sum(made[2]), 1.5 * size)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
def test_matmul_and_its_gradients(transpose_a, transpose_b):
    stream = np.random.default_rng(1)
    a = stream.normal(size=(4, 2) if transpose_a else (2, 4))
    b = stream.normal(size=(3, 4) if transpose_b else (4, 3))
    expected = (a.T if transpose_a else a) @ (b.T if transpose_b else b)
    np.testing.assert_allclose(evaluate(tf.matmul(a, b, transpose_a, transpose_b)), expected)
    check_gradients(lambda x, y: tf.matmul(x, y, transpose_a, transpose_b), a, b)


@pytest.mark.parametrize("name", ["sum", "mean"])
@pytest.mark.parametrize("axis", [None, 0, -1, [0, 2]])
@pytest.mark.parametrize("keepdims", [False, True])
def test_reductions(name, axis, keepdims):
    x = np.random.default_rng(2).normal(size=(2, 3, 2)).astype(np.float32)
    found = evaluate(getattr(tf, f"reduce_{name}")(x, axis, keepdims))
    numpy_axis = tuple(axis) if isinstance(axis, list) else axis
    expected = getattr(np, name)(x, axis=numpy_axis, keepdims=keepdims)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    check_gradients(lambda t: getattr(tf, f"reduce_{name}")(t, axis, keepdims), x)


def test_reductions_of_nothing_and_of_integers():
    empty = np.zeros((0, 3), np.float32)
    assert np.isnan(evaluate(tf.reduce_mean(empty)))
    total = evaluate(tf.reduce_sum(np.array([1, 2], np.int32)))
    assert total == 3
    assert total.dtype == np.int32


def test_gradient_of_a_reduction_of_unknown_rank():
    x = tf.placeholder(tf.float32)
    grad = tf.gradients(tf.reduce_mean(x), x)[0]
    np.testing.assert_allclose(evaluate(grad, {x: np.ones((2, 5))}), np.full((2, 5), 0.1))


SHAPING = [
    (lambda x: tf.reshape(x, [3, -1]), (2, 3, 2)),
    (tf.transpose, (2, 3)),
    (tf.nn.softmax, (3, 4)),
    (tf.nn.relu, (3, 4)),
    (lambda x: tf.cast(tf.cast(x, tf.float64), tf.float64), (2,)),
    (lambda x: tf.check_numerics(x, "bad"), (2,)),
    (lambda x: x + x + x * x, (2,)),
]


@pytest.mark.parametrize(("build", "shape"), SHAPING)
def test_gradients_of_shaping_and_selecting_ops(build, shape):
    value = np.random.default_rng(5).normal(size=shape)
    check_gradients(build, value)


def test_unique_has_two_outputs_in_the_order_of_appearance():
    y, idx = tf.unique([5, 3, 5, 9])
    made = evaluate([y, idx])
    np.testing.assert_array_equal(made[0], [5, 3, 9])
    np.testing.assert_array_equal(made[1], [0, 1, 0, 2])


def test_cross_entropy_is_finite_where_the_naive_one_is_not():
    logits = np.array([[1000.0, 0.0], [2.0, 1.0]])
    labels = np.array([[0.0, 1.0], [1.0, 0.0]])
    naive = -tf.reduce_sum(labels * tf.log(tf.nn.softmax(logits)), 1)
    stable = tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=logits)
    made = evaluate([naive, stable])
    assert made[0][0] == np.inf
    np.testing.assert_allclose(made[1], [1000.0, np.log1p(np.exp(-1.0))])
    check_gradients(
        lambda x, y: tf.nn.softmax_cross_entropy_with_logits_v2(labels=y, logits=x),
        logits / 500,
        labels,
    )


def test_comparisons_positions_and_choices():
    x = tf.constant([1.0, 5.0, 3.0])
    made = evaluate(
        {
            "max": tf.argmax(x),
            "int32": tf.argmax(-x, output_type=tf.int32),
            "less": x < 3.0,
            "chosen": tf.where(x > 4.0, x, 0.0 - x),
        }
    )
    assert made["max"] == 1
    assert made["int32"].dtype == np.int32
    np.testing.assert_array_equal(made["less"], [True, False, False])
    np.testing.assert_array_equal(made["chosen"], [-1.0, 5.0, -3.0])


def test_python_operators_take_arrays_on_either_side():
    x = tf.constant(np.array([2.0, 3.0]))
    array = np.array([10.0, 20.0])
    made = evaluate([array - x, 2.0 / x, 2 * x, -x, x // 2.0])
    np.testing.assert_array_equal(made[0], [8.0, 17.0])
    np.testing.assert_allclose(made[1], [1.0, 2 / 3])
    np.testing.assert_array_equal(made[2], [4.0, 6.0])
    np.testing.assert_array_equal(made[4], [1.0, 1.0])


def test_second_derivatives():
    x = tf.constant(np.array([1.0, 2.0]))
    first = tf.gradients(x * x * x, x)[0]
    second = tf.gradients(first, x)[0]
    np.testing.assert_allclose(evaluate(second), [6.0, 12.0])


def test_gradients_that_do_not_exist():
    x, other = tf.constant([1.0]), tf.constant([1.0])
    assert tf.gradients(x * 2, [x, other])[1] is None
    assert tf.gradients(x // 2.0 * 2.0, x) == [None]
    assert tf.gradients(tf.cast(tf.argmax(x), tf.float32), x) == [None]
    with pytest.raises(LookupError, match=r"Select has no gradient \(node mine\)"):
        tf.gradients(tf.where(x > 0.0, x, x, name="mine"), x)
    with pytest.raises(TypeError, match="only floating-point"):
        tf.gradients(tf.argmax(x), x)


def test_dtypes_of_python_values():
    assert tf.constant(1.5).dtype == tf.float32
    assert tf.constant([1, 2]).dtype == tf.int32
    assert tf.constant(2**40).dtype == tf.int64
    assert tf.constant(np.array([1.5])).dtype == tf.float64
    assert tf.constant("text").dtype == tf.string
    assert evaluate(tf.constant(["a", b"b"])).tolist() == [b"a", b"b"]
    with pytest.raises(TypeError, match="use cast"):
        tf.constant(1.5) + tf.constant(1)
    with pytest.raises(TypeError, match="can't be made a tensor"):
        tf.constant("text", tf.float32)


def test_small_float_types_keep_their_type_and_gradient():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = tf.constant([1.0, 4.0], ml_dtypes.bfloat16)
    grad = tf.gradients(tf.reduce_sum(x * x), x)[0]
    made = evaluate([tf.square(x), grad])
    assert made[0].dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(made[1].astype(np.float32), [2.0, 8.0])


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: tf.matmul(np.ones((2, 3)), np.ones((2, 3))), "3 columns times 2 rows"),
        (lambda: tf.constant([1.0, 2.0]) + tf.constant([1.0, 2.0, 3.0]), "can't be broadcast"),
        (lambda: tf.matmul(np.ones(3), np.ones((3, 2))), "Matrices are needed"),
        (lambda: tf.reduce_sum(tf.constant([1.0]), 3), "no dimension 3"),
    ],
)
def test_what_cannot_work_is_refused_when_the_node_is_made(build, message):
    with pytest.raises(ValueError, match=message) as caught:
        build()
    assert "(node " in str(caught.value)
