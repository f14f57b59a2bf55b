"""How long screens take: the first ones as tensors and lists grow, and the full screen's keys."""

import io
import itertools
import os
import random
import re
import statistics
import time

import numpy as np
from urwid.display import raw

from benchmarks.harness import Row, Table, growth, main
from tfdbg_cli.commands.builtin import make_registry
from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.service import CommandService
from tfdbg_cli.commands.shell.history import History
from tfdbg_cli.commands.table import LazyTable, ListCommand
from tfdbg_cli.common.documents import ROLES, LazyDocument, Line, Link, Span
from tfdbg_cli.common.interpreter.garbage import collector_paused
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.filters.registry import FilterRegistry
from tfdbg_cli.ui.base import CommandQueue
from tfdbg_cli.ui.screen.app import App
from tfdbg_cli.ui.screen.input.controls import Controls
from tfdbg_cli.ui.screen.input.palette import Palette, PaletteEntry
from tfdbg_cli.ui.screen.jobs import find_steps, matching_steps
from tfdbg_cli.ui.screen.paint.frame import ScreenFrame
from tfdbg_cli.ui.screen.stack import ViewStack
from tfdbg_cli.ui.themes import THEMES

SIZE = (200, 60)
LINES = 10_000_000
COUNTS = (1_000, 10_000, 100_000)


def service(dump):
    context = Context("run-end", make_registry(), FilterRegistry(), Settings(), dump=dump)
    return CommandService(
        context, title="", title_role="end", initial_command="lt", history=History()
    )


def first_screen(dump, command, jump=False):
    start = time.perf_counter()
    document = service(dump).run(command, 160).document
    at = document.line_count - 60 if jump else 0
    document.lines(at, at + 60)
    return 1e3 * (time.perf_counter() - start)


def graph_dump(count):
    """A chain with a second input a node, and a small tensor of each."""
    names = [f"model/layer_{i // 1000}/block_{i // 20 % 50}/op_{i}" for i in range(count)]
    before = [[f"{names[i - 1]}:0", f"{names[max(i - 7, 0)]}:0"] if i else [] for i in range(count)]
    nodes = [Node(name, "MatMul", inputs) for name, inputs in zip(names, before, strict=True)]
    dump = MemoryDump(Graph(nodes))
    value = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    for number, name in enumerate(names):
        dump.add(name, 0, value, timestamp=1_700_000_000_000_000 + 7 * number)
    return dump, names


class Terminal(raw.Screen):
    """urwid's screen over a terminal that takes everything and shows nothing."""

    def __init__(self):
        self.null = open(os.devnull)  # noqa: SIM115
        out = io.StringIO()
        out.fileno = self.null.fileno
        super().__init__(self.null, out)
        self.set_terminal_properties(colors=256)
        self.register_palette(THEMES["dark"].urwid_palette())
        self._started = True


def rows_of(name, do, times=50, size=""):
    """The median time of something that a person waits for, and the longest of all.

    What other processes take of the time is left out: no more counts than this one has computed.
    """
    took = []
    for _ in range(times):
        start, computed = time.perf_counter(), time.process_time()
        do()
        computed, ended = time.process_time() - computed, time.perf_counter()
        took.append(1e3 * min(ended - start, computed))
    goal = 5.0 if name.startswith("redraw") else None
    longest = max(took)
    return [
        Row(name, statistics.median(took), size),
        Row(f"{name}, the longest of {times}", longest, size, ratio=longest, goal=goal),
    ]


class Player:
    """An App, drawn as urwid's loop of it would."""

    def __init__(self, dump=None):
        self.app = App(service(dump or MemoryDump()), CommandQueue(), ViewStack(), True, SIZE)
        self.frame = ScreenFrame(self.app.state, Controls(self.app))
        self.terminal = Terminal()

    def draw(self):
        """What has changed."""
        with collector_paused():
            self.terminal.draw_screen(SIZE, self.frame.render(SIZE, focus=True))
        self.terminal._term_output_file.seek(0)
        self.terminal._term_output_file.truncate()

    def redraw(self):
        """The whole screen."""
        self.terminal.clear()
        self.draw()


def colored(number):
    """A line of ten runs of different roles."""
    return Line([Span(f"{number + i:>18d} ", ROLES[i + 1]) for i in range(10)])


