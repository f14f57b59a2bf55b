"""A door that the system refuses something once lets in who comes after."""

import _thread
import errno
import socket
import threading

import pytest

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.net import door as net_door
from tfdbg_cli.net.door import Door
from tfdbg_cli.net.wire import HANDSHAKE_SECONDS, introduce

TOKEN = "0" * 64


def refuse_once(monkeypatch, owner, name, error):
    original, refused = getattr(owner, name), []

    def called(*args):
        if not refused:
            refused.append(args[0])
            raise error
        return original(*args)

    monkeypatch.setattr(owner, name, called)
    return refused


@pytest.mark.parametrize("name", ["lifted", "start_new_thread"])
def test_one_that_comes_after_a_refusal_is_let_in(monkeypatch, name):
    listening = socket.create_server(("127.0.0.1", 0))
    entered = threading.Event()
    door = Door(listening, TOKEN, lambda _: entered.set())
    door.open()
    try:
        if name == "lifted":
            full = OSError(errno.EMFILE, "Too many open files")
            refused = refuse_once(monkeypatch, net_door, name, full)
        else:
            full = RuntimeError("can't start new thread")
            refused = refuse_once(monkeypatch, _thread, name, full)
        where = listening.getsockname()
        first = socket.create_connection(where, HANDSHAKE_SECONDS)
        with first, pytest.raises(UserError, match="didn't answer"):
            introduce(first, TOKEN)
        assert refused
        if name == "lifted":
            assert refused[0].fileno() < 0, "the connection is left open"
        with socket.create_connection(where, HANDSHAKE_SECONDS) as second:
            introduce(second, TOKEN)
            assert entered.wait(HANDSHAKE_SECONDS)
    finally:
        door.close()
