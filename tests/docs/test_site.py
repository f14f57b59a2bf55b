"""The site of the docs is made without a warning: no link leads nowhere, no page is left out."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tfdbg_cli

pytest.importorskip("sphinx")
pytest.importorskip("myst_parser")
pytest.importorskip("furo")

DOCS = Path(__file__).resolve().parents[2] / "docs"


def build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "html"]
    return subprocess.run(
        [*command, str(source), str(target)], capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("site")
    done = build(DOCS, folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_pages_lead_to_each_other(site):
    start = (site / "index.html").read_text("utf-8")
    assert "A terminal debugger for tensors" in start
    for page in DOCS.glob("*.md"):
        assert f'href="{page.stem}.html' in start or page.stem == "index", page.name
    assert 'href="index.html' in (site / "tensorflow2.html").read_text("utf-8")
    assert "_images/first-minute.svg" in start
    assert (site / "searchindex.js").stat().st_size > 100_000


def test_programs_find_the_pages_too(site):
    text = (site / "llms.txt").read_text("utf-8")
    assert text.startswith("# tfdbg_cli\n\n> ")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert "agents.html" in links
    for link in links:
        assert (site / link).is_file(), link


def test_each_public_name_has_its_docstring(site):
    page = (site / "api.html").read_text("utf-8")
    shown = set(re.findall(r'id="tfdbg_cli\.(\w+)"', page))
    assert set(tfdbg_cli.__all__) <= shown
    text = " ".join(html.unescape(re.sub(r"<[^>]+>", "", page)).split())
    for name in ("enable", "trace", "run"):
        first = getattr(tfdbg_cli, name).__doc__.splitlines()[0].partition("`")[0]
        assert " ".join(first.split()) in text


def test_a_broken_link_is_an_error(tmp_path):
    source = tmp_path / "docs"
    source.mkdir()
    (source / "conf.py").write_text((DOCS / "conf.py").read_text("utf-8"))
    (source / "index.md").write_text("# Start\n\n[nowhere](nowhere.md)\n")
    (tmp_path / "README.md").write_text("# Read me\n")
    done = build(source, tmp_path / "site")
    assert done.returncode != 0
    assert "nowhere" in done.stderr
