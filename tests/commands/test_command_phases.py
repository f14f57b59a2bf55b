"""What engines tell that record a program: its own names, phases, views, where an op was called."""

import numpy as np
import pytest
from command_kit import Shell, link_of

from tfdbg_cli.dumps.dump import Datum, RunError, RunInfo
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.sources import Frame, Sources

PATH = "/home/you/train.py"
SOURCE = "loss = model(x)\nloss.backward()\noptimizer.step()\n"


def node(name, op_type, line, *inputs, **attributes):
    given = {f"_{key}": text for key, text in attributes.items()}
    return Node(name, op_type, inputs, (), "", given, [Frame(PATH, line, "<module>")])


def make_dump(kind="training run", unit="program"):
    nodes = [
        Node("input/x", "Input"),
        Node("fc.weight", "Parameter"),
        node("fc/t", "t", 1, "fc.weight:0", phase="forward", view="true"),
        node(
            "fc/mm",
            "mm",
            1,
            "input/x:0",
            "fc/t:0",
            phase="forward",
            module="fc (Linear)",
            module_stack="Net > fc (Linear)",
            api="F.linear",
        ),
        node(
            "gradients/fc/mm_grad/mm",
            "mm",
            1,
            "input/x:0",
            phase="backward",
            forward_node="fc/mm",
            backward_called_at=f"{PATH}:2 in <module>",
        ),
        node(
            "optimizer/SGD/fc.weight/add_",
            "add_",
            3,
            "gradients/fc/mm_grad/mm:0",
            phase="optimizer",
            writes="fc.weight:0",
        ),
    ]
    outputs = {"loss": "fc/mm:0", "parts[0]": "fc/mm:0"}
    info = RunInfo(3, kind=kind, unit=unit, runner="Net(x)", outputs=outputs)
    dump = MemoryDump(Graph(nodes), Sources({PATH: SOURCE}, live=False), info)
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    for at, each in enumerate(nodes):
        is_view = each.name == "fc/t"
        load = lambda is_view=is_view: value.T if is_view else value  # noqa: E731
        dump.add_datum(Datum(each.name, 0, load, timestamp=at, is_view=is_view))
    return dump


@pytest.fixture
def shell():
    return Shell(make_dump())


def test_names_of_the_program(shell):
    for name in ("loss", "parts[0]"):
        assert 'Tensor "fc/mm:0:DebugIdentity":' in shell.text(f"pt {name}")
    assert "(the program calls it loss, parts[0])" in shell.text("pt fc/mm")
    assert 'Tensor "fc/mm:0:DebugIdentity[0]":' in shell.text("pt loss[0]")
    assert 'Tensor "fc/mm:0:DebugIdentity[1]":' in shell.text("pt parts[0][1]")
    assert "array(2.5" in shell.text("eval `loss`.mean()")
    assert "  In the program: loss, parts[0]" in shell.lines("ni loss")
    assert "ni loss" in shell.complete("ni l") and "pt loss" in shell.complete("pt l")


def test_sessions_have_no_names_of_their_own():
    shell = Shell(make_dump(kind="run", unit="session"))
    for command in ("pt x", "ni x"):
        assert "x" in shell.error(command)


def test_a_view_is_hidden_until_it_is_asked_for(shell):
    assert shell.lines("lt")[0] == "5 dumped tensor(s): (1 view hidden)"
    assert link_of(shell.document("lt -t t"), "(1 view hidden)") == "lt -t t --views"
    assert shell.lines("lt --views")[0] == "6 dumped tensor(s):"
    assert "fc/t:0" in shell.text("lt --views") and "fc/t:0" not in shell.text("lt")
    assert "shape: (3, 2)" in shell.text("pt fc/t")
    assert "lt --views -s size" in shell.links("lt --views")
    assert shell.dump.nbytes == 5 * 24


def test_phase_and_module_as_columns(shell):
    assert any(
        text.split() == ["backward", "-", "gradients/fc/mm_grad/mm:0"]
        for text in shell.lines("lt -o phase,module")
    )
    assert shell.lines("lt -o module -s module")[3].split()[:2] == ["fc", "(Linear)"]


def test_a_forward_op_and_its_gradient_lead_to_each_other(shell):
    forward = shell.document("ni fc/mm")
    assert link_of(forward, "gradients/fc/mm_grad/mm") == "ni gradients/fc/mm_grad/mm"
    gradient = shell.document("ni -t gradients/fc/mm_grad/mm")
    assert link_of(gradient, "fc/mm") == "ni fc/mm"
    lines = [line.text for line in gradient]
    assert "  Net > fc (Linear) > F.linear" in lines
    assert link_of(gradient, f"{PATH}:2") == f"ps {PATH} -b 2"
    assert lines[-1].endswith("loss.backward()")


def test_an_update_names_its_parameter(shell):
    document = shell.document("ni optimizer/SGD/fc.weight/add_")
    lines = [line.text for line in document]
    assert "  Phase: optimizer, of SGD for fc.weight" in lines
    assert "  Overwrites: fc.weight:0" in lines
    assert link_of(document, "fc.weight") == "ni fc.weight"


def test_the_source_tells_phases_apart(shell):
    lines = shell.lines("ps train.py")
    assert lines[:4] == [
        "L1 FB  loss = model(x)",
        "       F fc/t",
        "       F fc/mm",
        "       B gradients/fc/mm_grad/mm",
    ]
    assert lines[4].rstrip() == "L2     loss.backward()"
    assert lines[5] == "L3   O optimizer.step()"
    assert "       F fc/mm:0" in shell.lines("ps -t train.py")
    assert "#(forward)  #(backward)  #(optimizer)" in shell.text("ls")


def test_the_error_screen_shows_what_the_op_was_given():
    dump = make_dump()
    dump.run_info().error = RunError("RuntimeError", "bad shapes", "fc/mm", PATH, 1)
    shell = Shell(dump)
    document = shell.document("error")
    lines = [line.text for line in document]
    assert "Inputs:     input/x:0  float32 (2, 3)" in lines
    assert "            fc/t:0     float32 (3, 2)" in lines
    assert lines[lines.index(f"Line:       {PATH}:1") + 1].strip() == "loss = model(x)"
    assert link_of(document, "input/x:0") == "pt input/x:0"
    for command in shell.links("error"):
        assert not shell.reply(command).failed, command


def test_the_error_screen_of_a_run_that_was_not_debugged():
    info = RunInfo(
        3, kind="training run", unit="program", error=RunError("RuntimeError", "bad", "", PATH, 2)
    )
    sources = Sources({PATH: SOURCE}, live=False)
    shell = Shell(MemoryDump(Graph(()), sources, info))
    lines = shell.lines("error")
    assert "This run was not debugged, so its ops and tensors are not known." in lines
    assert any(text.startswith("run -t 3 ") for text in lines)
    assert f"ps {PATH} -b 2" in shell.links("error")
