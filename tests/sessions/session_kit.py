"""The engines, and a user that follows a script: one list of command lines for each stop."""

import importlib.util
import os
from collections import deque

import pytest

from tfdbg_cli.commands.reply import Leave
from tfdbg_cli.commands.run.choices import RunChoice
from tfdbg_cli.sessions.debugger.debugger import Debugger
from tfdbg_cli.sessions.wrappers.local_cli import LocalCLIDebugWrapperSession
from tfdbg_cli.ui.base import UserInterface

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
HAS_TENSORFLOW = importlib.util.find_spec("tensorflow") is not None

ENGINES = [
    "numpy",
    pytest.param(
        "tensorflow",
        marks=[
            pytest.mark.tensorflow,
            pytest.mark.skipif(not HAS_TENSORFLOW, reason="TensorFlow is not installed"),
        ],
    ),
]


def framework(engine):
    if engine == "numpy":
        from tfdbg_cli.engines import numpy as tf

        return tf
    import tensorflow.compat.v1 as tf

    return tf


def descend(tf, rate, loss, variables, name):
    """A step of gradient descent: an optimizer's, where the framework has this one."""
    if hasattr(tf.train, "GradientDescentOptimizer"):
        return tf.train.GradientDescentOptimizer(rate).minimize(loss, name=name)
    updates = [
        variable.assign_sub(rate * grad, name=f"{name}/update_{variable.op.name}")
        for variable, grad in zip(variables, tf.gradients(loss, variables), strict=True)
    ]
    return tf.group(*updates, name=name)


class Stop:
    """What was seen at one stop."""

    def __init__(self, service):
        self.service = service
        self.context = service.context
        self.title, self.role = service.title, service.title_role
        self.initial = service.initial_command
        self.mode = self.context.mode
        self.dump = self.context.dump
        self.names = [] if self.dump is None else self.dump.tensor_names()
        first = service.run(self.initial)
        assert not first.failed, first
        self.first_screen = first.document.text
        self.replies = {}

    def __repr__(self):
        return self.title


class Script(UserInterface):
    """Runs the commands of each stop; a stop that the script doesn't have is left with ``run``.

    A command may be a function, which is called with the `Stop`.
    """

    def __init__(self, *script):
        self.script = deque([part] if isinstance(part, str) else part for part in script)
        self.stops = []
        self.closed = False

    def interact(self, service, queue):
        stop = Stop(service)
        self.stops.append(stop)
        for command in self.script.popleft() if self.script else ["run"]:
            if callable(command):
                command(stop)
                continue
            reply = service.run(command)
            stop.replies[command] = reply
            if reply.leave is not None:
                return reply.leave
        return Leave(RunChoice())

    def close(self):
        self.closed = True

    @property
    def modes(self):
        """``s`` for each run-start, ``e`` for each run-end."""
        return "".join(stop.mode.removeprefix("run-")[0] for stop in self.stops)


class StrictDebugger(Debugger):
    """A debugger that lets errors out, those of a script's own checks above all."""

    def stop(self, context, *, title, title_role, initial_command):
        return self._stop(context, title, title_role, initial_command)


def make_debugger(ui, **options):
    debugger = StrictDebugger(ui="plain", **options)
    debugger._ui = ui
    return debugger


def wrap(session, *script, **options):
    """A wrapped session, and the user that looks at its stops."""
    ui = Script(*script)
    return LocalCLIDebugWrapperSession(session, debugger=make_debugger(ui, **options)), ui
