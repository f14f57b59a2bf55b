"""``--check``: a gate for jobs. A tensor that passes a filter ends the program with status 3."""

from __future__ import annotations

import importlib.util
import json
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest

PROGRAM = """
import numpy as np
from tfdbg_cli.engines import numpy as tf

x = tf.placeholder(tf.float32, [2], name="x")
y = tf.log(x, name="y")
with tf.Session() as session:
    for step in range(6):
        print("step", step)
        session.run(y, {x: np.float32([1.0, 0.0 if step >= 3 else 2.0])})
print("done")
"""
TORCH = """
import torch

model = torch.nn.Linear(2, 1)
opt = torch.optim.SGD(model.parameters(), 0.1)
for step in range(6):
    loss = model(torch.ones(1, 2)).exp().sum()
    loss = loss * (loss - loss).log() if step == 3 else loss
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("step", step)
"""


@pytest.fixture
def program(runner):
    return runner.write("train.py", PROGRAM)


def said(done):
    """What the debugger has said of the check."""
    return [note for note in done.notes if re.search(r"\bcheck\b", note)]


def test_the_first_hit_ends_the_program(runner, program):
    done = runner.tfdbg("--check", "has_inf_or_nan", program)
    assert done.status == 3
    assert done.stdout == "".join(f"step {step}\n" for step in range(4))
    lines = done.stderr.splitlines()
    said = "y:0 in run #4: 1 fetch (y:0); 1 feed (x:0): the logarithm of 0 at [1]"
    assert lines[0].endswith(f".py:6: has_inf_or_nan: {said}")
    assert lines[1] == "It began in [Log] y:0  float32 [2]  1 -inf of 2"
    assert lines[2].startswith("Why:   the logarithm of 0")
    line = PROGRAM.splitlines().index('y = tf.log(x, name="y")') + 1
    assert f"train.py:{line}" in lines[4]
    told = re.search(r"check failed: has_inf_or_nan: y:0 in run #4.*--dump-dir (\S+)$", lines[-1])
    assert told, lines[-1]
    pages = Path(__file__).parents[2] / "docs" / "ci.md"
    (written,) = re.findall(r'"regexp": (".*"),', pages.read_text())
    problem = re.search(json.loads(written), lines[-1])  # as VS Code sees it
    assert problem, lines[-1]
    assert problem[1].startswith("has_inf_or_nan: y:0 in run #4")
    assert (Path(problem[2]).name, int(problem[3])) == ("train.py", line)
    look = runner.tfdbg("--batch", "-c", "lt -f has_inf_or_nan", "--dump-dir", told[1])
    assert "y:0" in look.stdout


def test_nothing_bad_and_nothing_seen(runner, program):
    done = runner.tfdbg("--check", "exploding", program)
    assert (done.status, done.stdout.splitlines()[-1]) == (0, "done")
    assert said(done) == ["tfdbg: check exploding: nothing in 6 run(s)."]
    late = runner.tfdbg("--check", "has_inf_or_nan", "--after", "9", program)
    assert late.status == 1
    assert said(late) == ["tfdbg: check: nothing was checked, 6 run(s) were seen."]
    none = runner.tfdbg("--check", "has_inf_or_nan", runner.write("no.py", "print(1)\n"))
    assert (none.status, none.stdout) == (1, "1\n")
    assert said(none) == ["tfdbg: check: nothing was checked, 0 run(s) were seen."]


def test_filters_with_arguments(runner):
    text = PROGRAM.replace("0.0 if step >= 3 else 2.0", "10.0**step").replace("log(", "square(")
    script = runner.write("grows.py", text)
    done = runner.tfdbg("--check", "underflows:float16,overflows:float16", script)
    assert done.status == 3
    assert "check failed: overflows:float16: y:0 in run #4" in said(done)[0]
    runner.tfdbg("--check", "overflows_float16", "--dump-root", "one", script)
    look = runner.tfdbg("--batch", "-c", "lt", "--dump-dir", "one")
    assert "lt -f overflows_float16 lists what passes" in look.stdout + look.stderr
    wrong = runner.tfdbg("--check", "overflows:float17", script)
    assert wrong.status == 2
    assert "Did you mean float16" in wrong.stderr
    runner.write(
        "own.py", "def above(datum, tensor, *, limit: float):\n    return tensor.max() > limit\n"
    )
    done = runner.tfdbg("--filters", "own.py", "--check", "above:1e7", script)
    assert "check failed: above:1e7: y:0 in run #5" in said(done)[0]


