"""Reads reports as a strict browser would: what is wrong with one is an error."""

from __future__ import annotations

import base64
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

__all__ = ["ReportReader", "read_report", "report_of"]

_VOID = {"meta", "img", "br", "hr"}
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
# What may not be in a page that runs nothing and loads nothing.
_ACTIVE = {"script", "iframe", "object", "embed", "link", "base", "form", "input", "a", "use"}


class ReportReader(HTMLParser):
    """Walks through a page and gathers what tests ask for.

    Attributes:
        text: all that is shown, without styles.
        headings: their texts.
        tags: the names of all elements.
        images: of each its description and its bytes.
        titles: what pictures say of their parts.
    """

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._stack: list[str] = []
        self._ids: set[str] = set()
        self._wanted: set[str] = set()
        self._level = 0
        self.text = ""
        self.headings: list[str] = []
        self.tags: list[str] = []
        self.images: list[tuple[str, bytes]] = []
        self.titles: list[str] = []

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert "svg" in self._stack, f"<{tag}/> has no end of its own in HTML"
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        assert len(given) == len(attrs), f"{tag} has an attribute twice"
        assert tag not in _ACTIVE, tag
        assert re.fullmatch("[a-z][a-z0-9]*|polyline", tag), tag
        for name, value in given.items():
            assert re.fullmatch("[a-z][a-z0-9:-]*", name, re.I), name
            assert not name.startswith("on"), name
            assert name != "style", value
            assert value is not None, name
            if name in ("src", "href"):
                assert value.startswith("data:image/png;base64,"), value
            if name == "id":
                assert value not in self._ids, value
                self._ids.add(value)
            if name == "aria-labelledby":
                self._wanted.add(value)
        if not self._stack:
            assert (tag, given.get("lang")) == ("html", "en")
        if tag == "img":
            self._image(given)
        if tag == "svg":
            assert given["role"] == "img"
            assert given["aria-label"]
        if given.get("http-equiv") == "Content-Security-Policy":
            assert "style" not in self.tags  # what stands before it isn't ruled by it
            assert given["content"] == _POLICY
        level = _HEADINGS.get(tag)
        if level is not None:
            assert level <= self._level + 1, "a level of headings is left out"
            self._level = level
            self.headings.append("")
        if tag == "title" and "svg" in self._stack:
            self.titles.append("")
        self.tags.append(tag)
        if tag not in _VOID:
            self._stack.append(tag)

    def _image(self, given: dict[str, str | None]) -> None:
        alt, source = given["alt"], given["src"]
        assert alt
        assert source
        data = base64.b64decode(source.partition(",")[2], validate=True)
        assert data.startswith(b"\x89PNG\r\n")
        self.images.append((alt, data))

    def handle_endtag(self, tag: str) -> None:
        assert self._stack, f"</{tag}> ends nothing"
        assert self._stack.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        if "style" in self._stack:
            assert not re.search(r"url\(|@import|expression", data)
            return
        if self._stack and self._stack[-1] == "title" and "svg" in self._stack:
            self.titles[-1] += data
            return
        self.text += data
        if self._stack and self._stack[-1] in _HEADINGS:
            self.headings[-1] += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a comment")

    def finish(self) -> None:
        """Nothing is left open, and all that is named is there."""
        self.close()
        assert not self._stack
        assert self._wanted <= self._ids
        assert self.tags.count("h1") == self.tags.count("main") == 1
        assert self.tags.count("meta") == 3


def read_report(text: str) -> ReportReader:
    """A report, read strictly.

    Raises:
        AssertionError: it isn't well-formed, loads something, or could run something.
    """
    assert text.startswith("<!DOCTYPE html>\n<html")
    reader = ReportReader()
    reader.feed(text.removeprefix("<!DOCTYPE html>\n"))
    reader.finish()
    return reader


def report_of(
    folder: Path, program: str, filter_name: str, *commands: str
) -> tuple[str, ReportReader]:
    """What a program prints, and the report of its first run with a tensor that passes a filter."""
    asked = [part for each in commands for part in ("-c", each)]
    path = folder / "program.py"
    path.write_text(program, encoding="utf-8")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tfdbg_cli", "--batch", "--report", "page.html"),
            *("-c", f"run -f {filter_name}", *asked, str(path)),
        ],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done
    return done.stdout, read_report((folder / "page.html").read_text(encoding="utf-8"))
