"""What the user calls layers and variables: Keras' paths, where TensorFlow numbers its scopes."""

from __future__ import annotations

import functools
import itertools
import sys
import weakref
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from tensorflow.python.eager import context
from tensorflow.python.framework import ops

from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.engines.kit.patching.patches import PatchSet

__all__ = ["KerasNames"]

# Different runs whose tensors' names are remembered.
_MOST_RUNS = 16
_KERAS = "keras.src.backend.tensorflow.core"


class KerasNames:
    """Knows the scopes that Keras opens, and the layers, models and optimizers that they are of."""

    def __init__(self) -> None:
        # Graph -> scope as TensorFlow calls it -> last part of it as Keras does.
        self._scopes: weakref.WeakKeyDictionary[Any, dict[str, str]] = weakref.WeakKeyDictionary()
        self._owners: weakref.WeakSet[Any] = weakref.WeakSet()
        self._is_seen = False
        # Identity of a handle -> it, and what its variable is called.
        self._handles: dict[int, tuple[weakref.ref[Any], str]] = {}
        self._runs: dict[Any, Sequence[str]] = {}

    def see(self, patches: PatchSet) -> None:
        """Look at the scopes from now on, if Keras is there."""
        if self._is_seen or _KERAS not in sys.modules:
            return
        self._is_seen = True
        scope = getattr(sys.modules[_KERAS], "name_scope", None)
        if scope is not None and callable(vars(scope).get("__enter__")):
            patches.replace(scope, "__enter__", self._entering)

    def forget_patches(self) -> None:
        """They were taken off."""
        self._is_seen = False

    def _entering(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def enter(scope: Any) -> Any:
            entered = original(scope)
            self._entered(scope)
            return entered

        return enter

    def _entered(self, scope: Any) -> None:
        with contained:  # it keeps TensorFlow's name
            owner = getattr(scope, "caller", None)
            if owner is not None:
                self._owners.add(owner)
            if not context.executing_eagerly():
                graph = ops.get_default_graph()
                self._scopes.setdefault(graph, {})[graph.get_name_scope()] = str(scope.name)

    def see_variable(self, variable: Any) -> None:
        """Remember what a variable is called, for as long as its handle is there."""
        with contained:  # it has TensorFlow's name
            handle = variable.handle
            key = id(handle)
            name = str(variable.name).partition(":")[0]
            gone = weakref.ref(handle, lambda _: self._handles.pop(key, None))
            self._handles[key] = gone, name

    def of_run(self, key: Hashable, make: Callable[[], Sequence[str]]) -> Sequence[str]:
        """The names of a run's tensors, which are those of the last run that was like it.

        Args:
            key: what the run has done.
            make: makes them.
        """
        found = self._runs.pop(key, None)
        found = self._runs[key] = make() if found is None else found
        if len(self._runs) > _MOST_RUNS:
            del self._runs[next(iter(self._runs))]
        return found

    def op_name(self, graph: Any, name: str) -> str:
        """What to call an op of a graph: with layers as they are called, wherever they are used."""
        scopes = self._scopes.get(graph) if graph is not None else None
        if not scopes:
            return name
        parts = name.split("/")
        whole = itertools.accumulate(parts[:-1], "{}/{}".format)
        return "/".join([*map(scopes.get, whole, parts), parts[-1]])

    def variables(self, function: Any = None) -> Mapping[int, str]:
        """Identities of the handles of variables, and what they are called.

        Args:
            function: whose variables are wanted by the names that it has for them.
        """
        found = {key: name for key, (_, name) in list(self._handles.items())}
        try:
            own = getattr(getattr(function, "graph", None), "variables", ())
        except AssertionError:  # the program has let go of one, of a loaded model for example
            own = ()
        for variable in own:
            found[id(variable.handle)] = variable.name.partition(":")[0]
        for owner in list(self._owners):
            for variable in getattr(owner, "variables", ()):
                for copy, handle in enumerate(_handles(variable)):
                    found[id(handle)] = variable.path + (f"/replica_{copy}" if copy else "")
        return found


def _handles(variable: Any) -> Iterator[Any]:
    """Of a variable of Keras; a mirrored one has several."""
    value = getattr(variable, "_value", None)
    for each in getattr(value, "values", (value,)):
        handle = getattr(each, "handle", None)
        if handle is not None:
            yield handle
