"""The senders that come with the debugger: Weights & Biases, MLflow, TensorBoard.

Each is an entry point of the group ``tfdbg_cli.senders``. The first two add to the run that the
program has open; what the program itself logs stays as it is.
"""

from __future__ import annotations

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.series.event_files import write_events
from tfdbg_cli.sessions.sending.sending import Message

__all__ = ["to_mlflow", "to_tensorboard", "to_wandb"]


def to_wandb(message: Message) -> None:
    """Log an artifact of the type ``tfdbg`` in the open run, and the title in its summary."""
    import wandb

    if wandb.run is None:
        raise UserError("no run of wandb is open.")
    artifact = wandb.Artifact(f"tfdbg-{wandb.run.id}", "tfdbg", description=message.title)
    artifact.add_dir(str(message.folder))
    wandb.run.log_artifact(artifact)
    if message.title:
        wandb.run.summary["tfdbg"] = message.title


def to_mlflow(message: Message) -> None:
    """Log the files as artifacts of the active run, and the title as its tag ``tfdbg``."""
    import mlflow

    if mlflow.active_run() is None:
        raise UserError("no run of mlflow is active.")
    number = message.record["run"]["number"] if message.record else "end"
    mlflow.log_artifacts(str(message.folder), f"tfdbg/{number}")
    if message.title:
        mlflow.set_tag("tfdbg", message.title)


def to_tensorboard(message: Message) -> None:
    """Write numbers as scalars, and the title as a text, to event files in ``message.place``."""
    if not message.place:
        raise UserError("say where to: --send-to tensorboard:DIR.")
    run = message.record["run"]["number"] if message.record else 0
    texts = {"tfdbg": (run, message.title)} if message.title else {}
    write_events(message.started_in / message.place, message.numbers, texts)