def test_the_first_runs_may_be_left_out(runner, program):
    done = runner.tfdbg("--check", "has_inf_or_nan", "--after", "4", program)
    assert done.status == 3
    assert "y:0 in run #5" in said(done)[0]


def test_the_program_may_go_on(runner, program):
    done = runner.tfdbg("--check", "exploding,has_inf_or_nan", "--check-only", program)
    assert done.status == 3
    assert done.stdout.splitlines()[-1] == "done"
    first, last = said(done)
    assert "has_inf_or_nan: y:0 in run #4" in first
    assert last == "tfdbg: check failed in 3 of 6 run(s)."
    assert len(list((runner.folder / "tfdbg_dumps").iterdir())) == 1


def test_a_failure_of_the_programs_own_comes_first(runner):
    text = PROGRAM.replace('print("done")', "raise SystemExit(7)")
    script = runner.write("fails.py", text)
    assert runner.tfdbg("--check", "has_inf_or_nan", "--check-only", script).status == 7


def test_what_other_programs_read(runner, program):
    file = runner.folder / "found.json"
    options = ("--check", "has_inf_or_nan", "--check-output", file, "--check-format")
    assert runner.tfdbg(*options, "json", program).status == 3
    found = json.loads(file.read_text())
    assert (found["version"], found["check"], found["failed"]) == (1, ["has_inf_or_nan"], 1)
    finding = found["findings"][0]
    tensor = finding["tensor"]
    assert (tensor["name"], tensor["op"], tensor["neg_inf"]) == ("y:0", "Log", 1)
    assert finding["line"]["file"].endswith("train.py")
    assert finding["line"]["text"] == 'y = tf.log(x, name="y")'
    assert (finding["reason"]["kind"], finding["reason"]["elements"]) == ("log", [[1]])
    assert [each["name"] for each in finding["inputs"]] == ["x:0"]
    assert runner.tfdbg(*options, "junit", program).status == 3
    suite = ElementTree.parse(file).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    case = suite.find("testcase")
    assert case.get("classname") == "has_inf_or_nan"
    assert "logarithm of 0" in case.find("failure").text
    clean = runner.write("clean.py", PROGRAM.replace("step >= 3", "False"))
    assert runner.tfdbg(*options, "junit", clean).status == 0
    suite = ElementTree.parse(file).getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "0")


@pytest.mark.parametrize("text", [PROGRAM, pytest.param(TORCH, marks=pytest.mark.torch)])
def test_the_check_the_log_and_why_write_the_same_structure(runner, text):
    script = runner.write("same.py", text)
    files = [runner.folder / name for name in ("check.json", "why.json", "log.json")]
    options = ("--dump-root", runner.folder / "dumps", "--check-output", files[0])
    check = ("--check", "origin_of_nonfinite", "--check-format", "json", *options)
    look = ("--batch", "-c", "run -f", "-c", f"why --json > {files[1]}", "--log", files[2])
    for way in (check, look):
        runner.forked(("torch._dynamo",), "-m", "tfdbg_cli", *way, script)
    by_check, by_why, by_log = (json.loads(file.read_text()) for file in files)
    (by_check,) = by_check["findings"]
    assert (by_log.pop("stop"), bool(by_log.pop("time"))) == ("filter", True)
    assert by_check.pop("dump").startswith(str(runner.folder))
    assert by_log.pop("dump") == by_why.pop("dump") == ""
    for each in (by_check, by_why, by_log):
        assert isinstance(each.pop("fixes"), list)  # how far they were tried is a matter of time
    assert by_check == by_why == by_log


