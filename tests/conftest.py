"""No test reads or writes the settings and the history of the person who runs it."""

import os

import pytest


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


# A process that has used gRPC would go on polling in the children that tests fork.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
