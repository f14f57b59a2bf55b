"""A framework of a few lines, and the engine that debugs programs that use it.

It shows what an engine whose runs are stretches of a program has to bring: see docs/engines.md.
"""

import sys
import threading

import numpy as np

from tfdbg_cli.common.fields import Field, to_bool
from tfdbg_cli.common.traits import EngineTraits, OpRoles, meaning
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.sources import capture_stack
from tfdbg_cli.engines.kit.clock import Clock
from tfdbg_cli.engines.kit.engine import OneProgramEngine
from tfdbg_cli.engines.kit.levels import FULL, CaptureLevel
from tfdbg_cli.engines.kit.life import RunLife
from tfdbg_cli.engines.kit.numbering import Numbering
from tfdbg_cli.engines.kit.policy import CapturePolicy
from tfdbg_cli.engines.kit.program import Program
from tfdbg_cli.engines.kit.watch_matcher import WatchMatcher

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


class Recorder(CaptureLevel):
    level, guarded = FULL, (*CaptureLevel.guarded, "after")

    def __init__(self, watch, has_inputs):
        super().__init__(watch)
        self._has_inputs, self._thread = has_inputs, threading.get_ident()
        self._matcher, self._names, self._clock = WatchMatcher(watch), Numbering(), Clock()
        self._nodes, self._tensors, self._failed = [], {}, (None, "")
        self.dump = MemoryDump(lambda: Graph(self._nodes))

    def start(self):
        HOOKS.append(self.after)

    def stop(self):
        HOOKS[:] = [hook for hook in HOOKS if hook != self.after]

    def name_inputs(self, tensors):
        for name, array in tensors().items() if self._has_inputs else ():
            self._add(f"input/{name}", "Input", array)

    def after(self, name, function, inputs, result):
        if threading.get_ident() != self._thread:
            return
        arrays = [each for each in inputs if isinstance(each, np.ndarray)]
        taken = [self.tensor_name(each) or self._constant(each) for each in arrays]
        frames = capture_stack(sys._getframe(2), __file__)
        made = self._add(name, function.__name__, result, taken, frames)
        if isinstance(result, OpError):
            self._failed = (result, made)

    def _constant(self, array):
        return self._add(self._names.unnamed(), "Constant", array) + ":0"

    def _add(self, base, op_type, result, inputs=(), frames=None):
        name = self._names.name(base)
        self._nodes.append(Node(name, op_type, inputs, frames=frames))
        if isinstance(result, np.ndarray):
            self._tensors[id(result)] = (f"{name}:0", result)  # held: no other has its id
            if self._matcher.wants(name, op_type, result.dtype):
                self.dump.add(name, 0, result.copy(), timestamp=self._clock.now())
        return name

    def tensor_name(self, tensor):
        return self._tensors.get(id(tensor), ("",))[0]

    def failed_op(self, error):
        return self._failed[1] if error is self._failed[0] else ""


class Policy(CapturePolicy):
    def make(self, level, watch, costs):
        return Recorder(watch, self.setting("fake_inputs"))


class Runs(RunLife):
    def is_framework_error(self, error):
        return isinstance(error, OpError)

    def step(self, function, given):
        with self.stretch("step", function.__name__, {"given": given}):
            return function(given)

    def install(self):
        STEPS.append(self.step)

    def undo(self):
        STEPS[:] = [each for each in STEPS if each != self.step]


class FakeEngine(OneProgramEngine):
    name, modules, traits = "fake", ("fake_engine",), TRAITS

    def make_program(self):
        program = Program(TRAITS)
        program.runs = program.patches = Runs(program, Policy(program.value))
        return program


ENGINE = FakeEngine()
