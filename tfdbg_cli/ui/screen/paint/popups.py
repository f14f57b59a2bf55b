"""What covers the page for a while: questions, messages, completions, the list of commands."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import urwid

from tfdbg_cli.commands.reply import Candidate, Choice, Question, Toast
from tfdbg_cli.ui.marks import cut_at
from tfdbg_cli.ui.screen.input.palette import Palette, PaletteEntry
from tfdbg_cli.ui.screen.paint.cells import Cells, Segment, Target, clip, shortened, text_width

__all__ = ["candidate_rows", "message_rows", "palette_rows", "question_rows", "window"]

_MESSAGE_ROWS = 6


def message_rows(
    message: Toast, has_details: bool, width: int, height: int, key: str = "F2"
) -> list[Cells]:
    """A message, as many rows as it needs; what there is no room for is a key away.

    Args:
        message: what to say.
        has_details: whether the key shows more in any case.
        width, height: of the room.
        key: what shows more.
    """
    text = message.text
    if message.role == "error" and not text.upper().startswith("ERROR"):
        text = f"ERROR: {text}"
    if has_details:
        text += f"  ({key}: details)"
    height = max(min(height, _MESSAGE_ROWS), 1)
    lines = _wrapped(text, width - 1)
    if len(lines) > height:
        end = f"… ({key}: all of it)"
        last = lines[height - 1][: max(width - 1 - text_width(end), 0)]
        lines = [*lines[: height - 1], last + end]
    return [_filled([Segment(" " + part)], f"toast-{message.role}", width) for part in lines]


def _wrapped(text: str, width: int) -> list[str]:
    """Lines of at most that many columns, broken at blanks where there are some."""
    width = max(width, 1)
    if text_width(text) == len(text):
        return textwrap.wrap(text, width) or [""]
    lines, current = [], ""
    for word in text.split():
        if current and text_width(f"{current} {word}") > width:
            lines.append(current)
            current = word
        else:
            current = f"{current} {word}".lstrip()
        while text_width(current) > width and len(current) > 1:
            end = 1
            while text_width(current[: end + 1]) <= width:
                end += 1
            lines.append(current[:end])
            current = current[end:]
    return [*lines, current]


def _filled(segments: Sequence[Segment], role: str, width: int) -> Cells:
    """A row in one colour throughout, besides what has one of its own."""
    own = [s._replace(attribute=role) if s.attribute == "text" else s for s in segments]
    return clip(own, 0, width, fill=role)


def question_rows(question: Question, answer: str, width: int, height: int) -> list[Cells]:
    """A question, what was typed for an answer, and the choices; they can be clicked, too.

    Where there is little room the choices come first, cut to a word each if need be.
    """
    text = _wrapped(f"{question.text} (type a letter, then Enter) {answer}", width - 1)
    never = Choice("Esc", "never mind", "")
    choices = [*question.choices, never]
    for captions in (
        [choice.caption for choice in choices],
        [choice.caption.split()[0] for choice in choices],
        [""] * len(choices),
    ):
        rows = _choice_rows(choices, captions, width)
        if len(rows) <= max(height - 1, 1):
            break
    shown = text[: max(height - len(rows), 0)]
    asked = [_filled([Segment(" " + part)], "question", width) for part in shown]
    return [*asked, *rows][-height:]


def _choice_rows(choices: Sequence[Choice], captions: Sequence[str], width: int) -> list[Cells]:
    rows: list[list[Segment]] = [[]]
    used = 0
    for choice, caption in zip(choices, captions, strict=True):
        text = f"[{choice.key}] {caption}".rstrip()
        if used and used + text_width(text) + 1 > width:
            rows.append([])
            used = 0
        target = Target("answer", "esc" if choice.key == "Esc" else choice.key)
        rows[-1] += [Segment(" "), Segment(text, "question+link", target), Segment(" ")]
        used += text_width(text) + 2
    return [_filled(row, "question", width) for row in rows]


def window(count: int, chosen: int, room: int) -> int:
    """The first of ``room`` rows of a list that show the chosen one near the middle."""
    return min(max(chosen - room // 2, 0), max(count - room, 0))


def candidate_rows(
    candidates: Sequence[Candidate], chosen: int, height: int, width: int
) -> list[Cells]:
    """The candidates of a completion with their summaries, ``height`` rows at most.

    Only the part of the list around the chosen one is made.
    """
    is_cut = 1 < height < len(candidates)
    room = height - 1 if is_cut else min(height, len(candidates))
    start = window(len(candidates), chosen, room)
    shown = candidates[start : start + room]
    column = min(max(text_width(c.text) for c in shown) + 3, max(width * 2 // 3, 8))
    rows = []
    for index, candidate in enumerate(shown, start):
        focus = index == chosen
        target = Target("candidate", str(index))
        segments = [
            _padded(" " + candidate.text, column, "popup-focus" if focus else "popup", target),
            Segment(
                shortened(candidate.summary, width - column),
                "popup-focus" if focus else "popup-summary",
                target,
            ),
        ]
        rows.append(clip(segments, 0, width, fill="popup-focus" if focus else "popup"))
    if is_cut:  # the last line says how many there are
        text = f" {start + 1}-{start + len(shown)} of {len(candidates)}: type more, or Tab"
        rows.append(clip([Segment(text, "popup-summary")], 0, width, fill="popup"))
    return rows


def _padded(text: str, width: int, attribute: str, target: Target | None = None) -> Segment:
    """A text cut or filled up to a width."""
    data = clip([Segment(text)], 0, width).data
    return Segment(data.decode(urwid.util.get_encoding(), "replace"), attribute, target)


def palette_rows(palette: Palette, height: int, width: int) -> list[Cells]:
    """The entries that fit, the best on top; always ``height`` rows, so that nothing jumps."""
    room = height - 1 if height > 1 else height
    start = window(len(palette.found), palette.chosen, room)
    shown = [palette.entries[index] for index in palette.found[start : start + room]]
    labels = (text_width(entry.label) for entry in shown)
    column = min(max(labels, default=0) + 3, max(width // 2, 8), width)
    notes = (text_width(entry.note) for entry in shown)
    edge = min(max(notes, default=0) + 1, width // 4, width - column)
    rows = []
    for index, entry in enumerate(shown, start):
        role = "popup-focus" if index == palette.chosen else "popup"
        places = palette.places(palette.found[index])
        target = Target("entry", str(index))
        rows.append(_entry_row(entry, places, role, target, (column, width - column - edge, edge)))
    rows += [clip((), 0, width, fill="popup")] * (room - len(shown))
    if height > 1:
        many = f"{len(palette.found)} of {len(palette.entries)}"
        text = f" {many}: type to find"
        for more in (", Enter runs it", ", Esc closes", ", Tab: next"):
            text += more if text_width(text + more) <= width else ""
        if not palette.found:
            text = " Nothing matches the typed text: Backspace, or Esc closes"
        rows.append(clip([Segment(text, "popup-summary")], 0, width, fill="popup"))
    return rows


def _entry_row(
    entry: PaletteEntry,
    fitting: Sequence[int],
    role: str,
    target: Target,
    widths: tuple[int, int, int],
) -> Cells:
    """Name, explanation and note of an entry in columns; the letters that fit are marked."""
    pieces = []
    if not entry.summary:  # a long command line has all the room
        widths = (widths[0] + widths[1], 0, widths[2])
    summary = role if role == "popup-focus" else "popup-summary"
    texts = ((entry.label, role, 0), (entry.summary, summary, len(entry.label) + 1))
    for (whole, attribute, first), width in zip(texts, widths, strict=False):
        places = [(at - first, at - first + 1) for at in fitting]
        text = shortened(whole, width - (2 if first == 0 else 1))
        places = [place for place in places if 0 <= place[0] < len(text)]
        segments = [Segment(" ", attribute, target)] if first == 0 else []
        for _, part, fits in cut_at([text], places):
            marked = "popup-match" if fits and role == "popup" else attribute
            segments.append(Segment(part, marked, target))
        pieces.append(clip(segments, 0, max(width - 1, 0), fill=attribute))
        pieces.append(clip((), 0, min(width, 1), fill=attribute))
    note = clip([Segment(entry.note, summary, target)], 0, widths[2], fill=summary)
    pieces.append(note)
    data = b"".join(piece.data for piece in pieces)
    runs = [run for piece in pieces for run in piece.runs]
    return Cells(data, runs, [(0, sum(widths), target)], False)
