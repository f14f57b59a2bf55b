"""Objects of ours that a framework's own type checks take for its own."""

from __future__ import annotations

import functools
from typing import Any

__all__ = ["kin"]


@functools.cache
def with_interface(ours: type, interface: type | None) -> Any:
    """A class of ours, made a subclass of a framework's as well.

    TensorFlow's ``Saver`` and its queue runners take only what is a ``SessionInterface``, its
    estimators only hooks that are a ``SessionRunHook``; a class that derived from those could
    not be defined before TensorFlow is imported. All methods are ours first.

    Args:
        ours: the class.
        interface: the framework's; ``None``: it demands none.
    """
    if interface is None or issubclass(ours, interface):
        return ours
    body = {
        "__doc__": ours.__doc__,
        "__module__": ours.__module__,
        "__qualname__": ours.__qualname__,
    }
    make: Any = type(ours)  # an abstract class stays one
    return make(ours.__name__, (ours, interface), body)
