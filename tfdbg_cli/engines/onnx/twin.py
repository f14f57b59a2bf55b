"""A second session of the same model, with every intermediate tensor as an output."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime

from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.temporary import make_folder, remove_folder
from tfdbg_cli.engines.onnx.model import Model
from tfdbg_cli.engines.onnx.private import initial_options
from tfdbg_cli.engines.onnx.values import as_value

__all__ = ["Twin", "own_options", "session_of", "without_optimisations"]

#: From so many bytes of initializers on, they are mapped from a file instead of copied.
_LARGE = 200 << 20
_FOLDER = "session.model_external_initializers_file_folder_path"
_SILENT = 4  # only what ends the process is printed
_COPIED = (
    *("enable_cpu_mem_arena", "enable_mem_pattern", "execution_mode", "inter_op_num_threads"),
    *("intra_op_num_threads", "use_deterministic_compute"),
)
_lock = threading.RLock()


def own_options(session: Any, is_optimised: bool = False) -> Any:
    """Options like those of a session, but silent, and without optimisations or with its own."""
    given = initial_options(session)
    made = onnxruntime.SessionOptions()
    made.log_severity_level = _SILENT
    for name in _COPIED if given is not None else ():
        if hasattr(given, name):
            setattr(made, name, getattr(given, name))
    if not is_optimised:
        made.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    elif given is not None:
        made.graph_optimization_level = given.graph_optimization_level
    return made


@contextlib.contextmanager
def without_optimisations(options: Any) -> Iterator[Any]:
    """The program's own options, which nobody can copy, as the twin needs them, for a moment."""
    wanted = {
        "graph_optimization_level": onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL,
        "log_severity_level": _SILENT,
        "enable_profiling": False,
        "optimized_model_filepath": "",
    }
    with _lock:
        before = {name: getattr(options, name) for name in wanted}
        try:
            for name, value in wanted.items():
                setattr(options, name, value)
            yield options
        finally:
            for name, value in before.items():
                setattr(options, name, value)


def session_of(proto: Any, session: Any, folder: str = "", is_optimised: bool = False) -> Any:
    """A session of a model made for the debugger, like one of the program's.

    Args:
        proto: the model.
        session: the program's.
        folder: where its external data is.
        is_optimised: with the optimisations of the program's, as far as its options can be copied.

    Raises:
        UserError: ONNX Runtime doesn't take it.
    """
    options = own_options(session, is_optimised)
    if folder:
        options.add_session_config_entry(_FOLDER, folder)
    providers = list(zip(session.get_providers(), _options_of(session), strict=True))
    data = proto.SerializeToString()
    try:
        return onnxruntime.InferenceSession(data, options, providers, enable_fallback=0)
    except Exception as error:
        given = initial_options(session)
        if given is None:
            raise UserError(f"The twin can't be made: {one_line(error)}") from error
    # What can't be copied (libraries of custom ops, initializers that were added) is in there.
    try:
        with without_optimisations(given):
            if folder:
                given.add_session_config_entry(_FOLDER, folder)
            return onnxruntime.InferenceSession(data, given, providers, enable_fallback=0)
    except Exception as error:
        raise UserError(f"The twin can't be made: {one_line(error)}") from error


def _options_of(session: Any) -> list[Mapping[str, Any]]:
    known = session.get_provider_options()
    return [dict(known.get(name, {})) for name in session.get_providers()]


class Twin:
    """The session; made when it is first needed.

    Args:
        session: the program's.
        model: of it.
        count: of its nodes, only so many; ``None``: all.
        only: the tensors to give beside the model's outputs; ``None``: all of these nodes. It is
            then optimised as the program's is.

    Attributes:
        names: the tensors that it can give, by the model's names.
    """

    def __init__(
        self,
        session: Any,
        model: Model,
        count: int | None = None,
        only: Collection[str] | None = None,
    ) -> None:
        import onnx

        self._model = model
        proto = onnx.ModelProto()
        proto.CopyFrom(model.proto)
        if count is not None:
            del proto.graph.node[count:]
            del proto.graph.output[:]
        known = set(model.outputs) if count is None else set()
        for node in model.nodes[:count]:
            for name in node.outputs.values():
                if name not in known and (only is None or name in only):
                    known.add(name)
                    proto.graph.output.append(
                        model.types.get(name) or onnx.ValueInfoProto(name=name)
                    )
        self.names = known
        folder = model.folder
        if not any(tensor.data_location == 1 for tensor in proto.graph.initializer):
            folder = self._map_weights(proto)
        self._session = session_of(proto, session, folder, is_optimised=only is not None)
        #: Sequences and maps, which no OrtValue gives; known after the first run.
        self._others: set[str] = set()

    def _map_weights(self, proto: Any) -> str:
        """Put large initializers into a file of ours; its folder, empty: they are small."""
        import onnx.external_data_helper

        if self._model.mapped is not None:  # by another twin of the model
            folder, initializers = self._model.mapped
            del proto.graph.initializer[:]
            proto.graph.initializer.extend(initializers)
            return folder
        size = sum(len(tensor.raw_data) for tensor in proto.graph.initializer)
        if size < _LARGE:
            return ""
        made = make_folder()
        weakref.finalize(self._model, remove_folder, made)
        folder = os.path.realpath(made)
        onnx.external_data_helper.convert_model_to_external_data(proto, location="weights")
        onnx.external_data_helper.write_external_data_tensors(proto, folder)
        for tensor in proto.graph.initializer:
            if tensor.data_location == 1:
                tensor.ClearField("raw_data")
        self._model.mapped = folder, [*proto.graph.initializer]
        return folder

    def run(
        self,
        feeds: Mapping[str, Any],
        names: Sequence[str],
        options: Any = None,
        convert: Callable[[Any], Any] = as_value,
    ) -> dict[str, Any]:
        """The same run; the tensors that are asked for, as dumps hold them.

        Args:
            feeds: by the model's names.
            names: of what to give.
            options: the program's ``RunOptions``.
            convert: what to make of a tensor instead.

        Raises:
            Exception: ONNX Runtime's.
        """
        if not names:
            return {}
        if not all(_is_tensor(value) for value in feeds.values()):
            return self._plainly(feeds, names, options)
        given = {name: _ort_value(value) for name, value in feeds.items()}
        plain = [name for name in names if name not in self._others]
        found: dict[str, Any] = {}
        if plain:
            values = self._session.run_with_ort_values(plain, given, options)
            for name, value in zip(plain, values, strict=True):
                if value.is_tensor() or value.is_sparse_tensor():
                    found[name] = convert(value)
                else:
                    self._others.add(name)
        rest = [name for name in names if name not in found]
        if rest:
            found.update(self._plainly(feeds, rest, options))
        return found

    def _plainly(
        self, feeds: Mapping[str, Any], names: Sequence[str], options: Any
    ) -> dict[str, Any]:
        values = self._session.run(list(names), dict(feeds), options)
        return {name: as_value(value) for name, value in zip(names, values, strict=True)}


def _is_tensor(value: Any) -> bool:
    if isinstance(value, onnxruntime.OrtValue):
        return bool(value.is_tensor())
    return hasattr(value, "dtype") or type(value) in (int, float, bool)


def _ort_value(value: Any) -> Any:
    if isinstance(value, onnxruntime.OrtValue):
        return value
    return onnxruntime.OrtValue.ortvalue_from_numpy(
        np.ascontiguousarray(value).reshape(np.shape(value))
    )
