"""The stepper at the prompt: real runs of the NumPy engine and of TensorFlow, done node by node."""

import signal
from types import SimpleNamespace

import numpy as np
import pytest
from session_kit import ENGINES, framework, wrap

FED = [[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]


@pytest.fixture(params=ENGINES)
def model(request):
    """``loss`` is -inf: the second row of ``h`` is zero; ``train`` adds one to the weights."""
    tf = framework(request.param)
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2, 3], name="x")
        kind = {"use_resource": False} if request.param == "tensorflow" else {}
        weights = tf.Variable(tf.ones([3, 2]), name="w", **kind)
        h = tf.matmul(x, weights, name="h")
        logits = tf.log(h, name="logits")
        loss = tf.reduce_sum(logits, name="loss")
        with tf.control_dependencies([loss]):
            train = tf.assign_add(weights, tf.ones([3, 2], name="one"), name="train")
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            yield SimpleNamespace(
                session=session, fetches=[loss, train.op], x=x, weights=weights, h=h
            )


def step_through(model, *commands, after=("run",)):
    """Wrap the session, step through one run by command lines; the result and what was seen."""
    sess, ui = wrap(model.session, ["s"], list(commands), list(after))
    value = sess.run(model.fetches, {model.x: FED})
    return value, ui.stops, sess


def screen(stop, command):
    reply = stop.replies[command]
    assert not reply.failed, reply.message
    return reply.document.text if reply.document is not None else reply.message.text


def weights_of(model):
    return model.session.run(model.weights)


def test_invoke_stepper_stops_before_the_first_node(model):
    (loss, _), stops, _ = step_through(model, "exit")
    assert [stop.mode for stop in stops] == ["run-start", "stepper", "run-end"]
    assert "0 of the run's" in stops[1].first_screen
    assert "P placeholder" in stops[1].first_screen
    assert loss == -np.inf
    np.testing.assert_array_equal(weights_of(model), np.full((3, 2), 2.0))


def test_a_broken_filter_is_told_of_once(model):
    def broken(datum, value):
        raise ValueError(f"no {datum.tensor_name}")

    commands = ["break -f broken", "cont h", "cont logits", "cont loss", "cont"]
    sess, ui = wrap(model.session, ["s"], commands, ["run"])
    sess.add_tensor_filter("broken", broken)
    sess.run(model.fetches, {model.x: FED})
    seen = [screen(ui.stops[1], command) for command in commands]
    told = [text for text in "\n".join(seen).splitlines() if "broken" in text and "raised" in text]
    assert len(told) == 1
    assert told[0].startswith('The filter "broken" raised at ')
    assert told[0].endswith("the run goes on.")


def test_a_filter_that_raises_at_several_tensors_is_told_of_in_one_line(model):
    def broken(datum, value):
        if datum.node_name in ("h", "logits"):
            raise ValueError(f"no {datum.node_name}")
        return False

    sess, ui = wrap(model.session, ["s"], ["break -f broken", "cont", "exit"], ["run"])
    sess.add_tensor_filter("broken", broken)
    sess.run(model.fetches, {model.x: FED})
    said = 'The filter "broken" raised at h:0: ValueError: no h (and 1 more tensors); the run'
    assert said in screen(ui.stops[1], "cont")


def test_a_deleted_filter_stops_nothing_at_what_it_had_caught(model):
    bad = "break -f has_inf_or_nan"
    _, stops, _ = step_through(model, bad, "cont logits", "break loss", "delete 1", "cont", "exit")
    assert "Breakpoint 2" in screen(stops[1], "cont")
    _, stops, _ = step_through(model, bad, "cont logits", "delete 1", "cont", "exit")
    assert "The run is at its end." in screen(stops[1], "cont")
    assert screen(stops[1], "delete 1") == "1 breakpoint(s) deleted."
    # Another one that is deleted changes nothing.
    _, stops, _ = step_through(model, bad, "break h", "cont logits", "delete 2", "cont", "exit")
    assert "logits:0 passes has_inf_or_nan" in screen(stops[1], "cont")


