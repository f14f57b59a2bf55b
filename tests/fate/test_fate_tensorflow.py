"""What becomes of scripts of TensorFlow is the same plain and debugged."""

import pytest
from fate_part_kit import MADE, part
from fate_programs import WAYS_OF_PROGRAMS, search
from samples import night

pytestmark = pytest.mark.tensorflow
pytest.importorskip("tensorflow")


@pytest.mark.parametrize(("script", "way"), part("tensorflow", step=45))
def test_fates_are_the_same(fate, script, way):
    found = fate.difference(script, way)
    assert not found, found


@night
def test_made_up_programs(tmp_path):
    search("tensorflow", MADE, tmp_path, WAYS_OF_PROGRAMS)
