"""The secret of a program that listens: a random token in a file that only its user can read."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import platformdirs

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.files import read_plain
from tfdbg_cli.common.temporary import at_death

if TYPE_CHECKING:
    from tfdbg_cli.net.address import Address

__all__ = [
    "TOKEN_VARIABLE",
    "Ticket",
    "find_token",
    "only_address",
    "remove_dead_tickets",
    "write_ticket",
]

#: The environment variable that holds the token where its file can't be read.
TOKEN_VARIABLE = "TFDBG_TOKEN"

_SUFFIX = ".token"
_TOKEN = re.compile(r"[0-9a-f]{64}")
_LONGEST = 10_000


class Ticket(NamedTuple):
    """A program that listens, as its token file has it.

    Attributes:
        path: of the file.
        token: 64 hexadecimal digits.
        address: where it listens, as `attach` takes it.
        program: its process id and what it runs.
    """

    path: Path
    token: str
    address: str
    program: str


def _folder() -> Path:
    """The folder of the token files: of the user's, and the same for all machines of a cluster."""
    return Path(platformdirs.user_state_dir("tfdbg_cli", appauthor=False)) / "attach"


# Each start looks for tickets of programs that were killed. What takes milliseconds to import is
# imported if there are some.


def _this_machine() -> str:
    import platform

    return re.sub(r"[^A-Za-z0-9_-]", "_", platform.node().partition(".")[0]) or "here"


def _path(address: Address, machine: str = "") -> Path:
    if address.path:
        import hashlib

        digest = hashlib.sha256(os.fsencode(address.path)).hexdigest()[:16]
        return _folder() / f"{machine or _this_machine()}-unix-{digest}{_SUFFIX}"
    return _folder() / f"{machine or _this_machine()}-{address.port}{_SUFFIX}"


def write_ticket(address: Address, program: str) -> Ticket:
    """Make a token and its file, mode 0600, in a folder of mode 0700.

    A file of the same address is left from a program that was killed, and is replaced.

    Args:
        address: where the program listens; its socket is bound already.
        program: see `Ticket`.

    Raises:
        UserError: the file can't be written.
    """
    token = os.urandom(32).hex()
    path = _path(address)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    text = f"{token}\n{address}\n{' '.join(program.split())}\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.chmod(path.parent, 0o700)
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        temporary.replace(path)
    except OSError as error:
        raise UserError(
            f"The token file can't be written: {error}.", "XDG_STATE_HOME names another folder."
        ) from None
    at_death(str(path), token)
    return Ticket(path, token, str(address), program)


def remove_dead_tickets() -> None:
    """Remove the files of programs that were killed.

    The process is gone (as far as this machine can see: there are containers), and nobody listens.
    """
    for ticket in _list_tickets():
        with contextlib.suppress(OSError, UserError):
            if _is_alive(ticket):
                continue
            from tfdbg_cli.net.address import is_listening, parse_address

            if not is_listening(parse_address(ticket.address)):
                ticket.path.unlink()


def _read(path: Path) -> Ticket | None:
    try:
        lines = read_plain(path, _LONGEST).decode().splitlines()
    except (OSError, ValueError):
        return None
    token = lines[0].strip() if lines else ""
    if _TOKEN.fullmatch(token) is None:
        return None
    return Ticket(path, token, *[*lines[1:3], "", ""][:2])


def _list_tickets() -> list[Ticket]:
    """The programs of this machine that listen, or were killed while they did."""
    paths = sorted(_folder().glob(f"*{_SUFFIX}"))
    machine = _this_machine() if paths else ""
    found = [_read(path) for path in paths if path.name.startswith(f"{machine}-")]
    return [ticket for ticket in found if ticket is not None and ticket.address]


def find_token(
    address: Address, file: str | None = None, environment: Mapping[str, str] = os.environ
) -> str:
    """The token for an address: of a file, of the environment, or of the user's own folder.

    Args:
        address: where to attach to.
        file: ``--token-file``.
        environment: where `TOKEN_VARIABLE` may be.

    Raises:
        UserError: there is none; the message says where it was looked for.
    """
    if file is not None:
        found = _read(Path(file).expanduser())
        if found is None:
            raise UserError(f"{file} is not a token file.", "Its first line is the token.")
        return found.token
    given = environment.get(TOKEN_VARIABLE, "").strip()
    if given:
        if _TOKEN.fullmatch(given) is None:
            raise UserError(f"{TOKEN_VARIABLE} is not a token.", "It has 64 hexadecimal digits.")
        return given
    # Machines of a cluster often share the home folder: the file of another one may be here.
    machines = [""] if address.path or address.is_private else [address.host.partition(".")[0], ""]
    for machine in machines:
        found = _read(_path(address, machine))
        if found is not None:
            return found.token
    raise UserError(
        f"There is no token for {address} ({_path(address, machines[0])}).",
        f"Is the program running? For one on another machine use --token-file or {TOKEN_VARIABLE}.",
    )


def only_address() -> Address:
    """Where the only program of this machine listens.

    Raises:
        UserError: there is none, or more than one.
    """
    from tfdbg_cli.net.address import parse_address

    alive = [ticket for ticket in _list_tickets() if _is_alive(ticket)]
    if len(alive) == 1:
        return parse_address(alive[0].address)
    if not alive:
        raise UserError("No program of yours listens on this machine.", "Start it with --listen.")
    shown = "; ".join(f"{ticket.address} ({ticket.program})" for ticket in alive)
    raise UserError(f"{len(alive)} programs listen: {shown}.", "Say which.")


def _is_alive(ticket: Ticket) -> bool:
    number = ticket.program.partition(" ")[0]
    if not number.isdecimal() or len(number) > 9:
        return False
    if os.name == "nt":
        return True  # there is no harmless way to ask
    try:
        os.kill(int(number), 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True
