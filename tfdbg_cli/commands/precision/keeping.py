"""What has to stay in float32, as the file that the framework's own tools take."""

from __future__ import annotations

import json
import string
from collections.abc import Sequence

from tfdbg_cli.commands.precision.table import error_text
from tfdbg_cli.common.files import near_path, replacing, written
from tfdbg_cli.common.traits import EngineTraits
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.sources import own_frame
from tfdbg_cli.precision.study import Kept
from tfdbg_cli.precision.target import Target

__all__ = ["kept_lines", "write_kept"]

# What an engine has for which nothing takes such a list.
_PLAIN = '{"about": $about,\n "keep": $names,\n "ops": $ops}\n'


def kept_lines(kept: Kept, target: Target, traits: EngineTraits | None) -> list[str]:
    """A few lines for people.

    Args:
        kept: what stays in float32.
        target: the type of all else.
        traits: of the engine.
    """
    things = "modules and ops" if traits is not None and traits.keeps_modules else "ops"
    every = error_text(kept.error_of_all)
    all_of = "overflows" if every == "overflow" else f"is off by {every}"
    lines = [
        f"With all of them in {target.name} the run {all_of}.",
        f"{len(kept.names)} of {kept.of} {things} stay in float32: it is off by "
        f"{error_text(kept.error)} then.",
    ]
    outside = [name for name in kept.names if name in kept.ops]
    if outside and traits is not None and traits.keeps_modules:
        are = "is an op" if len(outside) == 1 else "are ops"
        lines.append(
            f"{len(outside)} of these {are} of no module: change the lines that the file lists by "
            "hand."
        )
    if kept.error > kept.bar:
        lines.append(f"That isn't within {kept.bar:g}: the time was over, or float32 is off too.")
    if kept.unknown:
        lines.append(f"{kept.unknown} can't be computed again: what reads it is as it was.")
    return lines


def write_kept(
    path: str, kept: Kept, target: Target, dump: Dump, traits: EngineTraits | None
) -> None:
    """Write the file.

    Args:
        path: of it; one that is there is replaced.
        kept: what stays in float32.
        target: the type of all else.
        dump: of the run, for the lines of the ops.
        traits: of the engine: its `EngineTraits.keeping` says what the file is like.

    Raises:
        UserError: it can't be written.
    """
    names = kept.names
    if traits is not None and traits.keeps_modules:
        # Ops of no module are among `ops`. A layer of Keras has no name but the last part.
        names = [name.rpartition("/")[2] for name in names if name not in kept.ops]
        names = [*dict.fromkeys(names)]
    about = " ".join(kept_lines(kept, target, traits))
    template = (traits.keeping if traits is not None else "") or _PLAIN
    text = string.Template(template).substitute(
        about=json.dumps(about), names=_listed(names), ops=_listed(_places(kept.ops, dump))
    )
    with written(path), replacing(path) as file:
        file.write(text.encode())


def _listed(texts: Sequence[str]) -> str:
    return json.dumps([*texts], indent=4) if texts else "[]"


def _places(ops: Sequence[str], dump: Dump) -> list[str]:
    found = []
    for name in ops:
        node = dump.node(name)
        frame = own_frame(node.frames or ()) if node is not None else None
        found.append(f"{name}{f'  {near_path(frame.file)}:{frame.line}' if frame else ''}")
    return found
