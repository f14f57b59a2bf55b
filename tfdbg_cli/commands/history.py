"""What was typed, kept between sessions."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import platformdirs

__all__ = ["History", "default_history_path"]


def default_history_path() -> Path:
    """Where the history file lives, after the customs of the platform."""
    return Path(platformdirs.user_state_dir("tfdbg_cli", appauthor=False)) / "history"


class History:
    """Command lines, oldest first.

    A file that can't be read or written is no error: history is then kept in memory alone.

    Args:
        path: one command per line; ``None``: no file.
        limit: how many are kept in the file.
    """

    def __init__(self, path: Path | None = None, limit: int = 1000) -> None:
        self.path = path
        self.limit = limit
        self.items: list[str] = []
        if path is not None:
            with contextlib.suppress(OSError, ValueError):
                lines = path.read_text(encoding="utf-8").splitlines()
                self.items = [text for text in lines if text][-limit:]
                if len(lines) > 2 * limit:
                    self._rewrite()

    def _rewrite(self) -> None:
        assert self.path is not None
        temporary = self.path.with_name(self.path.name + f".{os.getpid()}")
        temporary.write_text("\n".join(self.items) + "\n", encoding="utf-8")
        temporary.replace(self.path)

    def add(self, text: str) -> None:
        """Remember a command line; a repetition of the last one is dropped."""
        text = " ".join(text.splitlines()).strip()
        if not text or (self.items and self.items[-1] == text):
            return
        self.items.append(text)
        if self.path is not None:
            with contextlib.suppress(OSError):
                self.path.parent.mkdir(parents=True, exist_ok=True)
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(text + "\n")

    def matching(self, prefix: str) -> list[str]:
        """The distinct command lines that begin with ``prefix``, most recent first."""
        return list(dict.fromkeys(text for text in reversed(self.items) if text.startswith(prefix)))