def full_screen():
    """A Document of ten million lines at 200x60."""
    player = Player()
    frame, draw, redraw = player.frame, player.draw, player.redraw
    player.app.push(LazyDocument(LINES, colored), "big")
    view = player.app.state.view
    numbers = itertools.count()

    def jump():
        view.go_to(next(numbers) * 7_919_993 % LINES)
        draw()

    rows = [*rows_of("redraw", redraw), *rows_of("jump", jump)]
    view.pattern = re.compile("77")
    rows += rows_of("jump, matches marked", jump)
    frame._controls.do("open_palette")
    rows += rows_of("redraw, with the list of commands", redraw)
    for what, steps in (
        ("a slice of a search", find_steps(view.document, re.compile("x"), 0, 1)),
        ("a slice of a filter", matching_steps(view.document, re.compile("123"))),
    ):
        rows += rows_of(what, lambda steps=steps: next(steps), 40)
    return rows


def with_a_pane():
    """A list of ten million rows at 200x60, and beside it a pane of as many lines."""
    player = Player()
    player.app.state.service.settings.override("pane", "value")

    def cells(number):
        name = Span(f"scope_{number % 97}/op_{number}:0", "link", Link(f"pt op_{number}:0"))
        return {"t": [Span(f"[{number}]", "dim")], "name": [name], "health": [Span("1 nan", "nan")]}

    columns = {"t": ("t", 12), "name": ("Tensor", 30), "health": ("Health", 9)}
    player.app.push(LazyTable(LINES, ListCommand("big"), columns, cells), "big")
    view, pane = player.app.state.view, player.app.state.pane
    numbers = itertools.count()

    def go_to(number):
        view.table.put(number * 7_919_993 % LINES + 1)
        player.draw()

    def step():
        view.table.move(1)
        player.draw()

    def jump():
        go_to(next(numbers) % 8)

    for number in range(8):  # what the pane shows of these is known
        go_to(number)
        pane.keep(pane.wanted, LazyDocument(LINES, colored))
        player.draw()
    return [
        *rows_of("redraw, with a pane", player.redraw),
        *rows_of("a jump of the cursor, and the pane follows", jump),
        *rows_of("the row below, before the pane follows", step),
    ]


def command_screens(counts):
    """The screens of commands as dumps grow: the first one, then by keys; the longest counts."""
    rows = []
    for count in counts:
        dump, names = graph_dump(count)
        for name, text in (
            ("lt", "lt"),
            ("li -r", f"li -r {names[-1]}"),
            ("li -r, all", f"li -r -d {count} {names[-1]}"),
            ("lo -r -t, all", f"lo -r -t -d {count} {names[0]}"),
        ):
            player, size = Player(dump), f"{count:,}"
            player.redraw()
            start = time.perf_counter()
            player.app.execute(text)
            ran = time.perf_counter()
            player.draw()
            rows.append(Row(f"{name}: the command", 1e3 * (ran - start), size))
            rows.append(Row(f"{name}: first drawn", 1e3 * (time.perf_counter() - ran), size))
            view, places = player.app.state.view, random.Random(0)
            lines = view.document.line_count

            def jump(player=player, view=view, places=places, lines=lines):
                view.go_to(places.randrange(lines))
                player.draw()

            def down(player=player, view=view):
                view.scroll(1)
                player.draw()

            rows += rows_of(f"redraw of {name}", player.redraw, 100, size)
            if lines > 2 * SIZE[1]:
                rows += rows_of(f"{name}: a jump", jump, 100, size)[1:]
                rows += rows_of(f"{name}: a line down", down, 100, size)[1:]
    table = Table("Screens of commands as dumps grow", rows, ratio="milliseconds, at most")
    names = [row.name for row in rows if row.name.startswith("redraw") and row.ratio is None]
    grown = [row for row in rows if row.name in names]
    table.note = f"At {SIZE[0]}x{SIZE[1]}, of so many nodes with a tensor each. {growth(grown)}"
    return table


def palette(count=10_000):
    """A list of many commands, letter by letter."""
    entries = [
        PaletteEntry(
            "history", f"pt scope_{i % 97}/hidden_{i}/weights:{i % 3} -s", "typed", str(i), ""
        )
        for i in range(count)
    ]
    letters = iter("scohid77w:")
    start = time.perf_counter()
    made = Palette(entries)
    opened = 1e3 * (time.perf_counter() - start)

    def type_one():
        made.line.insert(next(letters))
        made.touch()

    size = f"{count:,} commands"
    return [Row("a list of commands opens", opened, size), *rows_of("a letter", type_one, 10, size)]


