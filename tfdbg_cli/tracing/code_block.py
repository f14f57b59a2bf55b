"""A captured block: its compiled statements and the variables that they run with."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from types import CodeType, FrameType, ModuleType
from typing import Any

from tfdbg_cli.tracing.block import Block, blocks_of, not_found, refusal, refuse
from tfdbg_cli.tracing.block_split import SplitStatement, strands
from tfdbg_cli.tracing.scope import Scope, scope_of
from tfdbg_cli.tracing.statements import compile_statements, is_part_of, variables_used

__all__ = ["CodeBlock", "capture"]

# The constant that stands for the tracer in code that binds it.
_TRACER = "tfdbg_cli: the tracer of this block"
# Blocks whose compiled code is kept; a program rarely has more.
_MOST_SITES = 256


@dataclass(frozen=True)
class _Site:
    """A place in the program where a block is entered.

    Attributes:
        block: its source.
        binding: binds the tracer to what comes after ``as``; ``None``: nothing does.
        body: the whole body.
        used: the variables of the function around it that it uses.
        pieces: its statements one by one, as far as somebody has asked for them.
    """

    block: Block
    binding: CodeType | None
    body: CodeType
    used: frozenset[str]
    pieces: dict[int, CodeType]


_sites: dict[tuple[CodeType, int], _Site] = {}


class CodeBlock:
    """The block that a frame was entering, to be run as often as one likes.

    Args:
        site: what to run.
        frame: whose variables it has.
    """

    def __init__(self, site: _Site, frame: FrameType) -> None:
        self._site = site
        self._code = frame.f_code
        self.scope: Scope = scope_of(frame, site.used)

    @property
    def asked(self) -> frozenset[str] | None:
        """The tensors that it asks for; ``None``: that can't be told."""
        return self._site.block.asked

    def bind(self, tracer: Any) -> None:
        """Bind a tracer to what comes after ``as``."""
        if self._site.binding is not None:
            self.scope.run(_with_tracer(self._site.binding, tracer))

    def run(self) -> None:
        """Run the whole body."""
        self.scope.run(self._site.body)

    def strands(self) -> list[SplitStatement]:
        """The statements, and which of them only watch the run.

        Raises:
            TraceBlockError: one of the run sets what an earlier one that watches uses.
        """
        block, code = self._site.block, self._code
        receiver = code.co_varnames[:1] if code.co_argcount else ()
        holders = {*receiver, *(name.split(".")[0] for name in block.names if "." in name)}

        def is_module(name: str) -> bool:
            return isinstance(self.scope.get(name), ModuleType)

        found = strands(block.statements, block.names, is_module, holders)
        for strand in found:
            if strand.unsettled:
                name = strand.unsettled
                message = (
                    f"`{name}` is set here, in a part of the run, and was used above by a "
                    "statement that watches the run and may wait for this one."
                )
                hint = "Use another name, or set it before the block."
                raise refusal(strand.statement, message, hint, block, code.co_filename)
        return found

    def run_statement(self, index: int) -> None:
        """Run one of the statements."""
        site = self._site
        piece = site.pieces.get(index)
        if piece is None:
            statement = site.block.statements[index]
            piece = site.pieces[index] = _compiled([statement], site.block, self._code)
        self.scope.run(piece)


def capture(frame: FrameType) -> CodeBlock:
    """The block that a frame is entering.

    Args:
        frame: suspended in a call of ``__enter__``.

    Raises:
        WithBlockNotFoundError: its source isn't known.
        TraceBlockError: a statement would leave the block.
    """
    key = (frame.f_code, frame.f_lasti)
    site = _sites.get(key)
    if site is None:
        site = _site(frame)
        if len(_sites) >= _MOST_SITES:
            _sites.clear()
        _sites[key] = site
    return CodeBlock(site, frame)


def _site(frame: FrameType) -> _Site:
    code = frame.f_code
    found: Block | None = None
    for found in blocks_of(frame):
        refuse(found, frame)
        body = _compiled(found.statements, found, code)
        if is_part_of(body, code):
            return _Site(found, _binding(found, code), body, variables_used(body), {})
    raise not_found(frame, found)


def _binding(block: Block, code: CodeType) -> CodeType | None:
    if block.target is None:
        return None
    value = ast.copy_location(ast.Constant(_TRACER), block.target)
    statement = ast.copy_location(ast.Assign([block.target], value), block.target)
    return _compiled([statement], block, code)


def _compiled(statements: Sequence[ast.stmt], block: Block, code: CodeType) -> CodeType:
    return compile_statements(statements, code, block.owner, block.declared)


def _with_tracer(code: CodeType, tracer: Any) -> CodeType:
    """Code that binds a tracer, made of code that binds `_TRACER`."""
    constants = tuple(
        tracer if type(item) is str and item == _TRACER else item for item in code.co_consts
    )
    return code.replace(co_consts=constants)