def test_the_nodes_are_listed_with_their_states(model):
    _, stops, _ = step_through(model, "cont h", "list_sorted_nodes", "lsn -l 1 -u 1", "exit")
    lines = screen(stops[1], "list_sorted_nodes").splitlines()
    (line_of_h,) = [line for line in lines if "] h " in line]
    (line_of_loss,) = [line for line in lines if "] loss " in line]
    (line_of_x,) = [line for line in lines if "] x " in line]
    assert "[  H   ]" in line_of_h
    assert "[      ]" in line_of_loss
    assert "[P     ]" in line_of_x
    assert sum("-->" in line for line in lines) == 1
    assert len(screen(stops[1], "lsn -l 1 -u 1").splitlines()) == 3


def test_the_menu_offers_what_can_be_done(model):
    _, stops, _ = step_through(model, "where", "step", "cont", "exit")
    offered = [
        [item.command for item in stops[1].replies[command].document.menu]
        for command in ("where", "step", "cont")
    ]
    always = ["list_sorted_nodes", "lt", "exit"]
    assert offered == [
        ["step", "cont", *always],
        ["step", "cont", "step -b", *always],
        ["step -b", *always],  # at the end
    ]


def test_a_step_says_what_was_read_made_and_updated(model):
    _, stops, _ = step_through(model, "until h", "step", "cont train", "lsn", "exit")
    done = screen(stops[1], "step")
    assert "Done: h" in done
    assert "x:0 : client" in done
    assert "h:0  float32 [2, 2]" in done
    assert "Updated:\n  w" in screen(stops[1], "cont train")
    (line_of_w,) = [line for line in screen(stops[1], "lsn").splitlines() if "] w " in line]
    assert "D]" in line_of_w


def test_every_inspection_command_sees_what_was_computed_so_far(model):
    _, stops, _ = step_through(
        model, "cont logits", "lt", "pt h:0", "pt loss:0", "li logits", "ni loss", "eval `h:0`+1",
        "exit",
    )  # fmt: skip
    listed = screen(stops[1], "lt")
    assert "logits:0" in listed
    assert "loss:0" not in listed
    assert "6." in screen(stops[1], "pt h:0")
    assert "cont loss goes on to it" in stops[1].replies["pt loss:0"].message.text
    assert "h" in screen(stops[1], "li logits")
    assert "Op: Sum" in screen(stops[1], "ni loss")
    assert "7." in screen(stops[1], "eval `h:0`+1")


def test_a_filter_stops_before_the_op_that_would_read_the_bad_tensor(model):
    _, stops, _ = step_through(model, "break -f has_inf_or_nan", "cont", "break", "exit")
    said = screen(stops[1], "cont")
    assert "logits:0 passes has_inf_or_nan, and loss is about to read it" in said
    assert "1  -f has_inf_or_nan" in screen(stops[1], "break")


@pytest.mark.parametrize("what", ["logits", "Log", "^log"])
def test_breakpoints_are_names_op_types_and_regexes(model, what):
    _, stops, _ = step_through(model, f"break {what}", "cont", "lt", "exit")
    assert "Breakpoint 1" in screen(stops[1], "cont")
    assert "logits:0" not in screen(stops[1], "lt")
    assert "h:0" in screen(stops[1], "lt")


def test_deleted_breakpoints_stop_nothing(model):
    _, stops, _ = step_through(model, "break h", "delete 1", "cont", "delete 1", "exit")
    assert "The run is at its end." in screen(stops[1], "cont")
    assert stops[1].replies["delete 1"].message.text == "There is no breakpoint 1."
    _, stops, _ = step_through(model, "break h", "break loss", "delete 7", "delete all", "exit")
    said = stops[1].replies["delete 7"].message.text
    assert said == "There is no breakpoint 7. There are 1, 2."
    assert screen(stops[1], "delete all") == "2 breakpoint(s) deleted."


def test_an_override_changes_the_rest_of_the_run_alone(model):
    (loss, _), stops, _ = step_through(
        model, "cont h", "override h:0 np.maximum(`h:0`, 1)", "cont loss", "pt loss:0", "exit"
    )
    assert loss == pytest.approx(2 * np.log(6), rel=1e-5)
    assert "Overridden in the stepper: h:0." in stops[2].dump.warnings
    np.testing.assert_array_equal(weights_of(model), np.full((3, 2), 2.0))
    # The next run knows nothing of it.
    loss, _ = model.session.run(model.fetches, {model.x: FED})
    assert loss == -np.inf


