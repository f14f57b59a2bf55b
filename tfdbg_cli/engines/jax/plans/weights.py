"""Which arguments of a compiled function are weights, or an optimizer's state."""

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
    """Which arguments are weights: the function returns their gradients, or new values of them.

    New values count if they were computed from gradients. An argument is taken as a whole: each of
    its arrays has to come back under the same key or, where a library hides the keys, in the same
    shape and dtype. A single array isn't called a weight: it may as well be a batch whose gradient
    the program asks for.

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
