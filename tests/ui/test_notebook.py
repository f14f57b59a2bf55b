"""The magics in IPython's own shell and in a real Jupyter kernel, and the HTML of Documents."""

from __future__ import annotations

import atexit
import base64
import os
import re
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("ipykernel")

from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from jupyter_client.manager import KernelManager
from traitlets.config import Config

from tfdbg_cli.commands.table import aligned
from tfdbg_cli.common.documents import ROLES, Line, Link, Span, line
from tfdbg_cli.ui.notebook.html import to_html

ROOT = Path(__file__).parents[2]
GRAPH = """
from tfdbg_cli.engines import numpy as tf
tf.reset_default_graph()
x = tf.placeholder(tf.float32, [2], name="x")
y = tf.log(x, name="y")
with tf.name_scope("out"):
    z = tf.check_numerics(y, "not finite", name="z")
session = tf.Session()
"""


# IPython's own shell


class Shell:
    """Runs cells in a shell without a terminal."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.out = self.err = ""
        self.ok = False

    def run(self, cell: str) -> str:
        """What a cell printed."""
        with capture_output(display=False) as captured:
            self.ok = self.shell.run_cell(cell).success
        self.out, self.err = captured.stdout, captured.stderr
        return self.out

    def complete(self, text: str) -> list[tuple[int, str]]:
        with provisionalcompleter():
            found = self.shell.Completer.completions(text, len(text))
            return [(candidate.start, candidate.text) for candidate in found]


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = "nocolor"
    InteractiveShell.clear_instance()
    hook, excepthook = sys.displayhook, sys.excepthook
    made = Shell(InteractiveShell.instance(config=config))
    made.run("%load_ext tfdbg_cli")
    assert made.ok
    made.run(GRAPH)
    assert made.ok
    yield made
    made.run("%unload_ext tfdbg_cli")
    atexit.unregister(made.shell.atexit_operations)
    made.shell.atexit_operations()
    InteractiveShell.clear_instance()
    sys.displayhook, sys.excepthook = hook, excepthook


def test_cells_run_on_until_a_run_is_asked_for(shell: Shell) -> None:
    assert "run-" not in shell.run("print(session.run(y, {x: [0, 1]}))")
    assert shell.out == "[-inf   0.]\n"
    assert "It needs a run's tensors" in (shell.run("%tfdbg lt"), shell.err)[1]
    assert "The next run is debugged." in shell.run("%tfdbg run")
    out = shell.run("session.run(y, {x: [0, 1]}); session.run(y, {x: [1, 1]})")
    assert out.count("--- run-end: run #2: 1 fetch (y:0); 1 feed (x:0) ---") == 1
    assert "1 -inf   y:0" in out
    assert "run #3" not in out
    # Its tensors stay for the cells that follow.
    assert "array([-inf,   0.], dtype=float32)" in shell.run("%tfdbg pt y:0")
    assert 'Text:     y = tf.log(x, name="y")' in shell.run("%tfdbg ni -t y")


def test_a_filter_waits_over_cells_and_brings_its_commands(shell: Shell) -> None:
    out = shell.run("%tfdbg run -f has_inf_or_nan; pt y:0; bogus")
    assert "Each run is debugged until a tensor passes has_inf_or_nan." in out
    assert "run-" not in shell.run("session.run(y, {x: [1, 1]})")
    out = shell.run("for step in range(4): _ = session.run(y, {x: [2 - step, 1]})")
    assert out.count("run-end: run #4") == 1
    assert "1 dumped tensor(s) passing filter" in out
    assert "array([-inf,   0.], dtype=float32)" in out
    assert 'no command "bogus"' in shell.err
    assert "Runs go by undebugged" in shell.run("%tfdbg")


def test_how_it_stands_off_and_on(shell: Shell) -> None:
    assert re.search(r"tfdbg is on \(.*numpy", shell.run("%tfdbg"))
    shell.run("%tfdbg run")
    assert "The next run is debugged." in shell.run("%tfdbg")
    shell.run("%tfdbg off")
    assert "run-" not in shell.run("session.run(y, {x: [0, 1]})")
    assert "tfdbg is off" in shell.run("%tfdbg")
    shell.run("%tfdbg on")
    assert "Runs go by undebugged" in shell.run("%tfdbg")
    shell.run("%tfdbg exit")
    assert "tfdbg is off" in shell.run("%tfdbg")
    shell.run("%tfdbg run")  # whoever asks for a run wants it debugged
    assert "run-end" in shell.run("session.run(y, {x: [0, 1]})")


def test_a_session_that_is_traced_stays_debugged(shell: Shell) -> None:
    shell.run(
        "import tfdbg_cli\nwith tfdbg_cli.trace(session).every() as t:\n    t['y'].value += 5"
    )
    assert shell.ok
    shell.run("%tfdbg run")
    assert "run-end: run #1" in shell.run("made = session.run(y, {x: [1, 1]})")
    assert shell.run("print(made.tolist())") == "[5.0, 5.0]\n"
    shell.run("t.remove()")


def test_loading_it_again_begins_anew(shell: Shell) -> None:
    shell.run("%tfdbg off")
    assert re.search(r"tfdbg is on \(.*numpy", shell.run("%reload_ext tfdbg_cli\n%tfdbg"))
    assert "run-end: run #1" in shell.run("%tfdbg run\n_ = session.run(y, {x: [0, 1]})")


def test_a_cell_under_the_debugger(shell: Shell) -> None:
    out = shell.run("%%tfdbg -b run; lt -n y\nv = session.run(y, {x: [0, 1]})\nprint('done', v[1])")
    assert shell.ok
    assert "--- lt -n y ---\n1 dumped tensor(s)" in out
    assert "x:0" not in out.partition("--- lt -n y ---")[2]
    assert out.rstrip().endswith("done 0.0")
    assert "y:0" in shell.run("%tfdbg lt")
    assert "run-" not in shell.run("session.run(y, {x: [0, 1]})")


def test_commands_that_no_stop_took_are_named(shell: Shell) -> None:
    assert "1 command(s) were not run: lt" in shell.run("%%tfdbg -b lt\npass")


def test_errors_of_a_cell_are_shown_once_and_without_our_frames(shell: Shell) -> None:
    shell.run("%%tfdbg -b run\nsession.run(y, {x: [1, 1]})\nwrong")
    assert not shell.ok
    assert shell.out.count("NameError") == 2  # IPython's head and its last line
    assert "tfdbg_cli" not in shell.out
    assert "run_cell" not in shell.out
    shell.run("%%tfdbg -b run\nsession.run(z, {x: [0, 1]})")
    assert not shell.ok
    assert "An error occurred: InvalidArgumentError" in shell.out
    trace = shell.out[shell.out.index("Traceback (most recent") :]
    assert trace.index("session.run(z") < trace.index("engines/numpy/session.py")
    assert "sessions/wrappers/framework.py" not in trace
    shell.run("%%tfdbg -b\nif x y")
    assert not shell.ok
    assert "SyntaxError" in shell.out
    assert "run_cell_magic" not in shell.out


def test_a_run_that_fails_undebugged_says_what_to_do(shell: Shell) -> None:
    out = shell.run("session.run(z, {x: [0, 1]})")
    assert "run #1 failed (InvalidArgumentError), undebugged. %tfdbg run, and the cell again" in out
    shell.run("%tfdbg run")
    shell.run("session.run(z, {x: [0, 1]})")
    assert "An error occurred: InvalidArgumentError" in shell.out
    assert "y:0" in shell.run("%tfdbg lt")


def test_what_eval_stores_is_a_variable_of_the_notebook(shell: Shell) -> None:
    shell.run("%tfdbg run")
    shell.run("session.run(y, {x: [1, 1]})")
    shell.run("%tfdbg eval -o shifted `y:0` + 2")
    shell.run("print(shifted.tolist())")
    assert shell.out == "[2.0, 2.0]\n"


def test_the_line_is_the_debuggers_own_language(shell: Shell) -> None:
    shell.run("%tfdbg run")
    shell.run("session.run(y, {x: [1, 1]})")
    # {1} is no Python expression to put in, and -n of an absent name lists nothing.
    assert "y:0" in shell.run("%tfdbg lt -n ^y{1}$")
    assert shell.run("%tfdbg !!") == shell.run("%tfdbg lt -n ^y{1}$")


def test_long_output_is_cut_and_goes_on(shell: Shell) -> None:
    shell.run("big = tf.constant([[float(i)] for i in range(500)], name='big')")
    shell.run("%tfdbg run")
    shell.run("_ = session.run(big)")
    out = shell.run("%tfdbg pt -a big:0")
    assert "[  0.]" in out
    assert "more lines: %tfdbg more shows them)" in out
    assert "499." not in out
    assert "299." in shell.run("%tfdbg more")
    assert "499." in shell.run("%tfdbg more")
    assert "Nothing was cut." in shell.run("%tfdbg more")
    out = shell.run("%tfdbg /[.]")
    assert len(out.splitlines()) == 201
    assert "(only the first 200 lines are shown)" in out


@pytest.mark.parametrize(
    ("text", "start", "first"),
    [
        ("%tfdbg pt out/", 10, "out/z:0"),
        ("%tfdbg pt y:", 10, "y:0"),
        ("%tfdbg lt --js", 10, "--json"),
        ("%tfdbg run -f ", 14, "has_inf_or_nan"),
        ("%%tfdbg -b run -f has", 18, "has_inf_or_nan"),
        ("%tfdbg mor", 7, "more"),
    ],
)
def test_completion(shell: Shell, text: str, start: int, first: str) -> None:
    shell.run("%tfdbg run")
    shell.run("_ = session.run(tf.square(z), {x: [1, 1]})")
    assert (start, first) in shell.complete(text)
    assert all(place == start for place, _ in shell.complete(text))


def test_unloading_leaves_nothing(shell: Shell) -> None:
    shell.run("%unload_ext tfdbg_cli")
    assert "showtraceback" not in vars(shell.shell)
    assert (7, "run_info") not in shell.complete("%tfdbg ru")
    shell.run("%tfdbg")
    assert "not found" in shell.err
    assert shell.run("print(session.run(y, {x: [1, 1]}).tolist())") == "[0.0, 0.0]\n"


# a real kernel


class Kernel:
    """A running kernel; `run` is what a notebook does with a cell."""

    def __init__(self, manager: KernelManager) -> None:
        self.manager = manager
        self.client = manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=30)
        self.prompts: list[str] = []
        self.streams: list[str] = []
        self.html: list[str] = []
        self.plain = ""
        self.errors: list[str] = []
        self.status = ""
        #: Interrupt the kernel when it prints this.
        self.interrupt_at = ""

    def run(self, cell: str, *answers: str) -> None:
        """Run a cell; without answers the front end offers no input box."""
        waiting = list(answers)
        self.prompts, self.streams, self.html, self.errors = [], [], [], []
        self.plain = ""

        def output(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                self.streams.append(content["text"])
                self.plain += content["text"]
                if self.interrupt_at and self.interrupt_at in content["text"]:
                    self.interrupt_at = ""
                    self.manager.interrupt_kernel()
            elif message["msg_type"] == "display_data":
                self.plain += content["data"]["text/plain"] + "\n"
                self.html.append(content["data"]["text/html"])
            elif message["msg_type"] == "error":
                self.errors.append("\n".join(content["traceback"]))

        def ask(message: dict[str, Any]) -> None:
            self.prompts.append(message["content"]["prompt"])
            self.client.input(waiting.pop(0))

        reply = self.client.execute_interactive(
            cell, allow_stdin=bool(answers), output_hook=output, stdin_hook=ask, timeout=30
        )
        self.status = reply["content"]["status"]
        assert not waiting

    @property
    def text(self) -> str:
        return "".join(self.streams)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    folder = tmp_path_factory.mktemp("kernel")
    manager = KernelManager(kernel_name="python3")
    own = {name: str(folder / name) for name in ("IPYTHONDIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME")}
    manager.start_kernel(env=os.environ | own | {"PYTHONPATH": str(ROOT)})
    kernel = Kernel(manager)
    kernel.run("%load_ext tfdbg_cli")
    kernel.run("%tfdbg")
    assert "no framework is imported yet" in kernel.html[0]
    yield kernel
    kernel.client.stop_channels()
    manager.shutdown_kernel(now=True)


@pytest.fixture
def kernel(running: Kernel) -> Kernel:
    running.run(GRAPH)
    assert running.status == "ok"
    return running


def test_tables_are_html_with_links_as_text(kernel: Kernel) -> None:
    kernel.run("%tfdbg run")
    kernel.run("session.run(y, {x: [0, 1]})")
    assert "run-end: run #" in kernel.html[0]
    kernel.run("%tfdbg lt")
    (shown,) = kernel.html
    assert 'title="%tfdbg pt y:0">y:0</span>' in shown
    assert "1 -inf" in shown
    kernel.run("%tfdbg ni -t y")
    assert "y = tf.log(x, name=&quot;y&quot;)" in kernel.html[0]
    kernel.run("%tfdbg bogus")
    assert 'no command "bogus"' in kernel.text


def test_a_map_is_an_image(kernel: Kernel) -> None:
    kernel.run("%tfdbg run")
    kernel.run("session.run(y, {x: [0, 1]})")
    kernel.run("%tfdbg pt y:0 --map")
    (shown,) = kernel.html
    found = re.search(r'<img alt="([^"]*)" [^>]*src="data:image/png;base64,([^"]+)"', shown)
    assert found is not None
    assert "y:0" in found[1]
    assert base64.b64decode(found[2]).startswith(b"\x89PNG\r\n\x1a\n")
    assert "-inf" in shown  # in the legend
    assert "0 --------" in kernel.plain  # for front ends that show text


def test_stops_in_a_cell_ask_in_the_input_box(kernel: Kernel) -> None:
    cell = "%%tfdbg\nprint('before')\nv = session.run(y, {x: [0, 1]})\nprint('after')"
    kernel.run(cell, "run", "pt y:0", "bogus", "run")
    assert kernel.prompts == ["tfdbg> ", "tfdbg> ", "y:0 › ", "y:0 › "]
    assert "run-start" in kernel.html[0]
    shown = "".join(kernel.html[1:])
    assert "run-end" in shown
    assert "-inf" in shown
    assert kernel.text.startswith("before\n")
    assert kernel.text.endswith("after\n")
    assert kernel.status == "ok"


def test_a_cell_can_be_let_go_or_ended_at_a_stop(kernel: Kernel) -> None:
    cell = "%%tfdbg\nfor _ in range(3): session.run(y, {x: [0, 1]})\nprint('after')"
    kernel.run(cell, "exit", "c")
    assert kernel.text.endswith("after\n")
    kernel.run(cell, "run", "exit", "e")
    assert "after" not in kernel.text
    assert kernel.errors == ["tfdbg: the cell was ended at a stop."]
    kernel.run("session.run(y, {x: [0, 1]}); print('alive')")
    assert kernel.text == "alive\n"


def test_without_an_input_box_a_cell_runs_on(kernel: Kernel) -> None:
    for _ in range(2):
        kernel.run("%%tfdbg\nsession.run(y, {x: [0, 1]})\nprint('after')")
        assert kernel.status == "ok"
        assert "nobody can be asked here" in kernel.text
        assert "after\n" in kernel.text


def test_an_interrupt_stops_at_the_end_of_a_run(kernel: Kernel) -> None:
    loop = (
        "for turn in range(10**9):\n"
        "    v = session.run(y, {x: [1, 1]})\n"
        "    if turn == 9: print('begin', flush=True)"
    )
    kernel.interrupt_at = "begin"
    kernel.run(
        "%%tfdbg run -f has_inf_or_nan\n" + loop,
        "pt y:0",
        "exit --end",
    )
    shown = "".join(kernel.html[1:])
    assert "run-end" in shown
    assert "array([0., 0.]" in shown
    # Between cells an interrupt is Python's own again.
    kernel.interrupt_at = "begin"
    kernel.run(loop)
    # On stderr where IPython fails to show a frame that Python 3.11 gives no line number.
    assert "KeyboardInterrupt" in kernel.plain + "".join(kernel.errors)


def test_a_session_wrapped_by_hand_stops_in_its_cell(kernel: Kernel) -> None:
    kernel.run("%tfdbg off")
    kernel.run(
        "from tfdbg_cli import LocalCLIDebugWrapperSession as Wrapper\n"
        "Wrapper(session).run(y, {x: [0, 1]})",
        "run",
        "exit --detach",
    )
    assert kernel.status == "ok"
    assert "run-start: run #1" in kernel.html[0]
    kernel.run("%tfdbg on")


def test_what_the_program_asks_for_is_asked_of_the_debugger_of_the_magics(kernel: Kernel) -> None:
    run = "v = session.run(y, {x: [0, 1]})\nprint('after')"
    kernel.run(f"import tfdbg_cli\ntfdbg_cli.set_trace()\n{run}", "run", "pt y:0", "run -n")
    assert kernel.prompts == ["tfdbg> ", "tfdbg> ", "y:0 › "]
    shown = "".join(kernel.html)
    assert (shown.count("run-start:"), shown.count("run-end:")) == (1, 1)
    assert kernel.text.endswith("after\n")
    kernel.run("tfdbg_cli.disable()\n%tfdbg")
    assert "off" in kernel.html[0]
    kernel.run(f"tfdbg_cli.enable()\n%tfdbg run\n{run}")
    assert "".join(kernel.html).count("run-end:") == 1
    assert kernel.prompts == []


def test_completion_in_a_kernel(kernel: Kernel) -> None:
    kernel.run("%tfdbg run")
    kernel.run("session.run(y, {x: [0, 1]})")
    kernel.client.complete("%tfdbg pt y", 11)
    content = kernel.client.get_shell_msg(timeout=10)["content"]
    assert content["matches"] == ["y:0"]
    assert (content["cursor_start"], content["cursor_end"]) == (10, 11)


# Times, files of cells, numbers of runs and how deep inside the kernel a cell runs.
_IS_NUMPY_1 = np.__version__ < "2"
_VARYING = re.compile(r"\[\d+\.\d+\]|(?:\d+: )?/\S+/ipykernel_\d+/\d+\.py|#\d+|\(\d+ frame")
_BLOCK = re.compile(r"```(python|text)\n(.*?)\n?```", re.DOTALL)


def test_the_examples_of_the_documentation_are_true(kernel: Kernel) -> None:
    kernel.run("%unload_ext tfdbg_cli\ntf.reset_default_graph()")
    shown = ""
    for kind, text in _BLOCK.findall((ROOT / "docs" / "notebooks.md").read_text("utf-8")):
        if kind == "python":
            assert not shown, "the documentation leaves this out"
            kernel.run(text)
            assert kernel.status == "ok", text
            shown = kernel.plain.rstrip()
        else:
            # NumPy 1 shows its numbers as Python's.
            wanted = re.sub(r"np\.float32\((.*?)\)", r"\1", text) if _IS_NUMPY_1 else text
            assert _VARYING.sub("...", wanted) == _VARYING.sub("...", shown)
            shown = ""


# IPython in a terminal


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_ipython_in_a_terminal_has_the_line_ui(tmp_path: Path) -> None:
    from terminal_kit import Terminal

    options = ["--no-banner", "--colors=nocolor", "--TerminalInteractiveShell.autoindent=False"]
    own = {name: str(tmp_path / name) for name in ("IPYTHONDIR", "XDG_CONFIG_HOME")}
    shown = Terminal(command=[sys.executable, "-m", "IPython", *options], **own)
    cells = 0

    def run(cell: str, until: str = "") -> None:
        nonlocal cells
        cells += 1
        shown.until(f"In [{cells}]:")
        shown.type(cell)
        shown.until(until or f"In [{cells + 1}]:")

    try:
        run("%load_ext tfdbg_cli\r")
        run("from tfdbg_cli.engines import numpy as tf\r")
        run("y = tf.log(tf.constant([0., 1.], name='x'), name='y'); s = tf.Session()\r")
        run("%tfdbg run\r")
        run("v = s.run(y)\r", "1 -inf   y:0")
        run("%tfdbg ni -t -a y\r", "-- more --")
        shown.type("pt x:0\r")  # a command between two screenfuls runs
        shown.until("array([0., 1.]")
        run("%%tfdbg\rv = s.run(y)\r\r\r", "tfdbg>")
        shown.type("run\r")
        shown.until("run-end: run #2")
        shown.type("pt y\t\r")
        shown.until("array([-inf")
        shown.type("exit\r")
        shown.until("Leave the debugger?")
        shown.type("c\r")
        run("print(v[1])\r", "\n0.0")
    finally:
        shown.child.close(force=True)


# the HTML


class _Text(HTMLParser):
    """Collects the text, and sees that each tag is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.titles, self._open = "", [], []  # type: ignore[var-annotated]
        self.feed(html)
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open.append(tag)
        self.titles += [value for name, value in attrs if name == "title"]

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_holds_the_text_of_every_role() -> None:
    lines = [Line([Span(f"<{role}> & {role}", role)]) for role in ROLES]
    page = _Text(to_html(lines))
    assert page.text == "\n".join(made.text for made in lines)