def test_an_override_of_what_was_read_goes_back_first(model):
    (loss, _), stops, _ = step_through(model, "cont", "override h:0 1", "lt", "diff", "exit")
    said = screen(stops[1], "override h:0 1")
    assert "Went back before what had read it" in said
    assert "logits:0" not in screen(stops[1], "lt")
    assert loss == 0
    np.testing.assert_array_equal(weights_of(model), np.full((3, 2), 2.0))


def test_diff_shows_shape_health_and_the_largest_change(model):
    _, stops, _ = step_through(
        model, "cont h", "override h:0 np.maximum(`h:0`, 1)", "cont loss", "diff", "exit"
    )
    rows = {line.split()[-1]: line for line in screen(stops[1], "diff").splitlines()}
    assert rows["(overridden)"].split()[0] == "1"
    assert "2 of 4" in rows["logits:0"]
    assert "2 -inf" in rows["logits:0"]
    assert "ok" in rows["loss:0"]
    assert "x:0" not in rows


def test_restore_takes_an_override_back(model):
    (loss, _), stops, _ = step_through(
        model, "cont h", "override h:0 1", "cont loss", "restore h:0", "cont loss", "exit"
    )
    assert "h:0 as computed" in screen(stops[1], "restore h:0")
    assert loss == -np.inf


def test_going_back_undoes_an_update(model):
    _, stops, _ = step_through(model, "cont train", "step -b", "where", "exit")
    assert "Undone: train" in screen(stops[1], "step -b")
    np.testing.assert_array_equal(weights_of(model), np.full((3, 2), 2.0))  # once, by exit


def test_a_discarded_run_has_never_happened(model):
    sess, ui = wrap(
        model.session,
        ["s"],
        ["cont h", "override h:0 1", "cont", "exit --discard"],
        ["run"],
        ["lt", "run"],
    )
    loss, _ = sess.run(model.fetches, {model.x: FED})
    assert [stop.mode for stop in ui.stops] == ["run-start", "stepper", "run-start", "run-end"]
    assert ui.stops[0].title == ui.stops[2].title
    assert loss == -np.inf
    np.testing.assert_array_equal(weights_of(model), np.full((3, 2), 2.0))


def test_leaving_the_debugger_from_the_stepper_lets_the_program_go_on(model):
    (loss, _), stops, sess = step_through(model, "cont h", "exit --detach")
    assert [stop.mode for stop in stops] == ["run-start", "stepper"]
    assert loss == -np.inf
    sess.run(model.fetches, {model.x: FED})
    assert len(stops) == 2


def test_ending_the_program_from_the_stepper(model):
    sess, _ = wrap(model.session, ["s"], ["exit --end"])
    with pytest.raises(SystemExit):
        sess.run(model.fetches, {model.x: FED})


def test_a_number_of_runs_may_go_by_first(model):
    sess, ui = wrap(model.session, ["s -t 3"], ["exit"])
    for _ in range(3):
        sess.run(model.fetches, {model.x: FED})
    assert [stop.mode for stop in ui.stops] == ["run-start", "stepper", "run-end"]
    assert "run #3" in ui.stops[1].title


def test_mistakes_are_told_in_one_line(model):
    commands = (
        "cont nowhere", "cont", "step", "cont h", "override h:0", "override nowhere:0 1",
        "override h:0 text", "override h:0 np.zeros(5)", "override h:0 np.zeros((2, 2)) 1",
        "override w:0 0", "diff", "restore x:0", "restore h:0", "delete x", "break -fenn y",
        "break nowhere", "cont h:7", "error", "run", "step -t 0", "exit --keep --discard", "exit",
    )  # fmt: skip
    _, stops, _ = step_through(model, *commands)
    replies = stops[1].replies
    for command in set(commands) - {"cont", "exit"}:
        reply = replies[command]
        assert reply.failed, command
        assert "\n" not in reply.message.text
        assert "Error in the debugger" not in reply.message.text, reply


def test_an_error_of_a_node_can_be_repaired(model):
    tf = framework("numpy" if "numpy" in type(model.session).__module__ else "tensorflow")
    with model.session.graph.as_default():
        checked = tf.check_numerics(model.session.graph.get_tensor_by_name("logits:0"), "bad")
        doubled = tf.multiply(checked, 2.0, name="doubled")
    sess, ui = wrap(
        model.session, ["s"], ["cont", "override logits:0 np.ones((2, 2))", "cont", "exit"]
    )
    value = sess.run(doubled, {model.x: FED})
    first = ui.stops[1].replies["cont"].document.text
    assert "The run is at its end." in first  # the second one; the first has failed
    np.testing.assert_array_equal(value, np.full((2, 2), 2.0, np.float32))


