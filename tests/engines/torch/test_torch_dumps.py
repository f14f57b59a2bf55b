"""Dumps of PyTorch runs on disk: the same offline as live, and in TensorFlow's own reader."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from program_server import Programs, environment
from samples import night

PROGRAM = """\
import sys

import torch
from torch import nn

import tfdbg_cli


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(4, 8)
        self.fc2 = nn.Linear(8, 2)

    def forward(self, x):
        hidden = torch.relu(self.fc1(x))
        return self.fc2(torch.log(hidden))


torch.manual_seed(0)
torch.set_num_threads(1)
net = Net()
optimizer = torch.optim.SGD(net.parameters(), 0.1)
x = torch.rand(3, 4)
for step in range(3):
    with tfdbg_cli.run("step"):
        optimizer.zero_grad()
        brain = x.to(torch.bfloat16) * 2
        eighth = brain.to(torch.float8_e4m3fn)
        turned = torch.complex(x, x) * 1j
        empty = torch.zeros(0, 3) + 1
        scalar = torch.tensor(2.0) + step
        mask = x > 0.5
        turned_back = (x * 2).t()[1:, :2]
        loss = net(x).sum()
        loss.backward()
        optimizer.step()
        if "fail" in sys.argv:
            torch.ones(2, 3) @ torch.ones(4, 5)
    if "die" in sys.argv and step == 1:
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
print("done")
"""

#: What is looked at live and offline; ``run_info`` and the error screen are compared by themselves.
LOOKS = (
    "lt -o health,min,max,time",
    "lt --views -o dtype,shape,health,size",
    "lt -f has_inf_or_nan",
    "lt -f origin_of_nonfinite",
    "pt fc1/addmm:0 -a",
    "pt mul:0",  # bfloat16
    "pt to_copy_1:0",  # float8
    "pt mul_1:0",  # complex
    "pt slice_1:0",  # a view
    "pt log:0 --bad",
    "ni -a -d -t log",
    "ni -t gradients/fc2/addmm_grad/mm",
    "li -r -d 9 sum",
    "lo fc1/addmm",
    "li --to-first-bad optimizer/SGD/fc1.weight/add_",
    "ls",
    "ps {script}",
    "eval np.sum(`fc1/addmm:0`)",
)


def debug(folder, script, *options, commands=(), arguments=(), status=0):
    """The program under the debugger in batch."""
    return call(folder, *options, commands=commands, program=[script, *arguments], status=status)


def look(folder, path, *commands):
    """A dump, offline in batch."""
    return call(folder, "--dump-dir", str(path), commands=commands, program=[])


def call(folder, *options, commands, program, status=0):
    given = [part for command in commands for part in ("-c", command)]
    # Who looks at a dump has no PyTorch.
    programs = Programs(environment(folder) | {"COLUMNS": "160"}, ("torch",) if program else ())
    done = programs.debugged("--batch", *options, *given, *program)
    if status is not None:
        assert done.status == status, done.err + done.out
    return done.out


def sections(printed):
    """What each command has printed, by the command."""
    printed = re.sub(r"(?m)^The dump is kept in .*\n", "", printed.removesuffix("done\n"))
    pieces = re.split(r"^--- (.*) ---$", printed, flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("program") / "train.py"
    path.write_text(PROGRAM)
    return str(path)


@pytest.fixture(scope="module")
def live(script, tmp_path_factory):
    """A run that was looked at and kept: what was printed, and the folder."""
    folder = tmp_path_factory.mktemp("live")
    commands = ["run", *(each.format(script=script) for each in LOOKS), "run_info"]
    printed = debug(
        folder,
        script,
        *("--keep-dumps", "--dump-root", str(folder / "kept")),
        commands=commands,
    )
    return sections(printed), folder / "kept" / "run_000001"


# The run folder.


@pytest.fixture(scope="module")
def offline(live, script, tmp_path_factory):
    """The same commands over the folder."""
    _, path = live
    folder = tmp_path_factory.mktemp("offline")
    commands = [each.format(script=script) for each in LOOKS]
    return sections(look(folder, path, *commands, "run_info"))


@pytest.mark.parametrize("command", LOOKS)
def test_a_run_folder_shows_what_the_living_run_has_shown(command, live, offline, script):
    name = command.format(script=script).replace("ps ", "source: ")
    printed = live[0][name]
    assert offline[name] == printed
    assert "ERROR" not in printed


def test_run_info_tells_the_kind_the_details_and_the_outputs(live, offline):
    told = offline["run_info"]
    bar = "=" * 38
    assert told.split(bar)[1] == live[0]["run_info"].split(bar)[1]
    assert "Block #1" in told
    assert re.search(r"loss = sum:0", told)


def test_float8_and_bfloat16_are_counted_and_printed_exactly(offline):
    assert "bfloat16" in offline["pt mul:0"]
    assert "float8_e4m3fn" in offline["pt to_copy_1:0"]


def test_inputs_are_kept_with_the_values_that_the_run_got(tmp_path):
    loop = str(Path(__file__).parent / "scripts" / "plain_loop.py")
    kept = tmp_path / "kept"
    printed = debug(
        tmp_path,
        loop,
        *("--keep-dumps", "--dump-root", str(kept)),
        commands=["run -t 2", "pf x", "run_info"],
    )
    told = sections(look(tmp_path, kept / "run_000001", "pf x", "run_info"))
    assert told["pf x"] == sections(printed)["pf x"]
    assert "Training run #2" in told["run_info"]
    assert "float32[16, 6]" in told["run_info"]


def test_numbers_at_the_end_of_float64_are_told_offline(tmp_path):
    path = tmp_path / "norm.py"
    path.write_text(
        """
