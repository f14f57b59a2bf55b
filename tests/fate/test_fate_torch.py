"""What becomes of scripts of PyTorch is the same plain and debugged."""

import pytest
from fate_kit import corpus
from fate_part_kit import MADE, part
from fate_programs import WAYS_OF_PROGRAMS, search
from samples import night

pytestmark = pytest.mark.torch
pytest.importorskip("torch")


@pytest.mark.parametrize(("script", "way"), part("torch", step=45))
def test_fates_are_the_same(fate, script, way):
    found = fate.difference(script, way)
    assert not found, found


@pytest.mark.parametrize("way", ["check", "mortem"])
def test_classes_of_the_program_are_asked_nothing(fate, way):
    (script,) = (each for each in corpus() if each.name == "torch_tensors/subclasses_everywhere")
    found = fate.difference(script, way)
    assert not found, found


@night
def test_made_up_programs(tmp_path):
    search("torch", MADE, tmp_path, WAYS_OF_PROGRAMS)
