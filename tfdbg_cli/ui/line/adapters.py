"""The debugger's history, completion and Documents in the terms of prompt_toolkit."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable

from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document as EditedLine
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import History as PromptHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from tfdbg_cli.commands.reply import Service
from tfdbg_cli.commands.shell.history import History
from tfdbg_cli.common.documents import Line
from tfdbg_cli.ui.hyperlinks import LINK_END, link_start
from tfdbg_cli.ui.inks import HALF, can_draw_halves, inked, prompt_toolkit_style
from tfdbg_cli.ui.themes import Theme

# For prompt_toolkit: it takes no room.
_UNSEEN = "[ZeroWidthEscape]"

__all__ = ["HistoryAdapter", "ServiceCompleter", "formatted_lines", "pager_keys"]


class HistoryAdapter(PromptHistory):
    """The history that all UIs share. It is added to where commands are run, not here."""

    def __init__(self, history: History) -> None:
        super().__init__()
        self._history = history

    async def load(self) -> AsyncGenerator[str, None]:
        """The commands as they are now, the most recent first."""
        for text in self.load_history_strings():
            yield text

    def load_history_strings(self) -> Iterable[str]:
        """The commands, the most recent first."""
        return reversed(self._history.items)

    def append_string(self, string: str) -> None:
        """Nothing: the UI keeps what was typed, whatever it was typed in."""

    def store_string(self, string: str) -> None:
        """Nothing, likewise."""


class ServiceCompleter(Completer):
    """Completions of the service; names with ``/`` and ``:`` are one word there."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def get_completions(
        self, document: EditedLine, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        """The candidates for the word before the cursor."""
        cursor = document.cursor_position
        found = self._service.complete(document.text, cursor)
        for candidate in found.candidates:
            yield Completion(
                candidate.text,
                start_position=found.start - cursor,
                display_meta=candidate.summary,
            )


def formatted_lines(
    lines: Iterable[Line],
    theme: Theme,
    encoding: str = "utf-8",
    colours: int = 256,
    hyperlinks: str = "",
) -> FormattedText:
    """Lines as styled text, each with its line feed.

    Args:
        lines: of a Document.
        theme: what the roles look like; one without colours leaves those of data out, too.
        encoding: the terminal's.
        colours: how many it has.
        hyperlinks: how lines of source are linked, see `style_of`; empty: not at all.
    """
    draws_halves = can_draw_halves(encoding)
    fragments: list[tuple[str, str]] = []
    for made in lines:
        for span in made.spans:
            role = span.role or ("link" if span.link is not None else "")
            style = theme.prompt_toolkit_style(role, link=span.link is not None)
            text = span.text
            if span.ink is not None and theme.colors:
                ink, is_halves = inked(span.ink, colours, draws_halves)
                style = f"{'' if is_halves else style} {prompt_toolkit_style(ink)}"
                text = HALF * len(text) if is_halves else text
            start = link_start(span.link, hyperlinks)
            if start:
                fragments += [(_UNSEEN, start), (style, text), (_UNSEEN, LINK_END)]
            else:
                fragments.append((style, text))
        fragments.append(("", "\n"))
    return FormattedText(fragments)


def pager_keys() -> KeyBindings:
    """Keys for the prompt between two screenfuls: on the empty line Space and q count at once."""
    keys = KeyBindings()
    is_empty = Condition(lambda: not get_app().current_buffer.text)

    @keys.add(" ", filter=is_empty)
    def go_on(event: KeyPressEvent) -> None:
        event.app.exit(result="")

    @keys.add("q", filter=is_empty)
    def stop(event: KeyPressEvent) -> None:
        event.app.exit(result="q")

    return keys
