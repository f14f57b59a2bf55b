"""Every command at the end of a training step of PyTorch, as a user types it."""

import json
import re

import numpy as np
import pytest
from stops_kit import Shell, dumps_of, link_of, program_file

from tfdbg_cli.commands.context import TENSOR_MODES
from tfdbg_cli.commands.shell.parsing import quoted, split_words
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump
from tfdbg_cli.dumps.run_folder.writer import write_run_folder
from tfdbg_cli.dumps.tfdbg_dir.writer import write_dump_directory

PROGRAM = """\
import torch
from torch import nn
from torch.nn import functional as F

class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 4)
    def forward(self, values):
        return F.relu(self.linear(values))

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = Encoder()
        self.head = nn.Linear(4, 3)
    def forward(self, values):
        hidden = self.encoder(values)
        return self.head(hidden)

torch.manual_seed(0)
model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
x, y = torch.randn(5, 6), torch.randint(3, (5,))
for _ in range(2):
    optimizer.zero_grad()
    logits = model(x)
    loss = F.cross_entropy(logits, y)
    loss.backward()
    optimizer.step()
"""
LINES = {text.strip(): number for number, text in enumerate(PROGRAM.splitlines(), 1)}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return program_file(tmp_path_factory.mktemp("program"), PROGRAM)


@pytest.fixture(scope="module")
def dumps(path):
    return dumps_of(path)


@pytest.fixture(scope="module")
def dump(dumps):
    assert len(dumps) == 2
    return dumps[1]


@pytest.fixture
def shell(dump):
    return Shell(dump)


def value_of(shell, name):
    return shell.dump.value(shell.dump.by_tensor(name)[0])


# The program's own names.


def test_variables_name_what_the_run_made(shell):
    assert shell.dump.run_info().outputs["loss"] == "nll_loss_forward:0"
    text = shell.text("pt loss")
    assert text.startswith('Tensor "nll_loss_forward:0":')
    assert "(the program calls it loss)" in text
    assert shell.text("pt logits[0, 1:]").startswith('Tensor "head/addmm:0[0, 1:]"')
    assert shell.lines("ni loss")[0] == "Node nll_loss_forward"
    assert "  In the program: loss" in shell.lines("ni nll_loss_forward")
    assert shell.lines("li loss")[0] == 'Inputs to node "nll_loss_forward":'
    assert shell.lines("lo logits")[0] == 'Recipients of node "head/addmm":'
    assert shell.lines("li --path x loss")[0].startswith('Path from "input/x" to "nll_loss_forw')
    assert '"loss" is not bad' in shell.text("li --to-first-bad loss")


def test_variables_in_expressions(shell):
    value = value_of(shell, "nll_loss_forward:0")
    assert repr(np.float32(value)).removeprefix("np.") in shell.text("eval `loss`.mean()") or (
        f"{float(value):.4f}"[:5] in shell.text("eval `loss`.mean()")
    )
    assert "shape: (5, 3)" in shell.text("eval `logits`")
    assert "shape: (5, 3)" in shell.text("eval \"fetches['logits']\"")
    assert "shape: (5, 6)" in shell.text("eval `x`")


def test_inputs_and_parameters_are_nodes_like_any(shell):
    for name in ("input/x", "x"):
        assert 'Tensor "input/x:0":' in shell.text(f"pt {name}")
    assert "shape: (4, 6)" in shell.text("pt encoder.linear.weight")
    assert "shape: (5, 6)" in shell.text("pf x")
    assert "  Op: Parameter" in shell.lines("ni encoder.linear.weight")


def test_names_of_nodes_go_before_the_programs(dump):
    info = dump.run_info()
    shell = Shell(dump, info=info)
    info.outputs = {**info.outputs, "relu": "head/addmm:0", "encoder/relu": "head/addmm:0"}
    try:
        assert "head/addmm:0" in shell.lines("pt relu")[0]
        assert "encoder/relu:0" in shell.lines("pt encoder/relu")[0]
    finally:
        info.outputs = {name: t for name, t in info.outputs.items() if "relu" not in name}


def test_wrong_names_are_told_the_programs(shell):
    for command in ("pt los", "ni lss", "eval `losss`"):
        assert "Did you mean loss" in shell.error(command)


