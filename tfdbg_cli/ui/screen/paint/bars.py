"""The rows around the page: title, navigation, menu, status, prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tfdbg_cli.common.documents import MenuItem
from tfdbg_cli.ui.keys import Where
from tfdbg_cli.ui.screen.input.places import hints
from tfdbg_cli.ui.screen.paint.cells import Cells, Segment, Target, clip, shortened, text_width
from tfdbg_cli.ui.screen.stack import ViewStack
from tfdbg_cli.ui.screen.state import ScreenState
from tfdbg_cli.ui.screen.view import View

__all__ = ["menu_row", "nav_row", "prompt_row", "status_row", "title_row"]


def title_row(title: str, role: str, width: int, mark: str = "") -> Cells:
    """``--- title (mark) -----``, in the colour of what kind of stop this is.

    The title is cut where there is no room for it and the mark.
    """
    attribute = f"title-{role}"
    end = f" ({mark}) " if mark else " "
    text = "--- " + shortened(title, width - 4 - text_width(end)) + end
    text += "-" * max(width - text_width(text), 0)
    return clip([Segment(text, attribute)], 0, width, fill=attribute)


def nav_row(views: ViewStack, width: int) -> Cells:
    """``| <-- --> | 3/7 | command``; the arrows can be clicked where they lead somewhere."""
    segments = [Segment("| ", "nav")]
    for text, step, action in (("<--", -1, "previous_screen"), ("-->", 1, "next_screen")):
        if views.can_move(step):
            segments.append(Segment(text, "nav-link+link", Target("action", action)))
        else:
            segments.append(Segment(text, "nav"))
        segments.append(Segment(" ", "nav"))
    view = views.current
    if view is not None:
        head = f"| {views.position}/{len(views)} | "
        room = width - sum(text_width(segment.text) for segment in segments) - len(head)
        segments.append(Segment(head + shortened(view.command, room), "nav"))
    return clip(segments, 0, width, fill="nav")


def menu_row(menu: Sequence[MenuItem], focus: int | None, width: int) -> Cells:
    """``| caption | caption |``; scrolled so far that the focused entry is visible."""
    segments = [Segment("| ", "nav")]
    column, left = 2, 0
    for index, item in enumerate(menu):
        attribute = "menu+link" if item.enabled else "menu-disabled"
        if index == focus:
            attribute = "menu-focus"
            left = max(column + text_width(item.caption) + 2 - width, 0)
        target = Target("command", item.command) if item.enabled else None
        segments += [Segment(item.caption, attribute, target), Segment(" | ", "nav")]
        column += text_width(item.caption) + 3
    return clip(segments, left, width, fill="nav", marker=Segment(">", "nav"))


def _percent(view: View) -> str:
    if view.last_top == 0:
        return "100%"
    return f"{100 * view.top / view.last_top:.2f}%"


_SCROLL = "Scroll (PgUp/PgDn): "


class _Item(NamedTuple):
    """A part of the status line that can be clicked; the least ``rank`` goes first."""

    text: str
    rank: int
    action: str


def status_row(state: ScreenState, width: int) -> Cells:
    """How far the page is scrolled, what it shows of a tensor, and the keys of this screen.

    Only whole items are shown: what is least needed goes first where there is no room.
    """
    view = state.view
    left: list[str] = []
    if view is not None:
        count = view.document.line_count
        left.append(_percent(view))
        if status := view.cursor.text() or view.table.text() or view.status():
            left.append(status)
        if count:
            left.append(f"{view.top + 1}-{view.bottom}/{count}")
        if view.left:
            left.append(f"column {view.left + 1}")
    right = _right_items(state)
    used = sum(text_width(text) + 3 for text in left)
    while right and used + sum(text_width(item.text) + 3 for item in right) > width:
        right.remove(min(right, key=lambda item: item.rank))
    while len(left) > 1 and sum(text_width(text) + 3 for text in left) > width:
        if len(left) == 2 and view is not None and view.cursor:
            left.pop(0)  # of what the cursor is on, the beginning is worth the most
        else:
            left.pop()
    used = sum(text_width(text) + 3 for text in (*left, *(item.text for item in right)))
    if view is not None and left[0] == _percent(view) and used + len(_SCROLL) <= width:
        left[0] = _SCROLL + left[0]
    start = " " + " | ".join(left)
    end = sum(text_width(item.text) + 3 for item in right) - 2
    segments = [Segment(start + " " * max(width - text_width(start) - end, 1), "status")]
    for item in right:
        if item is not right[0]:
            segments.append(Segment(" | ", "status"))
        segments.append(Segment(item.text, "status", Target("action", item.action)))
    return clip(segments, 0, width, fill="status")


def _right_items(state: ScreenState) -> list[_Item]:
    """The keys of this screen, and what holds on every screen."""
    keys = state.keys
    items = []
    if state.program_printed:
        text = f"{keys.key_of('show_output', Where.ANYWHERE)}: program output"
        items.append(_Item(text.removeprefix(": "), 103, "show_output"))
    if state.page_mode and state.view is not None and state.view.table:
        items.append(_Item("TABLE (c leaves)", 101, "leave_table"))
    elif state.page_mode:
        items.append(_Item("PAGE (: leaves)", 101, "to_prompt"))
    found = hints(state)
    if found and not state.page_mode:
        # The first of them says how to come to where they hold.
        key = keys.key_of("to_page", Where.PROMPT)
        if found[0].key != key:
            found[0] = found[0]._replace(key=f"{key} {found[0].key}")
    for rank, hint in enumerate(found):
        items.append(_Item(f"{hint.key} {hint.word}", 50 - rank, hint.action))
    if key := keys.key_of("open_palette", Where.ANYWHERE):
        items.append(_Item(f"{key}: find", 1, "open_palette"))
    if key := keys.key_of("show_keys", Where.ANYWHERE):
        items.append(_Item(f"{key}: keys", 102, "show_keys"))
    items.append(_Item("Mouse: ON" if state.mouse else "Mouse: OFF", 0, "toggle_mouse"))
    return items


def prompt_row(prompt: str, text: str, cursor: int, width: int) -> tuple[Cells, int]:
    """The prompt and the line, scrolled so that the cursor is visible.

    Returns:
        The row, and the cursor's column.
    """
    if text_width(prompt) > width // 2:
        prompt = "> "[: max(width - 1, 0)]
    start = text_width(prompt)
    room = max(width - start, 1)
    column = text_width(text[:cursor])
    left = max(column - room + 1, 0)
    head = clip([Segment(prompt, "prompt")], 0, min(start, width))
    tail = clip([Segment(text)], left, room)
    cells = Cells(head.data + tail.data, head.runs + tail.runs, [], tail.more)
    return cells, min(start + column - left, width - 1)
