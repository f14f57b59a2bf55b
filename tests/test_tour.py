"""The tour's story still happens as docs/tour.md tells it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_the_story_happens(tmp_path):
    done = subprocess.run(
        [sys.executable, "scripts/tour.py", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    made = (tmp_path / "tour.md").read_text(encoding="utf-8")
    kept = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8")
    headings = re.compile("^## .*|^!.*", re.MULTILINE)
    assert headings.findall(made) == headings.findall(kept)
    for name in re.findall(r"\((tour-.*\.svg)\)", made):
        assert (tmp_path / name).read_text(encoding="utf-8").startswith("<svg")
        assert (ROOT / "docs" / name).exists()
    assert str(ROOT) not in made
