"""A shell over one dump that all tests of this folder share."""

import pytest
from command_kit import Shell, make_dump, make_failed_dump


@pytest.fixture(scope="session")
def dump():
    return make_dump()


@pytest.fixture
def shell(dump):
    return Shell(dump)


@pytest.fixture
def start(dump):
    """A run-start stop of the same run."""
    return Shell(None, info=dump.run_info())


@pytest.fixture(scope="session")
def failed_dump():
    return make_failed_dump()


@pytest.fixture
def failed(failed_dump):
    return Shell(failed_dump)
