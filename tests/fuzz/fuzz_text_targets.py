"""Targets: what people type or write into files: command lines, slices, masks, settings, code."""

from __future__ import annotations

import ast
import functools
import re
import warnings
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from dump_reading import service_over
from fuzz_kit import BrokenPromiseError, Target, confined, memory_folder, shown, shown_document
from fuzz_remote_targets import _is_harmless
from fuzz_samples import SOURCE, small_dump

from tfdbg_cli.commands.context import compile_regex
from tfdbg_cli.commands.reply import Toast
from tfdbg_cli.commands.shell.aliases import expand_alias
from tfdbg_cli.commands.shell.history import History
from tfdbg_cli.commands.shell.parsing import (
    last_command,
    quoted,
    split_command,
    split_output,
    split_words,
    tokenize,
)
from tfdbg_cli.commands.tensors.expressions import check_name, evaluate
from tfdbg_cli.commands.tensors.intervals import (
    parse_time,
    parse_time_interval,
)
from tfdbg_cli.commands.tensors.references import parse_reference, parse_template
from tfdbg_cli.common.documents import TextDocument
from tfdbg_cli.common.errors import UserError
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.source_text import decode_source, split_source
from tfdbg_cli.dumps.sources import Frame, Sources
from tfdbg_cli.front.command_line import make_parser, parse
from tfdbg_cli.front.options import check_theme
from tfdbg_cli.net.address import parse_address
from tfdbg_cli.net.tokens import _read as read_ticket
from tfdbg_cli.tensors.ranges import Ranges
from tfdbg_cli.tensors.search import needle_in, words_in, words_of
from tfdbg_cli.tensors.slicing import apply_slice, is_expression, parse_indices, split_slice
from tfdbg_cli.ui.bindings import KeyTable

__all__ = ["TARGETS"]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _is_sound(act: Any, *arguments: Any) -> Any:
    """The result; a `UserError` is an answer, too, and must be one line."""
    try:
        return act(*arguments)
    except UserError as error:
        shown(Toast(str(error)).text)
        return None


# Command lines.


class _ExitError(UserError):
    """The command line is refused in the words of its parser."""


@functools.cache
def _parser() -> Any:
    parser, takes_value = make_parser()

    def leave(status: int = 0, message: str | None = None) -> Any:
        raise _ExitError(message or "")

    parser.exit = leave
    parser.print_help = lambda file=None: None
    parser._print_message = lambda message, file=None: None
    return parser, takes_value


def _read_command_line(data: bytes) -> None:
    """The launcher's own arguments."""
    parser, takes_value = _parser()
    line = parse(parser, takes_value, _text(data).split("\n"))
    check_theme(line.options.theme)


def _read_commands(data: bytes) -> None:
    """A line at the prompt: taken apart, completed and, if it does no harm, run."""
    text = _text(data)
    service, _ = _stop()
    first, rest = split_command(text)
    assert len(first) + len(rest) <= len(text)
    assert last_command(text) in text
    for word in tokenize(text):
        assert 0 <= word.start < word.stop <= len(text)
    _is_sound(split_output, first)
    for candidate in service.complete(text, len(text)).candidates:
        shown(candidate.text, candidate.summary)
    words = tokenize(first)
    registry = service.context.registry
    if words:
        command = registry.lookup(words[0].text, "offline")
        if command is not None and not command.is_raw:
            _is_sound(command.parse, words[1:])
    if _is_harmless(text):
        reply = service.run(text)
        if reply.message is not None:
            shown(reply.message.text)
            if "Error in the debugger" in reply.message.text:
                raise BrokenPromiseError("\n".join([reply.message.text, *reply.details]))
        if reply.document is not None:
            shown_document(reply.document, 40)


