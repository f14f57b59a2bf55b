"""The hunts of docs/cookbook.md: each is run as the page says, and shows what the page shows."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from program_server import Done, Programs, environment
from samples import sample

pytest.importorskip("torch")

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "cookbook.md").read_text("utf-8")
HUNTS = re.findall(r"^## \d+\. (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S)
FOLDERS = ("--dump-root", "--dump-dir", "--against")


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Programs:
    return Programs(environment(tmp_path_factory.mktemp("programs")))


class Call(NamedTuple):
    """What is called in a shell, what is typed then, and what is shown."""

    words: list[str]
    typed: list[str]
    lines: list[str]


def calls(screen: str) -> list[Call]:
    found: list[Call] = []
    for line in screen.splitlines():
        if line.startswith("$ "):
            found.append(Call(shlex.split(line[2:]), [], []))
        elif line.startswith("tfdbg> "):
            found[-1].typed.extend(("-c", line.removeprefix("tfdbg> ")))
        elif line != "...":
            found[-1].lines.append(line)
    return found


def run(programs: Programs, call: Call, folder: Path) -> Done:
    if call.words[0] == "torchrun":
        command = [sys.executable, "-m", "torch.distributed.run", *call.words[1:]]
        done = subprocess.run(
            command,
            env=environment(folder),
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return Done(done.returncode, done.stdout, done.stderr)
    assert call.words[:3] == ["python", "-m", "tfdbg_cli"]
    level = ["-c", "config set level values"] if call.typed else []  # not as the machine allows
    words = ["--batch", *level, *call.typed, *call.words[3:]]
    given = [
        str(folder / word) if word.endswith(".py") or words[at - 1] in FOLDERS else word
        for at, word in enumerate(words)
    ]
    return programs.debugged(*given)


@pytest.mark.parametrize(
    ("title", "text"), [pytest.param(*each, id=each[0]) for each in sample(HUNTS, 2)]
)
def test_a_hunt_shows_what_the_page_says(title, text, programs, tmp_path):
    name, program = re.search(r"```python\n# (\S+)\n(.*?)```", text, re.S).groups()
    (tmp_path / name).write_text(f"# {name}\n{program}")
    for screen in re.findall(r"```text\n(.*?)```", text, re.S):
        for call in calls(screen):
            done = run(programs, call, tmp_path)
            assert done.status == (1 if "--against" in call.words else 0), done.err
            assert "ERROR" not in done.out
            shown = re.sub(r"[ \t]+", " ", done.out.replace(f"{tmp_path}/", ""))
            at = 0
            for line in call.lines:
                found = shown.find(" ".join(line.split()), at)
                assert found >= 0, f"{line!r} isn't in {shown[at:]}"
                at = found + 1


def test_there_are_ten():
    assert len(HUNTS) == 10
