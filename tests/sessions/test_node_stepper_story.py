"""What the original's stepper answered, asked of `NodeStepper` on both engines."""

from types import SimpleNamespace

import numpy as np
import pytest
from session_kit import ENGINES, descend, framework

from tfdbg_cli import NodeStepper

HANDLE, CLIENT = NodeStepper.FEED_TYPE_HANDLE, NodeStepper.FEED_TYPE_CLIENT
OVERRIDE, DUMPED = NodeStepper.FEED_TYPE_OVERRIDE, NodeStepper.FEED_TYPE_DUMPED_INTERMEDIATE


def kind(engine):
    return {"use_resource": False} if engine == "tensorflow" else {}


@pytest.fixture(params=ENGINES)
def products(request):
    """``e`` = (a a) (a b) with a = 2 and b = 3."""
    tf = framework(request.param)
    with tf.Graph().as_default(), tf.Session() as session:
        a = tf.Variable(2.0, name="a", **kind(request.param))
        b = tf.Variable(3.0, name="b", **kind(request.param))
        c = tf.multiply(a, b, name="c")
        d = tf.multiply(a, a, name="d")
        e = tf.multiply(d, c, name="e")
        session.run(tf.global_variables_initializer())
        yield SimpleNamespace(session=session, a=a, c=c, e=e)


@pytest.fixture(params=ENGINES)
def fed(request):
    """``y`` = ph0 ph1 + ph1."""
    tf = framework(request.param)
    with tf.Graph().as_default(), tf.Session() as session:
        ph0 = tf.placeholder(tf.float32, [2, 2], name="ph0")
        ph1 = tf.placeholder(tf.float32, [2, 1], name="ph1")
        x = tf.matmul(ph0, ph1, name="x")
        y = tf.add(x, ph1, name="y")
        feeds = {ph0: [[1.0, 2.0], [-3.0, 5.0]], ph1: [[-1.0], [0.5]]}
        yield SimpleNamespace(session=session, ph0=ph0, x=x, y=y, feeds=feeds)


@pytest.fixture(params=ENGINES)
def descent(request):
    """A step of gradient descent on (a b) (b c) with a = 1, b = 2 and c = 4."""
    tf = framework(request.param)
    with tf.Graph().as_default(), tf.Session() as session:
        a, b, c = (
            tf.Variable(value, name=name, **kind(request.param))
            for name, value in (("a", 1.0), ("b", 2.0), ("c", 4.0))
        )
        f = tf.multiply(tf.multiply(a, b, name="d"), tf.multiply(b, c, name="e"), name="f")
        descend(tf, 0.01, f, [a, b, c], name="optim")
        session.run(tf.global_variables_initializer())
        updates = [
            op.name
            for op in session.graph.get_operations()
            if "Apply" in op.type or op.type == "AssignSub"
        ]
        yield SimpleNamespace(session=session, variables=[a, b, c], a=a, b=b, updates=updates)


def test_what_a_move_has_used(products):
    with NodeStepper(products.session, products.e) as stepper:
        assert stepper.handle_names() == []
        assert stepper.last_updated() is None
        assert stepper.cont(products.c) == 6
        assert stepper.last_feed_types() == {}
        assert stepper.last_updated() == set()
        assert stepper.handle_names() == ["c:0"]
        assert set(stepper.intermediate_tensor_names()) == {"a/read:0", "b/read:0"}
        assert stepper.cont("c") == 6
        assert stepper.last_feed_types() == {"c:0": HANDLE}
        assert stepper.cont("e:0") == 24
        assert stepper.last_feed_types() == {"c:0": HANDLE, "a/read:0": DUMPED}
        assert stepper.cont("d:0") == 4
        assert stepper.last_feed_types() == {"d:0": DUMPED}


def test_overrides_are_no_handles(products):
    with NodeStepper(products.session, products.e) as stepper:
        stepper.cont("c:0")
        stepper.override_tensor("c:0", 7.0)
        assert stepper.get_tensor_value("c:0") == 7
        assert stepper.handle_names() == []
        assert stepper.handle_node_names() == set()
        assert stepper.cont("c:0") == 7
        assert stepper.last_feed_types() == {"c:0": OVERRIDE}
        assert stepper.cont("e:0") == 28
        assert stepper.last_feed_types() == {"c:0": OVERRIDE, "a/read:0": DUMPED}
        assert stepper.handle_names() == ["e:0"]
        stepper.override_tensor("c:0", 8.0)  # what has used it is to be done again
        assert stepper.handle_names() == []
        assert stepper.cont("e:0") == 32
        assert stepper.last_feed_types() == {"c:0": OVERRIDE, "d:0": DUMPED}
        stepper.remove_override("c:0")
        assert "e:0" not in stepper.handle_names()
        assert stepper.cont("e:0") == 24
        assert stepper.handle_names() == ["c:0", "e:0"]


