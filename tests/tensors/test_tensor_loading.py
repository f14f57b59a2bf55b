"""Arrays of a file that somebody else has made: their values, or one line."""

import os
import zipfile

import numpy as np
import pytest

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.memory import check_room, spare_memory
from tfdbg_cli.tensors.files.loading import open_arrays

VALUES = {
    "x": np.arange(6, dtype=np.float32).reshape(2, 3),
    "turned": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "a/b": np.array(["text", ""]),
    "number": np.array(2.5, ">f8"),
    "none": np.zeros((0, 3), np.int8),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_archive_has_headers_and_values(tmp_path, save):
    save(tmp_path / "a.npz", **VALUES)
    with open_arrays(str(tmp_path / "a.npz")) as file:
        assert file.names == list(VALUES)
        for name, value in VALUES.items():
            assert file.header(name) == (value.dtype, value.shape, value.nbytes)
            np.testing.assert_array_equal(file.load(name), value)


@pytest.mark.parametrize("name", VALUES)
def test_a_single_array(tmp_path, name):
    np.save(tmp_path / "a.npy", VALUES[name])
    with open_arrays(str(tmp_path / "a.npy")) as file:
        assert file.names is None
        assert file.header() == (VALUES[name].dtype, VALUES[name].shape, VALUES[name].nbytes)
        np.testing.assert_array_equal(file.load(), VALUES[name])


def load_all(path):
    with open_arrays(path) as file:
        return [file.load(name) for name in file.names or [""]]


def refused(path):
    with pytest.raises(UserError) as error:
        load_all(str(path))
    text = str(error.value)
    assert str(path) in text and "\n" not in text
    return text


def test_what_cannot_be_read_is_said_in_one_line(tmp_path):
    np.savez(tmp_path / "objects.npz", x=np.array([{}], object))
    assert "nothing is unpickled" in refused(tmp_path / "objects.npz")
    np.savez(tmp_path / "whole.npz", x=VALUES["x"])
    content = (tmp_path / "whole.npz").read_bytes()
    (tmp_path / "damaged.npz").write_bytes(content.replace(bytes(VALUES["x"]), bytes(24)))
    assert "Bad CRC-32" in refused(tmp_path / "damaged.npz")
    (tmp_path / "cut.npz").write_bytes(content[:100])
    refused(tmp_path / "cut.npz")
    np.save(tmp_path / "whole.npy", VALUES["x"])
    (tmp_path / "cut.npy").write_bytes((tmp_path / "whole.npy").read_bytes()[:-1])
    assert "needs 24 bytes, and 23 are there" in refused(tmp_path / "cut.npy")
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("x.txt", "text")
    assert "x.txt in" in refused(tmp_path / "text.npz")


def test_only_plain_files_are_read(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    assert "not a plain file" in refused(tmp_path / "fifo")
    assert "Is a directory" in refused(tmp_path)
    assert "No such file" in refused(tmp_path / "gone")
    refused("/dev/zero")


def test_what_has_no_room_is_known_before_it_is_read(tmp_path):
    with open(tmp_path / "a.npy", "wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (1 << 38,)}
        np.lib.format.write_array_header_1_0(file, header)
        file.truncate(file.tell() + (1 << 40))  # of which nothing is on the disk
    with open_arrays(str(tmp_path / "a.npy")) as arrays:
        nbytes = arrays.header().nbytes
    assert nbytes == 1 << 40
    with pytest.raises(
        UserError, match=r"the inputs take 1,099,511,627,776 bytes, and there is room"
    ):
        check_room(nbytes, "the inputs")
    check_room(spare_memory(1 << 30) // 4, "the inputs")
