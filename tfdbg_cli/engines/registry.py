"""Which engines there are, and which one a session belongs to. Imports no framework."""

from __future__ import annotations

import functools
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tfdbg_cli.common.errors import UserError, did_you_mean, one_line
from tfdbg_cli.common.packages import entry_points
from tfdbg_cli.common.streams import tell
from tfdbg_cli.common.traits import register
from tfdbg_cli.dumps.sources import add_debugger_path
from tfdbg_cli.engines.base import Engine, TellsUse
from tfdbg_cli.engines.jax.traits import TRAITS as JAX
from tfdbg_cli.engines.mlx.traits import TRAITS as MLX
from tfdbg_cli.engines.numpy_traits import TRAITS as NUMPY
from tfdbg_cli.engines.onnx.traits import TRAITS as ONNX
from tfdbg_cli.engines.tensorflow.functions.traits import TRAITS as TENSORFLOW2
from tfdbg_cli.engines.tensorflow.sessions.traits import TRAITS as TENSORFLOW
from tfdbg_cli.engines.torch.traits import TRAITS as TORCH

__all__ = ["EngineEntry", "engine_for", "entries", "imported", "is_perhaps_unused", "load"]


class EngineEntry(NamedTuple):
    """An engine that may be loaded: its name, what triggers it, and where its code is.

    Attributes:
        name: as ``--engine`` takes it.
        modules: it is loaded once any of these is imported.
        target: ``module:attribute`` of the `Engine`.
    """

    name: str
    modules: tuple[str, ...]
    target: str

    @property
    def is_imported(self) -> bool:
        """Whether the program has one of its modules; ``None`` in its place bars it."""
        return any(sys.modules.get(module) is not None for module in self.modules)


_BUILTIN = (
    EngineEntry("numpy", ("tfdbg_cli.engines.numpy",), "tfdbg_cli.engines.numpy.debugging:ENGINE"),
    EngineEntry(
        "tensorflow",
        ("tensorflow.python.client.session",),
        "tfdbg_cli.engines.tensorflow.sessions.engine:ENGINE",
    ),
    EngineEntry(
        "tensorflow2",
        ("tensorflow.python.distribute.distribute_lib",),
        "tfdbg_cli.engines.tensorflow.functions.engine:ENGINE",
    ),
    EngineEntry("torch", ("torch",), "tfdbg_cli.engines.torch.engine:ENGINE"),
    EngineEntry("jax", ("jax",), "tfdbg_cli.engines.jax.engine:ENGINE"),
    EngineEntry("onnx", ("onnxruntime",), "tfdbg_cli.engines.onnx.engine:ENGINE"),
    EngineEntry("mlx", ("mlx.core",), "tfdbg_cli.engines.mlx.engine:ENGINE"),
)
for _traits in (NUMPY, TENSORFLOW, TENSORFLOW2, TORCH, JAX, ONNX, MLX):
    register(_traits)


@functools.cache
def entries() -> Sequence[EngineEntry]:
    """The built-in engines and those of the entry point group ``tfdbg_cli.engines``.

    A third party's entry point is named ``NAME.TRIGGER_MODULE`` and points to its `Engine`.
    """
    found = list(_BUILTIN)
    try:
        points = entry_points("tfdbg_cli.engines")
    except OSError as error:  # what some package says of itself can't be read
        tell(f"no engines of other packages are looked for: {one_line(error)}")
        points = ()
    for point in points:
        name, _, module = point.name.partition(".")
        entry = EngineEntry(name, (module or name,), point.value)
        same = next((each for each in found if each.name == name), None)
        if same is not None and same.target == entry.target:  # as it has several modules
            found[found.index(same)] = same._replace(modules=(*same.modules, *entry.modules))
        elif same is not None:
            tell(f"the engine {point.value} isn't used: {same.target} is called {name}, too")
        else:
            found.append(entry)
    return tuple(found)


def is_perhaps_unused(engine: Engine) -> bool:
    """Whether another framework that is debugged may have imported the engine's, for itself."""
    roots = {module.partition(".")[0] for entry in _BUILTIN for module in entry.modules}
    others = roots - {engine.name, __name__.partition(".")[0]}
    return isinstance(engine, TellsUse) and any(sys.modules.get(each) for each in others)


@functools.cache
def load(name: str) -> Engine:
    """Import an engine by name.

    Raises:
        UserError: there is none of that name, or it can't be imported (the message says why).
    """
    for entry in entries():
        if entry.name == name:
            engine = _imported(entry)
            if entry not in _BUILTIN:
                _own(entry, entry.target.partition(":")[0])
            if engine.traits is not None:
                register(engine.traits)
            return engine
    names = [entry.name for entry in entries()]
    raise UserError(
        f'There is no engine named "{name}".',
        did_you_mean(name, names) or f"There are {', '.join(names)}.",
    )


def _imported(entry: EngineEntry) -> Engine:
    """The engine of an entry, or a `UserError` that says why there is none."""
    module, _, attribute = entry.target.partition(":")
    failed = f"The {entry.name} engine can't be loaded"
    try:
        engine = importlib.import_module(module)
        for part in attribute.split("."):
            engine = getattr(engine, part)
    except ImportError as error:
        missing = (error.name or "").partition(".")[0]
        frameworks = {each.partition(".")[0] for each in entry.modules}
        is_framework = not missing or missing in frameworks
        wanted = entry.modules[0].partition(".")[0] if is_framework else missing
        hint = f"Is {wanted} installed?" if is_framework else f"Its package needs {wanted}."
        raise UserError(f"{failed}: {one_line(error).rstrip('.')}.", hint) from error
    except AttributeError as error:
        hint = "Its entry point has to name one: package.module:ENGINE."
        raise UserError(f"{failed}: {one_line(error).rstrip('.')}.", hint) from error
    if not isinstance(engine, Engine):
        is_class = isinstance(engine, type)
        kind = f"the class {engine.__name__}" if is_class else f"of class {type(engine).__name__}"
        hint = "Its entry point has to name an object: a SessionEngine, a ProgramEngine."
        raise UserError(f"{failed}: {entry.target} is {kind}, and no engine.", hint)
    if engine.name != entry.name:
        hint = f'Its entry point has to be called "{engine.name}.{entry.modules[0]}".'
        raise UserError(f'{failed}: it is called "{engine.name}" itself.', hint)
    return engine


def _own(entry: EngineEntry, name: str) -> None:
    """Let the frames of another package's engine be the debugger's.

    Args:
        entry: of the engine.
        name: of the module that has the engine. Its whole package counts; below the framework's own
            package the folder of the module, or the module alone.
    """
    owner = name.partition(".")[0]
    frameworks = {each.partition(".")[0] for each in entry.modules}
    if owner in frameworks:
        folder = name.rpartition(".")[0]
        owner = folder if "." in folder else name
    if owner in frameworks:  # the framework itself, in one file
        return
    module = sys.modules[owner]
    for folder in getattr(module, "__path__", ()):
        add_debugger_path(os.path.join(os.path.abspath(folder), ""))
    if not hasattr(module, "__path__") and module.__file__:
        add_debugger_path(os.path.abspath(module.__file__))


def imported() -> Iterator[Engine]:
    """The engines whose framework the program has imported; loads them."""
    for entry in entries():
        if entry.is_imported:
            yield load(entry.name)


def engine_for(session: object) -> Engine | None:
    """The engine that an object is a session of; only imported frameworks are asked."""
    return next((engine for engine in imported() if engine.is_session(session)), None)
