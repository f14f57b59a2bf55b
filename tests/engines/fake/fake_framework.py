"""A framework of a few lines, as a program uses it.

Random streams are NumPy's generators; their methods are functions for `op`.
"""

import numpy as np

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