def test_what_scanners_and_summaries_read(runner, program):
    file = runner.folder / "found"
    options = ("--check", "has_inf_or_nan", "--check-output", file, "--check-format")
    assert runner.tfdbg(*options, "sarif", program).status == 3
    log = json.loads(file.read_text())
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    (result,) = run["results"]
    assert result["ruleId"] in [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert "logarithm of 0" in result["message"]["text"]
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"].startswith("file:///")
    line = PROGRAM.splitlines().index('y = tf.log(x, name="y")') + 1
    assert place["region"]["startLine"] == line
    assert runner.tfdbg(*options, "markdown", program).status == 3
    said = file.read_text()
    assert said.startswith("### tfdbg: a tensor passed has_inf_or_nan in 1 run(s)\n")
    assert "\n```text\nIt began in [Log] y:0" in said
    clean = runner.write("clean.py", PROGRAM.replace("step >= 3", "False"))
    assert runner.tfdbg(*options, "markdown", clean).status == 0
    assert file.read_text() == "### tfdbg: no tensor passed has_inf_or_nan\n"
    assert runner.tfdbg(*options, "sarif", clean).status == 0
    assert json.loads(file.read_text())["runs"][0]["results"] == []


def test_an_output_that_a_full_disk_does_not_take_is_told_once(runner):
    text = PROGRAM.replace("with tf.", "setrlimit(RLIMIT_FSIZE, (100, 100))\nwith tf.")
    script = runner.write("full.py", f"from resource import RLIMIT_FSIZE, setrlimit\n{text}")
    file = runner.folder / "found.txt"
    done = runner.tfdbg("--check", "has_inf_or_nan", "--check-only", "--check-output", file, script)
    assert done.status == 3
    assert done.stdout.endswith("step 5\ndone\n")
    told = f"tfdbg: --check-output {file}: OSError: [Errno 27] File too large"
    assert [note for note in done.notes if "--check-output" in note] == [told]
    assert "check failed in 3 of 6 run(s)" in done.stderr
    assert "Traceback" not in done.stderr


def test_github_shows_the_line(runner, program):
    runner.environment |= {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(runner.folder)}
    done = runner.tfdbg("--check", "has_inf_or_nan", program)
    line = PROGRAM.splitlines().index('y = tf.log(x, name="y")') + 1
    shown = [each for each in done.stderr.splitlines() if each.startswith("::error")]
    assert len(shown) == 1
    start = f"::error file=train.py,line={line},title=tfdbg%3A has_inf_or_nan::y:0 "
    assert shown[0].startswith(start)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--check has_inf", "Did you mean has_inf_or_nan?"),
        ("--check ,", "--check needs a filter"),
        ("--check --check-only", "--check needs a filter"),
        ("--check-only", "--check-only needs --check"),
        ("--check dead -c run", "leave out -c"),
        ("--check dead --check-format json", "--check-output"),
        ("--check dead --check-output no/such/folder.xml", "No such file"),
        ("--check dead --after x", "not a number of runs"),
    ],
)
def test_a_wrong_use_is_one_line(runner, program, options, told):
    done = runner.tfdbg(*shlex.split(options), program)
    assert (done.status, done.stdout) == (2, "")
    assert told in done.stderr.splitlines()[-1]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
@pytest.mark.torch
def test_a_training_step_of_pytorch(runner):
    script = runner.write("train.py", TORCH)
    options = ("--dump-root", runner.folder / "dumps", "--check", "origin_of_nonfinite")
    done = runner.forked(("torch._dynamo",), "-m", "tfdbg_cli", *options, script)
    assert done.status == 3
    assert done.stdout == "step 0\nstep 1\nstep 2\n"
    line = next(n for n, text in enumerate(TORCH.splitlines(), 1) if ".log()" in text)
    assert (
        f"log:0 in training run #4: Linear(input: float32[1, 2]) at {script}:{line}"
        in (said(done)[0])
    )
