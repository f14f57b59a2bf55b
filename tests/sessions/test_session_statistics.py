"""What a list computes in the background ends with the stop."""

import threading
import time

import numpy as np
from session_kit import wrap

from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.engines import numpy as tf
from tfdbg_cli.tensors import measurements


def threads():
    return [t for t in threading.enumerate() if t.name == "tfdbg statistics"]


def test_no_thread_is_left_when_the_program_runs_on(monkeypatch):
    # Nothing but the end of the stop ends it.
    monkeypatch.setattr(measurements, "_LEASE_SECONDS", 1e6)
    is_loaded, shown = threading.Event(), []

    def endless():
        is_loaded.set()
        return np.broadcast_to(np.float32(1), (1 << 20, 1 << 20))

    def look(stop):
        kind = {"dtype": "float32", "shape": (1 << 20, 1 << 20), "nbytes": 1 << 42}
        stop.dump.add_datum(Datum("huge", 0, endless, timestamp=1 << 60, **kind))
        document = stop.service.run("lt").document
        shown.append((document, document.lines(0, document.line_count)[-1].text))
        assert is_loaded.wait(20)
        assert document.pending and len(threads()) == 1

    with tf.Graph().as_default(), tf.Session() as session:
        sess, _ = wrap(session, "run", [look, "run"])
        assert sess.run(tf.add(tf.constant(1.0), 1.0)) == 2.0
    end = time.monotonic() + 20
    while threads() and time.monotonic() < end:
        threading.Event().wait(0.002)
    assert threads() == []
    ((document, text),) = shown  # a UI may still hold the screen
    assert " … " in text and document.line_count == 7
