"""One tensor at one moment of a run."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.dumps.dtypes import name_of

__all__ = [
    "Datum",
    "InconvertibleTensorProto",
    "is_quick",
    "known_dtype",
    "known_shape",
    "number_executions",
]

# Bytes that are read and measured in no time worth mentioning.
_QUICK = 1 << 16

_THEIRS = "tensorflow.python.debug.lib.debug_data"


class _Inconvertible(type):
    """TensorFlow's class of that name counts as this one."""

    def __instancecheck__(cls, instance: object) -> bool:
        kind = type(instance)
        return super().__instancecheck__(instance) or (
            kind.__name__ == "InconvertibleTensorProto" and kind.__module__ == _THEIRS
        )


class InconvertibleTensorProto(metaclass=_Inconvertible):
    """A value that no NumPy array can hold: uninitialized, a resource handle, a variant.

    To ``isinstance`` it is the same as the class of TensorFlow's ``debug_data``, both ways: the
    filters of programs ask for either.

    Attributes:
        initialized: ``False`` for a variable that was read before it had a value.
        description: what is known of it, as text.
        dtype_name: of its elements, which nobody could read; empty: it has none. A text, and so
            not called ``dtype``: what has that is taken for an array.
    """

    def __init__(
        self, description: object = "", initialized: bool = True, dtype_name: str = ""
    ) -> None:
        self.description = description
        self.initialized = initialized
        self.dtype_name = dtype_name

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return getattr(sys.modules.get(_THEIRS), "InconvertibleTensorProto", type(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.description, self.initialized, self.dtype_name)

    def __str__(self) -> str:
        return str(self.description) if self.initialized else "Uninitialized tensor"

    __repr__ = __str__


class Datum:
    """One tensor at one moment of a run.

    Attributes:
        node_name: the node that made it, under the user's name.
        output_slot: which output of the node.
        debug_op: ``DebugIdentity`` unless a watch asked for another.
        timestamp: microseconds since the epoch (0 where the engine has no clock: then the order
            of `Dump.data` is what counts).
        device_name: may be empty.
        execution: 0-based index among the dumps of the same tensor on the same device; set by
            the Dump.
        is_view: it shares the elements of another tensor of the dump; lists leave it out unless
            asked, and filters don't look at it.
        is_computed: the run didn't keep it: it is computed when somebody looks.
    """

    __slots__ = (
        "_dtype",
        "_load",
        "_nbytes",
        "_note",
        "_shape",
        "debug_op",
        "device_name",
        "execution",
        "is_computed",
        "is_view",
        "node_name",
        "output_slot",
        "timestamp",
    )

    def __init__(
        self,
        node_name: str,
        output_slot: int,
        load: Callable[[], Any],
        *,
        debug_op: str = "DebugIdentity",
        timestamp: int = 0,
        device_name: str = "",
        dtype: str | None = None,
        shape: tuple[int, ...] | None = None,
        nbytes: int | None = None,
        is_view: bool = False,
        is_computed: bool = False,
        note: str | Callable[[], str] = "",
    ) -> None:
        self.node_name = node_name
        self.output_slot = output_slot
        self.debug_op = debug_op
        self.timestamp = timestamp
        self.device_name = device_name
        self.execution = 0
        self.is_view = is_view
        self.is_computed = is_computed
        self._load = load
        self._dtype = dtype
        self._shape = shape
        self._nbytes = nbytes
        self._note = note

    @property
    def note(self) -> str:
        """What the array of the value doesn't tell, e.g. that it was quantized; mostly empty."""
        if callable(self._note):
            self._note = self._note()
        return self._note

    @property
    def tensor_name(self) -> str:
        """``node:slot``."""
        return f"{self.node_name}:{self.output_slot}"

    @property
    def watch_key(self) -> str:
        """``node:slot:debug_op``."""
        return f"{self.node_name}:{self.output_slot}:{self.debug_op}"

    @property
    def extended_timestamp(self) -> str:
        """The timestamp as text; directory dumps may add ``-n`` to keep equal ones apart."""
        return str(self.timestamp)

    @property
    def file_path(self) -> str:
        """The file that holds the value; empty in memory."""
        return ""

    @property
    def dump_size_bytes(self) -> int | None:
        """Size of the dump: the file's for directory dumps, else the value's."""
        return self.nbytes

    def get_tensor(self) -> Any:
        """The value: an ndarray, or an `InconvertibleTensorProto`.

        Raises:
            DumpError: the value is missing or damaged.
        """
        return self._load()

    def _describe(self) -> None:
        """Fill in dtype, shape and nbytes. Subclasses do it without reading the value."""
        value = self.get_tensor()
        if isinstance(value, np.ndarray | np.generic):
            self._dtype = name_of(value.dtype)
            self._shape = tuple(value.shape)
            self._nbytes = _bytes_of(value)
        else:
            self._dtype = self._dtype or getattr(value, "dtype_name", "")
            self._nbytes = 0

    @property
    def dtype(self) -> str:
        """The element type by its NumPy/ml_dtypes name, or ``string``, ``resource``, ``variant``.

        Empty where nothing is known.
        """
        if self._dtype is None:
            self._describe()
        return self._dtype or ""

    @property
    def shape(self) -> tuple[int, ...] | None:
        """The shape, or ``None`` where the value has none."""
        if self._dtype is None:
            self._describe()
        return self._shape

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        if self._nbytes is None:
            self._describe()
        return self._nbytes or 0

    def __repr__(self) -> str:
        return f"{{DebugTensorDatum {self.watch_key} @ {self.timestamp}}}"

    __str__ = __repr__


def _bytes_of(value: np.ndarray[Any, Any] | np.generic) -> int:
    """Bytes of the elements; of strings those of their text, not those of the pointers to them."""
    if value.dtype.kind != "O":
        return int(value.nbytes)
    count = 0
    for item in np.asarray(value).reshape(-1).tolist():
        if isinstance(item, str):
            count += len(item.encode("utf-8", "surrogatepass"))
        elif isinstance(item, bytes):
            count += len(item)
    return count


def number_executions(data: Iterable[Datum]) -> None:
    """Set `Datum.execution` of tensors in time order."""
    data = list(data)
    if len({datum.node_name for datum in data}) == len(data):
        for datum in data:
            datum.execution = 0
        return
    counts: dict[tuple[str, int, str, str], int] = {}
    for datum in data:
        key = (datum.node_name, datum.output_slot, datum.debug_op, datum.device_name)
        datum.execution = counts.get(key, 0)
        counts[key] = datum.execution + 1


def known_dtype(datum: Datum) -> str:
    """Its dtype; empty: it is damaged, and reading its value says why."""
    with contained:
        return datum.dtype
    return ""


def known_shape(datum: Datum) -> tuple[int, ...] | None:
    """Its shape; ``None``: it has none, or it is damaged."""
    with contained:
        return datum.shape
    return None


def is_quick(datum: Datum) -> bool:
    """Whether its value takes no time worth mentioning, as it does where it is damaged."""
    with contained:
        return datum.nbytes <= _QUICK
    return True
