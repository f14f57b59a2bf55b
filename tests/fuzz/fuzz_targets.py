"""All targets of ``scripts/fuzz``, by name."""

from __future__ import annotations

import fuzz_dump_targets
import fuzz_remote_targets
import fuzz_text_targets
import fuzz_tree_targets
from fuzz_kit import Target

__all__ = ["TARGETS"]

TARGETS: dict[str, Target] = {
    target.name: target
    for module in (fuzz_dump_targets, fuzz_remote_targets, fuzz_text_targets, fuzz_tree_targets)
    for target in module.TARGETS
}
