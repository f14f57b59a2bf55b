"""The index of a scan: a line of JSON for each dump, added as it is done.

The first line says which filter it is about. A dump whose files were written since counts as not
done; of several lines about one dump the last one holds.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from typing import IO, Any

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.files import write_error
from tfdbg_cli.scanning.tree import Folder
from tfdbg_cli.scanning.work import Finding

__all__ = ["Index"]

_FORMAT = {"format": "tfdbg-scan", "version": 1}


class Index:
    """What was found, in a file that outlives whoever writes it.

    Args:
        path: of the file; it is begun, or gone on with where it is about the same filter.
        filter_name: of the filter.

    Attributes:
        findings: path of a dump -> what was found in it.

    Raises:
        UserError: the file is something else, or can't be written.
    """

    def __init__(self, path: str, filter_name: str) -> None:
        self._path = path
        self.findings: dict[str, Finding] = {}
        head = {**_FORMAT, "filter": filter_name}
        try:
            with contextlib.suppress(FileNotFoundError), open(path, encoding="utf-8") as file:
                is_same = self._read(file, head)
                if not is_same:
                    self.findings.clear()
                    os.replace(path, f"{path}.before")
            self._file = open(path, "a", encoding="utf-8")  # noqa: SIM115 (`close` does it)
        except OSError as error:
            raise write_error(path, error) from error
        if not self._file.tell():
            self._write(head)
        else:
            self._file.write("\n")  # whatever was being written when it was ended

    def _read(self, file: IO[str], head: dict[str, Any]) -> bool:
        """Read what is there; whether it is about the same filter."""
        first = _parsed(file.readline())
        if first is None or first.get("format") != _FORMAT["format"]:
            hint = "Name another file with --index."
            raise UserError(f"{self._path} is no index of a scan.", hint)
        if first != head:
            return False
        for line in file:
            found = _parsed(line)
            if found is not None and isinstance(found.get("folder"), str):
                self.findings[found["folder"]] = found
        return True

    def is_done(self, folder: Folder) -> bool:
        """Whether a dump was scanned as it is now."""
        found = self.findings.get(folder.path)
        return found is not None and found.get("state") == folder.state

    def keep_only(self, paths: Iterable[str]) -> None:
        """Forget what is known of dumps that are gone."""
        here = set(paths)
        self.findings = {path: each for path, each in self.findings.items() if path in here}

    def add(self, findings: Iterable[Finding]) -> None:
        """Write down what was found.

        Raises:
            UserError: it can't be written.
        """
        for finding in findings:
            self.findings[finding["folder"]] = finding
            self._write(finding)
        try:
            self._file.flush()
        except OSError as error:
            raise write_error(self._path, error) from error

    def _write(self, line: dict[str, Any]) -> None:
        try:
            self._file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise write_error(self._path, error) from error

    def close(self) -> None:
        """Nothing is added any more."""
        with contextlib.suppress(OSError):
            self._file.close()


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
