"""What two runs are compared by, as somebody asks for it on a command line."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tfdbg_cli.comparing.alignment import Renamed
    from tfdbg_cli.comparing.bars import Bars

__all__ = ["Terms"]


class Terms(NamedTuple):
    """What somebody has asked for; as it is, nothing.

    Attributes:
        rtol, atol, bar, rules: as `make_bars` takes them.
        map: a file that says which names are which; empty: none.
    """

    rtol: float | None = None
    atol: float | None = None
    bar: str = ""
    rules: str = ""
    map: str = ""

    @classmethod
    def of(cls, arguments: argparse.Namespace) -> Terms:
        """Those of a command line that has the options of `TERMS`."""
        return cls(*(getattr(arguments, name) for name in cls._fields))

    def bars(self) -> Bars:
        """How far two tensors may be apart.

        Raises:
            UserError: an option says something that it can't, or its file can't be read.
        """
        from tfdbg_cli.comparing.bars import make_bars

        return make_bars(self.rtol, self.atol, self.bar, self.rules)

    def renamed(self) -> Renamed:
        """As `align` takes it.

        Raises:
            UserError: the file can't be read.
        """
        from tfdbg_cli.comparing.alignment import read_map

        return read_map(self.map) if self.map else ()

    def anywhere(self) -> Terms:
        """The same with absolute paths: the program may change its folder."""
        rules, names = (
            os.path.abspath(os.path.expanduser(path)) if path else ""
            for path in (self.rules, self.map)
        )
        return self._replace(rules=rules, map=names)

    def given(self) -> list[tuple[str, str]]:
        """The options that somebody gave, and their values."""
        values = self._asdict().items()
        return [(f"--{name}", str(value)) for name, value in values if value not in (None, "")]
