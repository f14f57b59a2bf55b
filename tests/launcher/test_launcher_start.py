"""Nothing is imported before a program's first line that the program would notice."""

import importlib.util
import re

import pytest
from samples import sample

#: What does something when it is imported: what the program notices of it.
ACTING = {
    "readline": "`input()` edits lines",
    "rlcompleter": "imports readline",
    "pdb": "imports it since Python 3.13",
    "numpy": "starts threads, reads the environment, adds filters of warnings",
    "ssl": "what patches sockets wants to come before it",
    "logging": "a function of atexit",
    "asyncio": "imports ssl and logging",
    "concurrent.futures": "a function of threading's end",
    "multiprocessing": "its start method is chosen before it is used",
    "curses": "reads the terminal's type",
    "urwid": "the full screen's",
    "prompt_toolkit": "the line UI's",
    "torch": "a framework",
    "tensorflow": "a framework",
    "jax": "a framework",
    "onnxruntime": "a framework",
}

# On Linux the number of threads of all kinds: `os.fork()` warns of those since Python 3.12.
STATE = f"""\
import os, sys, threading, warnings
print(*sorted({set(ACTING)} & set(sys.modules)))
print(*warnings.filters, sep="\\n")
print(*(thread.name for thread in threading.enumerate()))
if os.path.isdir("/proc/self/task"):
    print(len(os.listdir("/proc/self/task")))
"""
WAYS = {
    "plain": ("--batch",),
    "filter": ("--batch", "-c", "run -f has_inf_or_nan"),
    "check": ("--check", "has_inf_or_nan", "--check-only", "--log", "log.jsonl"),
    "keep": ("--batch", "--keep-dumps", "--dump-root", "dumps", "-c", "run -k"),
    "mortem": ("--post-mortem", "--batch"),
    "tracks": ("--batch", "-c", "track --norms", "-c", "track `relu`.mean()", "-c", "run -t 3"),
}


@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_nothing_acts_before_the_program(runner, options):
    runner.write("s.py", STATE)
    plain, debugged = runner.python("s.py"), runner.tfdbg(*options, "s.py")
    assert debugged.stdout == plain.stdout
    assert plain.stdout.startswith("\n"), "python itself has imported one of these"


@pytest.mark.parametrize("name", [*sample(["torch", "tensorflow", "jax", "onnxruntime"], 3)])
def test_nothing_acts_that_the_framework_does_not_import(runner, name):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"needs {name}")
    runner.write("s.py", f"import {name}\n{STATE}")
    assert runner.tfdbg(*WAYS["filter"], "s.py").stdout == runner.python("s.py").stdout


def test_a_program_sets_what_numpy_reads_when_it_is_imported(runner):
    runner.write(
        "s.py",
        "import os\nos.environ['OPENBLAS_NUM_THREADS'] = '1'\nimport numpy\n"
        "print(numpy.ones(2).sum(), len(os.listdir('/proc/self/task')))",
    )
    runner.same("s.py")


def test_modules_of_the_program_are_called_as_those_that_are_imported_later(runner):
    for name in ("numpy", "code"):
        runner.write(f"{name}.py", f"print('mine: {name}')\n")
    runner.write("s.py", "import numpy, code\nprint(numpy.__file__, code.__file__)\n1 / 0")
    done = runner.same("s.py")
    asked = runner.tfdbg("--post-mortem", "s.py", stdin="pdb\np 6 * 7\nq\nexit\n")
    assert "42" in asked.stdout, asked.stderr
    for stdout in (done.stdout, asked.stdout):
        assert stdout.count("mine: numpy\nmine: code\n") == stdout.count("mine") / 2 == 1


@pytest.mark.parametrize("options", [("--batch",), ("--listen", "unix:address", "--no-wait")])
def test_forks_warn_of_no_threads_but_the_programs(runner, options):
    runner.write(
        "s.py",
        """\
import os, threading, warnings
warnings.simplefilter("always")
before = [*warnings.filters]
done = threading.Event()
thread = threading.Thread(target=done.wait)
for _ in range(2):
    child = os.fork()
    if not child:
        os._exit(warnings.filters != before)
    print(os.waitpid(child, 0)[1], warnings.filters == before)
    if not done.is_set():  # of this one Python warns
        thread.start()
        os.fork() or os._exit(0)
        done.set()
        thread.join()
        # Python counts a thread that is joined and not quite gone.
        while os.path.isdir(f"/proc/self/task/{thread.native_id}"):
            pass
""",
    )
    plain, debugged = runner.python("s.py"), runner.tfdbg(*options, "s.py")
    hidden = r"pid=\d+"
    assert re.sub(hidden, "", debugged.own_stderr) == re.sub(hidden, "", plain.stderr)
    assert debugged.stdout == plain.stdout == "0 True\n" * 2