def test_only_names_are_overridden(products):
    with NodeStepper(products.session, products.e) as stepper:
        for wrong in (products.a, products.c):
            with pytest.raises(TypeError, match="Expected type str; got type"):
                stepper.override_tensor(wrong, 42.0)
            with pytest.raises(TypeError, match="Expected type str; got type"):
                stepper.is_feedable(wrong)


def test_placeholders_without_feeds(fed):
    with NodeStepper(fed.session, fed.y) as stepper:
        assert set(stepper.placeholders()) == {"ph0", "ph1"}
        assert stepper.is_placeholder("ph0:0")
        assert not stepper.is_placeholder("x:0")
        with pytest.raises(ValueError, match="A"):
            stepper.is_placeholder("A")


def test_placeholders_with_feeds(fed):
    with NodeStepper(fed.session, fed.y, fed.feeds) as stepper:
        assert set(stepper.placeholders()) == {"ph0", "ph1"}
        assert stepper.get_tensor_value("ph0").tolist() == fed.feeds[fed.ph0]
        assert stepper.get_tensor_value("ph0:0").tolist() == fed.feeds[fed.ph0]
        for target in (fed.ph0, "ph0:0", "ph0", fed.ph0.op):
            assert stepper.cont(target).tolist() == fed.feeds[fed.ph0]
            assert stepper.last_feed_types() == {"ph0:0": CLIENT}
        assert stepper.cont(fed.x).tolist() == [[0.0], [5.5]]
        assert stepper.last_feed_types() == {"ph0:0": CLIENT, "ph1:0": CLIENT}
        assert stepper.handle_names() == ["x:0"]
        assert stepper.cont(fed.y).tolist() == [[-1.0], [6.0]]
        assert stepper.last_feed_types() == {"x:0": HANDLE, "ph1:0": CLIENT}
        assert stepper.finalize().tolist() == [[-1.0], [6.0]]


def test_a_tensor_that_is_fed_is_no_placeholder(fed):
    with NodeStepper(fed.session, fed.y, {fed.x: [[1.0], [2.0]], "ph1:0": [[0.0], [0.0]]}) as found:
        assert found.placeholders() == ["ph1"]
        assert not found.is_placeholder("x")
        assert found.cont("x").tolist() == [[1.0], [2.0]]
        assert found.last_feed_types() == {"x:0": CLIENT}


def test_going_on_to_updates(descent):
    (update_a,) = [name for name in descent.updates if "update_a" in name]
    (update_b,) = [name for name in descent.updates if "update_b" in name]
    with NodeStepper(descent.session, "optim") as stepper:
        assert stepper.cont("a:0") == 1
        assert stepper.last_feed_types() == {}
        assert stepper.dirty_variables() == set()
        # Nobody uses what it gives.
        assert stepper.cont(update_a, invalidate_from_updated_variables=True) is None
        assert stepper.last_updated() == {"a:0"}
        assert stepper.dirty_variables() == {"a:0"}
        assert update_a not in stepper.handle_node_names()
        found = stepper.cont(descent.variables)
        np.testing.assert_allclose(found, [0.84, 2, 4])
        assert descent.session.run(descent.variables) == [1, 2, 4]
        assert stepper.cont(update_a) is None  # once is enough
        assert stepper.last_updated() == set()
        assert stepper.cont(update_b, restore_variable_values=True) is None
        assert stepper.last_updated() == {"b:0"}
        assert stepper.dirty_variables() == {"b:0"}
        np.testing.assert_allclose(stepper.cont([descent.a, "b:0", "c"]), [1, 1.84, 4])
    assert descent.session.run(descent.variables) == [1, 2, 4]
    with NodeStepper(descent.session, "optim") as stepper:
        stepper.cont(update_b)
        assert stepper.finalize() is None
    found = descent.session.run(descent.variables)
    np.testing.assert_allclose(found, [0.84, 1.84, 3.96], rtol=1e-6)


def test_variables_after_an_override(descent):
    with NodeStepper(descent.session, "optim") as stepper:
        stepper.override_tensor("a/read:0", 10.0)
        update_c = next(name for name in descent.updates if "update_c" in name)
        stepper.cont(update_c)
        assert stepper.cont("c:0") == pytest.approx(3.6)
        stepper.back()
        assert stepper.cont("c:0") == 4
    assert descent.session.run(descent.variables) == [1, 2, 4]


@pytest.mark.parametrize("engine", ENGINES)
def test_an_update_that_others_use(engine):
    tf = framework(engine)
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable(10.0, name="v", **kind(engine))
        more = tf.assign_add(v, tf.constant(2.0, name="delta"), name="more")
        above = tf.add(more, 1.0, name="above")
        session.run(tf.global_variables_initializer())
        with NodeStepper(session, above) as stepper:
            assert stepper.cont(above) == 13
            assert stepper.last_updated() == {v.name}
            assert stepper.cont(v) == 12
            assert stepper.cont(above) == 13
            assert stepper.last_updated() == set()
            assert stepper.last_feed_types() == {"above:0": HANDLE}
            assert stepper.cont(v) == 12
        assert session.run(v) == 10
