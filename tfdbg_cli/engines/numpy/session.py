"""Sessions: run a graph and keep its variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.engines.numpy.dtypes import compatible, dtype_name, to_array
from tfdbg_cli.engines.numpy.executor import RunPlan, RunState, RunStep, make_plan
from tfdbg_cli.engines.numpy.graph import Graph, ThreadStack, get_default_graph
from tfdbg_cli.engines.numpy.nodes import Operand, Operation, Tensor

__all__ = ["Session", "get_default_session"]

#: Given a session, each says what runs instead of it, if anything; the last one is asked.
interceptors: list[Callable[[Session], Any]] = []


@dataclass(frozen=True)
class PreparedRun:
    """What a run is made of once its fetches and feeds were found to be right.

    Attributes:
        state: the session's.
        values: the fed ones at first; a step adds what it computes.
        elements: the fetches, flattened.
    """

    state: RunState
    plan: RunPlan
    values: dict[Tensor, Any]
    fetches: Any
    elements: Sequence[Tensor | Operation]

    def compute(self, step: RunStep | None = None) -> Any:
        """Compute all of it, with a step of one's own or a plain one; what was fetched."""
        with np.errstate(all="ignore"):
            (step or RunStep(self.state, self.values)).run(self.plan)
        return self.result()

    def result(self) -> Any:
        """What was fetched, in the nest of the fetches, once everything is computed."""
        results: list[Any] = []
        for element in self.elements:
            if isinstance(element, Operation):
                results.append(None)
                continue
            value = self.values[element]
            if type(value) is InconvertibleTensorProto:
                # A variable without a value when its node ran; it may have been initialized since.
                value = self.state.read(element, element.op)
            # A copy: whatever the caller does with it, our values stay as they are.
            results.append(np.array(value)[()])
        return pack_fetches(self.fetches, iter(results))


