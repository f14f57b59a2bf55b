"""What the stepper's screens say, word by word, in a run of the NumPy engine."""

import textwrap

import pytest
from session_kit import framework, wrap

FED = [[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]]
LEGEND = "P placeholder  U unfeedable  H gone to  I on the way  O overridden  D updated  "


@pytest.fixture
def step_through():
    """Goes through a run with a variable, a bad value and a loop; what each command said."""
    tf = framework("numpy")
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2, 3], name="x")
        weights = tf.Variable(tf.ones([3, 2]), name="w")
        h = tf.matmul(x, weights, name="h")
        loss = tf.reduce_sum(tf.log(h, name="logits"), name="loss")
        last = tf.while_loop(
            lambda i: tf.greater(i, 1.0), lambda i: tf.multiply(i, 0.5), [loss], name="loop"
        )
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())

            def step(*commands):
                sess, ui = wrap(session, ["s"], [*commands, "exit"], ["run"])
                sess.run(last, {x: FED})
                replies = ui.stops[1].replies
                said = {}
                for command in commands:
                    reply = replies[command]
                    said[command] = (reply.document or reply.message).text
                return ui.stops[1], said

            yield step


def text(lines):
    return textwrap.dedent(lines).strip("\n").replace("LEGEND", LEGEND)


def roles(document, wanted):
    """The roles of all spans with a text."""
    lines = document.lines(0, document.line_count)
    return [span.role for line in lines for span in line.spans if span.text.strip() == wanted]


def test_the_first_screen_says_where_the_run_is_and_how_to_go_on(step_through):
    stop, said = step_through("cont h", "override h:0 `h:0`+2", "break logits", "where")

    assert stop.first_screen.rstrip("\n") == text(
        """
        Done: 0 of the run's 10 nodes.

        --> ( 1 / 10) [P     ] x  Placeholder
            ( 2 / 10) [ U    ] w  VariableV2
            ( 3 / 10) [      ] w/read  Identity

        LEGEND

        Note: The loop loop is one step: its inside can be looked at, not overridden.

          step
            do the next node; step -t 5: the next five; step -b: undo the last one
          cont x
            go on to a node or tensor; cont: to a breakpoint or the end
          break -f
            stop before the first op that reads a bad tensor
          override TENSOR EXPRESSION
            change a value; diff shows the effect
          exit
            the run goes on to its end; exit --discard: it never happened
        """
    )
    # It has been said how to go on.
    assert said["where"].rstrip("\n") == text(
        """
        Done: 4 of the run's 10 nodes.

            ( 3 / 10) [   I  ] w/read  Identity
            ( 4 / 10) [  H O ] h  MatMul
        --> ( 5 / 10) [      ] logits  Log
            ( 6 / 10) [      ] Const  Const
            ( 7 / 10) [      ] loss  Sum

        LEGEND

        Note: The loop loop is one step: its inside can be looked at, not overridden.

        Overridden: h:0

        Breakpoints:
          1  logits
        """
    )


def test_what_was_done_is_told_with_where_it_was_read_from(step_through):
    _, said = step_through("cont h", "override h:0 `h:0`+2", "cont logits", "cont loss", "lsn")

    assert said["cont h"].startswith(
        text(
            """
            4 nodes were done, the last one h  MatMul
            Stepper used feeds:
              x:0 : client
              w/read:0 : dumped_intermediate
            Made:
              h:0  float32 [2, 2]  clean  min 0, max 6

                ( 3 / 10) [   I  ] w/read  Identity
                ( 4 / 10) [  H   ] h  MatMul
            --> ( 5 / 10) [      ] logits  Log
            """
        )
    )
    assert said["cont logits"].startswith(
        "Done: logits  Log\nStepper used feeds:\n  h:0 : override"
    )
    assert "  logits:0 : handle\n  Const:0 : dumped_intermediate\n" in said["cont loss"]
    assert said["lsn"].rstrip("\n") == text(
        """
        LEGEND

            ( 1 / 10) [P     ] x  Placeholder
            ( 2 / 10) [ U I  ] w  VariableV2
            ( 3 / 10) [   I  ] w/read  Identity
            ( 4 / 10) [  H O ] h  MatMul
            ( 5 / 10) [  H   ] logits  Log
            ( 6 / 10) [   I  ] Const  Const
            ( 7 / 10) [  H   ] loss  Sum
        --> ( 8 / 10) [      ] loop/Enter  Enter
            ( 9 / 10) [      ] loop  while_loop, 9 nodes
            (10 / 10) [      ] loop/Exit  Exit
        """
    )


