"""What happens before anything else is imported: ``python -m`` has put a folder on the path.

It is the current one. Whatever lies there (``random.py``, ``numpy.py``) would be imported in the
place of the installation's; plain python looks for modules of a script's in the script's folder.
"""

from __future__ import annotations

import sys

__all__ = ["AT_START", "IS_PATH_CLEAN"]


def _is_module_run() -> bool:
    """Whether python looks for this package because of ``python -m tfdbg_cli``."""
    if sys.argv[:1] != ["-m"]:
        return False
    # What precedes the program's arguments: the name, or -mNAME, with other letters before the m.
    asked = sys.orig_argv[len(sys.orig_argv) - len(sys.argv)]
    if asked.startswith("-"):
        asked = asked.partition("m")[2]
    return asked.partition(".")[0] == __name__.partition(".")[0]


#: Whether the folder was there and has been taken off.
IS_PATH_CLEAN = _is_module_run() and not sys.flags.safe_path
if IS_PATH_CLEAN:
    del sys.path[0]

#: The modules that python imports by itself.
AT_START = frozenset(sys.modules)
