"""The engine: a call of `grad` or another operator is a run, a primitive is an op."""

import numpy as np

from tfdbg_autograd import private
from tfdbg_autograd.private import NAMES, Box, VJPNode, call_of, cell, plain, put_into
from tfdbg_autograd.traits import TRAITS
from tfdbg_cli.engines.kit.recording.op_recorder import OpRecorder
from tfdbg_cli.engines.kit.recording.program_kit import ProgramKit
from tfdbg_cli.engines.kit.sites import argument_names, named_parts

NUMBERS = (np.ndarray, np.generic, float)


class Recorder(OpRecorder):
    """What autograd has besides ops: boxes around tensors, and functions that pull back."""

    def plain(self, value):
        return plain(value)

    def gave(self, arguments, result):
        """An operator has returned gradients, one for each argument."""
        for (_, of), (_, value) in zip(arguments, named_parts("", result, NUMBERS), strict=True):
            self.gradient(of, value)


def arguments_of(unary_f, x):
    """The tensors that the program's function gets, and those that are differentiated, by name."""
    call = call_of(unary_f)
    if call is None:
        named, chosen = {"x": x}, ["x"]
    else:
        function, args, kwargs, argnum = call
        named = argument_names(function, args, kwargs)
        wanted = [args[at] for at in ([argnum] if isinstance(argnum, int) else argnum)]
        chosen = [name for name, value in named.items() if any(value is each for each in wanted)]
    found = [
        (name in chosen, part)
        for name, value in named.items()
        for part in named_parts(name, plain(value), NUMBERS)
    ]
    return [part for _, part in found], [part for is_chosen, part in found if is_chosen]


def see(engine, patches):
    """Put in place what sees autograd at work."""

    def operator(original):
        def run(unary_f, x, *args, **kwargs):
            if engine.is_open:
                return original(unary_f, x, *args, **kwargs)
            title = getattr(unary_f, "__name__", "")
            with engine.run(original.__name__, title, lambda: dict(arguments_of(unary_f, x)[0])):
                result = original(unary_f, x, *args, **kwargs)
                recorder = engine.recorder()
                if recorder is not None and original.__name__ in ("grad", "value_and_grad"):
                    is_pair = original.__name__ == "value_and_grad"
                    recorder.gave(arguments_of(unary_f, x)[1], result[1] if is_pair else result)
                return result

        return run

    def traced(original):
        def trace(start_node, fun, x):
            with engine.run("trace", getattr(fun, "__name__", ""), {"x": plain(x)}):
                return original(start_node, fun, x)

        return trace

    def backward(original):
        def backward_pass(g, end_node):
            with engine.run("vjp"):
                recorder = engine.recorder()
                if recorder is None:
                    return original(g, end_node)
                recorder.enter_phase("backward")
                try:
                    return original(g, end_node)
                finally:
                    recorder.leave_phase()

        return backward_pass

    def node(original):
        def __init__(self, value, *args):
            original(self, value, *args)
            if engine.recorder() is not None:
                self.vjp = pulling(engine, plain(value), self.vjp)

        return __init__

    def primitive(original):
        def make(f_raw):
            made = original(f_raw)
            op(made)
            return made

        return make

    def op(each):
        place = cell(each, "f_raw")
        if place is not None:
            put_into(patches, place, lambda raw: engine.recorded(raw, unless=has_box))

    for each in private.primitives():
        op(each)
    for each in private.operator_cells():
        put_into(patches, each, operator)
    patches.replace(private.core, "backward_pass", backward)
    patches.replace(private.core, "trace", traced)
    patches.replace(VJPNode, "__init__", node)
    patches.replace(private.tracer, "primitive", primitive)
    patches.replace(private.extend, "primitive", primitive)


def has_box(args):
    """NumPy is to dispatch to autograd: what is computed comes by again."""
    return any(isinstance(each, Box) for each in args)


def pulling(engine, made, vjp):
    """What pulls gradients back through an op, seen while somebody looks."""

    def pulled(g):
        recorder = engine.recorder()
        if recorder is None:
            return vjp(g)
        recorder.goes_back(made)
        found = vjp(g)
        if not isinstance(found, tuple):  # they are computed while they are taken
            return one_by_one(recorder, made, g, found)
        recorder.came_back(made, g, found)
        return found

    return pulled


def one_by_one(recorder, made, g, gradients):
    for each in gradients:
        recorder.came_back(made, g, each)
        yield each


ENGINE = ProgramKit(TRAITS, ["autograd"], see, Recorder, names=NAMES)
