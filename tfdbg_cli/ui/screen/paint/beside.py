"""Two pages side by side: the rows of a list, and those of the pane about one of its rows."""

from __future__ import annotations

from collections.abc import Sequence

import urwid

from tfdbg_cli.ui.screen.paint.cells import Cells, Segment, Target, clip, is_utf8
from tfdbg_cli.ui.screen.paint.page import page_rows, thumb
from tfdbg_cli.ui.screen.panes import Pane
from tfdbg_cli.ui.screen.state import ScreenState
from tfdbg_cli.ui.screen.view import View

__all__ = ["beside"]


def beside(left: Sequence[Cells], view: View, state: ScreenState) -> list[Cells]:
    """The rows of a list with those of its pane.

    Args:
        left: the rows of the list.
        view: the list.
        state: of the screen; its pane was laid out.
    """
    pane = state.pane
    shown = pane.look(view, max(len(left) - 1, 1))
    right = [_title(pane, shown), *page_rows(shown, state.colors, state.hyperlinks)]
    unicode = is_utf8(urwid.util.get_encoding())
    bar = "" if thumb(view)[1] else "│" if unicode else "|"  # the scroll bar parts them, too
    border = clip([Segment(bar, "scrollbar")], 0, 1)
    return [
        _joined(_joined(one, view.width, border), view.width + 1, other)
        for one, other in zip(left, right, strict=True)
    ]


def _title(pane: Pane, shown: View) -> Cells:
    """What it shows; a click shows it alone."""
    menu = shown.document.menu
    command = menu[0].command if menu and not pane.is_waiting else ""
    text = command or ("…" if pane.is_waiting else "")
    target = Target("command", command) if command else None
    head = [Segment(f"-- {pane.kind}: ", "nav"), Segment(text, "nav-link+link", target)]
    head = [*head, Segment(" " + "-" * pane.columns, "nav")]
    return clip(head, 0, pane.columns - 1, "nav")


def _joined(left: Cells, width: int, right: Cells) -> Cells:
    """Two rows, the left one so wide."""
    shifted = [(first + width, behind + width, target) for first, behind, target in right.targets]
    return Cells(left.data + right.data, left.runs + right.runs, left.targets + shifted, right.more)
