"""Sessions: run a graph and keep its variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from tfdbg_cli.engines.numpy.dtypes import compatible, dtype_name, to_array
from tfdbg_cli.engines.numpy.executor import (
    Recorder,
    RunPlan,
    RunState,
    RunStep,
    VariableRef,
    make_plan,
)
from tfdbg_cli.engines.numpy.graph import Graph, ThreadStack, get_default_graph
from tfdbg_cli.engines.numpy.nodes import Operand, Operation, Tensor

__all__ = ["Session", "get_default_session"]

#: Plans kept for each session; programs rarely have more than a handful of different runs.
_PLANS = 128

#: Given a session, what runs instead of it.
Interceptor: TypeAlias = "Callable[[Session], Any]"

#: What computes a run: `RunStep`, or something that watches it closer.
StepMaker: TypeAlias = (
    "Callable[[RunState, dict[Tensor, Any], Recorder | None, Mapping[str, Any]], RunStep]"
)

_interceptors: list[Interceptor] = []


@dataclass(frozen=True)
class PreparedRun:
    """What a run is made of once its fetches and feeds were found to be right.

    The values are the fed ones, to be filled by whoever computes it; the elements are the fetches,
    flattened.
    """

    state: RunState
    plan: RunPlan
    values: dict[Tensor, Any]
    fetches: Any
    elements: Sequence[Tensor | Operation]

    def result(self) -> Any:
        """What was fetched, in the nest of the fetches, once everything is computed."""
        results: list[Any] = []
        for element in self.elements:
            if isinstance(element, Operation):
                results.append(None)
                continue
            value = self.values[element]
            if type(value) is VariableRef:
                # The value when the node ran; a variable that the run initialized has one now.
                value = value.read(element.op) if value.snapshot is None else value.snapshot
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
        self._state = RunState(self.graph.seed if seed is None else seed)
        # Nodes never change, so a plan holds whatever is added to the graph later.
        self._plan = lru_cache(_PLANS)(make_plan)
        self._closed = False
        self._contexts: list[Any] = []

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
            What was fetched, in the same nest: an array or NumPy scalar of the caller's own for a
            tensor, ``None`` for an operation.

        Raises:
            OpError: an operation failed.
            TypeError: a fetch or feed is no tensor, or a value can't be one.
            ValueError: a fetch or feed isn't in the graph, or a value has the wrong shape.
            RuntimeError: the session is closed.
        """
        asked: Any = (fetches, feed_dict)
        run: Callable[..., Any] = self.run_directly
        if _interceptors:
            run = _interceptors[-1](self).run
            asked += (options, run_metadata)
        return run(*asked)  # one line for both: it is in tracebacks

    def run_directly(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        recorder: Recorder | None = None,
        on_feeds: Callable[[dict[Tensor, Any]], None] | None = None,
        make_step: StepMaker = RunStep,
    ) -> Any:
        """`run`, past any debugger. For the engine's debugging adapter.

        Args:
            fetches, feed_dict: as in `run`.
            recorder: told of every node as soon as it is computed.
            on_feeds: told the fed values before anything is computed.
            make_step: makes what computes it, from the arguments of `RunStep`.
        """
        run = self.prepare(fetches, feed_dict)
        if on_feeds is not None:
            on_feeds(run.values)
        step = make_step(self._state, run.values, recorder, np.geterr())
        with np.errstate(all="ignore"):
            step.run(run.plan.items)
        return run.result()

    def prepare(self, fetches: Any, feed_dict: Mapping[Any, Any] | None = None) -> PreparedRun:
        """A run that is only to be computed. For the engine's debugging adapter.

        Raises:
            TypeError, ValueError, RuntimeError: as `run` raises them.
        """
        if self._closed:
            raise RuntimeError("The session is closed; make a new one to run anything.")
        elements = [self.graph.as_graph_element(item) for item in flatten_fetches(fetches)]
        for element in elements:
            context = element.op.context if isinstance(element, Tensor) else element.context
            if context is not None:
                raise ValueError(
                    f"{element.name} can't be fetched: it lives inside {context.name}, where it "
                    "may have no value, or many. Fetch what comes out of it."
                )
        values = self._feeds(feed_dict)
        wanted = dict.fromkeys(
            item.op if isinstance(item, Tensor) else item for item in elements if item not in values
        )
        plan = self._plan(tuple(wanted), frozenset(values))
        return PreparedRun(self._state, plan, values, fetches, elements)

    def _feeds(self, feed_dict: Mapping[Any, Any] | None) -> dict[Tensor, Any]:
        values: dict[Tensor, Any] = {}
        for key, value in (feed_dict or {}).items():
            tensor = self.graph.as_graph_element(key)
            if not isinstance(tensor, Tensor):
                raise TypeError(f"{tensor.name} is an operation; feed its output {tensor.name}:0.")
            if tensor.op.context is not None:
                raise ValueError(
                    f"{tensor.name} can't be fed: it lives inside {tensor.op.context.name}."
                )
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
        """A function that runs the fetches, with the values of ``feed_list`` as its arguments.

        With ``accept_options`` it also takes ``options`` and ``run_metadata``.
        """
        keys = list(feed_list or [])

        def call(*values: Any, **keywords: Any) -> Any:
            if len(values) != len(keys):
                raise TypeError(f"{len(keys)} value(s) are needed, {len(values)} were given.")
            unknown = set(keywords) - ({"options", "run_metadata"} if accept_options else set())
            if unknown:
                raise TypeError(f"There is no keyword argument {sorted(unknown)[0]!r}.")
            return self.run(fetches, dict(zip(keys, values, strict=True)) or None, **keywords)

        return call

    @contextmanager
    def as_default(self) -> Iterator[Session]:
        """Make this the session of ``tensor.eval()`` within the ``with`` block."""
        with default_session(self):
            yield self

    def close(self) -> None:
        """Let go of the variables; the session can't be used any more."""
        self._closed = True
        self._state.variables.clear()
        self._plan.cache_clear()

    def __enter__(self) -> Session:
        context = default_session(self)
        context.__enter__()
        self._contexts.append(context)
        return self

    def __exit__(self, exc_type: Any, exc_value: Any, traceback: Any) -> None:
        self._contexts.pop().__exit__(exc_type, exc_value, traceback)
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


def run_in_default_session(fetches: Any, feed_dict: Any, session: Any = None) -> Any:
    """Run fetches in a session, by default the default one.

    Raises:
        ValueError: there is none.
    """
    chosen = session if session is not None else get_default_session()
    if chosen is None:
        raise ValueError(
            "There is no default session: use `with Session():`, or give one as `session`."
        )
    return chosen.run(fetches, feed_dict)


def intercept_runs(interceptor: Interceptor) -> Callable[[], None]:
    """Let something else take every run that a program asks a session for.

    Returns:
        A function that ends it. The latest interceptor that has not ended is the one that is asked.
    """
    _interceptors.append(interceptor)

    def end() -> None:
        if interceptor in _interceptors:
            _interceptors.remove(interceptor)

    return end