def test_an_error_that_is_not_repaired_is_the_programs(model):
    tf = framework("numpy" if "numpy" in type(model.session).__module__ else "tensorflow")
    with model.session.graph.as_default():
        checked = tf.check_numerics(
            model.session.graph.get_tensor_by_name("logits:0"), "bad", name="check"
        )
    sess, ui = wrap(model.session, ["s"], ["cont", "exit"], ["run"])
    with pytest.raises(tf.errors.InvalidArgumentError):
        sess.run(checked, {model.x: FED})
    assert "check failed:" in ui.stops[1].replies["cont"].document.text
    assert ui.stops[2].role == "error"


def test_s_is_a_step_once_the_stepper_is_open(model):
    _, stops, _ = step_through(model, "s", "s 2", "exit")
    assert "(2 / " in screen(stops[1], "s")
    assert "--> (4 / " in screen(stops[1], "s 2")


def test_the_steppers_commands_are_the_steppers(model):
    sess, ui = wrap(model.session, ["step", "s"], ["exit"])
    sess.run(model.fetches, {model.x: FED})
    said = ui.stops[0].replies["step"].message.text
    assert said == "step is not available at run-start. invoke_stepper steps through a run."


def test_an_override_of_what_a_half_done_loop_has_read_goes_back_before_the_loop():
    tf = framework("numpy")
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [], name="x")
        start = tf.multiply(x, 1.0, name="start")
        doubled = tf.while_loop(
            lambda i: tf.less(i, 40.0), lambda i: tf.multiply(i, 2.0), [start], name="loop"
        )
        with tf.Session() as session:
            commands = ("cont start", "step -i", "step -i", "override start:0 5", "exit")
            sess, ui = wrap(session, ["s"], list(commands), ["run"])
            assert sess.run(doubled, {x: 3.0}) == 40
    assert "Went back" in screen(ui.stops[1], "override start:0 5")


def test_an_override_that_is_refused_changes_nothing(model):
    _, stops, _ = step_through(
        model, "cont loss", "list_sorted_nodes", "override h:0 np.zeros(5)", "lsn", "exit"
    )
    assert stops[1].replies["override h:0 np.zeros(5)"].failed
    assert screen(stops[1], "lsn") == screen(stops[1], "list_sorted_nodes")


def test_an_override_that_is_refused_in_a_half_done_loop_leaves_it_half_done():
    tf = framework("numpy")
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [], name="x")
        start = tf.multiply(x, 1.0, name="start")
        doubled = tf.while_loop(
            lambda i: tf.less(i, 40.0), lambda i: tf.multiply(i, 2.0), [start], name="loop"
        )
        with tf.Session() as session:
            refused = "override start:0 np.zeros(5)"
            commands = ["cont start", *["step -i"] * 3, refused, "step -b", "step -b", "step -b"]
            sess, ui = wrap(session, ["s"], [*commands, "lt", "exit"], ["run"])
            assert sess.run(doubled, {x: 3.0}) == 48
    asked = ui.stops[1]
    assert asked.replies[refused].failed
    assert "start:0" in screen(asked, "lt")  # the three that go back have undone the iterations


def test_a_number_fills_a_tensor_that_is_still_to_be_computed(model):
    (loss, _), stops, _ = step_through(model, "override h:0 1", "lsn", "override", "cont", "exit")
    assert "when it is computed" in screen(stops[1], "override h:0 1")
    (line_of_h,) = [line for line in screen(stops[1], "lsn").splitlines() if "] h " in line]
    assert "O" in line_of_h
    assert "h:0" in screen(stops[1], "override")
    assert loss == 0


def test_a_ctrl_c_ends_the_move_after_its_step_and_not_the_run(model):
    def interrupting(datum, value):
        if datum.node_name == "h":
            signal.raise_signal(signal.SIGINT)
        return False

    before = signal.getsignal(signal.SIGINT)
    commands = ["break -f interrupting", "cont", "lt", "cont loss", "exit"]
    sess, ui = wrap(model.session, ["s"], commands, ["run"])
    sess.add_tensor_filter("interrupting", interrupting)
    loss, _ = sess.run(model.fetches, {model.x: FED})
    assert loss == -np.inf
    assert "Interrupted." in screen(ui.stops[1], "cont")
    assert "h:0" in screen(ui.stops[1], "lt") and "logits:0" not in screen(ui.stops[1], "lt")
    assert "loss:0" in screen(ui.stops[1], "cont loss")
    assert signal.getsignal(signal.SIGINT) is before


