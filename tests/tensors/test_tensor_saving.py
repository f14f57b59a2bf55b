"""``-w``: files that other programs read."""

import os
import stat

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.tensors.files.saving import save_value

NATIVE = [
    "bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
    "float16", "float32", "float64", "complex64",
]  # fmt: skip
SMALL = {
    "bfloat16": "BF16",
    "float8_e5m2": "F8_E5M2",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e8m0fnu": "F8_E8M0",
    "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e4m3fnuz": "F8_E4M3FNUZ",
}


def sample(dtype, shape=(3, 4)):
    return np.arange(np.prod(shape)).reshape(shape).astype(dtype)


@pytest.mark.parametrize("name", ["x.npy", "x", "X.NPY", "strange name"])
@pytest.mark.parametrize("dtype", [*NATIVE, "complex128", "M8[s]", ">f4"])
def test_npy(tmp_path, name, dtype):
    value = sample(dtype)
    path, size = save_value(value, str(tmp_path / name), "a:0")
    assert (path, size) == (str(tmp_path / name), os.path.getsize(tmp_path / name))
    found = np.load(tmp_path / name)
    assert found.dtype == value.dtype
    np.testing.assert_array_equal(found, value)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    "value",
    [
        np.float32(3).reshape(()),
        np.zeros((0, 3)),
        np.arange(24).reshape(2, 3, 4).T,
        np.arange(24).reshape(4, 6)[:, ::2],
        np.broadcast_to(np.float32(1), (300, 7000)),
    ],
    ids=["scalar", "empty", "transposed", "strided", "broadcast"],
)
def test_every_layout_in_every_format(tmp_path, value):
    save_value(value, str(tmp_path / "x.npy"), "a/b:0")
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), value)
    save_value(value, str(tmp_path / "x.npz"), "a/b:0")
    with np.load(tmp_path / "x.npz") as archive:
        assert archive.files == ["a/b:0"]
        np.testing.assert_array_equal(archive["a/b:0"], value)
    save_value(value, str(tmp_path / "x.safetensors"), "a/b:0")
    found = safetensors.numpy.load_file(tmp_path / "x.safetensors")
    assert list(found) == ["a/b:0"]
    assert found["a/b:0"].shape == value.shape
    np.testing.assert_array_equal(found["a/b:0"], value)


@pytest.mark.parametrize("dtype", NATIVE)
def test_safetensors(tmp_path, dtype):
    path = str(tmp_path / "x.safetensors")
    _, size = save_value(sample(dtype), path, "a:0")
    found = safetensors.numpy.load_file(path)["a:0"]
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(found, sample(dtype))
    assert size == os.path.getsize(path)


@pytest.mark.parametrize(("dtype", "stored"), SMALL.items())
def test_small_floats(tmp_path, dtype, stored):
    value = np.array([[1, 2, 4], [8, 0.5, 1]]).astype(getattr(ml_dtypes, dtype))
    path = tmp_path / "x.safetensors"
    save_value(value, str(path), "a:0")
    ((name, found),) = safetensors.deserialize(path.read_bytes())
    assert (name, found["dtype"], found["shape"]) == ("a:0", stored, [2, 3])
    assert bytes(found["data"]) == value.tobytes()
    # What was read as float32, because ml_dtypes wasn't there, is stored as what it is.
    if dtype != "float8_e8m0fnu":
        save_value(value.astype(np.float32), str(path), "a:0", dtype)
        ((_, again),) = safetensors.deserialize(path.read_bytes())
        assert bytes(again["data"]) == value.tobytes()
    # NumPy's own format doesn't know them: the same numbers in one that it knows.
    save_value(value, str(tmp_path / "x.npy"), "a:0")
    found = np.load(tmp_path / "x.npy")
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, value.astype(np.float32))


@settings(max_examples=60)
@given(
    st.lists(st.floats(width=32), min_size=1, max_size=20),
    st.sampled_from([np.float16, np.float32, np.float64, ml_dtypes.bfloat16]),
)
def test_numbers_in_csv_are_exact(tmp_path_factory, numbers, dtype):
    with np.errstate(over="ignore"):
        value = np.array(numbers).astype(dtype)
    path = tmp_path_factory.getbasetemp() / "numbers.csv"
    save_value(value, str(path), "a:0")
    found = np.loadtxt(path, ndmin=1).astype(dtype)
    np.testing.assert_array_equal(found.astype(np.float64), value.astype(np.float64))