def test_names_are_completed(shell):
    assert "pt loss" in shell.complete("pt lo")
    assert "ni logits" in shell.complete("ni log")
    assert "eval `logits`" in shell.complete("eval `logi")
    assert "lt -n encoder/relu" in shell.complete("lt -n encoder/re")


# lt


def test_views_are_hidden_unless_asked(shell):
    head, rows = shell.lines("lt")[0], shell.text("lt")
    hidden = int(re.search(r"\((\d+) views hidden\)", head)[1])
    assert hidden > 5 and "encoder.linear/t:0" not in rows
    assert link_of(shell.document("lt"), f"({hidden} views hidden)") == "lt --views"
    lines = shell.lines("lt --views")
    assert "hidden" not in lines[0] and any("encoder.linear/t:0" in text for text in lines)
    assert shell.lines("lt -t ^addmm$")[0] == "2 dumped tensor(s):"
    assert shell.lines("lt -n ^encoder.linear/t$")[0] == "0 dumped tensor(s): (1 view hidden)"
    views = [json.loads(text) for text in shell.lines("lt --views --json")]
    assert len(views) == len(shell.dump.data())


def test_views_are_what_they_were_in_the_run(dumps, shell):
    weight = dumps[1].value(dumps[1].by_tensor("encoder.linear.weight:0")[0])
    (datum,) = shell.dump.by_tensor("encoder.linear/t:0")
    assert datum.is_view and datum.shape == (6, 4) and datum.nbytes == weight.nbytes
    np.testing.assert_array_equal(shell.dump.value(datum), weight.T)
    after = dumps[1].value(dumps[1].by_tensor("optimizer/Adam/encoder.linear.weight/addcdiv_:0")[0])
    assert not np.array_equal(after, weight)  # the step has overwritten it
    assert "shape: (6, 4)" in shell.text("pt encoder.linear/t")


def test_filters_leave_views_out(shell):
    found = shell.dump.find(lambda datum, value: True)
    assert not any(datum.is_view for datum in found)


def test_phase_and_module_are_columns(shell):
    rows = shell.lines("lt -t addmm -o phase,module")
    assert any(
        text.split() == ["forward", "encoder.linear", "(Linear)", "encoder.linear/addmm:0"]
        for text in rows
    )
    by_phase = shell.lines("lt -o phase -s phase")
    phases = [text.split()[0] for text in by_phase if re.match(r"(forward|backward|optimi)", text)]
    assert phases == sorted(phases) and set(phases) == {"backward", "forward", "optimizer"}
    assert {"lt -o phase", "lt -o phase,module"} <= {
        *shell.complete("lt -o ph"),
        *shell.complete("lt -o phase,mod"),
    }


def test_names_of_gradients_and_updates_are_prefixes(shell):
    assert all("gradients/" in text for text in shell.lines("lt -n ^gradients/")[4:] if text)
    assert "optimizer/Adam/head.bias/addcdiv_:0" in shell.text("lt -n ^optimizer/")


def test_a_run_folder_keeps_what_is_known(dump, tmp_path):
    write_run_folder(dump, tmp_path / "run")
    kept = RunFolderDump(tmp_path / "run")
    shell = Shell(kept, "offline")
    assert shell.lines("lt")[0] == Shell(dump).lines("lt")[0]
    assert shell.text("pt loss") == Shell(dump).text("pt loss")
    # The file is younger than this process: that its text may have changed is said where it is.
    live = [text for text in Shell(dump).lines("ni -t loss") if "changed on disk" not in text]
    assert shell.lines("ni -t loss") == live
    assert [d.is_view for d in kept.data()] == [d.is_view for d in dump.data()]
    assert shell.text("pt encoder.linear/t") == Shell(dump).text("pt encoder.linear/t")
    assert not kept.warnings


# ni


def test_a_forward_op_tells_module_call_and_gradients(shell):
    lines = shell.lines("ni encoder.linear/addmm")
    for text in (
        "  Phase: forward",
        "  Module: encoder.linear (Linear)",
        "  Called as: F.linear",
    ):
        assert text in lines
    at = next(at for at, text in enumerate(lines) if text.endswith("gradient op(s):"))
    assert "      [mm] gradients/encoder.linear/addmm_grad/mm" in lines[at:]
    assert "ni gradients/encoder.linear/addmm_grad/mm" in shell.links("ni encoder.linear/addmm")
    assert "_module_stack" not in shell.text("ni encoder.linear/addmm")
    assert "_module_stack" in shell.text("ni -a encoder.linear/addmm")


