"""The index of a scan: a line of JSON for each dump, added as it is done.

The first line says what it is about; each ends with the CRC-32 of what is before it, and one that
was damaged says nothing. A dump whose files were written since counts as not done; of several
lines about one dump the last one holds. A large dump has a line for each of its parts.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import IO, Any

from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.files import open_at_once
from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.common.temporary import make_folder, passing_folder, remove_folder
from tfdbg_cli.dumps.files import is_inside, write_error
from tfdbg_cli.dumps.remote.systems import is_remote, remote_files
from tfdbg_cli.dumps.run_folder.json_fields import is_whole, parse_json, sealed
from tfdbg_cli.scanning.tree import Folder
from tfdbg_cli.scanning.work import Finding, merged

__all__ = ["Index", "read_index"]

_FORMAT = {"format": "tfdbg-scan", "version": 1}
# So often, in seconds, the index of a tree at an address is written there.
_SAVED_EVERY = 30.0


class Index:
    """What was found, in a file that outlives whoever writes it.

    Args:
        path: of the file, or an address; it is begun, or gone on with where it is about the same.
        about: what it is about, in what JSON has.

    Raises:
        UserError: the file is something else, or can't be written.
    """

    def __init__(self, path: str, about: Mapping[str, Any]) -> None:
        self._away = _Away(path) if is_remote(path) else None
        self._path = here = self._away.path if self._away is not None else path
        head = {**_FORMAT, **about}
        self._known = _IndexLines(head)
        try:
            with contextlib.suppress(FileNotFoundError), _opened(here) as file:
                text = file.readline()
                first = _head_of(text)
                if first is None and _is_cut(text):
                    os.truncate(here, 0)
                elif first is None:
                    hint = "Name another file with --index."
                    raise UserError(f"{path} is not an index of a scan.", hint)
                elif first == head:
                    self._known.read(file)
                else:
                    os.replace(here, f"{here}.before")
                    if self._away is not None:
                        self._away.put(".before")
            self._file = open(here, "a", encoding="utf-8")  # noqa: SIM115 (`close` does it)
        except OSError as error:
            raise write_error(path, error) from error
        if not self._file.tell():
            self._write(head)
        else:
            self._file.write("\n")  # whatever was being written when it was ended

    @property
    def findings(self) -> dict[str, Finding]:
        """Path of a dump -> what was found in it, of those that were done wholly."""
        return self._known.findings

    def is_done(self, folder: Folder) -> bool:
        """Whether a dump, or a part of one, was done as it is now."""
        found = self._known.of(folder)
        return found is not None and found.get("state") == folder.state

    def keep_only(self, paths: Iterable[str]) -> None:
        """Forget what is known of dumps that are gone."""
        self._known.keep_only(set(paths))

    def add(self, findings: Iterable[Finding]) -> None:
        """Write down what was found.

        Raises:
            UserError: it can't be written.
        """
        for finding in findings:
            self._known.take(finding)
            self._write(finding)
        try:
            self._file.flush()
        except OSError as error:
            raise write_error(self._path, error) from error
        if self._away is not None:
            self._away.save()

    def _write(self, line: dict[str, Any]) -> None:
        try:
            self._file.write(sealed(json.dumps(line)).decode() + "\n")
        except OSError as error:
            raise write_error(self._path, error) from error

    def close(self) -> None:
        """Nothing is added any more.

        Raises:
            UserError: it can't be written to its address.
        """
        with contextlib.suppress(OSError):
            self._file.close()
        if self._away is not None:
            self._away.close()


def read_index(path: str) -> tuple[dict[str, Any], dict[str, Finding]] | None:
    """What an index is about, and what was found; ``None``: it is none, or can't be read.

    Args:
        path: of the file, or its address.
    """
    if is_remote(path):
        with passing_folder() as folder:
            here = os.path.join(folder, "index")
            with contained:  # each file system has its own
                remote_files(path).get(path, here)
                return read_index(here)
        return None
    if not is_inside(path, os.path.dirname(path)):
        return None
    try:
        with _opened(path) as file:
            about = _head_of(file.readline())
            if about is None or about.get("version") != _FORMAT["version"]:
                return None
            known = _IndexLines(about)
            known.read(file)
    except (OSError, UserError):
        return None
    return about, known.findings


class _IndexLines:
    """What the lines of an index say; one that was damaged says nothing, and its dump isn't done.

    Args:
        head: the first line.

    Attributes:
        findings: path of a dump -> what was found in it, of those that were done wholly.
    """

    def __init__(self, head: Mapping[str, Any]) -> None:
        self._compares = "against" in head
        self.findings: dict[str, Finding] = {}
        self._parts: dict[str, dict[int, Finding]] = {}

    def read(self, file: IO[str]) -> None:
        for line in file:
            found = _parsed(line)
            if found is not None and _is_finding(found, self._compares):
                self.take(found)

    def take(self, finding: Finding) -> None:
        folder, (at, count) = finding["folder"], _part(finding)
        if count == 1:
            self.findings[folder] = finding
            return
        parts = self._parts.setdefault(folder, {})
        # What is of another state of the dump, or of other parts, holds no more.
        for number, each in list(parts.items()):
            if each.get("state") not in (finding.get("state"), "") or _part(each)[1] != count:
                del parts[number]
        parts[at] = finding
        if len(parts) == count:
            self.findings[folder] = merged([parts[number] for number in range(count)])
            if any(not each.get("state") for each in parts.values()):
                self.findings[folder]["state"] = ""  # some part is to be done again

    def of(self, folder: Folder) -> Finding | None:
        at, count = folder.part
        if count == 1:
            return self.findings.get(folder.path)
        found = self._parts.get(folder.path, {}).get(at)
        return found if found is not None and _part(found)[1] == count else None

    def keep_only(self, paths: set[str]) -> None:
        self.findings = {path: each for path, each in self.findings.items() if path in paths}
        self._parts = {path: each for path, each in self._parts.items() if path in paths}


class _Away:
    """The copy here of an index at an address.

    Attributes:
        path: of the copy.
    """

    def __init__(self, address: str) -> None:
        self._address, self._files = address, remote_files(address)
        self._folder = make_folder()
        self.path = os.path.join(self._folder, "index")
        self._saved = time.monotonic()
        try:
            if self._files.exists(address):
                self._files.get(address, self.path)
        except Exception as error:  # each file system has its own
            remove_folder(self._folder)
            raise UserError(f"{address} can't be read: {one_line(error)}") from error

    def save(self) -> None:
        """Write it to its address from time to time."""
        if time.monotonic() - self._saved >= _SAVED_EVERY:
            self.put()

    def put(self, suffix: str = "") -> None:
        try:
            self._files.put(self.path + suffix, self._address + suffix)
        except Exception as error:  # each file system has its own
            raise UserError(f"{self._address} can't be written: {one_line(error)}") from error
        self._saved = time.monotonic()

    def close(self) -> None:
        try:
            self.put()
        finally:
            remove_folder(self._folder)


def _part(finding: Finding) -> tuple[int, int]:
    """Which part of its dump a line is about, and of how many."""
    found = finding.get("part")
    if isinstance(found, list) and [*map(type, found)] == [int, int] and 0 <= found[0] < found[1]:
        return found[0], found[1]
    return 0, 1


def _opened(path: str) -> IO[str]:
    """An index to read, whatever its bytes are.

    Raises:
        UserError: it is no file, but a device or a FIFO.
    """
    file = open(path, encoding="utf-8", errors="replace", opener=open_at_once)  # noqa: SIM115
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise UserError(f"{path} is not a plain file.", "Name another file with --index.")


def _is_finding(found: Mapping[str, Any], compares: bool) -> bool:
    """Whether a line says, in the right types, all that is read of it."""
    first, problems = found.get("first", []), found.get("problems", [])
    if not (isinstance(first, list) and isinstance(problems, list)):
        return False
    has_passed = bool(found.get("passed"))
    counts = [found.get("bytes"), found.get("passed", 0)]
    counts.append(found.get("tensors", None if has_passed else 0))
    numbers = [found.get("max_abs", "")] if has_passed and compares else []
    texts = [found.get("folder"), found.get("state"), *problems]
    texts += [found.get("said")] if has_passed and compares else []
    counts += _listed(found, "bad")
    names = [*_listed(found, "lines"), *chain(*map(_texts_of, _listed(found, "arguments")))]
    texts += [each for each in names if each is not None]
    for each in first:
        if not isinstance(each, dict):
            return False
        counts.append(each.get("number", 0))
        texts += each.get("tensor"), each.get("op")
    return (
        bool(first) == has_passed
        and all(type(each) is int and each >= 0 for each in counts)
        and all(each is None or isinstance(each, float) for each in numbers)
        and all(isinstance(each, str) for each in texts)
    )


def _is_cut(text: str) -> bool:
    """Whether a file is what was left where not even its first line could be written."""
    whole = json.dumps(_FORMAT)[:-1]
    return not text.endswith("\n") and text[: len(whole)] == whole[: len(text)]


def _head_of(text: str) -> dict[str, Any] | None:
    first = _parsed(text)
    return first if first is not None and first.get("format") == _FORMAT["format"] else None


def _parsed(line: str) -> dict[str, Any] | None:
    """What a line says, if it is as it was written."""
    try:
        found = parse_json(line) if is_whole(line) else None
    except ValueError:
        return None
    if not isinstance(found, dict):
        return None
    found.pop("crc32", None)
    return found


def _listed(found: Mapping[str, Any], name: str) -> Sequence[Any]:
    """A list that may be left out; what is none counts as an entry that nothing is."""
    listed = found.get(name, [])
    return listed if isinstance(listed, list) else [{}]


def _texts_of(argument: Any) -> Sequence[Any]:
    return argument if isinstance(argument, list) and len(argument) == 3 else [{}]
