"""The program's own names of tensors: ``loss`` for ``nll_loss_forward:0``."""

from __future__ import annotations

from collections.abc import Iterable

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.reply import Candidate
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.dumps.dump import Dump
from tfdbg_cli.dumps.graph import node_name_of
from tfdbg_cli.dumps.joined import JoinedDump, rank_name

__all__ = ["is_own_name", "meant", "own_candidates", "own_names_of"]


def _is_known(dump: Dump, name: str) -> bool:
    """Whether a dump has a node or a tensor of this very name."""
    graph = dump.graph()
    if graph is not None and node_name_of(name) in graph:
        return True
    return bool(dump.by_tensor(name) or dump.by_node(name))


def resolve_program_name(context: Context, name: str) -> str:
    """The tensor that a name of the program's means; any other name as it is.

    Names of nodes and tensors go first, then those of what the run has made, then its inputs. Where
    a run has several ranks, a name without one is that of the rank which the stop is about.
    """
    info, dump = context.run_info, context.dump
    if dump is None or info.kind == "run" or _is_known(dump, name):
        return name
    prefix = f"{rank_name(dump.focus)}/" if isinstance(dump, JoinedDump) else ""
    if prefix and _is_known(dump, prefix + name):
        return prefix + name
    for own in (name, prefix + name):
        if own in info.outputs:
            return info.outputs[own]
    given = getattr(info.feeds, "tensors", {}).get(name) or f"{prefix}input/{name}:0"
    return given if dump.by_tensor(given) else name


def is_own_name(context: Context, name: str) -> bool:
    """Whether a name is the program's for a tensor."""
    return resolve_program_name(context, name) != name


def own_names_of(context: Context, node: str, slot: int | None = None) -> list[str]:
    """What the program calls a tensor, or with no slot any output of a node."""
    wanted = node if slot is None else f"{node}:{slot}"
    return [
        name
        for name, tensor in context.run_info.outputs.items()
        if (node_name_of(tensor) if slot is None else tensor) == wanted
    ]


def own_candidates(context: Context, typed: str) -> Iterable[Candidate]:
    """The program's names, to complete what is typed."""
    return [
        Candidate(quoted(name), f"= {tensor}")
        for name, tensor in context.run_info.outputs.items()
        if name.startswith(typed)
    ]