def maps():
    """A map of a hundred million elements until it is there and until it is exact; its keys."""
    size = 10_000
    values = np.empty((size, size), np.float32)
    random = np.random.default_rng(0)
    for row in values:
        random.standard_normal(size, np.float32, row)
    values[size // 2, size // 3] = np.nan
    dump = MemoryDump()
    dump.add("big", 0, values)
    dump.add("waves", 0, np.outer(np.sin(np.arange(999) / 99), np.cos(np.arange(999) / 99)))
    text = f"{size * size:,} elements"
    first, exact = [], []
    for _ in range(5):
        start = time.perf_counter()
        document = service(dump).run("pt big:0 --map", SIZE[0] - 1).document.paged(SIZE[1] - 5)
        document.lines(0, SIZE[1])
        first.append(1e3 * (time.perf_counter() - start))
        start = time.perf_counter()
        while document.pending:
            time.sleep(0.001)
        exact.append(1e3 * (time.perf_counter() - start))
    start = time.perf_counter()
    with np.errstate(all="ignore"):
        np.isfinite(values).all()
        values.mean()
    floor = 1e3 * (time.perf_counter() - start)
    took = statistics.median(first)
    rows = [
        Row("pt --map, the first picture", took, text, ratio=took, goal=100.0),
        Row("pt --map, exact after", statistics.median(exact), text, floor=floor),
    ]
    for name in ("waves", "big"):
        player = Player(dump)
        player.terminal.set_terminal_properties(colors=1 << 24)
        player.app.state.colors = 1 << 24
        player.app.execute(f"pt {name}:0 --map")
        view = player.app.state.view
        player.draw()
        while view.document.pending:
            time.sleep(0.001)
        player.draw()
        what = "of noise" if name == "big" else "of waves"
        rows += rows_of(f"all of a map {what}, as on Ctrl-L", player.redraw)
        view.cursor.begin()

        def move(player=player, view=view):
            view.cursor.move(0, 1)
            player.draw()

        rows += rows_of(f"redraw of a map {what}, the cursor moves", move)
    return rows


def search():
    """CPU milliseconds of searches to the end, as on the full screen, and of writing it all."""
    dump = MemoryDump()
    dump.add("big", 0, np.random.default_rng(0).standard_normal((1000, 1000)).astype(np.float32))
    for number in range(100_000):
        dump.add(f"op_{number}", 0, np.zeros((4, 4), np.float32), timestamp=number)
    rows = []
    for command, regex in (
        ("pt -a big:0", "absent"),
        ("pt -a big:0", "987656789"),
        ("pt -a big:0", r"0\.125"),
        ("lt", "op_20000"),
        ("lt", "op_absent"),
    ):
        document = service(dump).run(command, 79).document
        for sign, steps in (
            ("/", find_steps(document, re.compile(regex), 0, 1)),
            ("&", matching_steps(document, re.compile(regex))),
        ):
            start = time.process_time()
            for _ in steps:
                pass
            rows.append(Row(f"{command} {sign}{regex}", 1e3 * (time.process_time() - start)))
    start = time.process_time()
    sum(len(made.text) for made in service(dump).run("pt -a big:0", 79).document)
    rows.append(Row("pt -a big:0, all of it written", 1e3 * (time.process_time() - start)))
    return rows


def first_screens():
    """As tensors and lists grow."""
    rows = []
    for size in (10**4, 10**6, 10**8):
        dump = MemoryDump()
        dump.add("big", 0, np.broadcast_to(np.float32(1.5), (size // 1000, 1000)))
        text = f"{size:,} elements"
        rows.append(Row("pt -a, the top", first_screen(dump, "pt -a big:0"), text))
        end = first_screen(dump, "pt -a big:0", jump=True)
        rows.append(Row("pt -a, the last screen", end, text))
    for count in (10**3, 10**4, 10**5):
        dump = MemoryDump()
        value = np.zeros(3, np.float32)
        for number in range(count):
            dump.add(f"scope/node_{number}", 0, value, timestamp=number)
        rows.append(Row("lt, the top", first_screen(dump, "lt"), f"{count:,} tensors"))
    return rows


def tables(quick):
    """What a person waits for."""
    longest = "milliseconds, at most"
    return [
        Table("First screens", first_screens()),
        Table(f"{LINES:,} lines of 10 runs at 200x60", full_screen(), ratio=longest),
        Table(f"{LINES:,} rows and a pane at 200x60", with_a_pane(), ratio=longest),
        Table("The list of commands", palette(), ratio=longest),
        Table(f"Maps at {SIZE[0]}x{SIZE[1]}", maps(), ratio=longest),
        command_screens(COUNTS[:2] if quick else COUNTS),
        *([] if quick else [Table("Searches to the end (CPU)", search())]),
    ]


if __name__ == "__main__":
    main(tables)
