"""The index of a scan: a line of JSON for each dump, added as it is done.

The first line says what it is about. A dump whose files were written since counts as not done; of
several lines about one dump the last one holds. A large dump has a line for each of its parts.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Mapping
from typing import IO, Any

from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.dumps.files import write_error
from tfdbg_cli.dumps.remote.systems import is_remote, remote_files
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
        self._known = _Known()
        head = {**_FORMAT, **about}
        try:
            with contextlib.suppress(FileNotFoundError), open(here, encoding="utf-8") as file:
                first = _head_of(file)
                if first is None:
                    hint = "Name another file with --index."
                    raise UserError(f"{path} is no index of a scan.", hint)
                if first == head:
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
            self._file.write(json.dumps(line) + "\n")
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
        with tempfile.TemporaryDirectory(prefix="tfdbg_") as folder:
            here = os.path.join(folder, "index")
            try:
                remote_files(path).get(path, here)
            except Exception:  # each file system has its own
                return None
            return read_index(here)
    known = _Known()
    try:
        with open(path, encoding="utf-8") as file:
            about = _head_of(file)
            if about is None or about.get("version") != _FORMAT["version"]:
                return None
            known.read(file)
    except (OSError, ValueError):
        return None
    return about, known.findings


class _Known:
    """What the lines of an index say.

    Attributes:
        findings: path of a dump -> what was found in it, of those that were done wholly.
    """

    def __init__(self) -> None:
        self.findings: dict[str, Finding] = {}
        self._parts: dict[str, dict[int, Finding]] = {}

    def read(self, file: IO[str]) -> None:
        for line in file:
            found = _parsed(line)
            if found is not None and isinstance(found.get("folder"), str):
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
        self._folder = tempfile.mkdtemp(prefix="tfdbg_")
        self.path = os.path.join(self._folder, "index")
        self._saved = time.monotonic()
        try:
            if self._files.exists(address):
                self._files.get(address, self.path)
        except Exception as error:  # each file system has its own
            shutil.rmtree(self._folder, ignore_errors=True)
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
            shutil.rmtree(self._folder, ignore_errors=True)


def _part(finding: Finding) -> tuple[int, int]:
    """Which part of its dump a line is about, and of how many."""
    found = finding.get("part")
    if isinstance(found, list) and [*map(type, found)] == [int, int] and 0 <= found[0] < found[1]:
        return found[0], found[1]
    return 0, 1


def _head_of(file: IO[str]) -> dict[str, Any] | None:
    first = _parsed(file.readline())
    return first if first is not None and first.get("format") == _FORMAT["format"] else None


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
