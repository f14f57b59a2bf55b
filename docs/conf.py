"""How the site is made of these pages (`scripts/docs`)."""

from __future__ import annotations

import gc
import os
import re
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Any

# The pages are many objects, which all stay: looking for garbage would be half of the time.
gc.disable()

project = "tfdbg_cli"
version = release = version_of("tfdbg_cli")
project_copyright = "the authors of tfdbg_cli"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_heading_anchors = 3
# Screens are text, and not Python.
highlight_language = "text"
# Lines of IPython's (%tfdbg) among Python.
suppress_warnings = ["misc.highlighting_failure"]

autodoc_typehints = "description"
autodoc_member_order = "bysource"
autodoc_mock_imports = ["tensorflow", "torch"]
napoleon_google_docstring = True

html_theme = "furo"
html_title = "tfdbg_cli"
html_extra_path = ["first-minute.cast", "llms.txt"]
html_static_path = ["site.css"]
html_css_files = ["site.css"]

# Pages of the repository that lie in other folders, and what they are called here.
_ELSEWHERE = {
    "README.md": "index",
    "CHANGELOG.md": "changelog",
    "CONTRIBUTING.md": "contributing",
    "SECURITY.md": "security",
    "examples/README.md": "examples",
    "examples/data/README.md": "example-data",
}
_DOCS = Path(__file__).resolve().parent
_ROOT = _DOCS.parent


def _read(app: object, name: str, source: list[str]) -> None:
    """Such a page is its file, and links lead to pages: they are written for readers of files."""
    page, folder = source[0], _DOCS
    for path, here in _ELSEWHERE.items():
        if name == here:
            folder = (_ROOT / path).parent
            page = f"{(_ROOT / path).read_text(encoding='utf-8')}\n{page}"

    def led_here(found: re.Match[str]) -> str:
        target, anchor = (folder / found[1]).resolve(), found[2] or ""
        try:
            inside = target.relative_to(_ROOT).as_posix()
        except ValueError:
            return found[0]
        if inside in _ELSEWHERE:
            return f"]({_ELSEWHERE[inside]}.md{anchor})"
        return f"]({os.path.relpath(target, _DOCS)}{anchor})"

    source[0] = re.sub(r"\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)", led_here, page)


def _reachable(*event: Any) -> None:
    """Let keys reach what scrolls, and headings of the sidebar say their level, as axe asks."""
    context = event[3]
    body = context.get("body", "").replace("<pre>", '<pre tabindex="0">')
    context["body"] = body.replace(
        '<div class="table-wrapper', '<div tabindex="0" class="table-wrapper'
    )
    tree = context.get("furo_navigation_tree", "")
    context["furo_navigation_tree"] = tree.replace(
        'role="heading"', 'role="heading" aria-level="2"'
    )


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("source-read", _read)
    # Behind the theme's own part.
    app.connect("html-page-context", _reachable, priority=900)
