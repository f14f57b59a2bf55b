"""What a run asks for and is given: fetches and feeds, resolved to tensors of the graph."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tensorflow.python.client import session as tf_session
from tensorflow.python.framework import sparse_tensor
from tensorflow.python.ops import session_ops
from tensorflow.python.util import nest

from tfdbg_cli.common.interpreter.program_signals import pass_on
from tfdbg_cli.dumps.dump import CannotRedo, NewValues
from tfdbg_cli.engines.kit.fitting import refuse_written, replaced
from tfdbg_cli.engines.tensorflow.sessions.capture.prepared import Extras
from tfdbg_cli.engines.tensorflow.shared import guard
from tfdbg_cli.engines.tensorflow.shared.private import conversions, fetch_mapper, fields_of

__all__ = [
    "Kept",
    "RunRequest",
    "feed_pairs",
    "feed_values",
    "fetch_labels",
    "replaced_fetches",
    "resolve",
]


class Kept:
    """A fetch of many tensors that has their values as soon as the runtime has given them.

    What a run returns is put together by functions that a program may have registered for its own
    types: they may raise, and then nobody would get anything. So this is to come first.

    Args:
        tensors: the tensors.
        extras: what the run is to ask of the runtime besides.

    Attributes:
        values: their values; ``None``: they haven't come.
    """

    def __init__(self, tensors: Sequence[Any], extras: Extras | None = None) -> None:
        self.tensors = list(tensors)
        self.values: list[Any] | None = None if self.tensors else []
        self._extras = extras

    def _begin(self) -> list[Any]:
        """The session takes the fetches of a run apart."""
        if self._extras is not None:
            guard.await_run(self._extras)
        return self.tensors

    def _take(self, values: list[Any]) -> None:
        self.values = values


tf_session.register_session_run_conversion_functions(
    Kept, fetch_function=lambda kept: (kept._begin(), kept._take)
)


class RunRequest(NamedTuple):
    """A run in the graph's own terms.

    Attributes:
        fetches: the tensors asked for, each once.
        targets: the operations asked for, each once.
        feeds: the tensors fed, composite keys expanded.
        handles: those of ``feeds`` that are fed with a ``TensorHandle``, which has no array.
    """

    fetches: tuple[Any, ...]
    targets: tuple[Any, ...]
    feeds: tuple[Any, ...]
    handles: tuple[Any, ...]

    def key(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """The names of all of it: equal requests on one graph version share a plan."""
        return (
            tuple(tensor.name for tensor in self.fetches),
            tuple(op.name for op in self.targets),
            tuple(tensor.name for tensor in self.feeds),
            tuple(tensor.name for tensor in self.handles),
        )


def feed_pairs(feed_dict: Any) -> Iterator[tuple[Any, Any]]:
    """The ``(tensor or name, value)`` pairs of a feed_dict, as ``Session.run`` takes them apart.

    Nested keys are flattened; SparseTensor, RaggedTensor, IndexedSlices and whatever else was
    registered for feeding gives one pair for each component.

    Raises:
        Exception: whatever TensorFlow raises for a feed_dict that it doesn't accept.
    """
    if not feed_dict:
        return
    for key, value in nest.flatten_dict_items(feed_dict).items():
        for kind, _, expand, _ in conversions:
            if isinstance(key, kind):
                yield from expand(key, value)
                break


def resolve(graph: Any, fetches: Any, feed_dict: Any) -> RunRequest:
    """The tensors and operations of a run.

    Args:
        graph: the session's ``tf.Graph``.
        fetches, feed_dict: as ``Session.run`` takes them.

    Raises:
        Exception: the run itself would fail on these arguments, and says why better than this.
    """
    with graph.as_default():
        elements = fetch_mapper(fetches).unique_fetches()
    tensors: list[Any] = []
    targets: list[Any] = []
    for element in elements:
        (tensors if hasattr(element, "value_index") else targets).append(element)
    feeds: list[Any] = []
    handles: list[Any] = []
    for key, value in feed_pairs(feed_dict):
        tensor = graph.as_graph_element(key, allow_tensor=True, allow_operation=False)
        feeds.append(tensor)
        if isinstance(value, session_ops.TensorHandle):
            handles.append(tensor)
    return RunRequest(tuple(tensors), tuple(targets), tuple(feeds), tuple(handles))


def _label(element: Any) -> str:
    name = getattr(element, "name", None)
    if isinstance(name, str):
        return name
    return element if isinstance(element, str) else str(element)


def _leaves(fetches: Any) -> Iterator[Any]:
    if isinstance(fetches, list | tuple):
        for item in fetches:
            yield from _leaves(item)
    elif isinstance(fetches, Mapping):
        for item in fetches.values():
            yield from _leaves(item)
    elif (fields := fields_of(fetches)) is not None:
        for item in fields:
            yield from _leaves(item)
    else:
        yield fetches


def fetch_labels(fetches: Any) -> list[str]:
    """The names of the leaves of a fetch structure, in order; never raises."""
    labels: list[str] = []
    for leaf in _leaves(fetches):
        try:
            parts = _components(leaf)
            # A composite has no name that leads to a tensor: its components have.
            labels.extend(_label(part) for part in (parts if len(parts) > 1 else [leaf]))
        except Exception as error:
            pass_on(error)
            labels.append(f"<{type(leaf).__name__}>")
    return labels


def _components(leaf: Any) -> list[Any]:
    for kind, expand, _, _ in conversions:
        if isinstance(leaf, kind):
            return list(expand(leaf)[0])
    return [leaf]


def _shared_name(parts: list[Any]) -> str:
    """What a program calls a composite: the scope of its components, else one of them."""
    names = [_label(part).partition(":")[0] for part in parts]
    scopes = [name.split("/")[:-1] for name in names]
    shared = [each[0] for each in itertools.takewhile(_all_equal, zip(*scopes, strict=False))]
    return "/".join(shared) or names[0]


def _all_equal(items: tuple[str, ...]) -> bool:
    return len(set(items)) == 1


def _named_parts(key: Any, value: Any) -> Any:
    """The value of a composite, with names for its components where it is a plain tuple."""
    if isinstance(key, sparse_tensor.SparseTensor) and type(value) in (tuple, list):
        return sparse_tensor.SparseTensorValue(*value)
    return value


def feed_values(feed_dict: Any) -> dict[str, Any]:
    """Feed name -> value as the caller gave it; never raises.

    A sparse, ragged or other composite key is one feed, of the name that its components share.
    """
    values: dict[str, Any] = {}
    try:
        items = list(nest.flatten_dict_items(feed_dict or {}).items())
    except Exception as error:  # the run itself says what is wrong
        pass_on(error)
        items = list(feed_dict.items()) if isinstance(feed_dict, Mapping) else []
    for key, value in items:
        try:
            parts = _components(key)
            if len(parts) > 1:
                values[_shared_name(parts)] = _named_parts(key, value)
            else:
                values[_label(key)] = value
        except Exception as error:
            pass_on(error)
            values.setdefault(f"<{type(key).__name__}>", value)
    return values


def replaced_fetches(graph: Any, fetches: Any, value: Any, new: NewValues) -> Any:
    """What a run returns, with other values of some tensors; see `Capture.replaced`.

    Args:
        graph: the session's.
        fetches: as the program gave them.
        value: what it would get.
        new: the tensors with other values.
    """
    refuse_written(new)
    seen = set()

    def name_of(fetch: Any) -> str:
        try:
            element = graph.as_graph_element(fetch)
        except (TypeError, ValueError, KeyError):
            return ""  # of several tensors, or of a type of the program's
        if not hasattr(element, "value_index"):
            return ""  # an operation
        seen.add(element.name)
        return str(element.name)

    made = replaced(fetches, value, name_of, new)
    for tensor in resolve(graph, fetches, None).fetches:
        if tensor.name not in seen and new(tensor.name) is not None:
            raise CannotRedo(f"{tensor.name} is returned as a part of something else")
    return made