def test_a_gradient_tells_its_forward_op_and_both_calls(shell):
    name = "gradients/encoder.linear/addmm_grad/mm"
    document = shell.document(f"ni -t {name}")
    lines = [line.text for line in document]
    assert "  Gradient of: encoder.linear/addmm" in lines
    assert "  Called as: F.linear (forward)" in lines
    assert link_of(document, "encoder.linear/addmm") == "ni encoder.linear/addmm"
    at = lines.index("Made by the forward op encoder.linear/addmm, called at:")
    stack = "  Net > encoder (Encoder) > linear (Linear) > F.linear"
    assert lines[at + 1] == stack
    where = [text for text in lines[at:] if text.startswith("  Line: ")]
    assert [int(text.split()[-1]) for text in where][-3:] == [
        LINES["logits = model(x)"],
        LINES["hidden = self.encoder(values)"],
        LINES["return F.relu(self.linear(values))"],
    ]
    at = lines.index("The backward pass was called at:")
    assert lines[at + 1].endswith(f"train.py:{LINES['loss.backward()']}")
    assert lines[at + 2].endswith("loss.backward()")


def test_an_update_tells_optimizer_and_parameter(shell):
    lines = shell.lines("ni -t optimizer/Adam/head.weight/addcdiv_")
    assert "  Phase: optimizer, of Adam for head.weight" in lines
    assert f"  Line:     {LINES['optimizer.step()']}" in lines
    assert "ni head.weight" in shell.links("ni optimizer/Adam/head.weight/addcdiv_")


def test_the_gradient_of_a_parameter_names_it(shell):
    lines = shell.lines("ni -t gradients/head.bias/AccumulateGrad/detach")
    assert "  Gradient of: head.bias" in lines
    assert "Made by a backward pass, called at:" in lines
    assert f"  Line:     {LINES['loss.backward()']}" in lines


def test_frames_of_libraries_are_folded(shell):
    text = shell.text("ni -t encoder.linear/addmm")
    assert "module.py" not in text and "frame(s) inside libraries" in text
    assert "torch/nn/modules/linear.py" in shell.text("ni -t -a encoder.linear/addmm")


# ls and ps


def test_ps_tells_the_phases_of_a_line_apart(shell):
    lines = shell.lines("ps train.py -m 4")
    marks = {
        text: next(row for row in lines if row.startswith(f"L{LINES[text]} "))
        for text in ("logits = model(x)", "loss.backward()", "optimizer.step()", "import torch")
    }
    assert marks["logits = model(x)"].split()[1] == "FB"
    assert marks["loss.backward()"].split()[1] == "B"
    assert marks["optimizer.step()"].split()[1] == "O"
    assert marks["import torch"].split()[1:] == ["import", "torch"]
    at = lines.index(marks["logits = model(x)"])
    group = [text.strip() for text in lines[at + 1 : at + 11]]
    assert group[0] == "F encoder.linear/t"
    assert group[4].startswith("F (... Omitted") and group[4].endswith("+5")
    assert group[5].startswith("B gradients/") and group[9].startswith("B (... Omitted")
    assert lines[-1] == "(F: forward; B: backward, the gradients; O: optimizer)"


def test_ps_names_tensors_without_views(shell):
    text = shell.text("ps -t train.py")
    assert "F encoder.linear/addmm:0" in text and "encoder.linear/t:0" not in text


def test_ls_counts_the_ops_of_each_phase(shell):
    head = next(text for text in shell.lines("ls") if text.startswith("Source file path"))
    assert head.split()[-3:] == ["#(forward)", "#(backward)", "#(optimizer)"]
    (own,) = (json.loads(text) for text in shell.lines("ls -p train --json"))
    ops = [node for node in shell.dump.graph().nodes.values() if node.frames]
    assert own["nodes"] == own["forward"] + own["backward"] + own["optimizer"] == len(ops)


