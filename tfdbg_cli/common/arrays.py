"""NumPy, imported at its first use: modules that are imported before the program use this one.

At its import NumPy reads variables of the environment (``OPENBLAS_NUM_THREADS``), starts as many
threads, and adds filters of warnings. The program decides when that is to be.
"""

from __future__ import annotations

from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

__all__ = ["Array", "np"]

if TYPE_CHECKING:
    import numpy as np

    Array: TypeAlias = np.ndarray[Any, Any]
else:

    class _Late(ModuleType):
        """Becomes a copy of the module, and as fast, once an attribute is asked for."""

        def __getattr__(self, name: str) -> Any:
            import numpy

            vars(self).update(vars(numpy))
            self.__class__ = ModuleType
            return getattr(self, name)

    np = _Late("numpy")
    Array = Any
