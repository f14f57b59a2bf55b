"""A framework of a few lines, and the engine that debugs programs that use it.

It shows what an engine whose runs are stretches of a program has to bring: see docs/engines.md.
"""

import numpy as np

from tfdbg_cli.common.fields import Field, to_bool
from tfdbg_cli.common.traits import EngineTraits, OpRoles, meaning
from tfdbg_cli.engines.kit.recording.op_recorder import OpRecorder
from tfdbg_cli.engines.kit.recording.program_kit import ProgramKit

# The framework. Random streams are NumPy's generators; their methods are functions for `op`.

HOOKS = []  # each is told of every op: its name, its function, its inputs, what came of it
STEPS = []  # the last one makes the steps


class OpError(Exception):
    """An op has failed."""


class Variable:
    def __init__(self, name, value):
        self.name, self._array = name, np.array(value, np.float32)

    def value(self):
        return self._array

    def add(self, number):
        self._array += number


def op(name, function, *inputs):
    try:
        result = np.asarray(function(*inputs))
    except Exception as error:
        result = OpError(f"{name}: {error}")
    for hook in tuple(HOOKS):
        hook(name, function, inputs, result)
    if isinstance(result, OpError):
        raise result
    return result


def step(function, given):
    return STEPS[-1](function, given) if STEPS else function(given)


# The engine.

TRAITS = EngineTraits(
    "fake",
    "the fake framework",
    settings=(Field("fake_inputs", True, to_bool, "Fake: whether dumps have the steps' inputs."),),
    op_roles=OpRoles(meanings=meaning(sqrt="sqrt", mul="multiply"), batches=frozenset({"Input"})),
)


class Recorder(OpRecorder):
    framework = __file__

    def name_inputs(self, tensors):
        if self.setting("fake_inputs"):
            super().name_inputs(tensors)

    def after(self, name, function, inputs, result):
        if isinstance(result, OpError):
            self.failed(result, function.__name__, inputs, name=name)
        else:
            self.op(function.__name__, inputs, result, name=name)


def see(engine, patches):
    def hook(*op):
        recorder = engine.recorder()
        if recorder is not None:
            recorder.after(*op)

    def step(function, given):
        with engine.run("step", function.__name__, {"given": given}):
            return function(given)

    patches.also(lambda: HOOKS.append(hook), lambda: HOOKS.remove(hook))
    patches.also(lambda: STEPS.append(step), lambda: STEPS.remove(step))


ENGINE = ProgramKit(TRAITS, ["fake_engine"], see, Recorder, errors=(OpError,))