def test_a_run_of_one_phase_looks_as_ever(path, tmp_path):
    text = "import torch\nx = torch.ones(3)\nmodel = torch.nn.Linear(3, 2)\nz = model(x)\n"
    (dump,) = dumps_of(program_file(tmp_path, text, "infer.py"))
    shell = Shell(dump)
    lines = shell.lines("ps infer.py")
    assert "L4 * z = model(x)" in lines
    assert lines[-1].startswith("(*: this run computed")
    assert "#(tensor dumps)" in shell.text("ls")


# All of them.


@pytest.mark.parametrize(
    "command",
    [
        "run_info",
        "lt -s health -r",
        "lt -f has_inf_or_nan",
        "lt -f origin_of_nonfinite",
        "pt loss -s",
        "pt logits --bad",
        "pt logits --sort-by-magnitude",
        "ni -a -d -t head/addmm",
        "li -r -c -t -d 4 loss",
        "lo -r -c -t -d 4 input/x",
        "li --path input/x optimizer/Adam/head.weight/addcdiv_",
        "li --to-first-bad",
        "ls",
        "ps train.py",
        "eval np.abs(`logits`).max()",
        "pf x",
        "help",
        "version",
    ],
)
def test_every_command_and_every_link_on_its_screen_works(shell, command):
    assert shell.document(command).line_count
    for link in dict.fromkeys(shell.links(command)):
        reply = shell.reply(link)
        assert not reply.failed, (link, reply.message, reply.details)


def test_no_command_speaks_of_sessions(shell):
    for command in ("run_info", "pf x", "lt", "ni loss", "ls", "ps train.py"):
        text = shell.text(command)
        for word in ("Session.run", "feed_dict", "Fetch(es)"):
            assert word not in text, (command, word)


def test_commands_are_there_at_this_stop(shell):
    known = shell.context.registry.available("run-end")
    assert {c.name for c in known if TENSOR_MODES & c.modes} >= {"list_tensors", "print_tensor"}


def test_why_a_node_has_no_tensors_is_said(tmp_path):
    text = "import torch\nmodel = torch.nn.Linear(3, 2)\n"
    text += "class Net(torch.nn.Module):\n    def forward(self, x):\n"
    text += (
        "        buffer = torch.empty(2, 3)\n        buffer.copy_(x)\n        return buffer.sum()\n"
    )
    text += "total = Net()(torch.ones(2, 3))\n"
    (dump,) = dumps_of(program_file(tmp_path, text))
    (name,) = (node.name for node in dump.graph().nodes.values() if node.op_type == "empty")
    assert "no values yet" in Shell(dump).error(f"pt {name}")


# Tensors that NumPy doesn't have.

KINDS = """\
import warnings
import torch
warnings.filterwarnings("ignore", module="torch")

class Net(torch.nn.Module):
    def forward(self, x):
        half = x.to(torch.bfloat16) / 0
        fine = x.to(torch.float8_e4m3fn)
        coarse = (x * 1e6).to(torch.float8_e5m2)
        pair = torch.complex(x, x.log())
        levels = torch.quantize_per_tensor(x, 0.1, 3, torch.quint8)
        sparse = x.relu().to_sparse() * 2
        nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.full((4, 3), x[0, 2].log())])
        return half.sum(), fine, coarse, pair, levels, sparse, nested * 2

net = Net()
half, fine, coarse, pair, levels, sparse, nested = net(
    torch.tensor([[1.0, -2.0, 0.0], [3.0, 4.0, 500.0]])
)
"""


@pytest.fixture(scope="module")
def kinds(tmp_path_factory):
    (dump,) = dumps_of(program_file(tmp_path_factory.mktemp("kinds"), KINDS))
    return dump


def row_of(shell, name):
    """Dtype, shape and health in the list."""
    lines = shell.lines(f"lt -n ^{name}$ -o dtype,shape,health", 120)
    text = next(text for text in lines if text.endswith(f"{name}:0"))
    return text.removesuffix(f"{name}:0").strip()


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("net/div", "bfloat16 (2, 3)      1 nan 1 -inf 4 +inf"),
        ("net/_to_copy_1", "float8_e4m3fn (2, 3)      ok"),
        ("net/_to_copy_2", "float8_e5m2 (2, 3)      1 -inf 4 +inf"),
        ("net/complex", "complex64 (2, 3)      1 nan 1 -inf"),
        ("net/quantize_per_tensor", "float32  (2, 3)      ok"),
        ("net/mul_1", "float32  (2, 3)      ok"),
        ("net/mul_2", "float32  (6, 3)      12 -inf"),
    ],
)
def test_every_kind_of_tensor_is_listed_as_it_is(kinds, name, row):
    assert row_of(Shell(kinds), name).split() == row.split()


