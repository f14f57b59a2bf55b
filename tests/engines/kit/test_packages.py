"""Entry points: ours are those that `importlib.metadata` finds, wherever they are."""

import importlib.metadata
import os
import sys
import zipfile

import pytest

from tfdbg_cli.common.packages import entry_points

GROUP = "tfdbg_cli.filters"
POINTS = f"[other.group]\nx = y:z\n\n[{GROUP}]\nmine = my_filters:mine\n"
METADATA = "Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n"
PLACES = ["mine-1.0.dist-info", "mine.egg-info", "EGG-INFO"]


def found(group=GROUP):
    """Ours; they have to be Python's."""
    ours = sorted(map(str, entry_points(group)))
    assert ours == sorted(map(str, importlib.metadata.entry_points(group=group)))
    return ours


def install(folder, place="mine-1.0.dist-info", points=POINTS):
    (folder / place).mkdir(parents=True)
    (folder / place / "METADATA").write_text(METADATA)
    (folder / place / "PKG-INFO").write_text(METADATA)
    (folder / place / "entry_points.txt").write_text(points)


@pytest.mark.parametrize("group", ["pytest11", "console_scripts", GROUP, "no.such.group"])
def test_of_what_is_installed_here(group):
    assert bool(found(group)) == (group in ("pytest11", "console_scripts"))


@pytest.mark.parametrize("place", PLACES)
def test_in_folders(tmp_path, monkeypatch, place):
    egg = tmp_path / "mine-1.0-py3.egg"
    install(egg, place)
    monkeypatch.syspath_prepend(str(egg))
    monkeypatch.syspath_prepend(str(tmp_path / "no such folder"))
    assert len(found()) == 1
    assert found("tfdbg_cli.commands") == []


def test_in_a_zip_file(tmp_path, monkeypatch):
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as file:
        file.writestr("mine-1.0.dist-info/METADATA", METADATA)
        file.writestr("mine-1.0.dist-info/entry_points.txt", POINTS)
    monkeypatch.syspath_prepend(str(tmp_path / "packed.zip"))
    assert len(found()) == 1


def test_in_the_current_folder_and_what_changes_in_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    assert found() == []
    install(tmp_path)
    file = tmp_path / "mine-1.0.dist-info" / "entry_points.txt"
    assert len(found()) == 1
    file.write_text(POINTS + "other = my_filters:other\n")
    os.utime(file, ns=(1, 1))
    assert len(found()) == 2
    file.unlink()
    assert found() == []


def test_of_a_finder_of_another_package(monkeypatch):
    class Distribution(importlib.metadata.Distribution):
        def read_text(self, filename):
            return {"METADATA": METADATA, "entry_points.txt": POINTS}.get(filename)

        def locate_file(self, path):
            return path

    class Finder(importlib.metadata.DistributionFinder):
        def find_spec(self, *args, **kwargs):
            return None

        def find_distributions(self, context):
            yield Distribution()

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    assert len(found()) == 1