def test_html_of_names_and_commands_is_escaped() -> None:
    made = line(("<b>&\"'", "link", 'pt "<b>&"\'"'))
    page = _Text(to_html([made], "a <title> & more", "error"))
    assert page.text == "a <title> & more\n<b>&\"'"
    assert page.titles == ['%tfdbg pt "<b>&"\'"']


def test_a_list_is_a_table() -> None:
    rows = [
        aligned([[Span("Size")], [Span("Tensor name")]], [-6, 12]),
        aligned([[Span("8")], [Span("<a>:0", "link", Link("pt '<a>:0'"))]], [-6, 12]),
        aligned([[Span("1.5k")], [Span("b:0")]], [-6, 12]),
    ]
    html = to_html([line("2 tensors:"), *rows, line("done")])
    page = _Text(html)
    assert [*re.findall(r"<(?:th|td)[^>]*>(.*?)</(?:th|td)>", html)][:2] == ["Size", "Tensor name"]
    assert html.count("<tr>") == 3
    assert html.count("<th ") == 2
    assert page.titles == ["%tfdbg pt '<a>:0'"]
    assert "2 tensors:" in html.partition("<table")[0]
    assert "done" in html.partition("</table>")[2]
    # What follows of a list that was cut has no heads.
    assert "<th " not in to_html(rows[1:])