def test_filters_see_every_kind_of_tensor(kinds):
    found = Shell(kinds).text("lt -f has_inf_or_nan")
    for name in ("net/div:0", "net/_to_copy_2:0", "net/complex:0", "net/mul_2:0"):
        assert name in found
    for name in ("net/_to_copy_1:0", "net/quantize_per_tensor:0", "net/mul_1:0"):
        assert name not in found


def test_values_of_every_kind_are_printed_measured_and_saved(kinds, tmp_path):
    shell = Shell(kinds)
    assert "(dequantized quint8, scale 0.1, zero point 3)" in shell.lines("pt levels")
    assert any("COO" in text for text in shell.lines("pt sparse"))
    assert any("2 parts" in text for text in shell.lines("pt nested"))
    for name in ("net/div", "fine", "coarse", "pair", "levels", "sparse", "nested"):
        assert "| total |" in shell.text(f"pt {name} -s")
        file = tmp_path / f"{name.replace('/', '_')}.npy"
        assert "Saved value to" in shell.text(f"pt {name} -w {file}") and file.exists()
    assert "array(6)" in shell.text("eval 'np.isinf(`coarse`.astype(float)).sum() + 1'")
    assert np.load(tmp_path / "levels.npy").max() == np.float32(25.2)


def test_run_folders_keep_every_kind(kinds, tmp_path):
    write_run_folder(kinds, tmp_path / "run")
    kept, live = Shell(RunFolderDump(tmp_path / "run"), "offline"), Shell(kinds)
    for name in ("net/div", "fine", "coarse", "pair", "levels", "sparse", "nested"):
        assert kept.lines(f"pt {name}") == live.lines(f"pt {name}")


KEYS = (
    *(
        "my key",
        "my_key",
        "a+b=c",
        "p@1 50%",
        "tête",
        "层",
        "σ",
        "a/b",
        "a:b",
        "a,b",
        "a;b",
        "a > b",
    ),
    *('a"b', "a'b", "a[b]", "a(b", "a#b", "a%b", "(a)", "[0]", "-a", "#a"),
)
# What names something else in a reference, or can't be quoted, is escaped: no two become one.
ESCAPED = {
    "a:0": "a%3A0",
    "a`b": "a%60b",
    "/a": "%2Fa",
    "a/": "a%2F",
    "a%2Fb": "a%252Fb",
    "a'b\"c": 'a%27b"c',
}
OWN_KEYS = f"""
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleDict({{key: nn.Linear(2, 2) for key in {(*KEYS, *ESCAPED)}}})

    def forward(self, x):
        for part in self.parts.values():
            x = part(x)
        return x


Model()(torch.ones(1, 2))
"""


def test_names_are_the_keys_of_the_state_dict_whatever_they_are_made_of(tmp_path):
    (dump,) = dumps_of(program_file(tmp_path, OWN_KEYS))
    write_run_folder(dump, tmp_path / "run")
    write_dump_directory(dump, tmp_path / "original")
    keys = (*KEYS, *ESCAPED.values())
    for kept in (dump, open_dump(tmp_path / "run"), open_dump(tmp_path / "original")):
        names = {datum.node_name for datum in kept.data()}
        shell = Shell(kept, "run-end" if kept is dump else "offline")
        completed = shell.complete("pt parts.") + shell.complete("pt '") + shell.complete('pt "')
        assert {f"parts.{key}.weight" for key in keys} <= names
        for key in keys:
            name = f"parts.{key}/addmm"
            tensor = f"{name}:0"
            assert f"Node {name}" in shell.text(f"ni {quoted(name)}")
            assert shell.text(f"pt {quoted(tensor)}").startswith(f'Tensor "{tensor}')
            assert tensor in shell.text(f"lt -n {quoted(f'^{re.escape(name)}')}")
            value = shell.service.run(f"eval {quoted(f'`{tensor}` + 0')}")
            assert value.document is not None, value.message
            assert any(tensor in split_words(line) for line in completed)