import torch
x = torch.ones(4, 6, dtype=torch.float64)
x[1, 2] = -1.797e308
for _ in range(2):
    weight = torch.ones((), dtype=torch.float64, requires_grad=True)
    y = x * weight
    (y / y.norm(dim=1, keepdim=True)).sum().backward()
"""
    )
    kept, why = tmp_path / "kept", "why -f has_inf_or_nan"
    commands = ["config set level values", *["run -f has_inf_or_nan"] * 2]
    options = ("--keep-dumps", "--dump-root", str(kept))
    live = sections(debug(tmp_path, str(path), *options, commands=commands))[why]
    told = sections(look(tmp_path, kept / "run_000002", why))[why]
    for printed in (live, told):
        assert "It began in [linalg_vector_norm]" in printed
        assert "Why:   float64 overflows at [1, 0]" in printed


def test_an_error_is_shown_offline_with_its_op(script, tmp_path):
    printed = debug(
        tmp_path,
        script,
        *("--keep-dumps", "--dump-root", str(tmp_path / "kept")),
        commands=["run", "run"],
        arguments=["fail"],
        status=1,
    )
    assert "Op name:    mm" in printed
    (path,) = (tmp_path / "kept").iterdir()
    told = look(tmp_path, path, "error", "li mm", "lt -n ^log$")
    assert "Op name:    mm" in told
    assert "mat1 and mat2 shapes cannot be multiplied (2x3 and 4x5)" in told
    assert " log:0" in told


def test_a_timed_run_is_kept_with_its_timings(script, tmp_path):
    printed = debug(
        tmp_path,
        script,
        *("--keep-dumps", "--dump-root", str(tmp_path / "kept")),
        commands=["run -p", "lp"],
    )
    (path,) = (tmp_path / "kept").iterdir()
    assert sections(look(tmp_path, path, "lp"))["lp"] == sections(printed)["lp"]


def test_a_dump_beyond_the_limit_is_looked_at_kept_and_opened(script, tmp_path):
    printed = debug(
        tmp_path,
        script,
        *("--keep-dumps", "--dump-root", str(tmp_path / "kept"), "--dump-limit", "200"),
        commands=["run", "lt -f has_inf_or_nan", "pt fc1/addmm:0"],
    )
    found = sections(printed)
    assert "is above --dump-limit and lies in" in printed
    assert " log:0" in found["lt -f has_inf_or_nan"]
    (path,) = (tmp_path / "kept").iterdir()
    assert (
        sections(look(tmp_path, path, "pt fc1/addmm:0"))["pt fc1/addmm:0"]
        == (found["pt fc1/addmm:0"])
    )


def test_a_dump_beyond_the_limit_goes_when_it_need_not_stay(script, tmp_path):
    printed = debug(
        tmp_path,
        script,
        *("--dump-root", str(tmp_path / "spilled"), "--dump-limit", "200"),
        commands=["run", "pt fc1/addmm:0"],
    )
    assert "float32" in sections(printed)["pt fc1/addmm:0"]
    assert not list((tmp_path / "spilled").iterdir())


def test_after_a_kill_the_runs_before_it_are_whole(script, tmp_path):
    debug(
        tmp_path,
        script,
        *("--keep-dumps", "--dump-root", str(tmp_path / "kept")),
        commands=["run", "run", "run"],
        arguments=["die"],
        status=None,
    )
    paths = sorted((tmp_path / "kept").iterdir())
    assert [path.name for path in paths] == ["run_000001", "run_000002"]
    for path in paths:
        assert json.loads((path / "run.json").read_text())["tensors"] > 30
        assert " log:0" in look(tmp_path, path, "lt -n ^log$")


# The original's format.

READER = """\
import json
import os
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
from tensorflow.python.debug.lib import debug_data

