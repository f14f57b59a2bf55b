"""Which commit of a git repository a file is at, read from git's own files: nothing is started."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import stat
import struct
import time
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from tfdbg_cli.common.files import read_plain

__all__ = ["commit_at", "is_dirty"]

_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
# A work tree of more files isn't looked through.
_MOST_FILES = 20_000
# Nobody waits longer for it, in seconds; and so large a file isn't read for it, in bytes.
_LONGEST, _LARGEST = 0.5, 1 << 26
# Of an object, so that its first line is in it.
_HEAD = 1 << 12
# Flags of an entry of the index: its content doesn't count, or there is none yet.
_ASSUMED, _EXTENDED, _SKIPPED, _INTENDED = 0x8000, 0x4000, 0x4000, 0x2000


def commit_at(path: Path) -> str:
    """The commit that the work tree around a file was made from; empty: there is none.

    See https://git-scm.com/docs/gitrepository-layout.
    """
    home = _home(path)
    if home is None:
        return ""
    try:
        return _head(_git_dir(home))
    except (OSError, UnicodeDecodeError, ValueError):
        return ""


def is_dirty(path: Path) -> bool | None:
    """Whether files of the work tree around a file are others than those of its commit.

    Files that git doesn't know don't count.

    Returns:
        ``None``: that isn't known, as there is no repository, or one of another format, or the
        disk takes too long to tell.
    """
    home = _home(path)
    if home is None:
        return None
    try:
        git_dir = _git_dir(home)
        index = read_plain(git_dir / "index", _LARGEST)
        tree = _tree_of(git_dir, _head(git_dir))
        entries = _read_index(index, len(_head(git_dir)) // 2)
        if tree is not None and _tree([e for e in entries if not e.is_intended]) != tree:
            return True
        until = time.monotonic() + _LONGEST
        for entry in entries:
            if not entry.is_assumed and _is_changed(home.parent, entry):
                return True
            if time.monotonic() > until:
                return None
        return False
    except (OSError, ValueError, LookupError, struct.error, zlib.error):
        return None


def _home(path: Path) -> Path | None:
    """What git has put into the top of the work tree around a file."""
    return next(
        (each / ".git" for each in path.resolve().parents if (each / ".git").exists()), None
    )


def _text(path: Path) -> str:
    return read_plain(path, _LARGEST).decode()


def _git_dir(home: Path) -> Path:
    """The repository's folder; of linked work trees and submodules a file names it."""
    if home.is_dir():
        return home
    return home.parent / _text(home).partition("gitdir:")[2].strip()


def _head(git_dir: Path) -> str:
    head = _text(git_dir / "HEAD").strip()
    if not head.startswith("ref:"):
        return head if _HASH.fullmatch(head) else ""
    ref = head.partition(":")[2].strip()
    shared = git_dir / "commondir"
    common = git_dir / _text(shared).strip() if shared.exists() else git_dir
    for base in (git_dir, common):
        if (base / ref).is_file():
            found = _text(base / ref).strip()
            return found if _HASH.fullmatch(found) else ""
    packed = common / "packed-refs"
    lines = _text(packed).splitlines() if packed.is_file() else []
    return next((line.split()[0] for line in lines if line.endswith(f" {ref}")), "")


class _Entry(NamedTuple):
    """A file of the work tree, as the index has it."""

    name: str
    modified: tuple[int, int]
    mode: int
    size: int
    content: bytes
    is_intended: bool
    is_assumed: bool


def _tree_of(git_dir: Path, commit: str) -> bytes | None:
    """The hash of a commit's tree; ``None``: the commit is in a pack, which isn't read."""
    shared = git_dir / "commondir"
    common = git_dir / _text(shared).strip() if shared.exists() else git_dir
    path = common / "objects" / commit[:2] / commit[2:]
    if not commit or not path.is_file():
        return None
    # Its head is enough: a few bytes of a damaged object may stand for gigabytes.
    head = zlib.decompressobj().decompress(read_plain(path, _LARGEST), _HEAD)
    words = head.partition(b"\0")[2].split(maxsplit=2)
    return bytes.fromhex(words[1].decode("ascii"))


