"""Which commit of a git repository a file is at, read from git's own files: nothing is started."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["commit_at"]

_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def commit_at(path: Path) -> str:
    """The commit that the work tree around a file was made from; empty: there is none.

    See https://git-scm.com/docs/gitrepository-layout.
    """
    for folder in path.resolve().parents:
        home = folder / ".git"
        if home.exists():
            try:
                return _head(_git_dir(home))
            except (OSError, UnicodeDecodeError, ValueError):
                return ""
    return ""


def _git_dir(home: Path) -> Path:
    """The repository's folder; of linked work trees and submodules a file names it."""
    if home.is_dir():
        return home
    return home.parent / home.read_text(encoding="utf-8").partition("gitdir:")[2].strip()


def _head(git_dir: Path) -> str:
    head = (git_dir / "HEAD").read_text(encoding="ascii").strip()
    if not head.startswith("ref:"):
        return head if _HASH.fullmatch(head) else ""
    ref = head.partition(":")[2].strip()
    shared = git_dir / "commondir"
    common = git_dir / shared.read_text(encoding="utf-8").strip() if shared.exists() else git_dir
    for base in (git_dir, common):
        if (base / ref).is_file():
            found = (base / ref).read_text(encoding="ascii").strip()
            return found if _HASH.fullmatch(found) else ""
    packed = common / "packed-refs"
    lines = packed.read_text(encoding="utf-8").splitlines() if packed.is_file() else []
    return next((line.split()[0] for line in lines if line.endswith(f" {ref}")), "")
