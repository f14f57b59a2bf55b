"""Which arguments of a compiled function are weights, or the state of an optimizer."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tfdbg_cli.engines.jax.plans.values import is_floating

__all__ = ["are_weights"]

# What an array is part of ends here in its path.
_ROOT = re.compile(r"[.\[/]")
# Shape and dtype.
_Kind = tuple[Any, str]


def are_weights(
    paths: Sequence[str],
    given: Sequence[Any],
    returned_paths: Sequence[str],
    returned: Sequence[Any],
    depends: Sequence[bool],
) -> list[bool]:
    """Which arguments are such as gradients make new ones of, or are the gradients of.

    An argument is taken as a whole, or what the program has under one name. Its arrays come back
    under the same keys; where a library hides these, as gradients of their types. An array that is
    an argument of its own isn't told from a batch of which the gradient is asked for.

    Args:
        paths: of the arguments: ``params['w']``.
        given: their abstract values.
        returned_paths: of the results: ``[0]['w']``; none: they aren't known.
        returned: their abstract values.
        depends: whether a result depends on a gradient.
    """
    kinds = [_kind(each) for each in returned]
    at_path = dict(zip(returned_paths, zip(kinds, depends, strict=True), strict=False))
    updated = Counter(itertools.compress(kinds, depends))
    wholes: dict[str, dict[str, _Kind]] = {}
    roots = [_ROOT.split(path, maxsplit=1)[0] for path in paths]
    for root, path, value in zip(roots, paths, given, strict=False):
        wholes.setdefault(root, {})[path[len(root) :]] = _kind(value)
    found = set[str]()
    for root, whole in wholes.items():
        places = _places(whole, {path: kind for path, (kind, _) in at_path.items()})
        for key in whole:
            if any(at_path[place + key][1] for place in places):
                found.add(root + key)
        needed = Counter(whole.values())
        if "" not in whole and not places and needed <= updated:
            found.update(root + key for key in whole)
            updated -= needed  # no other argument comes back as these
    return [path in found and is_floating(value) for path, value in zip(paths, given, strict=False)]


def _places(whole: Mapping[str, _Kind], at_path: Mapping[str, _Kind]) -> list[str]:
    """Where, among the results, the arrays of an argument are under the same keys."""
    key = next(iter(whole))
    ends = (path[: -len(key)] for path in at_path if key and path.endswith(key))
    return [
        place
        for place in ends
        if all(at_path.get(place + key) == kind for key, kind in whole.items())
    ]


def _kind(aval: Any) -> _Kind:
    return getattr(aval, "shape", None), str(getattr(aval, "dtype", ""))
