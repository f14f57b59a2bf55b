"""Changing the values of a run that is stepped through: ``inject_value``, ``restore``, ``diff``."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from tfdbg_cli.commands.context import STEPPER_MODES, Context
from tfdbg_cli.commands.registry import Argument, Command, Result
from tfdbg_cli.commands.reply import Candidate
from tfdbg_cli.commands.shell import completers
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.stepper.screens import moved_document, need_walk
from tfdbg_cli.commands.tensors.expressions import evaluate
from tfdbg_cli.common.arrays import np
from tfdbg_cli.common.documents import Document, LazyDocument, Line, Span, TextDocument, line
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.elements import execution_name, parse_execution, tensor_name_of
from tfdbg_cli.stepping.stepper import Step
from tfdbg_cli.stepping.walk import Halt, Walk
from tfdbg_cli.tensors.statistics import measure

__all__ = ["COMMANDS"]


def _tensors(context: Context, typed: str) -> Iterable[Candidate]:
    """What can be overridden, computed or not."""
    walk = context.walk
    if walk is None:
        return []
    steps = walk.stepper.steps
    names = [name for step in steps if not step.unfit for name in step.outputs]
    if not walk.stepper.is_open_ended:  # what the run was given, where no step stands for it
        made = {name for step in steps for name in step.outputs}
        names += dict.fromkeys(name for step in steps for name in step.inputs if name not in made)
    return [Candidate(name) for name in names if name.startswith(typed)][:400]


def _override(context: Context, arguments: argparse.Namespace) -> Result:
    walk = need_walk(context)
    name, expression = arguments.tensor, " ".join(arguments.expression).strip()
    if not name:
        return _overridden(walk)
    if not expression:
        raise UserError(
            f"There is no value for {name}.", f"override {name} np.clip(`{name}`, 0, 1)"
        )
    name = _numbered(walk, tensor_name_of(name), arguments.number)
    value = _filled(context, name, evaluate(context, expression))
    is_to_come = not walk.stepper.has(name) and _is_to_come(walk, name)
    if np.ndim(value) == 0 and _is_number(value) and not walk.stepper.has(name):
        if is_to_come:
            walk.fills[name] = value
            return moved_document(
                context, Halt(f"{name} will be filled with this value when it is computed.")
            )
        value = np.full(walk.stepper.shape(name) or (), value)
    undone = walk.override(name, value)
    if name not in walk.stepper.overrides:  # it is one of several values: which?
        all_of_it = [each for each in walk.stepper.overrides if parse_execution(each)[0] == name]
        name = all_of_it[-1] if all_of_it else name
    why = f"{name} is overridden{' as soon as it is computed' if is_to_come else ''}."
    if undone:
        nodes = ", ".join(step.node for step in undone[:4]) + ("…" if len(undone) > 4 else "")
        why += f" Went back before what had read it: {len(undone)} node(s) ({nodes})."
    return moved_document(context, Halt(why))


def _numbered(walk: Walk, name: str, number: int | None) -> str:
    """With which of its values is meant.

    Raises:
        UserError: there can't be several.
    """
    name, written = parse_execution(name)
    number = written if number is None else number
    if number is None:
        return name
    if number < 0:
        raise UserError(f"{number} is not a number of a value: they count from 0, as in lt.")
    if not walk.stepper.numbers_values:
        raise UserError("On this engine an override is of a tensor, not of one of its values.")
    return execution_name(name, number)


def _is_to_come(walk: Walk, name: str) -> bool:
    """Whether a tensor without a value will have one; of a run that has failed not all have."""
    place = walk.find(name)
    if place is not None:
        step = walk.stepper.steps[place]
        is_inside = bool(step.outputs) and name not in step.outputs
        if place < walk.stepper.position or is_inside:
            return False
    return place != walk.stepper.position or name not in walk.stepper.mendable()


def _filled(context: Context, name: str, value: Any) -> Any:
    """A number as a whole tensor of it, where the shape of the tensor is known."""
    if np.ndim(value) or not _is_number(value):
        return value
    found = context.need_dump().by_tensor(parse_execution(name)[0])
    shape = found[-1].shape if found else None
    return np.full(shape, value) if shape else value


def _shown_by(name: str) -> str:
    """The command that prints an overridden value."""
    tensor, number = parse_execution(name)
    return f"pt {quoted(tensor)}" + ("" if number is None else f" -n {number}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | complex | np.generic | np.ndarray)


def _overridden(walk: Walk) -> Document:
    names = [*walk.stepper.overrides, *walk.fills]
    if not names:
        return TextDocument(
            [
                line("Nothing is overridden."),
                line(("override TENSOR EXPRESSION changes a value.", "dim")),
            ]
        )
    return TextDocument(
        [
            line(f"{len(names)} tensor(s) are overridden:"),
            *(line("  ", (name, "link", _shown_by(name))) for name in names),
        ]
    )


def _restore(context: Context, arguments: argparse.Namespace) -> Result:
    walk = need_walk(context)
    stepper = walk.stepper
    filled, overridden, variables = _to_restore(walk, arguments.names)
    for name in filled:
        del walk.fills[name]
    undone: list[Step] = []
    for name in overridden:
        readers = walk.readers(name)
        if readers and not stepper.is_open_ended:
            undone += walk.rewind(readers[0])
        stepper.take_back(name)
    variables = [name for name in variables if name in stepper.updated]  # else it was undone
    restored = list(stepper.restore(variables)) if variables else []
    parts = [f"{', '.join([*filled, *overridden])} as computed"] if filled or overridden else []
    parts += [f"{', '.join(restored)} as at the beginning"] if restored else []
    back = f" Went back {len(undone)} node(s)." if undone else ""
    return moved_document(context, Halt(f"Restored: {'; '.join(parts)}.{back}"))


def _to_restore(walk: Walk, names: list[str]) -> tuple[list[str], list[str], list[str]]:
    """Fills, overridden tensors and updated variables of these names; without names, all.

    Raises:
        UserError: there is nothing of a name, or nothing at all.
    """
    stepper = walk.stepper
    if not names:
        found = (list(walk.fills), list(stepper.overrides), list(stepper.updated))
        if not any(found):
            raise UserError("Nothing was overridden or updated.")
        return found
    filled, overridden, variables = [], [], []
    for name in names:
        full = tensor_name_of(name)
        if full in walk.fills:
            filled.append(full)
        elif full in stepper.overrides or name in stepper.overrides:
            overridden.append(full if full in stepper.overrides else name)
        elif name.removesuffix(":0") in stepper.updated:
            variables.append(name.removesuffix(":0"))
        else:
            raise UserError(f'"{name}" was neither overridden nor updated.')
    return filled, overridden, variables


def _diff(context: Context, arguments: argparse.Namespace) -> Result:
    walk = need_walk(context)
    stepper = walk.stepper
    if not stepper.overrides:
        raise UserError("Nothing is overridden.", "override TENSOR EXPRESSION changes a value.")
    touched = _downstream(walk)
    if not touched:
        raise UserError("Nothing computed so far depends on an override.", "step or cont.")
    head = line(
        (f"{'Largest change':>16}  {'Health before':<16} {'after':<16} Tensor", "bold"),
    )
    made: dict[int, Line] = {}

    def row(number: int) -> Line:
        if number == 0:
            return head
        if number not in made:
            made[number] = _difference(walk, touched[number - 1])
        return made[number]

    return LazyDocument(len(touched) + 1, row)


def _downstream(walk: Walk) -> list[str]:
    """The overridden tensors and those computed from them, in the order of the run."""
    stepper = walk.stepper
    changed = set(stepper.overrides)
    order = []
    for name in stepper.overrides:
        place = walk.index(name)
        if place is None:
            order.append(name)
        elif name not in stepper.steps[place].outputs:  # inside of it
            order.append(name)
            changed.update(stepper.steps[place].outputs)
    for step in stepper.steps[: stepper.position]:
        if not changed.isdisjoint(step.inputs):
            changed.update(step.outputs)
        order += [name for name in step.outputs if name in changed and stepper.has(name)]
    return order


def _difference(walk: Walk, name: str) -> Line:
    """One tensor, as it would be and as it is."""
    stepper = walk.stepper
    after = stepper.as_array(stepper.value(name)) if stepper.has(name) else None
    before = stepper.as_array(stepper.original(name))
    shapes = ""
    if before is None or after is None:
        change = "not known"
    elif before.shape != after.shape:
        change = "other shape"
        shapes = f"  {list(before.shape)} -> {list(after.shape)}"
    else:
        change = _change(before, after)
    overridden = "  (overridden)" if name in walk.stepper.overrides else ""
    role = "dim" if change in ("none", "not known") else "bold"
    return line(
        Span(f"{change:>16}  ", role),
        Span(f"{_health(before):<16} "),
        Span(f"{_health(after):<16} "),
        (name, "link", _shown_by(name)),
        Span(shapes, "warning"),
        Span(overridden, "warning"),
    )


def _change(before: np.ndarray[Any, Any], after: np.ndarray[Any, Any]) -> str:
    """The largest absolute change of an element; of those that are bad in one, how many."""
    if before.dtype.kind not in "fciub":
        return "none" if bool(np.array_equal(before, after)) else "changed"
    wide = np.complex128 if before.dtype.kind == "c" else np.float64
    left, right = before.astype(wide), after.astype(wide)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    if bool(same.all()):
        return "none"
    both = np.isfinite(left) & np.isfinite(right) & ~same
    if not bool(both.any()):
        return f"{int((~same).sum())} of {same.size}"
    return f"{float(np.abs(left[both] - right[both]).max()):.6g}"


def _health(array: np.ndarray[Any, Any] | None) -> str:
    if array is None:
        return "?"
    health = measure(array).health
    if health is None:
        return "-"
    return health.text or "ok"


INJECT = Command(
    "inject_value",
    ("inject", "override_value", "override"),
    "stepper",
    "Give a tensor another value for the rest of the run.",
    _override,
    (
        Argument(
            ("tensor",),
            "a tensor of the run; none: list the overrides",
            "TENSOR",
            nargs="?",
            default="",
            complete=_tensors,
        ),
        Argument(
            ("expression",),
            "the value, an expression as for eval; quote it if it has blanks outside brackets",
            "EXPRESSION",
            nargs="*",
            complete=completers.expression,
        ),
        Argument(
            ("-n", "--number"),
            "which value of a tensor in a loop, from 0, as in lt (JAX)",
            "K",
            kind=int,
        ),
    ),
    modes=STEPPER_MODES,
    examples=(
        ("override Softmax:0 np.clip(`Softmax:0`, 1e-8, 1)", "clip the computed value"),
        ("override hidden/Relu:0 0", "a number fills the tensor"),
        ("override -n 17 scan/log:0 0", "one value of a tensor in a loop: scan/log:0 (#17)"),
        ("override", "the overrides"),
    ),
    details=(
        "If nodes have read the tensor already, the stepper first undoes these nodes. "
        "On PyTorch the program can't go back: override a tensor before it is read, or "
        "before it is computed (then the value replaces it)."
    ),
)

RESTORE = Command(
    "restore",
    (),
    "stepper",
    "Remove overrides, and reset variables to their values before the run.",
    _restore,
    (
        Argument(
            ("names",),
            "tensors or variables; none: all",
            "NAME",
            nargs="*",
            complete=completers.tensors,
        ),
    ),
    modes=STEPPER_MODES,
    examples=(("restore Softmax:0", "as it was computed"), ("restore", "everything")),
)

DIFF = Command(
    "diff",
    (),
    "stepper",
    "Show the effect of the overrides: shape, health, largest change.",
    _diff,
    modes=STEPPER_MODES,
    examples=(("diff", "every tensor that depends on an override"),),
)

COMMANDS = (INJECT, RESTORE, DIFF)