def test_a_difference_is_the_largest_of_those_that_are_finite_in_both(step_through):
    stop, said = step_through(
        "cont loop/Enter", "override h:0 np.array([[8, 6], [2, 2]])", "cont loss", "diff"
    )

    assert said["diff"].splitlines() == [
        "  Largest change  Health before    after            Tensor",
        "               2  ok               ok               h:0  (overridden)",
        "        0.287682  2 -inf           ok               logits:0",
        "          1 of 1  1 -inf           ok               loss:0",
    ]
    assert roles(stop.replies["diff"].document, "0.287682") == ["bold"]


def test_a_change_that_is_none_or_of_text_is_said(step_through):
    _, said = step_through("cont h", "override h:0 `h:0`", "cont logits", "diff")

    rows = {row.split()[-1]: row.split() for row in said["diff"].splitlines()}
    assert rows["(overridden)"][0] == "none"


def test_a_filter_that_is_added_looks_at_what_there_is(step_through):
    # logits is bad by now, and nothing has read it: the next step would.
    _, said = step_through("cont logits", "break -f has_inf_or_nan", "cont")

    assert "logits:0 passes has_inf_or_nan, and loss is about to read it" in said["cont"]


def test_what_is_given_back_is_what_the_stepper_made(step_through):
    _, said = step_through("cont h", "override h:0 1", "pt h:0", "restore h:0", "pt h:0 -a")

    ones, computed = said["pt h:0"], said["pt h:0 -a"]
    assert "1." in ones and "6." not in ones
    assert "6." in computed


def test_many_steps_that_are_undone_are_counted(step_through):
    _, said = step_through("cont loop/Exit", "step -b -t 9", "cont h", "step -b -t 2")

    assert said["step -b -t 9"].startswith(
        "Undone: loop/Exit, loop, loop/Enter, loss, Const, logits, h, w/read and 1 more"
    )
    assert said["step -b -t 2"].startswith("Undone: h, w/read\n")


def test_a_value_is_all_that_stands_behind_the_name(step_through):
    stop, said = step_through(
        "cont h", "override h:0 1 + 1.0 / 0", "override h:0 np.nan + 1", "diff"
    )

    assert stop.replies["override h:0 1 + 1.0 / 0"].failed
    assert "          4 of 4  ok               4 nan            h:0  (overridden)" in said["diff"]
    assert roles(stop.replies["diff"].document, "4 of 4") == ["bold"]


def test_a_filter_that_raises_is_told_of_with_how_often(step_through):
    stop, said = step_through("break -f has_inf_or_nan", "break h", "delete 2", "break", "delete 1")

    assert said["break"].splitlines()[-1].strip().startswith("1  -f has_inf_or_nan")
    assert "h" not in said["break"].splitlines()[-1].replace("has_inf", "")
    assert not stop.replies["delete 1"].failed


def test_what_a_filter_has_caught_is_forgotten_on_the_way_back(step_through):
    _, said = step_through(
        "break -f has_inf_or_nan", "cont logits", "step -b", "override h:0 1", "cont"
    )

    assert "passes has_inf_or_nan" not in said["cont"]
    assert "The run is at its end." in said["cont"]


def test_iterations_of_a_loop_are_counted(step_through):
    _, said = step_through("override h:0 100", "cont loop/Enter", "step -i", "step -i ", "step")

    assert " (iteration 1)" in said["step -i"]
    assert " (iteration 2)" in said["step -i "]
    assert "(iteration" not in said["step"]


def test_a_deleted_filter_stops_nothing_that_it_has_caught(step_through):
    _, said = step_through("break -f has_inf_or_nan", "cont logits", "delete 1", "cont")

    assert "passes has_inf_or_nan" not in said["cont"]
