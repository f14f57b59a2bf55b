"""The unmodified PyTorch programs that the engine is judged on, and the runs that each has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

__all__ = ["BLOCK", "CORPUS", "GRADIENT", "INFERENCE", "TRAINING", "Runs", "Script", "by_name"]

TRAINING = "training run"
INFERENCE = "inference run"
GRADIENT = "gradient run"
BLOCK = "block"

_FOLDER = Path(__file__).resolve().parent / "scripts"


@dataclass(frozen=True)
class Runs:
    """Runs of one kind that follow each other.

    Attributes:
        kind: one of the four.
        count: how many.
        events: of each run: F, B, S; several are those of the runs in turn; none: not looked at.
    """

    kind: str
    count: int
    events: tuple[str, ...] = ()


@dataclass(frozen=True)
class Script:
    """One program of the corpus.

    Attributes:
        name: its file, without the suffix.
        runs: what the debugger is to find, in order (on every rank, if there are several).
        needs: packages besides PyTorch.
        ranks: how many processes it is to be started in, by ``torchrun``.
        has_origin: whether an op of it makes something infinite or NaN of finite tensors.
    """

    name: str
    runs: tuple[Runs, ...]
    needs: tuple[str, ...] = ()
    ranks: int = 1
    has_origin: bool = False

    @property
    def path(self) -> Path:
        """Its file."""
        return _FOLDER / f"{self.name}.py"

    @property
    def kinds(self) -> list[str]:
        """The kind of each run."""
        return [group.kind for group in self.runs for _ in range(group.count)]

    @property
    def events(self) -> list[str | None]:
        """The events of each run; ``None`` where they aren't looked at."""
        found: list[str | None] = []
        for group in self.runs:
            for number in range(group.count):
                found.append(group.events[number % len(group.events)] if group.events else None)
        return found


def _training(count: int, *events: str) -> Runs:
    return Runs(TRAINING, count, events)


def _inference(count: int) -> Runs:
    return Runs(INFERENCE, count, ("F",))


def _gradient(count: int) -> Runs:
    return Runs(GRADIENT, count, ("B",))


def _script(
    name: str,
    *runs: Runs,
    repeat: int = 1,
    needs: Sequence[str] = (),
    ranks: int = 1,
    has_origin: bool = False,
) -> Script:
    return Script(name, runs * repeat, tuple(needs), ranks, has_origin)


CORPUS: tuple[Script, ...] = (
    # What a run is.
    _script("plain_loop", _training(5, "FFBS")),
    _script("gradient_accumulation", _training(3, "FFBFFBFFBS")),
    _script("gan", _training(6, "FFFFFBS", "FFFBS")),
    _script("inference", _inference(4)),
    _script("inference_with_gradients", _inference(3)),
    _script("train_and_validate", _training(3, "FBS"), _inference(2), repeat=2),
    _script("reinforcement", _inference(4), _training(1, "FFBS"), repeat=2),
    _script("lbfgs", _training(2, "SFBFBFBFB")),
    _script("manual_sgd", _gradient(5)),
    _script("functional_gradient", _gradient(4)),
    _script("grad_scaler", _training(8, "FBS")),
    _script("optimizer_in_backward", _training(4, "FBSS")),
    _script("skipped_batches", _training(4, "FBS", "FFBS")),
    _script("background_thread", _training(5, "FBS")),
    _script("explicit_block", Runs(BLOCK, 2, ("FBSFBSF",))),
    _script("evaluation_with_gradients", _inference(2), _training(1, "FBS"), repeat=3),
    _script("evaluation_after_training", _training(1, "FBS"), _inference(3), repeat=2),
    _script("evaluation_mode", _inference(2), _training(1, "FBS"), repeat=3),
    _script("anomalies", _gradient(2), has_origin=True),
    # Programs that bring their own loop.
    _script("generate", _inference(6), needs=["transformers"]),
    _script("hf_trainer", _training(3, "FBFBS"), needs=["transformers", "accelerate"]),
    _script("accelerate_loop", _training(3, "FBFBS"), needs=["accelerate"]),
    _script(
        "lightning_fit",
        _inference(2),
        _training(3, "SFB"),
        _inference(2),
        _training(3, "SFB"),
        _inference(2),
        needs=["lightning"],
    ),
    # What makes watching hard.
    _script("data_loader_workers", _training(4, "FBS")),
    _script("compiled_eager", _training(4, "FBS")),
    _script("compiled_inductor", _training(4, "FBS")),
    _script("checkpointing", _training(4, "FBS")),
    _script("custom_function", _training(4, "FBS")),
    _script("hooks", _training(3, "FBS")),
    _script("function_transforms", _gradient(2)),
    _script("function_training", Runs(GRADIENT, 5, ("FB",))),
    _script("double_backward", _training(3, "FBBS")),
    _script("dispatch_modes", _training(2, "FBS"), _training(1, "FFFBS")),
    _script("copies_and_saves", _training(3, "FBS")),
    _script("trace_function", _training(3, "FBS")),
    _script("two_ranks", _training(5, "FBS"), ranks=2, has_origin=True),
)


def by_name(name: str) -> Script:
    """The script of that name."""
    return next(script for script in CORPUS if script.name == name)
