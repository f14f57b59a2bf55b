"""What a dump of several parts is made of: tensors that are only referred to, nodes of others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.dumps.elements import split_tensor_name
from tfdbg_cli.dumps.graph import Node
from tfdbg_cli.engines.torch.modules.state import version_of
from tfdbg_cli.engines.torch.values.access import is_readable
from tfdbg_cli.engines.torch.values.arrays import to_numpy
from tfdbg_cli.engines.torch.values.layouts import undisturbed

__all__ = ["KeptTensor", "renamed_node"]


class KeptTensor:
    """A tensor that is referred to, and copied before the program goes on."""

    def __init__(self, tensor: torch.Tensor, version: int) -> None:
        self._tensor: torch.Tensor | None = tensor
        self._version = version

    def load(self) -> Any:
        """Its value."""
        tensor = self._tensor
        if tensor is None:
            return InconvertibleTensorProto("The dump is closed.")
        if version_of(tensor) != self._version:
            return InconvertibleTensorProto("It was written to since.")
        with undisturbed():
            return to_numpy(tensor.detach() if is_readable(tensor) else tensor)

    def settle(self) -> None:
        """Copy it."""
        tensor = self._tensor
        if tensor is not None and is_readable(tensor) and version_of(tensor) == self._version:
            with undisturbed():
                self._tensor = tensor.detach().clone()
                self._version = version_of(self._tensor)

    def close(self) -> None:
        """Let go of it."""
        self._tensor = None


def renamed_node(node: Node, name: str, renamed: Callable[[str], str]) -> Node:
    """A node under another name, and with other names for what it reads."""

    def attributes() -> Mapping[str, str]:
        return {key: _in_words(key, text, renamed) for key, text in node.attributes.items()}

    inputs: Iterable[str] = map(renamed, node.inputs)
    return Node(
        name,
        node.op_type,
        inputs,
        node.control_inputs,
        node.device,
        attributes,
        lambda: node.frames,
    )


def _in_words(key: str, text: str, renamed: Callable[[str], str]) -> str:
    if key == "_forward_node":
        return split_tensor_name(renamed(f"{text}:0"))[0]
    if key == "_writes":
        return ", ".join(map(renamed, text.split(", ")))
    return text
