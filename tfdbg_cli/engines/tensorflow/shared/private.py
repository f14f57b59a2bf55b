"""The parts of TensorFlow that have no public name, each with what is done where it isn't there.

No other module of the engine uses one. What is required is looked up when this is imported, which
fails where something is missing: then no session has been touched. What isn't required has a
stand-in. This is imported while TensorFlow itself may still be: it imports only what sessions are
made of.
"""

from __future__ import annotations

import operator
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tensorflow.python.client import session as tf_session
from tensorflow.python.framework import versions

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.kit.patching.private_names import PrivateNames

__all__ = [
    "CALLABLE_MADE",
    "NAMES",
    "RUN_DONE",
    "autograph_factories",
    "config_of",
    "conversions",
    "fetch_handler",
    "fetch_mapper",
    "fields_of",
    "function_of",
    "functions_of",
    "is_reference",
    "make_callable",
    "monitored_class",
    "prepared_call",
    "replace_input",
    "serial_of",
]

#: What the engine knows of this TensorFlow.
NAMES = PrivateNames("TensorFlow", str(versions.__version__), ("2.12.0", "2.21.0"))

# Without these a session's run can't be told from another, or not be made as the program makes it.
# They are not even installed where one is missing.

#: Makes a callable of ``CallableOptions``: Keras makes its steps so.
CALLABLE_MADE = "_make_callable_from_options"
NAMES.require("tensorflow.python.client.session:BaseSession._make_callable_from_options")
#: Hands a run to the runtime, and has its values when it returns.
RUN_DONE = "_do_run"
NAMES.require("tensorflow.python.client.session:BaseSession._do_run")
#: Makes what knows the elements of a fetch structure.
fetch_mapper: Callable[[Any], Any] = NAMES.require(
    "tensorflow.python.client.session:_FetchMapper.for_fetch"
)
#: Makes what puts values in the place of fetches; of graph, fetches and feeds.
fetch_handler: Callable[[Any, Any, Any], Any] = NAMES.require(
    "tensorflow.python.client.session:_FetchHandler"
)
#: What is fetched and fed in the place of what isn't a tensor: type, fetch, feed, partial feed.
conversions: list[tuple[Any, Any, Any, Any]] = NAMES.require(
    "tensorflow.python.client.session:_REGISTERED_EXPANSIONS"
)
NAMES.require("tensorflow.python.framework.dtypes:DType._is_ref_dtype")
#: Whether a tensor is a reference to a variable.
is_reference: Callable[[Any], bool] = operator.attrgetter("dtype._is_ref_dtype")
NAMES.require("tensorflow.python.framework.ops:Operation._id")
#: The number of an operation, in the order in which those of its graph were made.
serial_of: Callable[[Any], int] = operator.attrgetter("_id")
NAMES.check()


def make_callable(session: Any, options: Any) -> Callable[..., Any]:
    """A session's callable of ``CallableOptions``."""
    made: Callable[..., Any] = getattr(session, CALLABLE_MADE)(options)
    return made


class _WhileAlive:
    """A session for as long as it is one: what is made of it doesn't hold it."""

    def __init__(self, session: Any) -> None:
        self._tfdbg_session = weakref.ref(session)

    def __getattr__(self, name: str) -> Any:
        session = self._tfdbg_session()
        return None if session is None else getattr(session, name)


def prepared_call(session: Any, options: Any) -> Callable[..., Any] | None:
    """A session's callable of ``CallableOptions``, whose errors are told as those of its runs.

    It doesn't keep the session alive. ``None``: this version has no such thing.
    """
    tell = getattr(type(session), "_do_call", None)
    if tell is None:
        return None
    make = getattr(tf_session.BaseSession, CALLABLE_MADE)
    made = tell(session, make, _WhileAlive(session), options)
    return lambda session, values: tell(session, made, *values)


_is_attrs: Callable[[Any], bool] = getattr(tf_session, "_is_attrs_instance", lambda value: False)
_attrs_values: Callable[[Any], list[Any]] = getattr(tf_session, "_get_attrs_values", lambda _: [])


def fields_of(fetches: Any) -> list[Any] | None:
    """The values of an object of a class made by ``attrs``; ``None``: it is none."""
    return _attrs_values(fetches) if _is_attrs(fetches) else None


def functions_of(graph: Any) -> Mapping[str, Any]:
    """The functions of a graph's library by their names, as far as Python knows them."""
    found: Mapping[str, Any] = getattr(graph, "_functions", {})
    return found


def function_of(graph: Any, name: str) -> Any:
    """One of them.

    Raises:
        KeyError: there is none, or nobody knows.
    """
    find = getattr(graph, "_get_function", lambda name: None)
    found = functions_of(graph).get(name) or find(name)
    if found is None:
        raise KeyError(name)
    return found


def config_of(session: Any) -> Any:
    """The ``ConfigProto`` that a session was made with; ``None``: none, or nobody knows."""
    return getattr(session, "_config", None)


def replace_input(op: Any, place: int, tensor: Any) -> None:
    """Let an operation that was made have another input.

    Raises:
        UserError: this version can't.
    """
    replace = getattr(op, "_update_input", None)
    if replace is None:
        raise UserError(
            f"{NAMES.framework} can't give {op.name} another input.",
            "Identify the tensor before it is used: identify_gradient(tensor).",
        )
    replace(place, tensor)


def monitored_class() -> type | None:
    """The class of monitored sessions; ``None``: not imported yet, or unknown.

    It is not imported for that: TensorFlow may be in the middle of its own import.
    """
    module = sys.modules.get("tensorflow.python.training.monitored_session")
    return getattr(module, "_MonitoredSession", None)


def autograph_factories() -> Iterator[Any]:
    """What ``tf.autograph.to_graph`` has made functions with, each with its map of the source.

    Raises:
        Exception: this version keeps them elsewhere.
    """
    from tensorflow.python.autograph.impl import api

    for factories in list(api._TRANSPILER._cache._cache.values()):
        yield from list(factories.values())
