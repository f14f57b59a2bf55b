"""Which arguments of a compiled function are weights, or the state of an optimizer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tfdbg_cli.engines.jax.plans.values import is_floating

__all__ = ["are_weights"]

# What an array is part of ends here in its path.
_ROOT = re.compile(r"[.\[/]")


def are_weights(
    paths: Sequence[str],
    given: Sequence[Any],
    returned_paths: Sequence[str],
    returned: Sequence[Any],
    is_led: Sequence[bool],
) -> list[bool]:
    """Which arguments a training step returns new ones of, or the gradients of.

    An argument is taken as a whole, or what the program has under one name: all arrays of it come
    back, under the same keys, or made of gradients. The batch that an autoencoder returns another
    one of is none.

    Args:
        paths: of the arguments: ``params['w']``.
        given: their abstract values.
        returned_paths: of the results: ``[0]['w']``; none: they aren't known.
        returned: their abstract values.
        is_led: whether a gradient leads to a result.
    """
    kinds = [_kind(each) for each in returned]
    at_path = dict(zip(returned_paths, kinds, strict=False))
    updated = Counter(kind for kind, led in zip(kinds, is_led, strict=True) if led)
    wholes: dict[str, dict[str, tuple[Any, str]]] = {}
    roots = [_ROOT.split(path, maxsplit=1)[0] for path in paths]
    for root, path, value in zip(roots, paths, given, strict=False):
        wholes.setdefault(root, {})[path[len(root) :]] = _kind(value)
    found = set()
    for root, whole in wholes.items():
        needed = Counter(whole.values())
        if _comes_back(whole, at_path) or needed <= updated:
            found.add(root)
            updated -= needed  # no other argument comes back as these
    return [root in found and is_floating(value) for root, value in zip(roots, given, strict=False)]


def _comes_back(whole: dict[str, tuple[Any, str]], at_path: dict[str, tuple[Any, str]]) -> bool:
    """Whether its arrays are among results under the same keys, wherever these are."""
    key = next(iter(whole))
    places = [path[: -len(key)] for path in at_path if key and path.endswith(key)]
    return any(
        all(at_path.get(place + key) == kind for key, kind in whole.items()) for place in places
    )


def _kind(aval: Any) -> tuple[Any, str]:
    return getattr(aval, "shape", None), str(getattr(aval, "dtype", ""))