def test_a_fill_can_be_taken_back(model):
    (loss, _), stops, _ = step_through(model, "override h:0 1", "restore h:0", "cont", "exit")
    assert not stops[1].replies["restore h:0"].failed
    assert loss == -np.inf


def test_a_discarded_run_may_be_stepped_through_again(model):
    sess, ui = wrap(
        model.session,
        ["s"],
        ["cont h", "override h:0 1", "exit --discard"],
        ["s"],
        ["cont h", "override h:0 2", "exit"],
        ["run"],
    )
    loss, _ = sess.run(model.fetches, {model.x: FED})
    assert [stop.mode for stop in ui.stops] == [
        *("run-start", "stepper", "run-start", "stepper", "run-end")
    ]
    assert loss == pytest.approx(4 * np.log(2), rel=1e-5)
    np.testing.assert_array_equal(weights_of(model), np.full((3, 2), 2.0))


def test_commands_may_follow_on_one_line(model):
    _, stops, _ = step_through(model, "cont h; override h:0 1", "override h:0 1 ; diff", "exit")
    assert stops[1].replies["override h:0 1 ; diff"].rest == ("diff",)


def test_a_run_that_never_began_is_stepped_through_and_no_other(model):
    sess, ui = wrap(model.session, ["s"], ["run"], ["run"])
    with pytest.raises(ValueError, match="shape"):
        sess.run(model.h, {model.x: [[1.0]]})
    assert sess.run(model.h, {model.x: FED}).shape == (2, 2)
    assert [stop.mode for stop in ui.stops] == ["run-start", "run-start", "run-end"]


@pytest.mark.parametrize("engine", ENGINES[1:])
def test_the_program_has_its_result_though_the_overrides_are_lost(engine):
    tf = framework(engine)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [], name="x")
        total = tf.Variable(1.0, name="total")
        train = tf.assign_add(total, tf.multiply(x, 2.0, name="h"), name="train")
        session.run(tf.global_variables_initializer())
        sess, ui = wrap(
            session,
            ["s"],
            ["override h:0 1", "cont", lambda stop: session.close(), "exit"],
            ["lt", "run"],
            ["run"],
        )
        assert sess.run(train, {x: 3.0}) == 7
        assert "The overrides are lost" in screen(ui.stops[2], "lt")
        assert [stop.mode for stop in ui.stops] == ["run-start", "stepper", "run-end"]


@pytest.mark.parametrize("engine", ENGINES[1:])
def test_only_what_can_be_mended_is_offered(engine):
    tf = framework(engine)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [], name="x")
        checked = tf.check_numerics(tf.log(x, name="log"), "bad", name="checked")
        commands = ["cont checked", "override log:0 1", "cont", "exit"]
        sess, ui = wrap(session, ["s"], commands, ["run"])
        assert sess.run(checked, {x: 0.0}) == 1
        assert "Override one of its inputs and step again" in screen(ui.stops[1], "cont checked")
        # What was not fed can still be given.
        commands = ["cont checked", "override x:0 1", "cont", "exit"]
        sess, ui = wrap(session, ["s"], commands, ["run"])
        assert sess.run(checked) == 0
        assert "Override x:0 and step again" in screen(ui.stops[1], "cont checked")
        # Who would give `again` its value?
        known = tf.lookup.KeyValueTensorInitializer([1], [0.0])
        table = tf.lookup.StaticHashTable(known, -1.0)
        source = table.lookup(tf.constant(1))
        log, again = tf.log([source, source], name="logs"), tf.multiply(source, 2.0)
        checked = tf.check_numerics(log, "bad", name="again")
        session.run(tf.tables_initializer())
        commands = ["cont", "override logs 1", "cont", "exit"]
        sess, ui = wrap(session, ["s"], commands, ["run"])
        assert sess.run(checked).tolist() == [1, 1]
        sess, ui = wrap(session, ["s"], ["cont", "exit"], ["run"])
        with pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
            sess.run([checked, again])
        assert "No override of its inputs can mend that" in screen(ui.stops[1], "cont")
