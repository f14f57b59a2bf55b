"""Values on the disk: what was taken can be read, whatever the disk refuses later."""

import gc

import pytest

from tfdbg_cli.engines.kit.spill import SpillFile


def test_a_disk_that_is_full_costs_what_it_refuses_alone(capfd):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    spill = SpillFile()
    assert spill.add(b"a" * 60) == 0
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            spill.add(memoryview(b"b" * 60))
        assert (spill.size, spill.read(0, 60)) == (60, b"a" * 60)
        assert spill.add(b"c" * 10) == 60
        assert (spill.add(b""), spill.size) == (70, 70)
        assert (spill.read(55, 10), spill.read(70, 0)) == (b"a" * 5 + b"c" * 5, b"")
        with pytest.raises(OSError, match="ends before"):
            spill.read(60, 60)
        del spill
        gc.collect()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert capfd.readouterr().err == ""


def test_a_file_that_is_closed():
    spill = SpillFile()
    spill.add(b"a")
    spill.close()
    with pytest.raises(ValueError, match="closed"):
        spill.read(0, 1)


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        SpillFile(str(tmp_path / "nowhere"))
