"""The rows around the page: title, navigation, menu, status, prompt, messages, candidates."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from tfdbg_cli.commands.reply import Candidate, Question, Toast
from tfdbg_cli.documents import MenuItem
from tfdbg_cli.ui.screen.cells import Cells, Segment, Target, clip, text_width
from tfdbg_cli.ui.screen.state import State
from tfdbg_cli.ui.screen.view import View, ViewStack

__all__ = [
    "candidate_rows",
    "menu_row",
    "message_rows",
    "nav_row",
    "prompt_row",
    "question_rows",
    "status_row",
    "title_row",
]

_MESSAGE_ROWS = 6


def title_row(title: str, role: str, width: int) -> Cells:
    """``--- title -----``, in the colour of what kind of stop this is."""
    attribute = f"title-{role}"
    text = f"--- {title} "
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
        segments.append(Segment(f"| {views.position}/{len(views)} | {view.command}", "nav"))
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
    return clip(segments, left, width, fill="nav")


def _percent(view: View) -> str:
    if view.last_top == 0:
        return "100%"
    return f"{100 * view.top / view.last_top:.2f}%"


def status_row(state: State, width: int) -> Cells:
    """How far the page is scrolled, what it shows of a tensor, the mouse, where to find help."""
    view = state.view
    left, right = [], []
    if view is not None:
        count = view.document.line_count
        left.append(f"Scroll (PgUp/PgDn): {_percent(view)}" if width >= 44 else _percent(view))
        if status := view.status():
            left.append(status)
        if count:
            left.append(f"{view.top + 1}-{view.bottom}/{count}")
        if view.left:
            left.append(f"column {view.left + 1}")
    if state.program_printed:
        right.append("F3: program output")
    if state.page_mode:
        right.append("PAGE (: leaves)")
    right += ["Mouse: ON" if state.mouse else "Mouse: OFF", "F1: keys"]
    # What is least needed goes first where there is no room.
    while right and sum(text_width(text) + 3 for text in left + right) > width:
        right.pop()
    while len(left) > 1 and sum(text_width(text) + 3 for text in left) > width:
        left.pop()
    start = " " + " | ".join(left)
    end = " | ".join(right) + " "
    gap = " " * max(width - text_width(start) - len(end), 1)
    return clip([Segment(start + gap + end, "status")], 0, width, fill="status")


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


def _wrapped(text: str, width: int) -> list[str]:
    lines = textwrap.wrap(text, max(width - 1, 1)) or [""]
    if len(lines) > _MESSAGE_ROWS:
        lines = [*lines[: _MESSAGE_ROWS - 1], lines[_MESSAGE_ROWS - 1][: width - 3] + "…"]
    return lines


def message_rows(message: Toast, has_details: bool, width: int) -> list[Cells]:
    """A message, as many rows as it needs."""
    text = message.text
    if message.role == "error" and not text.upper().startswith("ERROR"):
        text = f"ERROR: {text}"
    if has_details:
        text += "  (F2: details)"
    attribute = f"toast-{message.role}"
    return [
        clip([Segment(" " + part, attribute)], 0, width, fill=attribute)
        for part in _wrapped(text, width)
    ]


def question_rows(question: Question, answer: str, width: int) -> list[Cells]:
    """A question, what was typed for an answer, and the choices; they can be clicked, too."""
    rows = [
        clip([Segment(" " + part, "question")], 0, width, fill="question")
        for part in _wrapped(f"{question.text} (type a letter, then Enter) {answer}", width)
    ]
    segments: list[Segment] = [Segment(" ", "question")]
    used = 1
    choices = [(c.key, c.caption, c.key) for c in question.choices] + [("Esc", "never mind", "esc")]
    for key, caption, value in choices:
        text = f"[{key}] {caption}"
        if used > 1 and used + len(text) + 2 > width:
            rows.append(clip(segments, 0, width, fill="question"))
            segments, used = [Segment(" ", "question")], 1
        segments += [
            Segment(text, "question+link", Target("answer", value)),
            Segment("  ", "question"),
        ]
        used += len(text) + 2
    rows.append(clip(segments, 0, width, fill="question"))
    return rows


def candidate_rows(
    candidates: Sequence[Candidate], chosen: int, height: int, width: int
) -> list[Cells]:
    """The candidates of a completion with their summaries, ``height`` rows at most.

    Only the part of the list around the chosen one is made.
    """
    room = min(height, len(candidates))
    if room < len(candidates) and room > 1:
        room -= 1  # for the line that says how many there are
    start = min(max(chosen - room // 2, 0), len(candidates) - room)
    shown = candidates[start : start + room]
    column = min(max(text_width(c.text) for c in shown) + 3, max(width * 2 // 3, 8))
    rows = []
    for index, candidate in enumerate(shown, start):
        focus = index == chosen
        name = clip([Segment(" " + candidate.text)], 0, min(column, width))
        text = name.data.decode(errors="replace")
        target = Target("candidate", str(index))
        segments = [
            Segment(text, "popup-focus" if focus else "popup", target),
            Segment(candidate.summary, "popup-focus" if focus else "popup-summary", target),
        ]
        rows.append(clip(segments, 0, width, fill="popup"))
    if len(shown) < len(candidates):
        text = f" {start + 1}-{start + len(shown)} of {len(candidates)}: type more, or Tab"
        rows.append(clip([Segment(text, "popup-summary")], 0, width, fill="popup"))
    return rows
