"""What a node says of its op, as far as the debugger reads it: names of attributes and nodes.

docs/engines.md has a table of what each means. An engine says what it knows, and leaves out the
rest: nothing is concluded from an attribute that isn't there, and nothing is shown for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

__all__ = [
    "ALPHA",
    "API",
    "ARGUMENT",
    "BACKWARD",
    "BACKWARD_CALLED_AT",
    "BESIDE",
    "CHECKED",
    "DIMENSIONS",
    "ERROR",
    "FACTORS",
    "FORWARD",
    "FORWARD_FRAMES",
    "FORWARD_NODE",
    "GRADIENTS",
    "GRAD_OF",
    "INPUTS",
    "LEFT",
    "MADE_BY",
    "MADE_INSIDE",
    "MEANT",
    "MODULE",
    "MODULE_STACK",
    "NUMBER",
    "OPTIMIZER",
    "OUTPUT_SHAPES",
    "OWN_BACKWARD",
    "PHASE",
    "RESULT",
    "RIGHT",
    "SCALARS",
    "UNCLEAR_PHASE",
    "VALUE",
    "VIEW",
    "WATCHED",
    "WRITES",
    "WRITTEN_BY",
    "output_shapes",
]

#: In which part of a training step the op was, and what it may say. Without it a node is one of a
#: graph that was made before the run.
PHASE = "_phase"
FORWARD, BACKWARD, OPTIMIZER = "forward", "backward", "optimizer"
#: Of the program around the op.
MODULE, MODULE_STACK, API = "_module", "_module_stack", "_api"
#: Of gradients.
FORWARD_NODE, GRAD_OF = "_forward_node", "_grad_of"
BACKWARD_CALLED_AT, OWN_BACKWARD = "_backward_called_at", "_own_backward"
FORWARD_FRAMES = "_forward_frames"
#: The value of this attribute of what is computed beside the forward op, before the loss is.
BESIDE = "beside"
#: `PHASE` isn't certain: the op is of the forward pass, or computes a derivative beside it.
UNCLEAR_PHASE = "_unclear_phase"
#: Of what no recorded op has made: the op that has computed it, where that is known, and whether it
#: did so in this run.
MADE_BY, MADE_INSIDE = "_made_by", "_made_inside"
#: Of a tensor that the run was given: an op that has written to it between two runs, and its line.
WRITTEN_BY = "_written_by"
#: Of a single number that an op was given, and that has no name in the program.
NUMBER = "_number"
#: Of what the op does to memory, and of its end.
VIEW, WRITES, ERROR, RESULT = "_view", "_writes", "_error", "_result"
#: Of what was seen where it left a module, or reached a parameter: its ops were not recorded.
WATCHED = "_watched"
#: Of a tensor after writes to its memory that the dump need not have: it is there if it is bad.
CHECKED = "_checked"
#: Of an op by which a library writes -inf, as in ``log(0.0)``.
MEANT = "_meant"
OUTPUT_SHAPES = "_output_shapes"

#: The beginning of the name of an argument that is no tensor: its place, or its name.
ARGUMENT = "_arg_"
#: The operands of an op of two, where they are numbers: the first that is there.
LEFT = ("_arg_self", "_arg_0")
RIGHT = ("_arg_other", "_arg_exponent", "_arg_1", "_arg_scalar", "y")
#: Numbers that an op multiplies one of its operands by.
ALPHA, VALUE, SCALARS = "_arg_alpha", "_arg_value", "_arg_scalars"
FACTORS = (ALPHA, VALUE)
#: Along which a reduction goes.
DIMENSIONS = ("_arg_dim", "_arg_axes", "_arg_axis", "axes", "axis")

#: The beginnings of the names of nodes: of gradients, of what a run is given.
GRADIENTS, INPUTS = "gradients/", "input/"


def output_shapes(attributes: Mapping[str, str]) -> list[tuple[int, ...] | None]:
    """The shapes of a node's outputs, as far as it says them; empty: it says none.

    Args:
        attributes: of the node.
    """
    try:
        found = json.loads(attributes.get(OUTPUT_SHAPES, "[]"))
    except (ValueError, RecursionError):  # TensorFlow's own graphs have an attribute of this name
        return []
    shapes = found if isinstance(found, list) else []
    # A size that isn't fixed may be the name of a symbol.
    are_known = (isinstance(each, list) and all(type(n) is int for n in each) for each in shapes)
    return [tuple(each) if known else None for each, known in zip(shapes, are_known, strict=True)]