def _read_links(data: bytes) -> None:
    """A name in a link comes back as it was; lines of the history and aliases expand."""
    text = _text(data)
    if not ('"' in text and "'" in text):
        for name in (text, f"{text} )", f"[{text}"):
            if '"' in name and "'" in name:
                continue
            words = split_words(f"pt {quoted(name)} -n 0")
            if words != ["pt", name, "-n", "0"]:
                raise BrokenPromiseError(f"{name!r} is read back as {words}")
            if split_command(f"pt {quoted(name)}; lt")[1] != "lt":
                raise BrokenPromiseError(f"{name!r} draws in what stands behind it")
    lines = text.split("\n")
    history = History(None)
    for line in lines:
        history.add(line)
        _is_sound(history.expand, line)
        _is_sound(history.expand, f"!{line}")
    aliases = {"a": lines[0], "b": "lt -n %1 %*"}
    for line in lines:
        if line.split(None, 1):
            _is_sound(expand_alias, aliases, line)
            _is_sound(expand_alias, aliases, f"b {line}")


_STOP: list[Any] = []


def _stop() -> Any:
    if not _STOP:
        _STOP.extend([service_over(small_dump()), memory_folder()])
    return _STOP


# Slices, masks, expressions.

_ARRAYS = [
    np.arange(24.0).reshape(2, 3, 4),
    np.array(7),
    np.array([b"a", b"b"], object),
    np.zeros((0, 2)),
]


def _read_slices(data: bytes) -> None:
    text = _text(data)
    for is_name in (None, lambda name: name in ("a:0", "a[0]:1")):
        found = _is_sound(split_slice, text, is_name)
        if found is not None:
            name, slicing = found
            assert isinstance(name, str) and (not slicing or slicing.endswith("]"))
    _is_sound(parse_indices, text)
    if is_expression(text):
        return
    for array in _ARRAYS:
        part = _is_sound(apply_slice, array, text)
        assert part is None or isinstance(part, np.ndarray)


_MASKED = [
    np.array([-1.5, 0, np.nan, np.inf], np.float32),
    np.array([1, 2, 1 << 40]),
    np.array([1, 255], np.uint8),
    np.array([1 + 2j, np.nan]),
    np.array([True, False]),
    np.array([0.5, 3], ml_dtypes.bfloat16),
    np.array([b"a"], object),
]


def _read_masks(data: bytes) -> None:
    text = _text(data)
    for read in (parse_time, parse_time_interval):
        _is_sound(read, text)
    ranges = Ranges(text)
    shown(ranges.description)
    for values in _MASKED:
        mask = _is_sound(ranges.mask, values)
        assert mask is None or (mask.dtype == bool and mask.shape == values.shape)