class Session:
    """Runs operations of a graph. Variables keep their values from run to run.

    Args:
        graph: default: the default graph.
        seed: of the random stream; default: the graph's (`set_random_seed`), else a new one for
            each session.
    """

    def __init__(self, graph: Graph | None = None, seed: int | None = None) -> None:
        self.graph = graph or get_default_graph()
        stream = np.random.default_rng(self.graph.seed if seed is None else seed)
        self._state = RunState({}, stream)
        # Nodes never change, so a plan holds whatever is added to the graph later.
        self._plan = lru_cache(make_plan)
        self._closed = False
        self._default = ExitStack()

    @property
    def sess_str(self) -> str:
        """The target; always this process."""
        return ""

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: Any = None,
        run_metadata: Any = None,
    ) -> Any:
        """Compute tensors and run operations.

        Args:
            fetches: a tensor, an operation, a variable, a name of one, or any nest of lists,
                tuples, named tuples and dicts of them.
            feed_dict: tensor (or its name) -> the value to use instead of computing it.
            options, run_metadata: of TensorFlow's signature; ignored.

        Returns:
            The same nest: an array or NumPy scalar of the caller's own for a tensor, ``None`` for
            an operation.

        Raises:
            OpError: an operation failed.
            TypeError, ValueError: a fetch or feed is not right.
            RuntimeError: the session is closed.
        """
        asked: Any = (fetches, feed_dict)
        run: Any = self.run_directly
        wrapper = interceptors[-1](self) if interceptors else None
        if wrapper is not None:
            run, asked = wrapper.run, (*asked, options, run_metadata)
        return run(*asked)  # one line for both: it is in tracebacks

    def run_directly(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        make_step: Callable[[PreparedRun], RunStep | None] = lambda run: None,
    ) -> Any:
        """`run`, past any debugger. For the engine's debugging adapter.

        Args:
            fetches, feed_dict: as for `run`.
            make_step: gives what computes it, see `PreparedRun.compute`.
        """
        run = self.prepare(fetches, feed_dict)
        return run.compute(make_step(run))

    def prepare(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None) -> PreparedRun:
        """A run that is only to be computed. For the engine's debugging adapter."""
        if self._closed:
            raise RuntimeError("The session is closed; make a new one to run anything.")
        elements = [self._element(item, "fetched") for item in flatten_fetches(fetches)]
        values = self._feeds(feed_dict)
        wanted = dict.fromkeys(
            item.op if isinstance(item, Tensor) else item for item in elements if item not in values
        )
        plan = self._plan(tuple(wanted), frozenset(values))
        return PreparedRun(self._state, plan, values, fetches, elements)

    def _element(self, item: Any, use: str) -> Tensor | Operation:
        element = self.graph.as_graph_element(item)
        loop = (element.op if isinstance(element, Tensor) else element).loop
        if loop is not None:
            raise ValueError(
                f"{element.name} can't be {use}: it lives inside {loop.name}, where it may have no "
                "value, or many. Use its output."
            )
        return element

    def _feeds(self, feed_dict: Mapping[Any, Any] | None) -> dict[Tensor, Any]:
        values: dict[Tensor, Any] = {}
        for key, value in (feed_dict or {}).items():
            tensor = self._element(key, "fed")
            if not isinstance(tensor, Tensor):
                raise TypeError(f"{tensor.name} is an operation; feed its output {tensor.name}:0.")
            if isinstance(value, Operand):
                raise TypeError(
                    f"The value fed for {tensor.name} is itself a tensor "
                    f"({value.as_graph_element().name}); run it first and feed the result."
                )
            array = to_array(value, tensor.dtype)
            if not compatible(tensor.shape, array.shape):
                raise ValueError(
                    f"Can't feed a value of shape {array.shape} for {tensor.name}, which has "
                    f"shape {tensor.shape} ({dtype_name(tensor.dtype)})."
                )
            values[tensor] = array
        return values

    def make_callable(
        self, fetches: Any, feed_list: Sequence[Any] | None = None, accept_options: bool = False
    ) -> Callable[..., Any]:
        """A function that runs the fetches, given the values of ``feed_list``, maybe options."""
        keys = list(feed_list or [])

        def call(*values: Any, **keywords: Any) -> Any:
            if len(values) != len(keys):
                raise TypeError(f"{len(keys)} value(s) are needed, {len(values)} were given.")
            if keywords and not accept_options:
                raise TypeError(f"There is no keyword argument {next(iter(keywords))!r}.")
            return self.run(fetches, dict(zip(keys, values, strict=True)) or None, **keywords)

        return call

    def as_default(self) -> AbstractContextManager[Session]:
        """Make this the session of ``tensor.eval()`` within the ``with`` block."""
        return default_session(self)

    def close(self) -> None:
        """Let go of the variables; the session can't be used any more."""
        self._closed = True
        self._state.variables.clear()
        self._plan.cache_clear()

    def __enter__(self) -> Session:
        self._default.enter_context(default_session(self))
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        self._default.close()
        self.close()


def flatten_fetches(fetches: Any) -> list[Any]:
    """The leaves of a nest of lists, tuples and dicts, in order."""
    if isinstance(fetches, list | tuple):
        return [leaf for item in fetches for leaf in flatten_fetches(item)]
    if isinstance(fetches, Mapping):
        return [leaf for item in fetches.values() for leaf in flatten_fetches(item)]
    return [fetches]


def pack_fetches(fetches: Any, values: Iterator[Any]) -> Any:
    """The nest again, with values in place of the leaves."""
    if isinstance(fetches, list | tuple):
        made = [pack_fetches(item, values) for item in fetches]
        if hasattr(fetches, "_fields"):
            return type(fetches)(*made)
        return made if isinstance(fetches, list) else tuple(made)
    if isinstance(fetches, Mapping):
        packed = {key: pack_fetches(item, values) for key, item in fetches.items()}
        return packed if type(fetches) is dict else type(fetches)(packed)  # type: ignore[call-arg]
    return next(values)


_defaults = ThreadStack()


def get_default_session() -> Any:
    """The innermost default session of this thread (it may be a debugger's), or ``None``."""
    return _defaults.last()


@contextmanager
def default_session(session: Any) -> Iterator[Any]:
    """Make a session, or what stands for one, and its graph the default ones."""
    with _defaults.holding(session), session.graph.as_default():
        yield session
