"""How long each node takes, by ONNX Runtime's own profiler."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

import onnxruntime

from tfdbg_cli.common.temporary import passing_folder
from tfdbg_cli.dumps.profile import Locate, Profile, ProfileEntry
from tfdbg_cli.engines.onnx.model import Model
from tfdbg_cli.engines.onnx.optimised import optimised_options
from tfdbg_cli.engines.onnx.private import model_source

__all__ = ["profiled"]

_SUFFIX = "_kernel_time"


def profiled(
    session: Any, model: Model, names: list[str], feeds: Mapping[str, Any], locate: Locate
) -> Profile:
    """The times of a run of another session of the same model, optimised like the program's.

    The first run of a session gets memory; the second one is timed.

    Raises:
        Exception: ONNX Runtime's.
    """
    options = optimised_options(session)
    with passing_folder() as folder:
        options.enable_profiling = True
        options.profile_file_prefix = os.path.join(folder, "run")
        timed = onnxruntime.InferenceSession(
            model_source(session), options, session.get_providers(), enable_fallback=0
        )
        for _ in range(2):
            timed.run(names, dict(feeds))
        with open(timed.end_profiling(), encoding="utf-8") as file:
            events = json.load(file)
    return Profile(_devices(events, model, locate).items())


def _devices(events: Any, model: Model, locate: Locate) -> dict[str, list[ProfileEntry]]:
    runs = [each for each in events if each.get("name") == "model_run"]
    began = max((each["ts"] for each in runs), default=0)
    own = {node.proto.name: node for node in model.all_nodes if node.proto.name}
    found: dict[str, list[ProfileEntry]] = {}
    for event in events:
        name = str(event.get("name", ""))
        if event.get("cat") != "Node" or not name.endswith(_SUFFIX) or event["ts"] < began:
            continue
        name = name.removesuffix(_SUFFIX)
        said = event.get("args", {})
        kernel = str(said.get("op_name", ""))
        node = own.get(name)
        entry = ProfileEntry(
            node.name if node is not None else name or kernel,
            node.op_type if node is not None else kernel,
            float(event["ts"] - began),
            float(event["dur"]),
            float(event["dur"]),
            kernel=kernel,
            place=locate,
        )
        found.setdefault(str(said.get("provider", "")), []).append(entry)
    return found
