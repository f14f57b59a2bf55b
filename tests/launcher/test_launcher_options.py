"""The command line itself: what it takes, what it refuses and how it says so."""

import os
import shlex
import subprocess
import sys

import pytest

SCRIPT = "import sys; print(sys.argv)"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--bach", "s.py"], "there is no option --bach. Did you mean --batch, --bar, --check?"),
        (["-z", "s.py"], "there is no option -z."),
        (["--ui", "curses", "s.py"], "'curses'"),
        (["--engine", "nmpy", "s.py"], 'no engine named "nmpy". Did you mean numpy?'),
        (["--theme", "drak", "s.py"], 'no theme named "drak". Did you mean dark?'),
        (["--dump-limit", "5X", "s.py"], '"5X" is not a size'),
        (["--dump-limit", "0", "s.py"], '"0" is not a size'),
        (["--dump-limit=-1", "s.py"], '"-1" is not a size'),
        (["--batch=1", "s.py"], "--batch"),
        (["-c"], "expected one argument"),
        (["-m"], "expected one argument"),
        (["--listen", "nowhere", "s.py"], '"nowhere" is not an address'),
        (["--listen", "0", "--batch", "s.py"], "--batch asks nobody"),
        (["--listen", "0", "--grpc", "0"], "--listen needs a program or a dump"),
        (["--listen", "0", "--dump-dir", ".", "--no-wait"], "leave out --no-wait"),
        (["--no-wait", "s.py"], "--no-wait needs --listen"),
        (["--signal", "NIX", "s.py"], 'no signal "NIX"'),
        (["--dump-dir", ".", "s.py"], "runs no program"),
        (["--filters", "absent.py", "s.py"], "absent.py"),
        (["--dump-dir", "absent"], "absent"),
    ],
)
def test_mistakes_are_one_line(runner, arguments, message):
    runner.write("s.py", SCRIPT)
    done = runner.tfdbg(*arguments)
    assert (done.status, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("tfdbg: ")
    assert message in done.stderr


def test_no_script(runner):
    done = runner.tfdbg()
    assert (done.status, done.stdout) == (2, "")
    assert done.stderr.startswith("usage: tfdbg [options] SCRIPT")


@pytest.mark.parametrize(
    "options",
    [
        ["--batch", "--"],
        ["-cexit", "--command=lt > x", "-c", "-n"],
        ["--ui=plain", "--engine", "numpy", "--theme", "dark", "--no-color", "--no-mouse"],
        ["--dump-limit", "1.5GiB", "--dump-root", ".", "--keep-dumps"],
        ["--dump-limit=500m"],
        ["--dump-limit", "123"],
    ],
)
def test_options_end_at_the_script(runner, options):
    runner.write("s.py", SCRIPT)
    done = runner.tfdbg(*options, "s.py", "--batch", "-c", "x", "--", "-m", "s.py", "--nonsense")
    assert done.status == 0, done.stderr
    assert done.stdout == "['s.py', '--batch', '-c', 'x', '--', '-m', 's.py', '--nonsense']\n"


def test_options_end_at_the_module(runner):
    runner.write("mod.py", SCRIPT)
    for arguments in (["-m", "mod"], ["-mmod"], ["--batch", "-m", "mod"]):
        done = runner.tfdbg(*arguments, "--batch", "--", "-m")
        assert done.status == 0, done.stderr
        assert done.stdout.endswith("mod.py', '--batch', '--', '-m']\n")


def test_a_script_called_attach(runner):
    runner.write("attach", SCRIPT)
    assert runner.tfdbg("attach", "3").stdout == "['attach', '3']\n"


def test_help_and_version_import_nothing_heavy(runner):
    heavy = ("numpy", "urwid", "prompt_toolkit", "platformdirs")
    for option, expected in (("--help", "examples:\n"), ("--version", "tfdbg_cli 1.")):
        done = runner.python(
            "-c",
            "import sys, tfdbg_cli.__main__ as m\n"
            f"try:\n    m.main(['{option}'])\nexcept SystemExit as end:\n    print(end.code)\n"
            f"print([name for name in {heavy} if name in sys.modules])",
        )
        assert expected in done.stdout
        assert done.stdout.endswith("0\n[]\n")
        assert done.stderr == ""


def test_commands_that_were_never_run_are_named(runner):
    runner.write("s.py", "")
    commands = [part for name in "abcd" for part in ("-c", f"pt {name}:0")]
    assert runner.tfdbg(*commands, "s.py").notes == [
        "tfdbg: the program imported no framework that the debugger knows "
        "(the NumPy engine, TensorFlow, TensorFlow 2, PyTorch, JAX, ONNX Runtime, MLX; "
        "computations with NumPy itself can't be seen: the NumPy engine is a framework of the "
        "debugger's own).",
        "tfdbg: 4 command(s) were not run: pt a:0; pt b:0; pt c:0; …",
    ]


def test_no_note_about_a_program_that_never_began(runner):
    runner.write("s.py", "def (")
    assert runner.tfdbg("s.py").notes == []
    assert runner.tfdbg("-m", "absent").notes == []


def test_notes_come_after_the_traceback(runner):
    runner.write("s.py", "1 / 0")
    lines = runner.tfdbg("--engine", "numpy", "s.py").stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == (
        "tfdbg: the program imported no framework that the debugger knows (only the NumPy "
        "engine was watched)."
    )


@pytest.mark.skipif(os.name == "nt", reason="needs ulimit")
@pytest.mark.parametrize("form", ["folder", "tfdbg"])
@pytest.mark.parametrize("options", [(), ("--dump-limit", "1K")])
def test_a_dump_that_finds_no_room_is_told_and_leaves_no_half(runner, form, options):
    runner.write(
        "s.py",
        "import numpy as np\n"
        "from tfdbg_cli.engines import numpy as tf\n"
        "x = tf.placeholder(tf.float32, [None], name='x')\n"
        "y = tf.square(x, name='y')\n"
        "session = tf.Session()\n"
        "for _ in range(2):\n"
        "    print(session.run(y, {x: np.ones(500_000)}).sum())\n",
    )
    # No file may grow beyond 64 KiB: the same error for the writer as a disk that is full.
    words = ["-m", "tfdbg_cli", "--batch", *("-c", "run") * 2, "--keep-dumps", *options]
    command = shlex.join([sys.executable, *words, "--dump-format", form, "s.py"])
    done = subprocess.run(
        ["bash", "-c", f"ulimit -f 64; {command}"],
        cwd=runner.folder,
        env=runner.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout.endswith("500000.0\n")
    told = [line for line in done.stderr.splitlines() if "The dump could not be kept" in line]
    assert len(told) == 1 and told[0].startswith("tfdbg: ")
    assert "\ntfdbg: 1 more dump(s) could not be kept.\n" in done.stderr
    assert done.returncode == 1
    assert not list((runner.folder / "tfdbg_dumps").iterdir())
    # With room it is kept.
    assert runner.tfdbg(*words[2:], "--dump-format", form, "s.py").status == 0
    assert len(list((runner.folder / "tfdbg_dumps").iterdir())) == 2