def test_csv(tmp_path):
    path = tmp_path / "x.csv"
    for value, text in (
        (np.array([[1, 22], [3, 5]]), "1,22\n3,5\n"),
        (np.array([0.1, np.nan, -np.inf], np.float32), "0.1\nnan\n-inf\n"),
        (np.float32(0.1).reshape(()), "0.1\n"),
        (np.array([True, False]), "True\nFalse\n"),
        (np.array([[1 + 2j]]), "1+2j\n"),
        (np.array(["a,b", 'say "x"', "two\nlines"], object), '"a,b"\n"say ""x"""\n"two\nlines"\n'),
        (np.array([b"\xff\x00"], object), None),
        (np.zeros((2, 0)), "\n\n"),
        (np.zeros(0), ""),
    ):
        save_value(value, str(path), "a:0")
        if text is not None:
            assert path.read_text() == text
    save_value(np.array([b"\xff"], object), str(path), "a:0")
    assert path.read_bytes() == b"\xff\n"
    wide = np.arange(300_000).reshape(3, 100_000)
    save_value(wide, str(path), "a:0")
    np.testing.assert_array_equal(np.loadtxt(path, delimiter=",", dtype=int), wide)


def test_strings_become_fixed_width(tmp_path):
    path = str(tmp_path / "x.npy")
    for value, kind in (
        (np.array([[b"abc"], [b"\xff"]], object), "S3"),
        (np.array(["ä", "bc"], object), "<U2"),
        (np.array([b"a", "ä"], object), "S2"),
        (np.array(["x"]), "<U1"),
        (np.array([], object), "S1"),
    ):
        save_value(value, path, "a:0")
        found = np.load(path, allow_pickle=False)
        assert (found.dtype.str.lstrip("|"), found.shape) == (kind, value.shape)
    assert np.load(path).tolist() == []


@pytest.mark.parametrize(
    ("value", "name", "parts"),
    [
        (np.zeros(3), "x.txt", [".npy", ".npz", ".safetensors", ".csv"]),
        (np.zeros((2, 2, 2)), "x.csv", ["(2, 2, 2)", "slice", ".npy"]),
        (np.zeros(3, np.complex128), "x.safetensors", ["complex128", ".npy"]),
        (np.zeros(3, ml_dtypes.int4), "x.safetensors", ["int4", ".npy"]),
        (np.array(["a"], object), "x.safetensors", ["no strings", ".csv"]),
        (np.array([{}, None]), "x.npy", ["Python objects", "pickled"]),
        (np.array([(1, None)], "i4,O"), "x.npy", ["Python objects"]),
        (np.array([b"a\0"], object), "x.npy", ["zero byte", ".csv"]),
        (np.array(["a" * 300_000, *["b"] * 2000], object), "x.npy", ["very long", ".csv"]),
        (np.zeros(3), "", ["is a folder"]),
        (np.zeros(3), "no/such/x.npy", ["can't be written", "No such file"]),
    ],
)
def test_refusals_leave_the_old_file(tmp_path, value, name, parts):
    path = tmp_path / name
    if name and path.parent.exists():
        path.write_text("old")
    before = sorted(entry.name for entry in tmp_path.iterdir())
    with pytest.raises(UserError) as caught:
        save_value(value, str(path), "a:0")
    for part in parts:
        assert part in str(caught.value)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == before
    if name and path.parent.exists():
        assert path.read_text() == "old"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.safetensors", "x.csv"])
def test_a_full_disk_is_told(tmp_path, name):
    (tmp_path / name).symlink_to("/dev/full")
    with pytest.raises(UserError, match="can't be written: No space left on device"):
        save_value(np.zeros((600, 600)), str(tmp_path / name), "a:0")
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


def test_links_devices_and_permissions(tmp_path):
    target = tmp_path / "real.npy"
    link = tmp_path / "link.npy"
    link.symlink_to(target)
    save_value(np.arange(3), str(link), "a:0")
    assert link.is_symlink()
    assert np.load(target).tolist() == [0, 1, 2]
    (tmp_path / "plain").write_text("")
    assert target.stat().st_mode == (tmp_path / "plain").stat().st_mode
    save_value(np.arange(3), "/dev/null", "a:0")
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
