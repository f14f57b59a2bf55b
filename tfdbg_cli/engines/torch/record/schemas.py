"""What is known of an operator once and for all: its name, what it writes to, what it aliases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tfdbg_cli.engines.torch.private import SCHEMA
from tfdbg_cli.engines.torch.record.op_facts import RULES

__all__ = ["KNOWN", "OpFacts", "facts_of"]

# Written without a word in the schema (batch norm's running statistics), if the flag at the last
# position says so; -1: always.
_HIDDEN_WRITES: dict[str, tuple[tuple[int, ...], int]] = {
    "aten::native_batch_norm": ((3, 4), 5),
    "aten::cudnn_batch_norm": ((3, 4), 5),
    "aten::miopen_batch_norm": ((3, 4), 5),
    "aten::_batch_norm_impl_index": ((3, 4), 5),
    "aten::batch_norm": ((3, 4), 5),
    "aten::instance_norm": ((3, 4), 5),
    "aten::batch_norm_gather_stats": ((3, 4), -1),
    "aten::batch_norm_gather_stats_with_counts": ((3, 4), -1),
    "aten::batch_norm_update_stats": ((1, 2), -1),
}
# Collectives write to their first argument and don't say so.
_READING_COLLECTIVES = frozenset({"send", "barrier", "monitored_barrier_", "check_for_nan"})
# Said to write, only for the sake of ordering.
_NO_WRITES = frozenset({"aten::record_stream"})
# Change what a tensor looks like, not the elements.
_METADATA = frozenset(
    f"aten::{name}_"
    for name in (
        "as_strided",
        "detach",
        "squeeze",
        "swapaxes",
        "swapdims",
        "t",
        "transpose",
        "unsqueeze",
    )
)
# They share memory and don't say so.
_HIDDEN_VIEWS = frozenset({"aten::_unsafe_view"})
# Their argument is nothing that the program has: the constant of a ``torch.tensor(...)``.
_SOURCES = frozenset({"aten::lift_fresh", "aten::lift"})
_UNINITIALIZED = frozenset(
    f"aten::{name}"
    for name in (
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_quantized",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
        "_empty_affine_quantized",
        "_empty_per_channel_affine_quantized",
    )
) | {"fsdp::all_gather_copy_in"}
# What others send is there when somebody has waited for it.
_COLLECTIVES = frozenset({"c10d", "_c10d_functional"})


class OpFacts:
    """One overload of an operator, a higher-order operator, or a function of the API.

    Attributes:
        op_type: ``addmm``; with its namespace if that isn't ATen's: ``quantized.linear_dynamic``.
        overload: the full name, ``aten::addmm``, with the overload: ``aten::add.Tensor``; empty
            for functions.
        arguments: names of the arguments, in order.
        writes: positions of the arguments that it writes to.
        out: names of the keyword arguments that it writes to.
        has_writes: whether there are any of both.
        training: position of the flag without which it doesn't write; -1: it always does.
        may_alias: whether outputs may share memory with an input that isn't written to.
        may_be_view: whether they may have the elements of an input, without a write.
        is_fresh: its outputs have memory of their own.
        is_source: its arguments are not worth telling.
        is_uninitialized: its output has no value yet.
        is_collective: it sends to other processes, receives, or waits for that.
        is_late: what it gives is there only when the program has waited for it.
        is_ignored: it is no computation, but a mark for a profiler.
        keeps_elements: what it writes to has the same elements afterwards.
        clean: when what it makes is clean; ``None``: nobody knows.
    """

    __slots__ = (
        "arguments",
        "clean",
        "has_writes",
        "is_collective",
        "is_fresh",
        "is_ignored",
        "is_late",
        "is_source",
        "is_uninitialized",
        "keeps_elements",
        "may_alias",
        "may_be_view",
        "op_type",
        "out",
        "overload",
        "training",
        "writes",
    )

    def __init__(self, op: Any) -> None:
        schema = getattr(op, SCHEMA, None)
        is_function = schema is None and not hasattr(op, "py_kernels")
        qualified = str(getattr(schema, "name", "")) or f"higher_order::{_plain_name(op)}"
        space, _, name = qualified.partition("::")
        plain = space in {"aten", "higher_order"}
        self.op_type = name if plain else f"{space}.{name}"
        variant = getattr(schema, "overload_name", "")
        self.overload = f"{qualified}.{variant}" if variant else qualified
        if is_function:
            self.overload, self.op_type = "", name.strip("_") or "call"
        arguments: Sequence[Any] = schema.arguments if schema is not None else ()
        self.arguments = tuple(argument.name for argument in arguments)
        written = [
            (index, argument)
            for index, argument in enumerate(arguments)
            if _is_written(argument) and qualified not in _NO_WRITES
        ]
        self.writes = tuple(index for index, argument in written if not argument.kwarg_only)
        self.out = tuple(argument.name for _, argument in written if argument.kwarg_only)
        self.training = -1
        if not written and qualified in _HIDDEN_WRITES:
            self.writes, self.training = _HIDDEN_WRITES[qualified]
        elif space == "c10d" and name not in _READING_COLLECTIVES:
            self.writes = (0,)
        self.has_writes = bool(self.writes or self.out)
        returns: Sequence[Any] = schema.returns if schema is not None else ()
        self.is_source = qualified in _SOURCES
        self.may_alias = not self.is_source and (
            qualified in _HIDDEN_VIEWS
            or any(
                value.alias_info is not None and not value.alias_info.is_write for value in returns
            )
        )
        self.is_uninitialized = qualified in _UNINITIALIZED
        self.is_collective = space in _COLLECTIVES
        self.is_late = self.is_collective and name != "wait_tensor"
        self.is_ignored = space == "profiler"
        self.keeps_elements = qualified in _METADATA
        self.may_be_view = self.may_alias or self.keeps_elements
        self.is_fresh = not (self.may_be_view or self.has_writes)
        self.clean = RULES.get(self.overload)

    def written(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """The arguments of a call that it is going to write to; lists as they are."""
        if self.training >= 0 and not (len(args) > self.training and args[self.training] is True):
            return []
        found = [args[index] for index in self.writes if index < len(args)]
        if len(found) < len(self.writes):
            late = (self.arguments[index] for index in self.writes if index >= len(args))
            found += [kwargs[name] for name in late if name in kwargs]
        found += [kwargs[name] for name in self.out if name in kwargs]
        if self.op_type.startswith("_fused_") and kwargs.get("grad_scale") is None:
            # Gradients are only written to when they are unscaled on the way.
            grads = args[1] if len(args) > 1 else kwargs.get("grads")
            found = [each for each in found if each is not grads]
        return found


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and bool(argument.alias_info.is_write)


def _plain_name(op: Any) -> str:
    name = getattr(op, "name", None)
    found = name() if callable(name) else name
    return str(found or getattr(op, "__name__", "") or type(op).__name__).rpartition("::")[2]


#: By address: an overload's own hash is slow. What is in here can't have moved out.
KNOWN: dict[int, tuple[Any, OpFacts]] = {}


def facts_of(op: Any) -> OpFacts:
    """The facts of an overload, or of a higher-order operator; found once."""
    found = KNOWN.get(id(op))
    if found is None:
        found = KNOWN[id(op)] = (op, OpFacts(op))
    return found[1]
