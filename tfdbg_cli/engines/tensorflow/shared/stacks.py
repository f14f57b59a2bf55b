"""The creation stacks of TensorFlow's operations, read so that nothing can crash."""

from __future__ import annotations

import functools
import linecache
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType
from typing import Any, cast

from tensorflow.python.util import tf_stack

from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.common.node_words import MEANT
from tfdbg_cli.dumps.source_text import live_source
from tfdbg_cli.dumps.sources import Frame, is_library_path
from tfdbg_cli.engines.tensorflow.shared.private import autograph_factories
from tfdbg_cli.engines.tensorflow.shared.probe import Stack, probe, stack_of

__all__ = ["frames_of", "keep_code", "meant_by"]

# TensorFlow notes the code objects of a stack without owning them. Those of functions and of the
# running script live on; those of an imported module's own level, of a notebook's cells and of
# whatever exec runs are gone once that has run, and to read a stack with such a frame gives
# nonsense or ends the process. So they are kept for as long as the operations may be.
_kept: dict[int, CodeType] = {}
_lock = threading.Lock()

# Whether that was so from TensorFlow's first operation on.
_is_complete = False


class _StackProbe:
    """The stacks of one graph's operations, read in another process, more and more at a time."""

    def __init__(self) -> None:
        self._stacks: dict[str, Stack | None] = {}
        self._count = 16

    def stack(self, op: Any) -> Stack | None:
        """The stack of an operation; those behind it are read with it."""
        if op.name not in self._stacks:
            operations = op.graph.get_operations()
            at = operations.index(op)
            self._stacks.update(probe(operations[at : at + self._count]))
            self._count = min(2 * self._count, _MOST_PROBED)
        return self._stacks[op.name]


_MOST_PROBED = 8192
_probed: weakref.WeakKeyDictionary[Any, _StackProbe] = weakref.WeakKeyDictionary()


def keep_code() -> None:
    """Keep the code objects of the stacks that TensorFlow notes from now on.

    That stays so: the operations may outlive the debugger. A stack costs a few microseconds more.
    """
    global _is_complete
    with _lock:
        extract = getattr(tf_stack, "extract_stack", None)
        if extract is None or getattr(extract, "_tfdbg_keeps_code", False):
            return
        spec = getattr(sys.modules.get("tensorflow"), "__spec__", None)
        # While TensorFlow is being imported there is no operation yet.
        _is_complete = bool(getattr(spec, "_initializing", False))
        tf_stack.extract_stack = _keeping(extract)


def _keeping(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def extract_stack(stacklevel: int = 1) -> Any:
        frame = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            _kept[id(code)] = code
            frame = frame.f_back  # type: ignore[assignment]
        return original(stacklevel + 1)

    # TensorFlow leaves its own frames out of the stacks that its errors tell, and so this one.
    made = cast(FunctionType, extract_stack)
    made.__code__ = made.__code__.replace(co_filename=tf_stack.__file__)
    made._tfdbg_keeps_code = True  # type: ignore[attr-defined]
    return made


def frames_of(op: Any) -> tuple[Frame, ...] | None:
    """The stack that made an operation, outermost frame first; ``None``: nobody knows.

    Frames of code that autograph wrote are those of the user's code that it was made from.
    """
    probed = None if _is_complete else _probed.setdefault(op.graph, _StackProbe())
    stack = stack_of(op) if probed is None else probed.stack(op)
    return None if stack is None else tuple(_frame(*each) for each in stack)


# Files of TensorFlow's that compute with logarithms, and take that of 0 for -inf.
_OF_LOGARITHMS = "tensorflow/python/ops/ctc_ops.py"


def meant_by(op_type: str, frames: Callable[[], Iterable[Frame] | None]) -> dict[str, str]:
    """What a node says of an op by which TensorFlow itself writes -inf.

    Args:
        op_type: of the node.
        frames: give its stack.
    """
    if op_type != "Log":
        return {}
    files = (each.file.replace(os.sep, "/") for each in frames() or ())
    return {MEANT: "True"} if any(each.endswith(_OF_LOGARITHMS) for each in files) else {}


@functools.lru_cache(maxsize=1 << 16)  # most stacks have most of their frames in common
def _frame(file: str, line: int, function: str) -> Frame:
    if "__autograph_generated_file" in file:
        origin = _origins(file).get((file, line))
        if origin is not None:
            return origin
    if is_library_path(file):
        return Frame(file, line, function, linecache.getline(file, line).strip())
    source = live_source(file)
    if source is None or not 1 <= line <= len(source.lines):
        return Frame(file, line, function)
    return Frame(file, line, function, source.lines[line - 1].strip())


_written: dict[str, dict[tuple[str, int], Frame]] = {}


def _origins(file: str) -> dict[tuple[str, int], Frame]:
    """Where the lines of a file that autograph wrote come from.

    What ``tf.function`` converts TensorFlow maps itself; of ``tf.autograph.to_graph`` only the
    converter's cache knows.
    """
    if file not in _written:
        found: dict[tuple[str, int], Frame] = {}
        with contained:  # another version of autograph: its frames stay those of a library
            for factory in autograph_factories():
                for place, origin in factory.source_map.items():
                    if place.filename == file:
                        text = str(origin.source_code_line or "").strip()
                        found[file, place.lineno] = Frame(
                            origin.loc.filename, origin.loc.lineno, origin.function_name, text
                        )
        _written[file] = found
    return _written[file]
