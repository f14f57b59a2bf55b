"""What was typed, kept between sessions."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path

import platformdirs

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.files import RefusedError, read_plain, replacing

__all__ = ["History", "default_history_path"]

_NUMBER = re.compile(r"-?\d{1,9}")

# Bytes of the file that are read, and characters of a line.
_LARGEST, _LONGEST = 1 << 20, 10_000
# So many command lines are remembered at least: a program may be attached to for months.
_MOST = 10_000

# Commands that a saved session must not play again.
_NOT_PLAYED = frozenset({"save", "record", "history", "hist"})


def default_history_path() -> Path:
    """Where the history file lives, after the customs of the platform."""
    return Path(platformdirs.user_state_dir("tfdbg_cli", appauthor=False)) / "history"


class History:
    """Command lines, oldest first.

    A file that can't be read or written is no error: history is then kept in memory alone. Only
    its user may read it.

    Args:
        path: one command per line; ``None``: no file.
        limit: how many are kept in the file.
    """

    def __init__(self, path: Path | None = None, limit: int = 1000) -> None:
        self.path = path
        self.limit = limit
        self.items: list[str] = []
        #: What was run since the program began and didn't fail, for `save`: typed, queued or by a
        #: link. Of very many the last ones.
        self.session: list[str] = []
        #: Whether a person typed what is run now, or the line that it is a part of.
        self.is_typed = False
        self._recent: list[str] = []
        self._begun = ""
        #: The file of `record`: each command line is written to it at once.
        self.recorder: Path | None = None
        if path is not None:
            try:
                self._read(path)
            except FileNotFoundError:
                pass
            except OSError:  # whatever is there stays as it is
                self.path = None

    def _read(self, path: Path) -> None:
        data = read_plain(path, _LARGEST, is_end=True)
        is_cut = len(data) == _LARGEST
        if is_cut:
            data = data.partition(b"\n")[2]
        lines = data.decode("utf-8", "replace").splitlines()
        sound = (text for text in lines if "\ufffd" not in text and 0 < len(text) <= _LONGEST)
        self.items = [*sound][-self.limit :]
        # What a link leads to may be no history at all.
        if (is_cut or len(lines) > 2 * self.limit) and not path.is_symlink():
            with contextlib.suppress(OSError), replacing(str(path), is_private=True) as file:
                file.write("".join(f"{text}\n" for text in self.items).encode())

    def add(self, text: str) -> str:
        """Remember a command line that a person typed; a repetition of the last one is dropped.

        Args:
            text: what was typed; ``!…`` is remembered as what it stands for.

        Returns:
            The command line to run: ``text``, or what its ``!…`` stands for.
        """
        self.is_typed = True
        if text.lstrip().startswith("!"):
            try:
                text = self.expand(text.strip())
            except UserError:
                return text  # running it tells the user
        plain = self._begin(text)
        if plain and (not self.items or self.items[-1] != plain):
            self.items.append(plain)
            self._append(self.path, plain, is_private=True)
        return text

    def play(self, text: str) -> str:
        """Note a command line that was not typed: of a queue, a pipe, a link.

        Returns:
            The command line to run; ``!…`` means one of this process's.
        """
        self.is_typed = False
        if text.lstrip().startswith("!"):
            try:
                text = self.expand(text.strip(), self._recent)
            except UserError:
                return text
        self._begin(text)
        return text

    def _begin(self, text: str) -> str:
        plain = " ".join(text.splitlines()).strip()
        self._begun = plain
        if plain:
            _remember(self._recent, plain)
        return plain

    def done(self, failed: bool) -> None:
        """The command line noted last was run: a script is to play it again, unless it failed."""
        text, self._begun = self._begun, ""
        if text and not failed and text.split(maxsplit=1)[0] not in _NOT_PLAYED:
            _remember(self.session, text)
            self._append(self.recorder, text)

    @staticmethod
    def _append(path: Path | None, text: str, *, is_private: bool = False) -> None:
        if path is None:
            return
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            opener = _open_private if is_private else None
            with open(path, "a", encoding="utf-8", opener=opener) as file:
                file.write(text + "\n")

    def expand(self, text: str, items: Sequence[str] | None = None) -> str:
        """What ``!!``, ``!12``, ``!-2``, ``!lt`` or ``!?Relu`` stands for; other text as it is.

        Words behind the event are appended: ``!lt -r``. A number is the one that `history` shows,
        a word the beginning of the most recent command that has it, ``?`` a part of it.

        Args:
            text: a command line.
            items: the commands it may mean, oldest first; default: those that `history` shows.

        Raises:
            UserError: there is no such command.
        """
        if not text.startswith("!"):
            return text
        items = self.items if items is None else items
        event, blank, rest = text[1:].partition(" ")
        found: str | None = None
        if event == "!":
            found = items[-1] if items else None
        elif _NUMBER.fullmatch(event):
            number = int(event)
            at = number - 1 if number > 0 else len(items) + number
            found = items[at] if number and 0 <= at < len(items) else None
        elif event:
            part = event.removeprefix("?")
            found = next(
                (
                    item
                    for item in reversed(items)
                    if (part in item if event.startswith("?") else item.startswith(part))
                ),
                None,
            )
        if found is None:
            raise UserError(f'The history has no "{text[: len(event) + 1]}".', "history shows it.")
        return found + blank + rest

    def matching(self, prefix: str) -> list[str]:
        """The distinct command lines that begin with ``prefix``, most recent first."""
        return list(dict.fromkeys(text for text in reversed(self.items) if text.startswith(prefix)))


def _open_private(path: str, flags: int) -> int:
    """An opener of a plain file that only its user may read; older versions let others do so.

    Raises:
        OSError: it can't be opened; it is something else.
    """
    number = os.open(path, flags | getattr(os, "O_NONBLOCK", 0), 0o600)
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            raise RefusedError(errno.EINVAL, "it is not a plain file")
        if os.name == "posix" and status.st_mode & 0o077:
            os.fchmod(number, 0o600)  # fails where it is another user's
    except OSError:
        os.close(number)
        raise
    return number


def _remember(commands: list[str], text: str) -> None:
    commands.append(text)
    if len(commands) > 2 * _MOST:
        del commands[:-_MOST]
