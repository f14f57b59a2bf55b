"""What the readers were given is removed once all tests are over."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fuzz_kit import remove_folders


@pytest.fixture(scope="session", autouse=True)
def files() -> Iterator[None]:
    yield
    remove_folders()
