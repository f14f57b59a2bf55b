"""The screens of the stepper: the list of a run's nodes, and what a move has done."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.shell.parsing import quoted
from tfdbg_cli.commands.tensors.facts import TensorFacts
from tfdbg_cli.commands.tensors.health import TensorHealth
from tfdbg_cli.commands.wrapping import columns_of
from tfdbg_cli.common.documents import (
    ChainDocument,
    Document,
    LazyDocument,
    Line,
    Link,
    MenuItem,
    Span,
    TextDocument,
    line,
)
from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.stepping.stepper import StepOutcome
from tfdbg_cli.stepping.walk import LEGEND, Halt, Walk

__all__ = ["list_document", "moved_document", "need_walk", "node_line", "where_document"]

#: Roles of the state letters: the original's colours, as far as the roles go.
_ROLES = {"P": "link", "U": "error", "H": "success", "I": "dim", "O": "warning", "D": "bold"}

# Nodes shown before and behind the next one.
_AROUND = 2

# What one move lists of inputs and outputs, so that it fits on a screen.
_MOST = 8


def need_walk(context: Context) -> Walk:
    """What moves through the run.

    Raises:
        UserError: this is no stop of the stepper.
    """
    if context.walk is None:
        raise UserError("No run is being stepped through.", "invoke_stepper begins it.")
    return context.walk


def _menu(context: Context) -> list[MenuItem]:
    walk = need_walk(context)
    items = [MenuItem("step", "step"), MenuItem("cont", "cont")] if walk.next is not None else []
    if walk.stepper.position:
        items.append(MenuItem("back", "step -b"))
    return [
        *items,
        MenuItem("list_sorted_nodes", "list_sorted_nodes"),
        MenuItem("list_tensors", "lt"),
        MenuItem("exit", "exit"),
    ]


def node_line(walk: Walk, index: int) -> Line:
    """``--> (13 / 40) [ H  O ] hidden/Relu``."""
    steps = walk.stepper.steps
    step = steps[index]
    total = "…" if walk.stepper.is_open_ended and walk.next is not None else str(len(steps))
    width = len(str(len(steps)))
    letters = walk.letters(index)
    spans = [Span("--> " if index == walk.stepper.position else "    ", "bold")]
    spans.append(Span(f"({index + 1:>{width}} / {total}) [", "dim"))
    for letter, _ in LEGEND:
        spans.append(
            Span(letter if letter in letters else " ", _ROLES[letter] if letter in letters else "")
        )
    spans.append(Span("] ", "dim"))
    done = index < walk.stepper.position
    command = f"ni {quoted(step.node)}" if done else f"cont {quoted(step.node)}"
    spans.append(Span(step.node, "link", Link(command)))
    inner = f", {len(step.members)} nodes" if len(step.members) > 1 else ""
    if step.op_type or inner:
        spans.append(Span(f"  {step.op_type}{inner}", "dim"))
    return line(*spans)


def _window(walk: Walk) -> list[Line]:
    """The nodes around the next one."""
    at, count = walk.stepper.position, len(walk.stepper.steps)
    lines = [node_line(walk, i) for i in range(max(at - _AROUND, 0), min(at + _AROUND + 1, count))]
    if walk.next is None:
        lines.append(line(("--> the end of the run", "bold")))
    elif walk.stepper.is_open_ended:
        lines.append(line(("    … after that, the program is on its own", "dim")))
    return lines


def _legend() -> Line:
    spans: list[Span] = []
    for letter, meaning in LEGEND:
        spans += [Span(letter, _ROLES[letter]), Span(f" {meaning}  ", "dim")]
    return line(*spans)


def where_document(context: Context) -> Document:
    """The first screen: where the run is, what can't be done in it, and how to go on."""
    walk = need_walk(context)
    count = len(walk.stepper.steps)
    lines = context.take_notes()
    if walk.stepper.is_open_ended:
        head = f"Done: {walk.stepper.position} node(s) of the run."
    else:
        head = f"Done: {walk.stepper.position} of the run's {count} nodes."
    lines += [line((head, "bold")), line(), *_window(walk), line(), _legend()]
    if walk.stepper.caveats:
        lines.append(line())
        for text in walk.stepper.caveats:
            first, *more = wrapped(context, f"Note: {text}")
            lines.append(line(("Note: ", "warning"), first.removeprefix("Note: ")))
            lines += [line(each) for each in more]
    if walk.stepper.overrides:
        lines += [line(), line("Overridden: ", *_names(list(walk.stepper.overrides)))]
    breakpoints = list(walk.breakpoints)
    if breakpoints:
        lines += [line(), line("Breakpoints:")]
        lines += [line(f"  {each.number}  {each.describe()}") for each in breakpoints]
    if not walk.is_known:
        lines += [line(), *_ways(context)]
    walk.is_known = True
    return TextDocument(lines, menu=_menu(context))


