"""``--report``: a page for each hit of ``run -f``, and never any harm to the program."""

import os
import re

import pytest
from report_kit import read_report

PROGRAM = """
import os, sys
import numpy as np
from tfdbg_cli.engines import numpy as tf

tf.set_random_seed(7)
x = tf.placeholder(tf.float32, (2,), name="x")
y = tf.log(x, name="y")
os.chdir(os.path.dirname(os.path.abspath(__file__)) + "/elsewhere")
with tf.Session() as session:
    for step in range(4):
        print("step", step, session.run(y, {x: np.array([step % 2, 2], "float32")}))
sys.exit(3)
"""
HIT = ["-c", "run -f has_inf_or_nan"]


@pytest.fixture
def program(runner):
    (runner.folder / "elsewhere").mkdir()
    return runner.write("program.py", PROGRAM)


def test_each_hit_has_a_page(runner, program):
    args = ["-m", "tfdbg_cli", "--batch", "--report", "nan.html", *HIT, *HIT, program, "--lr", "1"]
    done = runner.python(*args)
    plain = runner.python(program)
    assert done.status == plain.status == 3
    assert [line for line in done.stdout.splitlines() if line.startswith("step")] == [
        line for line in plain.stdout.splitlines() if line.startswith("step")
    ]
    told = [re.sub(r" /.*/", " ", note) for note in done.notes]
    assert told == ["tfdbg: report written to nan.html", "tfdbg: report written to nan-2.html"]
    for name, run in (("nan.html", 1), ("nan-2.html", 3)):
        page = read_report((runner.folder / name).read_text())
        assert f"run #{run}:" in page.text
        assert "It began in [Log] y:0" in page.text
        assert f"Program{program} --lr 1" in page.text
        assert "Seed7 (set_random_seed)" in page.text
        assert "--report nan.html" in page.text
    assert not list((runner.folder / "elsewhere").iterdir())


def test_a_page_has_the_numbers_that_were_followed(runner, program):
    commands = ["-c", 'track "np.nanmax(`y:0`)" --as largest', *HIT, *HIT]
    runner.python("-m", "tfdbg_cli", "--batch", "--report", "nan.html", *commands, program)
    page = read_report((runner.folder / "nan-2.html").read_text())
    assert "largest" in page.headings
    assert page.tags.count("polyline") >= 1


def test_a_run_that_fails_has_a_page(runner):
    text = "tf.Session().run(tf.check_numerics(tf.log(tf.constant(0.0)), 'bad'))\n"
    program = runner.write("fails.py", f"from tfdbg_cli.engines import numpy as tf\n{text}")
    done = runner.python("-m", "tfdbg_cli", "--batch", "--report=f.html", "-c", "run", program)
    assert done.status == 1
    page = read_report((runner.folder / "f.html").read_text())
    assert "!!! An error occurred during the run !!!" in page.text
    assert "It began in [Log]" in page.text


def test_a_stop_that_nothing_led_to_has_none(runner, program):
    done = runner.python("-m", "tfdbg_cli", "--batch", "--report", "n.html", "-c", "run", program)
    assert done.notes == []
    assert not (runner.folder / "n.html").exists()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_one_line(runner, program):
    done = runner.python("-m", "tfdbg_cli", "--batch", "--report", "/dev/full", *HIT, program)
    assert done.status == 3
    (note,) = done.notes
    assert note == (
        "tfdbg: the report of this stop can't be written: /dev/full can't be written: "
        "No space left on device."
    )
    assert "It began in [Log] y:0" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_folder_that_has_gone_is_one_line(runner, program):
    folder = runner.folder / "pages"
    folder.mkdir()
    text = PROGRAM.replace("sys.exit(3)", "").replace(
        "with tf", f"os.rmdir({str(folder)!r})\nwith tf", 1
    )
    program = runner.write("program.py", text)
    done = runner.python("-m", "tfdbg_cli", "--batch", "--report", "pages/x.html", *HIT, program)
    assert done.status == 0
    (note,) = done.notes
    assert re.search(r"the report of this stop can't be written: .*x.html can't be written", note)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--report", "no/such/x.html", "program.py"], "there is no folder"),
        (["--report", ".", "program.py"], "it is a folder"),
        (["--report", "x.html", "--dump-dir", "."], "-c 'report FILE.html'"),
        (["--report"], "expected one argument"),
    ],
)
def test_a_wrong_use_is_one_line(runner, program, options, message):
    done = runner.python("-m", "tfdbg_cli", *options)
    assert done.status == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
