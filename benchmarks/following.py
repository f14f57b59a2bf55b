"""What it costs to note the loss of each run, and the norms of gradients and parameters."""

import contextlib

import torch

from benchmarks.harness import Row, Table, interleaved_in, main
from benchmarks.torch_runs import mlp, prepared, resnet, transformer
from benchmarks.waiting import waiting
from tfdbg_cli.dumps.series.tracks import Tracks
from tfdbg_cli.engines.torch.engine import ENGINE

MODELS = (mlp, resnet, transformer)


def _tracks(has_norms=False):
    made = Tracks()
    made.has_norms = has_norms
    return made


WAYS = {
    "plain": contextlib.nullcontext,
    "no run watched": lambda: waiting(ENGINE, is_debugging=False),
    "no run watched, the loss": lambda: waiting(ENGINE, is_debugging=False, tracks=_tracks()),
    "no run watched, the loss and norms": lambda: waiting(
        ENGINE, is_debugging=False, tracks=_tracks(True)
    ),
    "run -f: modules": lambda: waiting(ENGINE, level="modules"),
    "run -f: modules, the loss": lambda: waiting(ENGINE, level="modules", tracks=_tracks()),
}
#: What each is compared with.
PEERS = {
    "no run watched, the loss": "no run watched",
    "no run watched, the loss and norms": "no run watched",
    "run -f: modules, the loss": "run -f: modules",
}


def measure(make, rounds):
    """What the steps of one model take in each way."""
    step, steps = prepared(make)
    return interleaved_in(WAYS, step, rounds, 4 * steps)


def tables(quick):
    """A table for each model."""
    torch.set_num_threads(1)
    made = []
    for make in MODELS:
        sample = measure(make, 3 if quick else 15)
        table = Table(
            f"Numbers over runs: a training step: {make.__name__}",
            [],
            peer="the same without (ms)",
            floor="plain (ms)",
            ratio="multiple of the same without",
        )
        for name, peer in PEERS.items():
            table.rows.append(
                Row(
                    name,
                    1e3 * sample.seconds(name),
                    peer=1e3 * sample.seconds(peer),
                    floor=1e3 * sample.seconds("plain"),
                    ratio=sample.ratio(name, peer),
                )
            )
        made.append(table)
    return made


if __name__ == "__main__":
    main(tables)
