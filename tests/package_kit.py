"""Packages with an engine, used from their folders as if they were installed."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

__all__ = ["ROOT", "environment_of", "own_tests"]

ROOT = Path(__file__).resolve().parents[1]


def environment_of(package, folder):
    """The variables of a process that has a package.

    Args:
        package: the folder with its pyproject.toml.
        folder: where to write what Python knows of installed packages.
    """
    project = tomllib.loads((package / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name = project["name"].replace("-", "_")
    info = folder / f"{name}-{project['version']}.dist-info"
    info.mkdir(parents=True)
    head = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(head)
    points = [
        line
        for group, named in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{key} = {value}" for key, value in named.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(points) + "\n")
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (folder, package, ROOT))),
        "XDG_CONFIG_HOME": str(folder / "config"),
    }


def own_tests(package, folder):
    """The tests that a package has for itself, run in a process of their own."""
    words = ["-q", "-p", "no:cacheprovider", "-c", "pyproject.toml", "tests"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *words],
        cwd=package,
        env=environment_of(package, folder),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
