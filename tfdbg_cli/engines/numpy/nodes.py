"""What a graph is made of: tensors, operations, and the loops that they are in."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, Any

from tfdbg_cli.dumps.sources import Frame
from tfdbg_cli.engines.numpy.dtypes import DType, Shape, dtype_name

if TYPE_CHECKING:
    from tfdbg_cli.engines.numpy.graph import Graph

__all__ = ["Loop", "Operand", "Operation", "Tensor"]

_ENGINE = os.path.dirname(os.path.abspath(__file__)) + os.sep


def raw_stack() -> tuple[tuple[CodeType, int], ...]:
    """The callers' code and line numbers, innermost first; cheap enough for every node."""
    found = []
    frame = sys._getframe(2)
    while frame is not None:
        found.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back  # type: ignore[assignment]
    return tuple(found)


class Operand:
    """What Python's operators and the functions of the engine take: a tensor or a variable.

    The operators are put in by `ops.math_ops`. ``==`` stays identity, because
    tensors are keys of a ``feed_dict``.
    """

    __slots__ = ()

    #: NumPy arrays leave ``array + tensor`` to the tensor.
    __array_ufunc__ = None

    def value(self) -> Tensor:
        """The tensor that other nodes use when they use this."""
        raise NotImplementedError

    def as_graph_element(self) -> Tensor:
        """The tensor that fetching this fetches."""
        return self.value()


class Tensor(Operand):
    """An output of an operation, the one at ``value_index``: a value that a run will compute."""

    __slots__ = ("dtype", "op", "shape", "value_index", "variable")

    def __init__(self, op: Operation, value_index: int, dtype: DType, shape: Shape) -> None:
        self.op = op
        self.value_index = value_index
        self.dtype = dtype
        #: What is known of the shape before a run.
        self.shape = shape
        #: The node of the variable that this stands for, as it is whenever it is used.
        self.variable: Operation | None = None

    @property
    def name(self) -> str:
        """``node:slot``."""
        return f"{self.op.name}:{self.value_index}"

    @property
    def graph(self) -> Graph:
        """The graph that it belongs to."""
        return self.op.graph

    def value(self) -> Tensor:
        return self

    def eval(self, feed_dict: Mapping[Any, Any] | None = None, session: Any = None) -> Any:
        """The value, computed by the session given or by the default one, which there must be."""
        from tfdbg_cli.engines.numpy.session import get_default_session

        chosen = session or get_default_session()
        if chosen is None:
            raise ValueError("There is no default session: use `with Session():` or give one.")
        return chosen.run(self, feed_dict)

    def __repr__(self) -> str:
        return f"<Tensor {self.name!r} shape={self.shape} dtype={dtype_name(self.dtype)}>"

    def __bool__(self) -> bool:
        raise TypeError(f"The tensor {self.name} has no truth value before a run.")


@dataclass(eq=False, repr=False, slots=True)
class Operation:
    """A node of a graph. It is never changed once it is made.

    Attributes:
        control_inputs: operations that must run before it.
        attributes: constants that belong to it: a shape, a dtype, a flag.
        loop: the innermost loop that it is part of, if any.
        index: its place in the order of creation.
        stack: where it was made, innermost first.
    """

    graph: Graph
    name: str
    type: str
    inputs: tuple[Tensor, ...]
    control_inputs: tuple[Operation, ...]
    attributes: Mapping[str, Any]
    loop: Loop | None
    index: int
    stack: tuple[tuple[CodeType, int], ...]
    outputs: tuple[Tensor, ...] = ()

    @property
    def traceback(self) -> tuple[Frame, ...]:
        """The stack that made the operation, outermost frame first, without the engine's own."""
        return tuple(
            Frame(code.co_filename, line, code.co_name)
            for code, line in reversed(self.stack)
            if not code.co_filename.startswith(_ENGINE)
        )

    def __repr__(self) -> str:
        return f"<Operation {self.name!r} type={self.type}>"


@dataclass(eq=False)
class Loop:
    """The inside of a ``while_loop``: Merge, condition, LoopCond, Switch, body, NextIteration.

    Attributes:
        parent: the loop around it.
        name: for messages.
        pred: what says whether it runs once more, a boolean scalar.
        pivot: the node that stands for "it runs now"; nodes without an input from the loop get it
            as a control input.
        body: where the body begins in the order of creation.
    """

    parent: Loop | None
    name: str
    pred: Tensor = field(init=False)
    pivot: Operation | None = None
    body: int = sys.maxsize
