"""What people install with hashes is what the core needs: no more, no less, nothing unchecked."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

_ROOT = Path(__file__).parents[1]
_LOCK = _ROOT / "requirements" / "core.lock"
# Readline is a part of Python but on Windows, where the line UI has it from a package.
_EXTRAS = ("readline",)


def _locked() -> list[tuple[Requirement, list[str]]]:
    """Each requirement of the lock, and its hashes."""
    text = re.sub(r"^\s*#.*\n", "", _LOCK.read_text(encoding="utf-8"), flags=re.M)
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        requirement, *hashes = re.split(r"\s--hash=", line.strip())
        found.append((Requirement(requirement), [part.strip() for part in hashes]))
    return found


def _asked() -> list[Requirement]:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    texts = [*project["dependencies"]]
    for extra in _EXTRAS:
        texts += project["optional-dependencies"][extra]
    return [Requirement(text) for text in texts]


def _needed() -> list[Requirement]:
    """What the core needs, and what that needs, as far as it is installed here."""
    found, seen = [], set()
    waiting = _asked()
    while waiting:
        requirement = waiting.pop()
        found.append(requirement)
        name = canonicalize_name(requirement.name)
        if name in seen:
            continue
        seen.add(name)
        try:
            more = requires(requirement.name) or []
        except PackageNotFoundError:
            continue
        waiting += [part for part in map(Requirement, more) if "extra" not in str(part.marker)]
    return found


def test_the_lock_names_what_the_core_needs_and_nothing_else():
    locked = {canonicalize_name(requirement.name) for requirement, _ in _locked()}
    needed = {
        canonicalize_name(requirement.name)
        for requirement in _needed()
        # As `typing_extensions; python_version < "3.13"`: of a Python that is supported.
        if not re.search(r'< ?"3\.(\d|10|11)"', str(requirement.marker))
    }

    assert locked == needed


def test_each_locked_version_is_one_that_is_asked_for():
    asked = _needed()
    for requirement, _ in _locked():
        (pin,) = requirement.specifier
        assert pin.operator == "==" and "*" not in pin.version, requirement
        for other in asked:
            if canonicalize_name(other.name) == canonicalize_name(requirement.name):
                assert other.specifier.contains(pin.version), (requirement, other)


def test_a_version_is_locked_for_every_python_and_system():
    locked = _locked()
    for asked in _asked():
        names = canonicalize_name(asked.name)
        same = [one for one, _ in locked if canonicalize_name(one.name) == names]
        for python in ("3.11", "3.12", "3.13", "3.14"):
            for system in ("linux", "darwin", "win32"):
                place = {
                    "python_version": python,
                    "python_full_version": f"{python}.0",
                    "sys_platform": system,
                    "platform_python_implementation": "CPython",
                }
                if asked.marker is not None and not asked.marker.evaluate(place):
                    continue
                fit = [one for one in same if one.marker is None or one.marker.evaluate(place)]
                assert len(fit) == 1, (asked, place)


def test_every_file_that_may_be_installed_has_a_hash():
    for requirement, hashes in _locked():
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", text) for text in hashes), requirement
