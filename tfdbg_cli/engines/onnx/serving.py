"""The program of ``tfdbg --model``: runs of a model, with inputs from files or random ones."""

from __future__ import annotations

import glob
import math
import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tfdbg_cli.common.errors import UserError, did_you_mean, one_line
from tfdbg_cli.common.memory import check_room
from tfdbg_cli.common.printable import printable
from tfdbg_cli.common.streams import tell
from tfdbg_cli.dumps.dtypes import dtype_by_name, encode, name_of
from tfdbg_cli.dumps.finite import all_finite
from tfdbg_cli.engines.kit.fitting import wrong_shape
from tfdbg_cli.engines.onnx.engine import ENGINE
from tfdbg_cli.tensors.files.loading import open_arrays

__all__ = ["main"]

_WRONG_USE = 2
_LARGEST = 10
# An element of a random input, as it is drawn and as what it becomes.
_RANDOM_BYTES = 16
_TYPES = {"float": "float32", "double": "float64"}


def main(arguments: Sequence[str]) -> int:
    """Run a model, once for each file of inputs.

    Args:
        arguments: the path, the file of inputs (or nothing), the seed, then ``name=size`` each.

    Returns:
        The exit status: 2 for a model or inputs that can't be.
    """
    path, inputs, seed, *dims = arguments
    try:
        session = _session(path)
        sizes = _sizes(dims)
        for file in _files(inputs):
            given = _loaded(file, session) if file else {}
            feeds = _completed(session, given, sizes, int(seed))
            _run(session, feeds)
    except UserError as error:
        tell(printable(" ".join(str(error).split())))
        return _WRONG_USE
    except Exception as error:
        if not type(error).__module__.startswith("onnxruntime"):
            raise
        tell(printable(_in_words(path, error)))
        return 1
    return 0


def _files(inputs: str) -> list[str]:
    """The files of ``--inputs``: one, or those that fit a pattern (``calib/*.npz``), sorted."""
    if not inputs or os.path.exists(inputs) or not glob.has_magic(inputs):
        return [inputs]
    found = sorted(glob.glob(inputs, recursive=True))
    if not found:
        raise UserError(f"no file fits {inputs}.")
    return found


def _run(session: Any, feeds: Mapping[str, Any]) -> None:
    ENGINE.is_close = True
    try:
        values = session.run(None, feeds)
    finally:
        ENGINE.is_close = False
    for output, value in zip(session.get_outputs(), values, strict=True):
        print(printable(f"{output.name}: {_summary(value)}"))


def _session(path: str) -> Any:
    """A session of the model.

    Raises:
        UserError: it is none.
    """
    if not os.path.isfile(path):
        raise UserError(f"there is no model {path}.")
    try:
        import onnxruntime
    except ImportError as error:
        raise UserError(
            f"--model needs ONNX Runtime: {error}.", "pip install onnxruntime"
        ) from error
    from tfdbg_cli.engines.onnx.model import check_external, read_model

    if not path.endswith(".ort"):
        model = read_model(path)
        if not model.proto.ByteSize() or not model.proto.HasField("graph"):
            raise UserError(f"{path} is not an ONNX model.")
        for tensor in model.proto.graph.initializer:
            check_external(tensor, model.folder)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(path, options, ["CPUExecutionProvider"])
    except Exception as error:
        raise UserError(_in_words(path, error)) from error


def _in_words(path: str, error: Exception) -> str:
    """ONNX Runtime's error with the node that it is about, and what goes into that."""
    from tfdbg_cli.engines.onnx.model import read_model

    text = one_line(error).removeprefix(f"{type(error).__name__}: ")
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : ", "", text)
    try:
        model = read_model(path)
    except UserError:
        return text
    node = model.node_of_error(error)
    if node is None:
        words = set(re.findall(r"\w+", text))
        fits = [each for each in model.all_nodes if each.proto.op_type in words]
        node = fits[0] if len(fits) == 1 else None
    if node is None:
        return text
    return f"{text} (node {node.name}, {node.op_type} of {', '.join(node.proto.input)})"


