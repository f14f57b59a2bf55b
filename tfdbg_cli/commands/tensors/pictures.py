"""``--map``: a value as a picture, and the way between the picture and the numbers."""

from __future__ import annotations

import argparse
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace

from tfdbg_cli.commands.registry import Argument
from tfdbg_cli.common.arrays import Array
from tfdbg_cli.common.documents import ChainDocument, Document, MenuItem, OtherView, Span
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.tensors.pictures.document import Look, PictureDocument
from tfdbg_cli.tensors.pictures.reduction import HOWS, check_drawable
from tfdbg_cli.tensors.pictures.scales import SCALES
from tfdbg_cli.tensors.pictures.source import Source

__all__ = ["ValueDocument", "Views", "check_map", "look_of", "map_arguments", "map_words"]


def map_arguments() -> tuple[Argument, ...]:
    """The options of a command that shows a value as a picture."""
    return (
        Argument(
            ("--map",),
            "as a heat map, with special colours for nan and infinities (key v: map and numbers)",
        ),
        Argument(
            ("--scale",),
            f"colours of a map: {', '.join(SCALES)}",
            "SCALE",
            default=SCALES[0],
            choices=SCALES,
        ),
        Argument(
            ("--cells",),
            f"value of a cell that stands for many elements: {', '.join(HOWS)}",
            "WHAT",
            default=HOWS[0],
            choices=HOWS,
        ),
        Argument(
            ("--axes",),
            "dimensions for the rows and columns of a map, such as 1,2; default: the last two",
            "R,C",
            default="",
        ),
        Argument(("--multiples",), "with --map: all slices side by side (heads, channels)"),
    )


def map_words(arguments: argparse.Namespace) -> list[str]:
    """The options of `map_arguments` that are given."""
    if not arguments.map:
        return []
    words = ["--map"]
    words += ["--multiples"] if arguments.multiples else []
    words += ["--axes", arguments.axes] if arguments.axes else []
    words += ["--scale", arguments.scale] if arguments.scale != SCALES[0] else []
    words += ["--cells", arguments.cells] if arguments.cells != HOWS[0] else []
    return words


def check_map(arguments: argparse.Namespace) -> None:
    """See whether the options go together.

    Raises:
        UserError: they don't.
    """
    if not arguments.map:
        is_default = arguments.scale == SCALES[0] and arguments.cells == HOWS[0]
        if arguments.multiples or arguments.axes or not is_default:
            raise UserError("--multiples, --axes, --scale and --cells go with --map.")
        return
    if arguments.write_path:
        raise UserError("-w saves numbers.", "Leave out --map; or write the picture: > FILE.png.")
    for flag, is_given in (
        ("-r", arguments.ranges),
        ("-s", arguments.numeric_summary),
        ("--bad", arguments.bad),
        ("--sort-by-magnitude", arguments.sort_by_magnitude),
    ):
        if is_given:
            raise UserError(
                f"--map shows a picture, {flag} numbers.", f"Leave out --map or {flag}."
            )


def look_of(arguments: argparse.Namespace, array: Array) -> Look:
    """How the options say that a map is looked at.

    Raises:
        UserError: the array has no such dimensions.
    """
    axes: tuple[int, ...] = ()
    if arguments.axes:
        try:
            rows, columns = [range(array.ndim)[int(part)] for part in arguments.axes.split(",")]
            if rows == columns:
                raise ValueError
        except (ValueError, IndexError):
            raise UserError(
                f'"{arguments.axes}" are not two dimensions of shape {array.shape}.',
                "Write for example --axes 1,2; the first one is 0.",
            ) from None
        axes = (rows, columns)
    return Look((), None, arguments.scale, arguments.cells, bool(arguments.multiples), axes)


class ValueDocument(ChainDocument):
    """A value as numbers, which can be seen as a picture.

    Args:
        parts: see `ChainDocument`.
        menu: of the screen.
        views: the value.
    """

    def __init__(self, parts: Sequence[Document], menu: tuple[MenuItem, ...], views: Views) -> None:
        super().__init__(parts, menu=menu)
        self._views = views
        self.turns = frozenset({"picture"}) if views.can_be_drawn else frozenset()

    def turned(self, way: str, indices: Sequence[int] | None = None) -> OtherView:
        """As a picture."""
        at = None if indices is None else tuple(indices)
        return OtherView(self._views.picture(at), at)


class Views:
    """One array, as numbers and as a picture.

    Args:
        array: of any dtype and shape.
        name: for the first line of the picture.
        width: columns.
        menu: of the screens.
        look: how the picture is looked at.
        make: makes the numbers; told whether all of them are to be shown.
    """

    def __init__(
        self,
        array: Array,
        name: Sequence[Span],
        width: int,
        menu: tuple[MenuItem, ...],
        look: Look,
        make: Callable[[bool], Document],
    ) -> None:
        self._source = Source(array)
        self._name, self._width, self._menu, self._look = name, width, menu, look
        self._make = make
        # The numbers know how they are drawn: a circle would keep the array until it is collected.
        self._shown: Callable[[], Document | None] = lambda: None

    @property
    def can_be_drawn(self) -> bool:
        """Whether there is a picture."""
        try:
            check_drawable(self._source.values)
        except UserError:
            return False
        return True

    def picture(self, at: tuple[int, ...] | None = None) -> PictureDocument:
        """The picture, of the slice that an element is in.

        Raises:
            UserError: no picture can be made of it.
        """
        look = self._look
        if look.tiles and self._source.values.ndim < 3:
            raise UserError(
                "There is one picture: the tensor has no more than two dimensions.",
                "Leave out --multiples.",
            )
        if at is not None and len(at) > 2 and not look.tiles:
            look = replace(look, outer=self._source.along(look.axes).drawn(at)[:-2])
        return PictureDocument(
            self._source, self._name, look, self._width, numbers=self.numbers, menu=self._menu
        )

    def numbers(self, at: tuple[int, ...] | None = None) -> Document:
        """The numbers; all of them, if an element is among those that would be left out."""
        shown = self._shown() or self._make(False)
        if at is not None:
            try:
                shown.locate(at)
            except UserError:
                shown = self._make(True)
        self.show(shown)
        return shown

    def show(self, numbers: Document) -> None:
        """These are the numbers, as long as somebody has them."""
        self._shown = weakref.ref(numbers)
