"""Where the source of a block is found, and what is said where it isn't."""

import asyncio
import code
import contextlib
import io
import linecache
import os
import subprocess
import sys
import textwrap
import unittest

import pytest
from trace_kit import PROGRAM

import tfdbg_cli
from tfdbg_cli.engines import numpy as tf
from tfdbg_cli.tracing.errors import TraceBlockError

BLOCK = """\
with tfdbg_cli.trace(sess, total, feed) as t:
    seen = t["y"].value.tolist()
    t["y"].value = [[1, 1]]
print("seen", seen, "result", t.result)
"""
EXPECTED = "seen [[2.0, 4.0]] result 2.0"


def python(*arguments, **options):
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=False, **options
    )
    assert not done.stderr, done.stderr
    return done.stdout


def test_a_script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(PROGRAM + BLOCK)
    assert EXPECTED in python(str(path))
    assert EXPECTED in python("-O", "-X", "no_debug_ranges", str(path))


def test_a_script_under_the_launcher(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(PROGRAM + BLOCK + "sess.run(total, feed)\n")
    out = python("-m", "tfdbg_cli", "--batch", "-c", "run", "-c", "lt", str(path))
    assert EXPECTED in out
    assert "run #1" in out
    assert "run #2" not in out


def test_a_stop_in_the_middle_of_the_run(tmp_path):
    path = tmp_path / "script.py"
    block = """\
with tfdbg_cli.trace(sess, total, feed) as t:
    before = t["y"].value.tolist()
    t.breakpoint()
    after = t["y"].value.tolist()
print(before, after, float(t.result))
"""
    path.write_text(PROGRAM + block)
    commands = ("override y:0 [[7, 8]]", "lt", "exit")
    words = [word for command in commands for word in ("-c", command)]
    done = subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", "--batch", *words, str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "stepper: 1 fetch (total:0); 1 feed (x:0)" in done.stdout
    assert "y:0" in done.stdout
    assert "[[2.0, 4.0]] [[7.0, 8.0]] 15.0" in done.stdout


def test_a_command():
    assert EXPECTED in python("-c", PROGRAM + BLOCK)
    assert EXPECTED in python("-Bc", PROGRAM + BLOCK, "an", "argument")


def test_a_module_in_an_archive(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as file:
        file.writestr("packed.py", PROGRAM + BLOCK)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "archive.zip")}
    assert EXPECTED in python("-c", "import packed", env=environment)


def test_the_console_that_is_written_in_python():
    console = code.InteractiveConsole()
    out = io.StringIO()
    fresh = tf.Graph().as_default()  # others have left nodes of these names in this process
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out), fresh:
        for line in [*PROGRAM.splitlines(), *BLOCK.splitlines()[:3], "", BLOCK.splitlines()[3]]:
            console.push(line)
    assert EXPECTED in out.getvalue()


@pytest.mark.skipif(sys.platform == "win32", reason="there are no pseudo terminals")
def test_the_interpreter_s_own_prompt(tmp_path):
    pexpect = pytest.importorskip("pexpect")
    environment = {
        **os.environ,
        "TERM": "dumb",
        "HOME": str(tmp_path),
        "PYTHONSTARTUP": "",
        "PYTHON_HISTORY": str(tmp_path / "history"),
    }
    child = pexpect.spawn(
        sys.executable, ["-i", "-q"], env=environment, encoding="utf-8", timeout=60, echo=False
    )
    child.expect(">>> ")
    for line in PROGRAM.splitlines():
        child.sendline(line)
        child.expect(">>> ")
    for line in BLOCK.splitlines()[:3]:
        child.sendline(line)
        child.expect(r"\.\.\. ")
    child.sendline("")
    child.expect(">>> ")
    child.sendline(BLOCK.splitlines()[3])
    child.expect("seen .*\r\n")
    assert EXPECTED in child.after
    for line in ["def typed(n):", *(f"    {line}" for line in BLOCK.splitlines())]:
        child.sendline(line)
        child.expect(r"\.\.\. ")
    child.sendline("")
    child.expect(">>> ")
    child.sendline("other = 1")
    child.expect(">>> ")
    child.sendline("typed(2)")
    child.expect("seen .*\r\n")
    assert EXPECTED in child.after
    child.sendline("exit()")
    child.expect(pexpect.EOF)
    child.close()


def test_ipython(tmp_path, monkeypatch):
    pytest.importorskip("IPython")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    program = f"""\
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell({PROGRAM!r}).raise_error()
shell.run_cell({BLOCK!r}).raise_error()
shell.run_cell({BLOCK.replace("1, 1", "2, 3")!r}).raise_error()
shell.run_cell('''
%time pass
def inside():
    with tfdbg_cli.trace(sess, total, feed) as t: found = t["total"].value
    return float(found)
print("in a function", inside())
''').raise_error()
"""
    path = tmp_path / "shell.py"
    path.write_text(program)
    out = python(str(path))
    assert EXPECTED in out
    assert "result 5.0" in out
    assert "in a function 6.0" in out


def test_the_kernel_of_a_notebook(tmp_path, monkeypatch):
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    program = f"""\
import asyncio
from ipykernel.inprocess import InProcessKernelManager
manager = InProcessKernelManager()
manager.start_kernel()
client = manager.client()
client.start_channels()
for cell in {[PROGRAM, BLOCK]!r}:
    client.execute(cell)
    while True:
        message = client.get_iopub_msg(timeout=60)
        if message["msg_type"] in ("stream", "error"):
            print(message["content"].get("text") or message["content"])
        if message["content"].get("execution_state") == "idle":
            break
"""
    path = tmp_path / "kernel.py"
    path.write_text(program)
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, check=False, timeout=120
    )
    assert EXPECTED in done.stdout, done.stdout + done.stderr