def _read_expressions(data: bytes) -> None:
    """Taken apart and compiled; nothing of it is executed: it becomes the body of a function."""
    text = _text(data)
    _is_sound(check_name, text)
    _is_sound(parse_reference, text)
    template = parse_template(text)
    for at in range(0, len(template.code) + 1, 7):
        assert 0 <= template.place(at) <= len(text)
    template.in_words_of_user(template.code)
    service, folder = _stop()
    wrapped = f"lambda: ({text}\n)"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(parse_template(wrapped).code, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        pass
    else:
        if not isinstance(tree.body, ast.Lambda):
            return
    with confined(folder):
        value = evaluate(service.context, wrapped)
    assert callable(value)


# Files of the user's.


@functools.cache
def _place(name: str) -> Path:
    return Path(memory_folder(), name)


def _read_settings(data: bytes) -> None:
    path = _place("config.json")
    path.write_bytes(data)
    with confined(path.parent):
        settings = Settings(path)
        for _, value in settings.items():
            str(value)
        for name, text in settings.aliases.items():
            assert isinstance(name, str) and isinstance(text, str)
        if settings.keys:
            shown_document(KeyTable(settings.keys).document())
    shown_document(TextDocument([settings.warning]))


def _read_files(data: bytes) -> None:
    """History, a token file and an address."""
    path = _place("history")
    path.write_bytes(data)
    with confined(path.parent):
        history = History(path)
        assert all(isinstance(text, str) for text in history.items)
        ticket = read_ticket(path)
    if ticket is not None:
        assert len(ticket.token) == 64
    address = parse_address(_text(data))
    assert 0 <= address.port <= 65535


def _read_sources(data: bytes) -> None:
    """A source file with its nodes at the lines, as ``ps`` and ``ls`` show it."""
    text = decode_source(data)
    if text is None:
        return
    count = len(split_source(text))
    path = f"/home/user/{text[:20]}.py" if len(data) % 3 == 0 else SOURCE
    frames = [Frame(path, min(2, count) or 1, "f", text[:30])]
    graph = Graph([Node("a", "Neg", frames=frames), Node("b", "Log", ["a:0"], frames=frames)])
    info = RunInfo(engine="numpy")
    dump = MemoryDump(graph, Sources({path: text}, live=False), info)
    service = service_over(dump)
    commands = ["ls", f"ps {quoted(path)}", f"ps {quoted(path)} -b 2", "ni -t a"]
    for command in commands:
        reply = service.run(command)
        if reply.message is not None:
            shown(reply.message.text)
            if "Error in the debugger" in reply.message.text:
                raise BrokenPromiseError("\n".join([reply.message.text, *reply.details]))
        if reply.document is not None:
            shown_document(reply.document)


_LINES = TextDocument(["nan 1.5", "a/b:0", "-inf [0.25,", "caf\u00e9", ""])
_NUMBERS = np.array([0.0, 1.5, -0.25, np.nan, np.inf, 1e-12, 12345.678, 3e20, 7])


@functools.cache
def _number_documents() -> Any:
    dump = MemoryDump(None, Sources({}, live=False), RunInfo())
    dump.add("a", 0, _NUMBERS, timestamp=1)
    dump.add("b", 0, np.array([1, -20, 300, 1 << 40]), timestamp=2)
    service = service_over(dump)
    return [service.run(f"pt {name}").document for name in "ab"]


def _read_patterns(data: bytes) -> None:
    """A search finds the same lines with what is known of the pattern as without."""
    text = _text(data)
    flags = re.IGNORECASE if len(data) % 2 else 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = compile_regex(text, "/")
        pattern = re.compile(compiled.pattern, flags)
    words_of(pattern)
    needle = needle_in(pattern)
    assert len(needle) < 40
    for word in words_in(pattern):
        for line in _LINES.lines(0, 5):
            if pattern.search(line.text):
                assert word in line.text, (word, line.text)
    for document in (_LINES, *_number_documents()):
        count = document.line_count
        wanted = [
            at for at, line in enumerate(document.lines(0, count)) if pattern.search(line.text)
        ]
        if document.matches(pattern, 0, count) != wanted:
            found = document.matches(pattern, 0, count)
            raise BrokenPromiseError(f"{pattern!r} matches {wanted}, but {found} are found")


_COMMAND_TOKENS = (
    *(b" -" + letter for letter in (b"n", b"t", b"s", b"f", b"o", b"r", b"e", b"c", b"d", b"a")),
    b" > ",
    b" >> ",
    b" | ",
    b"; ",
    b" # ",
    b"h/Log:0",
    b"words:1",
    b"[0:1, ...]",
    b'"',
    b"`",
    b"--sort",
    b"!-2",
    b"!?x",
    b"%1",
    b"-e >100us",
)

TARGETS = [
    Target(
        "command_line",
        _read_command_line,
        lambda: [
            b"script.py\n--lr\n0.1",
            b"-c\nlt\n--batch\n-m\npackage.module\narg",
            b"--ui\nline\n--dump-dir\n/x",
            b"--listen\n0\n--no-wait\n--rank=1\nscript.py",
            b"--dump-limit\n4G\n--keep-dumps\nx.py",
            b"attach\n127.0.0.1:7",
        ],
        tuple(name.encode() for name in _parser()[1]),
        longest=600,
    ),
    Target(
        "commands",
        _read_commands,
        lambda: [
            b"lt -n 'h.*' -s size -r",
            b"pt h/Log:0[0, :]; ri",
            b"ni -a -d -t h/Log # why",
            b"lt > /tmp/x.txt",
            b"li -r -c h/Log | grep x",
            b"pt words:0 -r '[[-inf,1],[2,3]]'",
            b"ps /home/user/train.py -b 2",
            b"lt -o time,size -f has_inf_or_nan --json",
            b"help lt",
            b"lo -r x -d 3",
        ],
        _COMMAND_TOKENS,
        longest=1000,
        few=250,
    ),
    Target(
        "links",
        _read_links,
        lambda: [b"h/Log:0", b"a b", b"it's", b"[0", b"a;b\n!!\nlt", b"-x", b"!-1\n!?lt", b"a\\"],
        _COMMAND_TOKENS,
        longest=6000,
        few=800,
    ),
    Target(
        "slices",
        _read_slices,
        lambda: [
            b"a:0[0, 1:2, ...]",
            b"[0:1, ..., -1]",
            b"[[0, 1], newaxis]",
            b"a[0]:1[::-1]",
            b"'a b'[:, None]",
            b"[[[0]]]",
            b"[1, 2]",
        ],
        (b"[", b"]", b":", b"...", b"newaxis", b"None", b",", b"-1", b"`", b"9" * 40),
        longest=6000,
    ),
    Target(
        "masks",
        _read_masks,
        lambda: [b"0,1e-8", b"[-0.1,0.1]", b"[[-inf,-0.1],[0.1,inf]]", b">10k", b"[1us,inf)"],
        (b"[", b"]", b"(", b",", b"inf", b"nan", b"1e400", b"-", b"9" * 60, b"ms", b"GB", b"<="),
        longest=6000,
    ),
    Target(
        "expressions",
        _read_expressions,
        lambda: [
            b"`h/Log:0` + 1",
            b"np.abs(`words:3[0]`) > 2",
            b"[x for x in `a:0`]",
            b"'`' + \"a\\\"\" + '''b`'''",
            b"f'{1}' if a else b",
            b"/device:CPU:0:a:0:DebugIdentity[-1]",
        ],
        (
            b"`",
            b"`x:0`",
            b"'''",
            b"lambda: ",
            b"(" * 99,
            b"-" * 300,
            b":=",
            b"\\",
            b"#",
            b"0x",
            b"\n",
        ),
        longest=6000,
        few=500,
    ),
    Target(
        "settings",
        _read_settings,
        lambda: [
            b'{"theme": "dark", "max_elements": 10, "mouse_mode": false, "overhead": 2}',
            b'{"aliases": {"a": "lt"}, "keys": {"ctrl t": "search_next", "page: x": "page_down"}}',
            b'{"keys": {"f5": "command: lt -f x", "C-x C-e": "nothing"}, "threads": "a.*"}',
        ],
        (b'"aliases":', b'"keys":', b"ctrl ", b"page: ", b"command:", b'"', b"{}", b"[]", b"null"),
        longest=6000,
        few=400,
    ),
    Target(
        "files",
        _read_files,
        lambda: [
            b"a" * 64 + b"\n127.0.0.1:7\n12 x.py\n",
            b"lt\npt x\n",
            b"127.0.0.1:80",
            b"unix:/tmp/x",
            b"[::1]:7",
            b"*:7",
        ],
        (b"unix:", b":", b"[", b"]", b"65536"),
        longest=6000,
    ),
    Target(
        "sources",
        _read_sources,
        lambda: [
            b"# -*- coding: latin-1 -*-\nx = 1\n\xe9 = 2\n",
            b"\xef\xbb\xbfx = 1\ny = 2\r\nz\rw\x0c\n",
            b"# coding: utf-16\nx\n",
            b"x\n\ty\n\n\n" * 3,
        ],
        (b"# coding: ", b"idna", b"utf-7", b"rot13", b"\t", b"\r", b"\x0c", b"\x1b[31m"),
        few=60,
    ),
    Target(
        "patterns",
        _read_patterns,
        lambda: [b"nan", b"-?inf", b"1\\.5", b"0.*25", b"a/b", b"(?i)NAN", b"(nan|inf)", b"3[0-9]"],
        (
            b".",
            b"\\.",
            b"[",
            b"]",
            b"(",
            b")",
            b"|",
            b"?",
            b"^",
            b"$",
            b"e-",
            b"\\d",
            b"inf",
            b"1e+20",
        ),
        longest=40,
        few=500,
    ),
]