def _read_index(index: bytes, hash_size: int) -> list[_Entry]:
    """The files of an index.

    See https://git-scm.com/docs/index-format.

    Raises:
        ValueError: it is of another format, or too large.
    """
    magic, version, count = struct.unpack_from(">4sII", index)
    if magic != b"DIRC" or version not in (2, 3, 4) or count > _MOST_FILES:
        raise ValueError(f"no index of a known format: {magic!r} {version}")
    entries, at, name = [], 12, b""
    for _ in range(count):
        start = at
        numbers = struct.unpack_from(">10I", index, at)
        at += 40
        content = index[at : at + hash_size]
        (flags,) = struct.unpack_from(">H", index, at + hash_size)
        at += hash_size + 2
        more = 0
        if flags & _EXTENDED:
            (more,) = struct.unpack_from(">H", index, at)
            at += 2
        if version == 4:
            cut, at = _offset(index, at)
            end = index.index(0, at)
            name = name[: len(name) - cut] + index[at:end]
            at = end + 1
        else:
            end = index.index(0, at)
            name = index[at:end]
            at = start + (end - start + 8 & ~7)  # entries are padded with 1 to 8 zeros
        is_assumed = bool(flags & _ASSUMED or more & _SKIPPED)
        _, _, *modified, _, _, mode, _, _, size = numbers
        entry = (os.fsdecode(name), (modified[0], modified[1]), mode, size, content)
        entries.append(_Entry(*entry, bool(more & _INTENDED), is_assumed))
    return entries


def _tree(entries: Iterable[_Entry], above: int = 0) -> bytes:
    """The hash of the tree that files make.

    Args:
        entries: in the order of the index.
        above: how many characters of their names are those of the folder.
    """
    rows: list[tuple[bytes, bytes, bytes]] = []
    hash_size = 20
    for folder, found in itertools.groupby(entries, lambda e: e.name[above:].partition("/")[:2]):
        name, slash = folder
        inside = [*found]
        hash_size = len(inside[0].content)
        content = _tree(inside, above + len(name) + 1) if slash else inside[0].content
        mode = b"40000" if slash else b"%o" % inside[0].mode
        rows.append((os.fsencode(name + slash), mode, content))
    # A folder is sorted as if its name ended with a slash.
    text = b"".join(
        b"%s %s\0%s" % (mode, name.rstrip(b"/"), content) for name, mode, content in sorted(rows)
    )
    return _hashed(b"tree", text, hash_size)


def _hashed(kind: bytes, text: bytes, hash_size: int) -> bytes:
    made = hashlib.sha1 if hash_size == 20 else hashlib.sha256
    return made(b"%s %d\0" % (kind, len(text)) + text).digest()


def _offset(index: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, as in packs, and where it ends."""
    byte = index[at]
    value = byte & 0x7F
    while byte & 0x80:
        at += 1
        byte = index[at]
        value = ((value + 1) << 7) | (byte & 0x7F)
    return value, at + 1


def _is_changed(top: Path, entry: _Entry) -> bool:
    """Whether a file isn't what the index has."""
    kind = stat.S_IFMT(entry.mode)
    if kind not in (stat.S_IFREG, stat.S_IFLNK):  # a repository of its own
        return False
    path = top / entry.name
    try:
        found = path.lstat()
    except OSError:
        return True
    if entry.is_intended or stat.S_IFMT(found.st_mode) != kind:
        return True
    if os.name == "posix" and (found.st_mode ^ entry.mode) & stat.S_IXUSR and kind == stat.S_IFREG:
        return True
    when = divmod(found.st_mtime_ns, 10**9)
    is_of_size = found.st_size & 0xFFFFFFFF == entry.size
    if not is_of_size and entry.size:  # 0: git wasn't sure of it itself
        return True
    if (is_of_size and when == entry.modified) or found.st_size > _LARGEST:
        return False
    content = read_plain(path, _LARGEST) if kind == stat.S_IFREG else os.fsencode(os.readlink(path))
    return _hashed(b"blob", content, len(entry.content)) != entry.content