def _sizes(given: Sequence[str]) -> dict[str, int]:
    found = {}
    for each in given:
        name, _, size = each.rpartition("=")
        if not name or not size.isdecimal():
            raise UserError(f'--dim {each}: write NAME=SIZE, e.g. "batch=4".')
        found[name] = int(size)
    return found


def _loaded(path: str, session: Any) -> dict[str, Any]:
    """Arrays from an ``.npz``, or from an ``.npy`` if the model has one input."""
    inputs = {each.name: each for each in session.get_inputs()}
    with open_arrays(path) as file:
        if file.names is None:
            if len(inputs) != 1:
                raise UserError(
                    f"{path} is one array, and the model has the inputs {', '.join(inputs)}."
                )
            stored = dict.fromkeys(inputs, "")
        else:
            stored = {name: name for name in file.names}
        for name in stored:
            if name not in inputs:
                hint = did_you_mean(name, inputs) or f"There are {', '.join(inputs)}."
                raise UserError(f'the model has no input "{name}".', hint)
        headers = {name: file.header(place) for name, place in stored.items()}
        for name, header in headers.items():
            _check_shape(inputs[name], header.shape)
        check_room(sum(header.nbytes for header in headers.values()), "the inputs")
        return {name: file.load(place) for name, place in stored.items()}


def _check_shape(asked: Any, shape: Sequence[int]) -> None:
    """Refuse what ONNX Runtime would refuse once the values were read."""
    # ONNX Runtime says the same of a scalar and of a shape that isn't known.
    if not asked.type.startswith("tensor(") or not asked.shape:
        return
    wanted = [size if type(size) is int else None for size in asked.shape]
    if len(wanted) != len(shape) or any(
        size not in (None, own) for size, own in zip(wanted, shape, strict=True)
    ):
        raise wrong_shape(asked.name, wanted, shape)


def _completed(
    session: Any, given: Mapping[str, Any], sizes: Mapping[str, int], seed: int
) -> dict[str, Any]:
    """All inputs: those that aren't given are random."""
    random = np.random.default_rng(seed)
    found: dict[str, Any] = dict(given)
    symbols = {
        dim for each in session.get_inputs() for dim in each.shape or () if isinstance(dim, str)
    }
    for name in sizes:
        if name not in symbols:
            hint = (
                did_you_mean(name, symbols) or f"There are {', '.join(sorted(symbols)) or 'none'}."
            )
            raise UserError(f'no input has a dimension "{name}".', hint)
    made = []
    for each in session.get_inputs():
        if each.name in found or each.type.startswith("optional"):
            continue
        shape = tuple(dim if type(dim) is int else sizes.get(dim, 1) for dim in each.shape or ())
        check_room(math.prod(shape) * _RANDOM_BYTES, f"the random values of {each.name}")
        found[each.name] = _random(each, shape, random)
        made.append(f"{each.name} {list(shape)}")
    if made:
        tell(f"random inputs (seed {seed}): {', '.join(made)}")
    return found


def _random(asked: Any, shape: tuple[int, ...], random: np.random.Generator) -> Any:
    inside = re.fullmatch(r"tensor\((\w+)\)", asked.type)
    name = _TYPES.get(inside[1], inside[1]) if inside else ""
    if name == "string":
        return np.full(shape, "text", object)
    if name == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if re.fullmatch(r"u?int(8|16|32|64)", name):
        return random.integers(0, _LARGEST, shape).astype(name)
    known = dtype_by_name(name)
    if known is not None and known.is_native and name.startswith("float"):
        return np.asarray(random.standard_normal(shape)).astype(name)
    if name == "bfloat16":
        import onnxruntime

        assert known is not None
        raw = encode(np.asarray(random.standard_normal(shape), np.float32), known)
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, 16)
    raise UserError(
        f"there are no random values for {asked.name}, a {asked.type}.", "Give them by --inputs."
    )


def _summary(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return (
            f"a {type(value).__name__} of {len(value)}" if hasattr(value, "__len__") else str(value)
        )
    text = f"{name_of(value.dtype)} {list(value.shape)}"
    if value.dtype.kind not in "fc":
        return text
    bad = int((~np.isfinite(value)).sum()) if not all_finite(value) else 0
    return f"{text}, {bad} of {value.size} nan or infinite" if bad else f"{text}, all finite"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