def _ways(context: Context) -> list[Line]:
    walk = need_walk(context)
    may_discard = context.discard is not None and not walk.stepper.is_open_ended
    next_node = quoted(walk.next.node) if walk.next is not None else "NODE"
    is_made = context.run_info.unit == "program"  # by the program, once
    taken_back = "the run goes on as it was without overrides" if is_made else "it never happened"
    ways = (
        ("step", "do the next node; step -t 5: the next five; step -b: undo the last one"),
        (f"cont {next_node}", "go on to a node or tensor; cont: to a breakpoint or the end"),
        ("break -f", "stop before the first op that reads a bad tensor"),
        ("override TENSOR EXPRESSION", "change a value; diff shows the effect"),
        (
            "exit",
            "the run goes on to its end"
            + (f"; exit --discard: {taken_back}" if may_discard else ""),
        ),
    )
    lines = []
    for command, text in ways:
        is_link = "TENSOR" not in command
        lines += [
            line("  ", (command, "link", command) if is_link else (command, "bold")),
            line(f"    {text}"),
        ]
    return lines


def _names(names: Sequence[str]) -> list[Span]:
    spans: list[Span] = []
    for name in names:
        spans += [Span(", ")] if spans else []
        spans.append(Span(name, "link", Link(f"pt {quoted(name)}")))
    return spans


def list_document(context: Context, lower: int, upper: int) -> Document:
    """The nodes ``lower`` to ``upper - 1``, a line each, made when somebody looks."""
    walk = need_walk(context)
    at = walk.stepper.position
    first = max(at - 40, 0)
    # What is on the screen now is how it is now, whatever is done later.
    shown = {i: node_line(walk, i) for i in range(first, min(at + 40, len(walk.stepper.steps)))}
    rows = LazyDocument(
        upper - lower,
        lambda number: shown.get(lower + number) or node_line(walk, lower + number),
    )
    return ChainDocument(
        [TextDocument([_legend(), line()]), rows],
        menu=_menu(context),
        initial_line=max(at - lower - 5, 0) if lower <= at < upper else 0,
    )


def moved_document(context: Context, halt: Halt) -> Document:
    """What a move has done: what was read, made and updated, and the nodes around the next one."""
    walk = need_walk(context)
    context.refresh()
    lines: list[Line] = []
    if halt.outcomes:
        last = halt.outcomes[-1]
        count = len(halt.outcomes)
        done = f"{count} nodes were done, the last one " if count > 1 else "Done: "
        partial = f" (iteration {walk.iterations})" if last.is_partial else ""
        lines.append(line(done, (last.step.node, "bold"), f"  {last.step.op_type}{partial}"))
        if not last.step.is_feed:
            lines += _used(walk, last)
        lines += made_lines(context, last)
    if halt.updated:
        lines.append(line("Updated:"))
        lines += [line("  ", (name, "bold")) for name in halt.updated[:_MOST]]
        lines += _more(len(halt.updated))
    lines += [line((text, "warning")) for text in walk.breakpoints.take_failures()]
    if halt.error is not None:
        failed = walk.next.node if walk.next is not None else "the program"
        described = context.describe_error(halt.error)
        said = " ".join(described.message.split()) if described is not None else ""
        lines += [
            line((f"{failed} failed: ", "error"), said or one_line(halt.error)),
            line((_mending(walk), "dim")),
        ]
    if halt.why:
        lines += [line((text, "warning")) for text in wrapped(context, halt.why)]
    lines += [line(), *_window(walk)]
    return TextDocument(lines, menu=_menu(context), title_role="error" if halt.error else "")


def _mending(walk: Walk) -> str:
    """What can be done about a step that has failed."""
    names, step = walk.stepper.mendable(), walk.next
    if not names or step is None:
        return "No override of its inputs can mend that; exit lets it fail."
    what = "one of its inputs" if any(name in step.inputs for name in names) else names[0]
    # What PyTorch asks of the value of a tensor that the program holds already.
    same = " (with a value of its shape)" if walk.stepper.is_open_ended else ""
    return f"Override {what}{same} and step again; exit lets it fail."


def _used(walk: Walk, outcome: StepOutcome) -> list[Line]:
    sources = walk.sources(outcome)
    if not sources:
        return []
    lines = [line("Stepper used feeds:")]
    for name, kind in sources[:_MOST]:
        lines.append(line("  ", (name, "link", f"pt {quoted(name)}"), f" : {kind}"))
    return lines + _more(len(sources))


def made_lines(context: Context, outcome: StepOutcome) -> list[Line]:
    """The tensors that a step has made, with dtype, shape and health."""
    dump = context.need_dump()
    health = TensorHealth(TensorFacts(dump))
    names: Sequence[str] = outcome.step.outputs
    if outcome.is_partial:
        made = need_walk(context).stepper.made(outcome)
        names = list(dict.fromkeys(datum.tensor_name for datum in made))
    lines = []
    for name in names[:_MOST]:
        found = dump.by_tensor(name)
        if not found or isinstance(dump.value(found[-1]), InconvertibleTensorProto):
            continue
        numbers = health.range(found[-1])
        spans = [Span("  "), health.name(found[-1]), Span("  "), *health.words(found[-1])]
        lines.append(line(*spans, *([Span(f"  {numbers}", "dim")] if numbers else [])))
    return [line("Made:"), *lines, *_more(len(names))] if lines else []


def wrapped(context: Context, text: str) -> list[str]:
    """A text as lines that fit on the screen; printed, it is one line."""
    return textwrap.wrap(text, columns_of(context), break_long_words=False) or [""]


def _more(count: int) -> list[Line]:
    return [line((f"  … and {count - _MOST} more", "dim"))] if count > _MOST else []