def test_a_compiled_text_whose_lines_are_known(model, known):
    text = textwrap.dedent(
        '''
        def function():
            with tfdbg_cli.trace(sess, total, feed) as t:
        # a comment at the beginning of a line
                text = """
        not indented"""
            # another one
        \tvalue = 1
                h = t["h"].value
            return text, h.shape
        '''
    ).replace("\n\tvalue", "\n\t\tvalue".replace("\t\t", "        "))
    space = known(text, sess=model.sess, total=model.total, feed=model.feed)
    assert space["function"]() == ("\nnot indented", (2, 2))


def test_tabs(model, known):
    text = "if True:\n\twith tfdbg_cli.trace(sess, total, feed) as t:\n\t\th = t['h'].value.shape\n"
    space = known(text, sess=model.sess, total=model.total, feed=model.feed)
    assert space["h"] == (2, 2)


def test_a_text_that_nobody_knows(model):
    text = "with tfdbg_cli.trace(sess, total, feed) as t:\n    found = 1\n"
    space = {"tfdbg_cli": tfdbg_cli, "sess": model.sess, "total": model.total, "feed": model.feed}
    with pytest.raises(tfdbg_cli.WithBlockNotFoundError) as caught:
        exec(text, space)
    assert "<string>, line 1, in <module>" in str(caught.value)
    assert "linecache.cache[name] = " in str(caught.value)
    assert "found" not in space


def test_a_block_that_is_entered_by_something_else(model):
    trace = tfdbg_cli.trace(model.sess, model.total, model.feed)
    with pytest.raises(tfdbg_cli.WithBlockNotFoundError) as caught:
        trace.__enter__()
    assert "There is no `with` statement that enters a trace block here" in str(caught.value)
    assert here_in(caught.value) == "trace.__enter__()"


def here_in(error):
    """The line that a message points at."""
    (line,) = [line for line in str(error).splitlines() if line.endswith("<--- HERE")]
    return line.removesuffix("  <--- HERE").split(None, 1)[1]


class Case(unittest.TestCase):
    """Its `enterContext` is a library's, too."""


def by_stack(stack, trace):
    stack.enter_context(trace)


def by_case(stack, trace):
    case = Case()
    stack.callback(case.doCleanups)
    case.enterContext(trace)


async def waiting(trace):
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(trace)


def by_task(stack, trace):
    asyncio.run(waiting(trace))


@pytest.mark.parametrize(
    ("enter", "line", "by"),
    [
        (by_stack, "stack.enter_context(trace)", "enter_context()"),
        (by_case, "case.enterContext(trace)", "_enter_context()"),
        (by_task, "stack.enter_context(trace)", "enter_context()"),
    ],
)
def test_a_block_that_a_library_enters_is_told_of_at_the_programs_line(model, enter, line, by):
    trace = tfdbg_cli.trace(model.sess, model.total, model.feed)
    with (
        contextlib.ExitStack() as stack,
        pytest.raises(tfdbg_cli.WithBlockNotFoundError) as caught,
    ):
        enter(stack, trace)
    first = str(caught.value).splitlines()[0]
    assert f"entered by {by} here" in first and f"{__file__}, line " in first
    assert here_in(caught.value) == line


def test_a_helper_returns_the_trace_and_yields_nothing(model):
    @contextlib.contextmanager
    def yields():
        with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
            yield t

    def returns():
        return tfdbg_cli.trace(model.sess, model.total, model.feed)

    line = sys._getframe().f_lineno + 1
    with pytest.raises(TraceBlockError) as caught, yields():
        pass
    assert caught.value.text.strip() == "yield t"
    assert f"`with yields(...)` ({__file__}, line {line}) can have the block" in str(caught.value)
    assert "let yields `return tfdbg_cli.trace(...)`, without" in str(caught.value)
    with returns() as t:
        shape = t["h"].value.shape
    assert shape == (2, 2)


def test_a_source_that_has_changed(model):
    name = "<a text that has changed>"
    text = "with tfdbg_cli.trace(sess, total, feed) as t:\n    found = 1\n"
    space = {"tfdbg_cli": tfdbg_cli, "sess": model.sess, "total": model.total, "feed": model.feed}
    newer = text.replace("found", "other")
    linecache.cache[name] = (len(newer), None, newer.splitlines(True), name)
    try:
        with pytest.raises(tfdbg_cli.WithBlockNotFoundError) as caught:
            exec(compile(text, name, "exec"), space)
    finally:
        del linecache.cache[name]
    assert "The source has changed since it was compiled" in str(caught.value)
    assert "     1  with tfdbg_cli.trace(sess, total, feed) as t:  <--- HERE" in str(caught.value)


def test_a_block_is_entered_once(model):
    t = tfdbg_cli.trace(model.sess, model.total, model.feed)
    with t:
        pass
    with pytest.raises(tfdbg_cli.tracing.errors.TraceError, match="entered only once"), t:
        pass


def test_blocks_in_tasks(model):
    async def task():
        with tfdbg_cli.trace(model.sess, model.total, model.feed) as t:
            h = t["h"].value
        await asyncio.sleep(0)
        return h.shape

    async def main():
        return await asyncio.gather(task(), task())

    assert asyncio.run(main()) == [(2, 2), (2, 2)]
