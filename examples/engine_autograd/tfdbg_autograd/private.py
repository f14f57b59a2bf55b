"""Names of autograd that it promises nobody, and how its functions are reached where they are."""

import sys
from importlib.metadata import version

from tfdbg_cli.engines.kit.patching.private_names import PrivateNames

NAMES = PrivateNames("autograd", version("autograd"), ["1.9.1"])
Box = NAMES.require("autograd.tracer:Box")
VJPNode = NAMES.require("autograd.core:VJPNode")
VSpace = NAMES.require("autograd.core:VSpace")
NAMES.require("autograd.core:backward_pass")
NAMES.require("autograd.core:trace")
NAMES.require("autograd.tracer:primitive")
NAMES.require("autograd.extend:primitive")
NAMES.require("autograd.differential_operators:grad")
MADE = NAMES.require("autograd.tracer:trace_primitives_map")

core, operators = sys.modules["autograd.core"], sys.modules["autograd.differential_operators"]
extend, tracer = sys.modules["autograd.extend"], sys.modules["autograd.tracer"]


def plain(value):
    """A value without the boxes that autograd has put around it."""
    while isinstance(value, Box):
        value = value._value
    return value


def cell(function, name):
    """The cell of a variable that a function has from the one around it; ``None``: none."""
    free = getattr(getattr(function, "__code__", None), "co_freevars", ())
    return function.__closure__[free.index(name)] if name in free else None


def put_into(patches, place, make):
    """Replace what is in a cell, once."""
    before = place.cell_contents
    if hasattr(before, "tfdbg_autograd"):
        return
    after = patches.standing_for(before, make(before))
    after.tfdbg_autograd = True

    def put():
        place.cell_contents = after

    def undo():
        if place.cell_contents is after:
            place.cell_contents = before

    patches.also(put, undo)


def operator_cells():
    """The cells in which `grad` and its like keep what they do with a function of one argument.

    Not those of `make_vjp` and its like: they give functions, and a call of one is a run.
    """
    named = [each for name, each in vars(operators).items() if not name.startswith("make_")]
    found = (cell(each, "unary_operator") for each in named)
    return {id(each): each for each in found if each is not None}.values()


def primitives():
    """The ops of autograd, and those that the program has made."""
    modules = [each for name, each in sys.modules.items() if name.partition(".")[0] == "autograd"]
    found = [each for owner in (*modules, VSpace) for each in list(vars(owner).values())]
    return [*(each for each in found if hasattr(each, "_is_autograd_primitive")), *MADE.values()]


def call_of(unary_f):
    """Function, arguments, keywords and the differentiated positions of a call of an operator."""
    cells = [cell(unary_f, name) for name in ("fun", "args", "kwargs", "argnum")]
    return [each.cell_contents for each in cells] if all(cells) else None
