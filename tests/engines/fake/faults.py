"""Faults that an engine may have, put into the fake one: the contract has to tell each."""

import contextlib
import dataclasses
import sys

import fake_engine
import fake_framework as fake
import numpy as np

from tfdbg_cli.common.traits import OpRoles
from tfdbg_cli.engines.kit.levels import FULL
from tfdbg_cli.engines.kit.recording.op_recorder import OpRecorder

#: Name of a fault -> puts it in.
FAULTS = {}
ENGINE, RECORDER = fake_engine.ENGINE, fake_engine.Recorder


def fault(put_in):
    FAULTS[put_in.__name__] = put_in
    return put_in


def replace(owner, name, make):
    setattr(owner, name, make(getattr(owner, name)))


def replace_in_framework(name, make):
    """Let something stand for a function of the framework, beside what the engine puts there."""

    def see(engine, patches):
        fake_engine.see(engine, patches)
        patches.replace(fake, name, make)

    ENGINE.see = see


@fault
def the_level_of_ops_never_finds_anything():
    def is_bad(original):
        return lambda self, tensor: self.level == FULL and original(self, tensor)

    replace(RECORDER, "is_bad", is_bad)


@fault
def no_level_finds_anything():
    RECORDER.is_bad = lambda self, tensor: False


@fault
def everything_is_bad():
    RECORDER.is_bad = lambda self, tensor: True
    RECORDER.finish = lambda self, error: _passed(OpRecorder.finish(self, error))


def _passed(capture):
    capture.filter_passed = True
    return capture


@fault
def the_inputs_of_a_bad_op_are_not_held():
    RECORDER._keep_inputs = lambda self, node, value: None


@fault
def the_last_bad_tensor_is_told_first():
    def time(original):
        def keep(self, made, value, op_type):
            original(self, made.replace_in_framework(time=-made.time), value, op_type)

        return keep

    replace(RECORDER, "_keep", time)


@fault
def values_are_not_copied():
    RECORDER.copies = False


@fault
def values_beyond_the_limit_are_lost():
    def keep(original):
        def hold(self, made, value, op_type):
            is_lost = self.watch.limit is not None and np.asarray(value).nbytes > self.watch.limit
            if not is_lost:
                original(self, made, value, op_type)

        return hold

    replace(RECORDER, "_keep", keep)


@fault
def the_watch_is_not_looked_at():
    def make(original):
        def __init__(self, *args):
            original(self, *args)
            self._matcher.is_open = True

        return __init__

    replace(RECORDER, "__init__", make)


@fault
def inputs_have_no_names():
    RECORDER.name_inputs = lambda self, tensors: None


@fault
def results_are_copies_that_are_rounded():
    def op(original):
        return lambda *args: np.float16(original(*args)).astype(np.float32)

    replace_in_framework("op", op)


@fault
def random_numbers_are_drawn_twice():
    def op(original):
        def twice(name, function, *inputs):
            if name == "noise":
                function(*inputs)
            return original(name, function, *inputs)

        return twice

    replace_in_framework("op", op)


@fault
def errors_are_swapped_for_others():
    def step(original):
        def run(function, given):
            try:
                return original(function, given)
            except fake.OpError as error:
                raise RuntimeError(str(error)) from error

        return run

    replace_in_framework("step", step)


@fault
def the_failing_op_is_not_known():
    RECORDER.failed = lambda self, *args, **kwargs: None


@fault
def every_error_is_the_frameworks():
    ENGINE._errors = (Exception,)


@fault
def it_can_be_undone_only_once():
    def install(original):
        def once(wrap):
            undo, done = original(wrap), []

            def undo_once():
                assert not done
                done.append(True)
                undo()

            return undo_once

        return once

    replace(ENGINE, "install", install)


@fault
def stacks_end_in_the_framework():
    RECORDER.framework = ""


@fault
def the_engines_frames_are_in_tracebacks():
    ENGINE.run = ENGINE.program().runs.stretch


@fault
def nodes_do_not_say_what_they_were_made_of():
    replace(RECORDER, "_add", _without_inputs)


def _without_inputs(original):
    def add(self, base, op_type, outputs, inputs=(), attributes=None, stack=None):
        return original(self, base, op_type, outputs, (), attributes, stack)

    return add


@fault
def the_traits_have_no_roles():
    ENGINE.traits = dataclasses.replace(ENGINE.traits, op_roles=OpRoles())


@fault
def ops_of_every_thread_open_runs():
    replace(
        type(ENGINE.program().runs),
        "is_here",
        lambda original: lambda self: not self._is_busy,
    )


@fault
def a_block_is_several_runs():
    ENGINE.block = lambda name="": contextlib.nullcontext()


@fault
def it_prints_a_line_where_the_program_does():
    def step(original):
        def run(function, given):
            print("watching", file=sys.stderr)
            return original(function, given)

        return run

    replace_in_framework("step", step)


@fault
def an_interrupt_is_swallowed():
    def step(original):
        def run(function, given):
            try:
                return original(function, given)
            except KeyboardInterrupt:
                return given

        return run

    replace_in_framework("step", step)
