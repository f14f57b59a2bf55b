"""Where the output of a command goes besides the screen: a file, or a shell command."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import tempfile
import weakref
from collections.abc import Callable
from typing import IO

from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.documents import (
    ChainDocument,
    Document,
    LazyDocument,
    Line,
    TextDocument,
    line,
)
from tfdbg_cli.common.documents import write_text as write_lines
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.files import replacing, written

__all__ = ["append_document", "pipe_document", "write_document", "write_file"]

# Bytes of a shell command's output looked through at once.
_BLOCK = 1 << 20


def write_document(document: Document, path: str) -> int:
    """Stream a Document to a file as plain text; the file is replaced whole or not at all.

    Returns:
        The number of lines.

    Raises:
        UserError: the file can't be written.
    """
    with written(path), replacing(os.path.expanduser(path)) as file:
        return write_lines(document, lambda text: file.write(text.encode("utf-8", "replace")))
    raise AssertionError


def write_file(make: Callable[[], bytes], path: str) -> int:
    """Write to a file what isn't lines; the file is replaced whole or not at all.

    Returns:
        The number of bytes.

    Raises:
        UserError: the file can't be written.
    """
    made = make()
    with written(path), replacing(os.path.expanduser(path)) as file:
        file.write(made)
        return len(made)
    raise AssertionError


def append_document(document: Document, path: str) -> int:
    """Stream a Document to the end of a file, which is made if there is none.

    Returns:
        The number of lines.

    Raises:
        UserError: the file can't be written; what was appended before stays.
    """
    with (
        written(path),
        open(os.path.expanduser(path), "a", encoding="utf-8", errors="replace") as file,
    ):
        return write_lines(document, file.write)
    raise AssertionError


def pipe_document(document: Document, command: str) -> tuple[Document, str]:
    """Stream a Document through a shell command.

    Args:
        document: written to the command's stdin as plain text, as far as it reads.
        command: for the shell.

    Returns:
        What the command printed, stdout and stderr, and a word on its exit status if it isn't 0.
        The output is kept in a temporary file and read as it is looked at.

    Raises:
        UserError: the shell can't be started or doesn't know the command.
    """
    output = tempfile.TemporaryFile()  # noqa: SIM115 (the Document returned keeps it)
    try:
        return _piped(document, command, output)
    except BaseException:
        output.close()
        raise


def _piped(document: Document, command: str, output: IO[bytes]) -> tuple[Document, str]:
    try:
        # In a session of its own, so that nothing in it can take the terminal from a screen.
        process = subprocess.Popen(
            command,
            shell=True,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise UserError(f"The shell can't be started: {error.strerror or error}.") from None
    except ValueError as error:
        raise UserError(f'"{command}" is not a command: {error}.') from None
    assert process.stdin is not None
    stdin = process.stdin
    try:
        # The command may stop reading whenever it likes (| head).
        with contextlib.suppress(BrokenPipeError), stdin:
            write_lines(document, lambda text: stdin.write(text.encode("utf-8", "replace")))
        status = process.wait()
    except BaseException:
        _kill(process)
        raise
    shown = _output_document(output)
    if status in (126, 127) and os.name != "nt":  # of the shell: can't be run, isn't known
        raise UserError(" ".join(shown.text.split()) or f'"{command}" can\'t be run.')
    if not status:
        return shown, ""
    said = f"(exit status {status})" if status > 0 else f"(ended by signal {-status})"
    if not shown.line_count:
        return shown, said
    return ChainDocument([shown, TextDocument([line((said, "dim"))])]), said


def _kill(process: subprocess.Popen[bytes]) -> None:
    if os.name == "nt":
        process.kill()
    else:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _output_document(file: IO[bytes]) -> Document:
    """The lines of a file, each read when it is looked at."""
    ends: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
    size = 0
    file.seek(0)
    while block := file.read(_BLOCK):
        ends.append(np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")) + size)
        size += len(block)
    places = np.concatenate(ends) if ends else np.empty(0, np.int64)
    if size and (not places.size or places[-1] != size - 1):
        places = np.append(places, size)  # a last line without its line feed

    def row(number: int) -> Line:
        start = int(places[number - 1]) + 1 if number else 0
        file.seek(start)
        text = file.read(int(places[number]) - start)
        return line(text.decode("utf-8", "replace").expandtabs().rstrip("\r"))

    # Whatever is made of the Document reads by it.
    weakref.finalize(row, file.close)
    return LazyDocument(len(places), row)
