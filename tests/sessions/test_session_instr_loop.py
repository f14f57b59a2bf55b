"""The remote instruction loop: runs that a controller asks for before the program goes on."""

import pytest

import tfdbg_cli as tf_debug
from tfdbg_cli.engines import numpy as tf


class Controlled(tf_debug.BaseDebugWrapperSession):
    """Follows a list of instructions; then all runs pass."""

    def __init__(self, session, *instructions):
        self.instructions = list(instructions)
        self.asked, self.ended = [], []
        super().__init__(session)

    def on_session_init(self, request):
        return tf_debug.OnSessionInitResponse(tf_debug.OnSessionInitAction.REMOTE_INSTR_LOOP)

    def on_instr_start(self, request):
        self.asked.append((request.session, request.instr_count))
        return self.instructions.pop(0)

    def on_instr_end(self, request):
        self.ended.append(request)
        return tf_debug.OnInstrEndResponse()

    def on_run_start(self, request):
        return tf_debug.OnRunStartResponse(tf_debug.OnRunStartAction.NON_DEBUG_RUN)

    def on_run_end(self, request):
        return tf_debug.OnRunEndResponse()


LEAVE = tf_debug.OnInstrStartResponse(tf_debug.OnInstrStartAction.LEAVE)


@pytest.fixture
def graph():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None], name="x")
        yield x, tf.matmul(tf.reshape(x, [1, -1]), tf.ones([2, 1]), name="y")


def test_runs_until_it_is_told_to_leave(graph):
    x, y = graph
    run = tf_debug.OnInstrStartResponse("run", fetches=y, feed_dict={x: [1.0, 2.0]})
    narrow = tf_debug.OnInstrStartResponse(
        "run", fetches=y, feed_dict={x: [3.0, 4.0]}, node_name_regex_allowlist="y$"
    )
    plain = tf.Session()
    session = Controlled(plain, run, narrow, LEAVE)
    assert session.asked == [(plain, 1), (plain, 2), (plain, 3)]
    first, second = session.ended
    assert (first.performed_action, first.value.tolist()) == ("run", [[3.0]])
    assert {"x:0", "y:0"} <= set(first.dump.tensor_names())
    assert first.dump.run_info().fetches == ["y:0"]
    assert second.dump.tensor_names() == ["y:0"]
    assert first.tf_error is second.tf_error is None
    # The program goes on as usual.
    assert session.run(y, {x: [5.0, 6.0]}).tolist() == [[11.0]]
    assert session.run_call_count == 1


@pytest.mark.parametrize("fed", [[1.0, 2.0, 3.0], None])
def test_an_error_is_the_instructions_and_not_raised(graph, fed):
    x, y = graph
    feeds = None if fed is None else {x: fed}
    session = Controlled(tf.Session(), tf_debug.OnInstrStartResponse("run", y, feeds), LEAVE)
    (outcome,) = session.ended
    assert outcome.value is None
    assert outcome.tf_error is not None
    assert outcome.error.message


def test_a_fetch_that_is_none_is_told_too(graph):
    session = Controlled(tf.Session(), tf_debug.OnInstrStartResponse("run", "nothing:0"), LEAVE)
    assert session.ended[0].tf_error is not None


def test_a_run_is_stepped_through_and_overridden(graph):
    x, y = graph
    session = Controlled(
        tf.Session(),
        tf_debug.OnInstrStartResponse("continue", y, {x: [5.0, 6.0]}, target=x.name),
        tf_debug.OnInstrStartResponse("override", overrides={x.name: [[1.0, 1.0]][0]}),
        tf_debug.OnInstrStartResponse("continue", target=y.name),
        tf_debug.OnInstrStartResponse("continue"),
        LEAVE,
    )
    at_x, overridden, at_y, ended = session.ended
    assert at_x.value.tolist() == [5.0, 6.0]
    assert y.name not in at_x.dump.tensor_names()
    assert overridden.tf_error is None
    assert at_y.value.tolist() == [[2.0]]
    assert y.name in at_y.dump.tensor_names()
    assert ended.value.tolist() == [[2.0]]
    assert session.run(y, {x: [5.0, 6.0]}).tolist() == [[11.0]]


@pytest.mark.parametrize("action", ["continue", "override"])
def test_a_run_to_step_through_must_be_named(graph, action):
    x, _ = graph
    instruction = tf_debug.OnInstrStartResponse(action, target="y", overrides={x.name: 1})
    session = Controlled(tf.Session(), instruction, LEAVE)
    assert "no run is being stepped through" in str(session.ended[0].tf_error)


def test_types_are_checked(graph):
    with pytest.raises(ValueError, match="Invalid OnInstrStartAction value: walk"):
        tf_debug.OnInstrStartResponse("walk")
    with pytest.raises(TypeError):
        tf_debug.OnInstrStartResponse("run", debug_urls="file:///tmp")
    with pytest.raises(TypeError):
        Controlled(tf.Session(), None)
