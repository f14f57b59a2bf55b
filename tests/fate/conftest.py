"""Programs that start in processes that have imported their framework already."""

import pytest
from fate_kit import Fate


@pytest.fixture(scope="module")
def fate(tmp_path_factory):
    made = Fate(tmp_path_factory.mktemp("fate"), forked=True)
    yield made
    made.close()
