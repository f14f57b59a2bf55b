"""The original's verified defects, by number: runs of a wrapped session, with both engines."""

import os
import subprocess
import sys
import textwrap
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from samples import night
from session_kit import wrap

from tfdbg_cli.engines import numpy as tf

ROOT = Path(__file__).parents[2]


def test_defect_02_no_debug_with_a_filter_is_refused(program):
    """The original took run -n -f F, and never evaluated the filter."""
    sess, ui = wrap(program.session, ["run -n -f has_inf_or_nan", "run -f has_inf_or_nan"])
    for _ in range(3):
        sess.run(program.ratio, program.feed)
    refused = ui.stops[0].replies["run -n -f has_inf_or_nan"]
    assert refused.failed and "-n" in refused.message.text
    assert ui.modes == "se"
    assert ui.stops[1].title.startswith("run-end: run #3")


def test_defect_02_a_number_of_runs_with_a_filter(program):
    """The original took run -t 2 -f F, and never evaluated the filter."""
    sess, ui = wrap(program.session, "run -t 2 -f has_inf_or_nan")
    for _ in range(3):
        sess.run(program.ratio, program.feed)
    assert ui.modes == "se"
    assert ui.stops[1].title.startswith("run-end: run #3")
    assert ui.stops[1].initial == "why -f has_inf_or_nan"


def test_defect_03_an_error_under_a_filter_is_shown_and_raised(program):
    """The original showed nothing and returned the exception to the program as a value."""
    sess, ui = wrap(program.session, "run -f never")
    sess.add_tensor_filter("never", lambda datum, tensor: False)
    for _ in range(2):
        sess.run(program.checked, program.feed)
    with pytest.raises(program.tf.errors.InvalidArgumentError, match="bad ratio"):
        sess.run(program.checked, program.feed)
    assert ui.modes == "se"
    assert ui.stops[1].initial == "error"
    assert "bad ratio" in ui.stops[1].first_screen


@pytest.mark.parametrize("command", ["run", "run -n", "run -t 3", "run -f has_inf_or_nan"])
def test_defect_04_a_failing_run_raises(program, command):
    """The original returned the InvalidArgumentError as the result of the run."""
    sess, _ = wrap(program.session, *[command] * 4)
    results = []
    for _ in range(3):
        try:
            results.append(sess.run(program.checked, program.feed))
        except program.tf.errors.OpError as error:
            results.append(type(error))
    assert results[2] is program.tf.errors.InvalidArgumentError
    assert all(isinstance(result, np.ndarray) for result in results[:2])


def test_defect_06_a_filter_that_raises_does_not_end_the_program(program, capsys):
    """The original let the filter's exception out into the user's program."""
    sess, ui = wrap(program.session, "run -f fussy")

    def fussy(datum, tensor):
        if datum.node_name == "x":
            raise RuntimeError("no opinion")
        return bool(np.isinf(tensor).any())

    sess.add_tensor_filter("fussy", fussy)
    for _ in range(3):
        sess.run(program.ratio, program.feed)
    assert ui.modes == "se"
    assert ui.stops[1].title.startswith("run-end: run #3")
    assert "no opinion" in ui.stops[1].first_screen
    assert capsys.readouterr().err.count("no opinion") == 1


def test_defect_24_with_closes_the_session(program):
    """The original's with statement left the session open."""
    session = program.tf.Session(graph=program.add.graph)
    sess, _ = wrap(session)
    with sess:
        sess.run(program.count.initializer)
    with pytest.raises((RuntimeError, ValueError), match="closed"):
        session.run(program.add)


@night
@pytest.mark.slow
def test_defect_29_memory_of_many_debugged_runs():
    """The original's dumping wrapper kept some 7 MB for each run of a thousand nodes."""
    with tf.Graph().as_default(), tf.Session() as session:
        last = tf.placeholder(tf.float32, [200], name="x")
        feed = {last: np.ones(200)}
        for number in range(1000):
            last = tf.negative(last, name=f"n{number}")
        sess, ui = wrap(session)
        for _ in range(3):
            sess.run(last, feed)
        tracemalloc.start()
        try:
            ui.stops.clear()
            sess.run(last, feed)
            assert len(ui.stops.pop().names) == 1001
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(15):
                sess.run(last, feed)
                ui.stops.clear()
            assert tracemalloc.get_traced_memory()[0] - before < 2e6
        finally:
            tracemalloc.stop()


FULL_DISK = """
    import resource, signal, sys
    import numpy as np
    import tfdbg_cli.engines.numpy as tf
    from tfdbg_cli.dumps.run_folder.dump import write_run_folder  # before nothing can be written

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
    with tf.Session() as session:
        big = tf.square(tf.constant(np.ones(1 << 16), name="x"), name="big")
        print("result", session.run(big).sum())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX limits")
@pytest.mark.parametrize("options", [["--dump-limit", "1k"], ["--keep-dumps"]])
def test_defect_30_a_full_disk_is_said_and_the_run_goes_on(tmp_path, options):
    """The original raised a ValueError about "a Tensor, not a Operation", or aborted."""
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(FULL_DISK))
    root = ["--dump-root", str(tmp_path / "dumps")]
    commands = ["-c", "run", "-c", "lt -n big", "-c", "pt big:0[0]"]
    done = subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", "--batch", *options, *root, *commands, str(script)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    # What was asked to be kept and wasn't sets the status.
    assert done.returncode == int("--keep-dumps" in options), done.stderr
    assert "File too large" in done.stdout + done.stderr
    assert "array(1.)" in done.stdout
    assert "result 65536.0" in done.stdout
    assert "Traceback" not in done.stderr
