"""What a run asks for and is given: fetches and feeds, resolved to tensors of the graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tensorflow.python.client import session as tf_session
from tensorflow.python.ops import session_ops
from tensorflow.python.util import nest

__all__ = ["Request", "feed_pairs", "feed_values", "fetch_labels", "resolve"]


class Request(NamedTuple):
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
        for kind, _, expand, _ in tf_session._REGISTERED_EXPANSIONS:
            if isinstance(key, kind):
                yield from expand(key, value)
                break


def resolve(graph: Any, fetches: Any, feed_dict: Any) -> Request:
    """The tensors and operations of a run.

    Args:
        graph: the session's ``tf.Graph``.
        fetches, feed_dict: as ``Session.run`` takes them.

    Raises:
        Exception: the run itself would fail on these arguments, and says why better than this.
    """
    with graph.as_default():
        elements = tf_session._FetchMapper.for_fetch(fetches).unique_fetches()
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
    return Request(tuple(tensors), tuple(targets), tuple(feeds), tuple(handles))


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
    elif tf_session._is_attrs_instance(fetches):
        for item in tf_session._get_attrs_values(fetches):
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
        except Exception:
            labels.append(f"<{type(leaf).__name__}>")
    return labels


def _components(leaf: Any) -> list[Any]:
    for kind, expand, _, _ in tf_session._REGISTERED_EXPANSIONS:
        if isinstance(leaf, kind):
            return list(expand(leaf)[0])
    return [leaf]


def feed_values(feed_dict: Any) -> dict[str, Any]:
    """Feed name -> value as the caller gave it; never raises."""
    values: dict[str, Any] = {}
    try:
        for key, value in feed_pairs(feed_dict):
            values[_label(key)] = value
    except Exception:
        if isinstance(feed_dict, Mapping):
            for key, value in feed_dict.items():
                try:
                    values.setdefault(_label(key), value)
                except Exception:
                    values.setdefault(f"<{type(key).__name__}>", value)
    return values
