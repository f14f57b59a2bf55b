"""``run -p``: the ops of a PyTorch step timed, listed, and shown beside the source."""

import json
import re

import pytest
import torch
from stops_kit import Shell, dumps_of, link_of, program_file, runs_of

from tfdbg_cli.sessions.wrappers.framework import OnRunStartAction

PROGRAM = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x = torch.randn(50, 64)
for _ in range(2):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
state = [parameter.detach().clone() for parameter in model.parameters()]
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return program_file(tmp_path_factory.mktemp("program"), PROGRAM)


@pytest.fixture(scope="module")
def dump(path):
    return dumps_of(path, OnRunStartAction.PROFILE_RUN)[1]


@pytest.fixture
def shell(dump):
    return Shell(dump, "profile")


def rows(shell, command="lp --json"):
    return [json.loads(text) for text in shell.lines(command)]


def test_the_ops_of_all_phases_are_timed_in_order(shell):
    found = rows(shell)
    names = [row["node"] for row in found]
    at = [names.index(name) for name in ("0/addmm", "pow", "mean")]
    assert at == sorted(at)
    starts = [row["start_time_us"] for row in found]
    assert starts == sorted(starts) and starts[0] == 0
    assert all(row["exec_time_us"] >= row["op_time_us"] > 0 for row in found)
    phases = {name.partition("/")[0] for name in names}
    assert {"gradients", "optimizer"} <= phases
    assert {row["device"] for row in found} == {"/job:localhost/replica:0/task:0/device:CPU:0"}


def test_names_are_those_of_a_debugged_run(path, shell):
    debugged = dumps_of(path)[1]
    ops = {node.name for node in debugged.graph().nodes.values() if "_phase" in node.attributes}
    assert {row["node"] for row in rows(shell)} == ops


def test_ops_cost_the_line_that_called_them(shell):
    by_node = {row["node"]: row for row in rows(shell)}
    assert by_node["0/addmm"]["line"] == 10
    assert by_node["gradients/0/addmm_grad/mm"]["line"] == 10
    assert by_node["optimizer/SGD/0.weight/add_"]["line"] == 12
    assert by_node["0/addmm"]["file"].endswith("train.py")


def test_the_list_filters_and_sorts(shell):
    assert {row["op_type"] for row in rows(shell, "lp -t ^addmm$ --json")} == {"addmm"}
    assert {row["line"] for row in rows(shell, "lp --min_lineno 12 --json")} == {12}
    slowest = [row["exec_time_us"] for row in rows(shell, "lp -s exec_time -r --json")]
    assert slowest == sorted(slowest, reverse=True)
    lines = shell.lines("lp -n ^0/")
    assert re.search(r"^\d+ of \d+ op execution\(s\) on 1 device\(s\):$", lines[0])
    assert any(text.startswith("Device Total") for text in lines)


def test_phases_are_summed_up(shell):
    line = next(text for text in shell.lines("lp") if text.startswith("By phase: "))
    assert re.fullmatch(r"By phase: forward [\d.]+us, backward [\d.]+us, optimizer [\d.]+us", line)


def test_lines_of_the_source_have_bars(shell):
    document = shell.document("ps train.py")
    lines = [line.text for line in document]
    costs = [text for text in lines if text.startswith("[|")]
    assert [re.search(r" L(\d+) ", text)[1] for text in costs] == ["9", "10", "11", "12"][
        -len(costs) :
    ]
    assert any(text.startswith("[||||||||||]") for text in costs)
    where = next(text for text in costs if " L12 " in text)
    count = re.search(r"(\d+\(\d+\))", where)[1]
    assert "--min_lineno 12 --max_lineno 13" in link_of(document, count)


def test_nodes_and_sources_are_there_but_no_tensors(shell):
    assert shell.dump.data() == []
    assert "  Phase: forward" in shell.lines("ni -t 0/addmm")
    assert shell.lines("li loss")[0] == 'Inputs to node "mean":'
    assert "train.py" in shell.text("ls")
    for link in dict.fromkeys(shell.links("lp")):
        assert not shell.reply(link).failed, link


def test_the_program_computes_what_it_computes_alone(path):
    alone, timed = {}, {}
    exec(compile(PROGRAM, "train.py", "exec"), alone)
    with runs_of(OnRunStartAction.PROFILE_RUN):
        exec(compile(PROGRAM, str(path), "exec"), timed)
    assert all(map(torch.equal, alone["state"], timed["state"]))


def test_an_op_that_raises_is_timed_too(tmp_path):
    text = "import torch\nmodel = torch.nn.Linear(3, 2)\ntry:\n    model(torch.ones(4))\n"
    text += "except RuntimeError as error:\n    caught = error\n"
    (dump,) = dumps_of(program_file(tmp_path, text), OnRunStartAction.PROFILE_RUN)
    shell = Shell(dump, "profile")
    error = dump.run_info().error
    assert error.op_name in {row["node"] for row in rows(shell)}
    assert "Op name:    " + error.op_name in shell.lines("error")
