"""What several modules share. Without PyTorch there is nothing to test in this folder."""

import importlib.util

import pytest
from breakers_kit import both, server
from program_server import Programs, environment

__all__ = ["both", "server"]

if importlib.util.find_spec("torch") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    """Runs programs in a process that has imported PyTorch; a module has settings of its own."""
    return Programs(environment(tmp_path_factory.mktemp("programs")))
