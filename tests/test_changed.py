"""Which tests ``scripts/test changed`` runs."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "scripts" / "changed.py"
sys.path.append(str(SCRIPT.parent))

from changed import ASKED, QUICK, WALLS, asked_for, runs  # noqa: E402


@pytest.fixture(autouse=True)
def _here(monkeypatch):
    monkeypatch.chdir(ROOT)


def found_by(*paths):
    return list(runs(paths))


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (
            "tfdbg_cli/engines/torch/runs/watch.py",
            [["tests/engines/kit", "tests/engines/torch", WALLS]],
        ),
        ("tfdbg_cli/engines/jax/calls.py", [["tests/engines/jax", WALLS]]),
        ("tests/ui/test_page.py", [["tests/test_imports.py", "tests/ui/test_page.py"]]),
        ("tests/ui/golden/a.txt", [[WALLS, "tests/ui"]]),
        ("tests/ui/ui_program.py", [[WALLS, "tests/ui"]]),
        ("tests/markers.py", [[WALLS], [QUICK]]),
        ("CHANGELOG.md", [[WALLS]]),
        ("README.md", [["tests/docs", WALLS]]),
        ("pyproject.toml", [[WALLS, "tests/test_lock.py"], [QUICK]]),
    ],
)
def test_a_change_asks_for_what_is_about_it(path, expected):
    assert found_by(path) == expected


def test_a_room_asks_for_its_tests_the_quick_ones_and_the_contracts():
    named, quick = found_by("tfdbg_cli/ui/screen/view.py")
    assert {"tests/ui", WALLS, "tests/engines/jax/test_jax_contract.py"} <= set(named)
    assert quick == [QUICK]


def test_what_tests_share_asks_for_those_that_use_it():
    named, quick = found_by("tests/floats_kit.py")
    assert {"tests/sessions/test_session_dumping.py", WALLS} <= set(named)
    assert not any(name.startswith("tests/ui") for name in named)
    assert quick == [QUICK]


def test_every_file_of_the_package_asks_for_tests_that_are_there():
    for path in ROOT.glob("tfdbg_cli/**/*.py"):
        assert list(asked_for(path.relative_to(ROOT).as_posix())), path
    for tests in ASKED.values():
        for each in set(tests) - {QUICK, "tests/{1}"}:
            assert list(ROOT.glob(each)), each


def test_what_isnt_committed_and_what_the_branch_has_counts(tmp_path):
    def git(*arguments):
        own = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *own, *arguments], cwd=tmp_path, check=True, capture_output=True)

    def write(path):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
        git("add", path)

    def told(*arguments):
        done = subprocess.run(
            [sys.executable, SCRIPT, *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout.split(), done.stderr

    git("init", "--initial-branch", "main")
    write("tests/test_old.py")
    git("commit", "-m", "first")
    assert told() == (0, [WALLS], "")
    git("checkout", "-b", "work")
    write("tests/test_committed.py")
    git("commit", "-m", "second")
    write("tests/test_staged.py")
    (tmp_path / "tests" / "test_new.py").write_text("")
    names = ["tests/test_committed.py", WALLS, "tests/test_new.py", "tests/test_staged.py"]
    assert told() == (0, names, "")
    assert told("work") == (0, [*names[1:]], "")
    status, printed, error = told("nowhere")
    assert status and not printed and "nowhere" in error


def test_the_tests_that_other_versions_run_are_there():
    text = (ROOT / "scripts" / "test").read_text()
    folders = dict(re.findall(r"^([A-Z]+)=(tests/\S+)$", text, re.MULTILINE))
    named = re.findall(r"(?:tests|\$(?:TORCH|TENSORFLOW|JAX))/[\w/*.]+", text)
    assert len(folders) == 3 and len(named) > 40
    for each in named:
        start, _, rest = each.partition("/")
        path = f"{folders[start[1:]]}/{rest}" if start[0] == "$" else each
        assert [*ROOT.glob(path)], each
