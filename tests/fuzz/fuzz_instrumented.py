"""Imports all targets so that atheris sees which lines of ours an input reaches."""

from __future__ import annotations

import contextlib
import io

import atheris

# It names each module on stderr.
with contextlib.redirect_stderr(io.StringIO()), atheris.instrument_imports(include=["tfdbg_cli"]):
    import fuzz_targets  # noqa: F401
