"""``--send-to``: verdicts, reports and numbers go to the run that the program has open."""

import csv
import json
from pathlib import Path

import pytest
from samples import night

pytestmark = pytest.mark.torch

PROGRAM = """
import torch
{begin}
model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(3):
    loss = torch.log(model(torch.ones(2)) * 0 + 1 - 1.0 * (step == 1)).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
{end}
"""
TITLE = "has_inf_or_nan: log:0 in training run #2: Linear(input: float32[2]) at train.py:7"
COMMANDS = ("--batch", "-c", "run -f has_inf_or_nan", "-c", "run -t 5")


def ran(runner, to, begin="", end="", **environment):
    pytest.importorskip("torch")
    program = runner.write("train.py", PROGRAM.format(begin=begin, end=end))
    runner.environment |= environment
    done = runner.tfdbg(*COMMANDS, "--send-to", to, program)
    assert done.status == 0, done.stderr
    return done


@night
def test_a_run_of_mlflow_gets_files_and_a_tag(runner, tmp_path):
    pytest.importorskip("mlflow")
    store = tmp_path / "mlruns"
    begin = f"import mlflow; mlflow.set_tracking_uri('{store.as_uri()}'); mlflow.start_run()"
    done = ran(runner, "mlflow", begin, "mlflow.end_run()", MLFLOW_ALLOW_FILE_STORE="true")
    (tag,) = store.glob("0/*/tags/tfdbg")
    assert tag.read_text().startswith(f"{TITLE}: the logarithm of 0 at 2 elements")
    (folder,) = store.glob("0/*/artifacts/tfdbg/2")
    found = json.loads((folder / "verdict.json").read_text())
    assert (found["stop"], found["tensor"]["name"]) == ("filter", "log:0")
    assert "the logarithm of 0" in (folder / "report.html").read_text()
    with open(folder / "numbers.csv", newline="") as file:
        losses = [row["value"] for row in csv.DictReader(file) if row["name"] == "loss"]
    assert losses == ["0.0", "-inf"]
    # The program has closed its run before the debugger's end.
    assert "the last numbers weren't sent to mlflow: no run of mlflow is active." in done.stderr


@night
def test_a_run_of_wandb_gets_an_artifact(runner, tmp_path):
    pytest.importorskip("wandb")
    begin = f"import wandb; wandb.init(mode='offline', dir={str(tmp_path)!r})"
    ran(runner, "wandb", begin, WANDB_DATA_DIR=str(tmp_path / "data"))
    (log,) = tmp_path.glob("wandb/offline-*/*.wandb")
    assert TITLE.encode() in log.read_bytes()
    staged = [file.read_bytes() for file in (tmp_path / "data").rglob("*") if file.is_file()]
    assert any(b'"stop": "filter"' in data for data in staged)
    assert any(b"the logarithm of 0" in data and b"<html" in data for data in staged)


def test_tensorboard_reads_numbers_and_the_verdict(runner, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    ran(runner, f"tensorboard:{tmp_path / 'logs'}")
    events = EventAccumulator(str(tmp_path / "logs"))
    events.Reload()
    losses = [(each.step, each.value) for each in events.Scalars("loss")]
    assert losses[:2] == [(1, 0.0), (2, -float("inf"))]
    assert [step for step, _ in losses] == [1, 2, 3]
    (text,) = events.Tensors("tfdbg")
    assert text.tensor_proto.string_val[0].decode().startswith(TITLE)
    assert events.SummaryMetadata("tfdbg").plugin_data.plugin_name == "text"


def test_what_goes_wrong_is_a_line_and_the_program_goes_on(runner, tmp_path):
    done = ran(runner, "tensorboard", end="print('done')")
    assert (
        "nothing was sent to tensorboard: say where to: --send-to tensorboard:DIR." in done.stderr
    )
    assert done.stdout.splitlines()[-1] == "done"
    done = runner.tfdbg("--send-to", "neptune", Path(tmp_path, "none.py"))
    assert done.status == 2
    assert done.stderr.splitlines()[0].endswith(
        'there is no sender "neptune". Use mlflow, tensorboard, wandb.'
    )