dump = debug_data.DebugDumpDir(sys.argv[1], validate=True)
bad = dump.find(debug_data.has_inf_or_nan)
tensors = {}
for datum in dump.dumped_tensor_data:
    value = datum.get_tensor()
    tensors[f"{datum.node_name}:{datum.output_slot}"] = [str(value.dtype), list(value.shape)]
digits = {len(str(datum.timestamp)) for datum in dump.dumped_tensor_data}
print(
    json.dumps(
        {
            "bad": [f"{datum.node_name}:{datum.output_slot}" for datum in bad],
            "tensors": tensors,
            "digits": sorted(digits),
            "inputs": dump.node_inputs("log"),
            "type": dump.node_op_type("log"),
            "scalar": float(dump.get_tensors("add_1", 0, "DebugIdentity")[0]),
            "devices": dump.devices(),
        }
    )
)
"""


@night
def test_tensorflows_own_reader_validates_the_dump_and_finds_the_nan(script, tmp_path):
    pytest.importorskip("tensorflow")
    debug(
        tmp_path,
        script,
        *("--keep-dumps", "--dump-format", "tfdbg", "--dump-root", str(tmp_path / "kept")),
        commands=["run"],
    )
    (path,) = (tmp_path / "kept").iterdir()
    done = subprocess.run(
        [sys.executable, "-c", READER, str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["bad"][0] == "log:0"
    assert told["inputs"] == ["relu"]
    assert told["type"] == "log"
    assert told["scalar"] == 2.0
    assert len(told["digits"]) == 1
    assert told["devices"] == ["/job:localhost/replica:0/task:0/device:CPU:0"]
    tensors = told["tensors"]
    assert tensors["mul:0"] == ["bfloat16", [3, 4]]
    assert tensors["to_copy_1:0"] == ["float8_e4m3fn", [3, 4]]
    assert tensors["mul_1:0"] == ["complex64", [3, 4]]
    assert tensors["add:0"] == ["float32", [0, 3]]
    assert tensors["gt:0"] == ["bool", [3, 4]]
    # Ours opens it as well.
    assert " log:0" in look(tmp_path, path, "lt -f has_inf_or_nan")
