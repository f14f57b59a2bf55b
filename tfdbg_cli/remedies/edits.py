"""The program's line with a remedy in it."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

from tfdbg_cli.common.files import near_path
from tfdbg_cli.dumps.sources import Frame
from tfdbg_cli.filters.causes.rules import BINARY, BY_ELEMENT

__all__ = ["Edit", "edited", "merged", "number_text"]

# Op -> the operator of Python's that computes it.
_OPERATORS = {"div": ast.Div, "pow": ast.Pow, "mod": ast.Mod, "mul": ast.Mult, "sub": ast.Sub}
# What needs no parentheses where a method of it is called.
_SIMPLE = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)


class Edit(NamedTuple):
    """A change of one place in a source file.

    Attributes:
        after: the expression, with the change.
        lines: of the whole file, without it.
        changed: the line of it that is another one, from 0, and its text.
    """

    after: str
    lines: Sequence[str]
    changed: tuple[int, str]

    def diff(self, file: str) -> list[str]:
        """The change as a unified diff.

        Args:
            file: its path.
        """
        place, text = self.changed
        whole = [*self.lines]
        whole[place] = text
        name = near_path(file).lstrip("/")
        return list(difflib.unified_diff(self.lines, whole, f"a/{name}", f"b/{name}", lineterm=""))


def number_text(number: float) -> str:
    """A number as a program has it: ``1e-12``, ``0.999999``."""
    text = f"{number:g}" if float(f"{number:g}") == number else f"{number:.12g}"
    return text.replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def edited(
    lines: Sequence[str],
    frames: Sequence[Frame],
    names: Sequence[str],
    argument: int,
    spelling: str,
    numbers: Sequence[float],
) -> Edit | None:
    """Write one argument of a call otherwise, or of several calls on one line.

    Args:
        lines: of the file.
        frames: where each op was called.
        names: what the function may be called: the op type, and what the op computes.
        argument: which argument; of ``x.log()`` the first is ``x``.
        spelling: what takes its place, with ``{x}`` for the argument and ``{0}`` … for numbers.
        numbers: those.

    Returns:
        ``None``: the line has no such call, or others that aren't told apart, or a number there, or
        isn't Python; or the file doesn't import what is called instead.
    """
    try:
        tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError):
        return None
    found = []
    modules = _modules(tree)
    root, dot, _ = spelling.partition(".")
    if dot and root.isidentifier() and root not in modules:
        return None  # a program of Keras need not know the framework by its name
    calls = [
        each
        for each in _calls(tree, frames[0].line, names, modules)
        if any(_may_be_at(each[0], frame) for frame in frames)
    ]
    if len(calls) != len(frames):  # else it is all of them, in whatever order
        calls = [each for each in calls if any(_is_at(each[0], frame) for frame in frames)]
    if len(calls) != len(frames) or len({frame.line for frame in frames}) > 1:
        return None
    for call, arguments in calls:
        place = arguments[argument] if argument < len(arguments) else None
        if place is None or place.lineno != place.end_lineno or isinstance(place, ast.Constant):
            return None
        if spelling.count("{x}") > 1 and not isinstance(place, ast.Name):
            return None  # it would be computed twice
        found.append((call, place))
    rows = {place.lineno - 1 for _, place in found}
    if len(rows) != 1 or len({place.col_offset for _, place in found}) < len(found):
        return None
    [row] = rows
    text = line = lines[row].encode()
    calls_after = []
    for call, place in sorted(found, key=lambda each: each[1].col_offset, reverse=True):
        text = _written(text, call, place, spelling, numbers)
        alone = _written(line, call, place, spelling, numbers)
        end = len(alone) - len(line) + (call.end_col_offset or 0)
        is_whole = call.lineno == call.end_lineno
        calls_after.append(alone[call.col_offset : end] if is_whole else alone.strip())
    after = b", ".join(reversed(calls_after))
    return Edit(after.decode(), lines, (row, text.decode()))


def merged(
    lines: Sequence[str],
    frame: Frame,
    names: Sequence[str],
    inner: Sequence[str],
    count: int,
    spelling: str,
) -> Edit | None:
    """Write one call in place of a call and those of which its argument is made.

    Args:
        lines: of the file.
        frame: where the outer op was called.
        names: what its function may be called.
        inner: what the functions of the inner ones may be called.
        count: of the inner ones. Of several the first argument of each is kept, of one all.
        spelling: what takes their place, with ``{args}`` for these arguments.

    Returns:
        ``None``: the line has no such calls, or others that aren't told apart, or the file doesn't
        import what is called instead.
    """
    text = "\n".join(lines)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    modules = _modules(tree)
    found_here = (call for call, _ in _calls(tree, frame.line, names, modules))
    calls = [each for each in found_here if _may_be_at(each, frame)]
    calls = calls if len(calls) == 1 else [each for each in calls if _is_at(each, frame)]
    if spelling.partition(".")[0] not in modules or len(calls) != 1:
        return None
    [call] = calls
    found = [
        (each, arguments)
        for each, arguments in _calls(call, frame.line, inner, modules)
        if each is not call
    ]
    if len(found) != count or call.lineno != call.end_lineno:
        return None
    found.sort(key=lambda each: each[0].col_offset)
    parts: list[ast.expr | ast.keyword] = [arguments[0] for _, arguments in found]
    if count == 1:
        parts = [*found[0][1], *getattr(found[0][0], "keywords", ())]
    args = ", ".join(ast.get_source_segment(text, each) or "" for each in parts)
    row = call.lineno - 1
    line, after = lines[row].encode(), spelling.format(args=args)
    new = line[: call.col_offset] + after.encode() + line[call.end_col_offset :]
    return Edit(after, lines, (row, new.decode()))


def _may_be_at(call: ast.expr, frame: Frame) -> bool:
    """Whether nothing shows that a frame was in another call of the line.

    The division of ``x.std() / y`` isn't the one inside of ``std``, which has the frame of that.
    """
    is_known = frame.columns is not None and call.lineno == call.end_lineno
    return not is_known or _is_at(call, frame)


def _is_at(call: ast.expr, frame: Frame) -> bool:
    """Whether a call is the one that a frame was in."""
    return call.lineno == frame.line and frame.columns == (call.col_offset, call.end_col_offset)


def _written(
    text: bytes,
    call: ast.Call | ast.BinOp,
    place: ast.expr,
    spelling: str,
    numbers: Sequence[float],
) -> bytes:
    """A line with an argument of a call written otherwise."""
    old = text[place.col_offset : place.end_col_offset].decode()
    is_whole = isinstance(place, _SIMPLE) or not spelling.startswith("{x}")
    x = old if is_whole else f"({old})"
    new = spelling.format(*map(number_text, numbers), x=x)
    # ``a / b + c`` would be another division, ``a + b.log()`` the logarithm of ``b``.
    is_operand = isinstance(call, ast.BinOp) or place is getattr(call.func, "value", None)
    around = text[: place.col_offset].decode()[-1:] + text[place.end_col_offset :].decode()[:1]
    if is_operand and {"+", "-"} & {*spelling.split()} and around != "()":
        new = f"({new})"
    return text[: place.col_offset] + new.encode() + text[place.end_col_offset :]


def _calls(
    tree: ast.AST, line: int, names: Sequence[str], modules: Container[str]
) -> Iterator[tuple[ast.Call | ast.BinOp, list[ast.expr]]]:
    """The calls on a line that are of a function, each with its arguments."""
    operators = tuple(_OPERATORS[each] for each in names if each in _OPERATORS)
    takes_one = not BY_ELEMENT.isdisjoint(names) and BINARY.isdisjoint(names)
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr) or not node.lineno <= line <= (node.end_lineno or 0):
            continue
        if isinstance(node, ast.BinOp) and isinstance(node.op, operators):
            yield node, [node.left, node.right]
        elif isinstance(node, ast.Call):
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else ""
            name = function.id if isinstance(function, ast.Name) else name
            if name not in names:
                continue
            if not isinstance(function, ast.Attribute) or _root(function) in modules:
                yield node, node.args
            elif not (node.args and takes_one):  # a method of the tensor
                yield node, [function.value, *node.args]


def _modules(tree: ast.AST) -> set[str]:
    """The names of a file that are imported, or given to what is: ``tf = tensorflow.compat.v1``."""
    names: set[str] = set()
    given: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {(each.asname or each.name).partition(".")[0] for each in node.names}
        elif isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name):
            given[target.id] = _root(node.value)
    while found := {name for name, root in given.items() if root in names} - names:
        names |= found
    return names


def _root(node: ast.expr) -> str:
    """The name that attributes are looked up from: ``torch`` of ``torch.special.log1p``."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
