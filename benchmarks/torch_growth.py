"""How the price of watching PyTorch grows: with the ops of a step, with its elements, with runs.

Three sizes, each ten times the one before; the exponent is the slope of what the step takes over
them.
"""

import contextlib
import gc
import resource
import time
from pathlib import Path
from random import Random

import torch
from torch import nn

import tfdbg_cli
from benchmarks.harness import Row, Sample, Table, exponent, interleaved, main
from benchmarks.torch_runs import LEVELS

WATCHED = [name for name in LEVELS if name.startswith("run -f")]
SIZES = (1, 10, 100)


def layered(layers, width, examples):
    """A training step of so many linear layers."""
    torch.manual_seed(0)
    body = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())]
    model = nn.Sequential(*body, nn.Linear(width, 10))
    optimizer = torch.optim.SGD(model.parameters(), 1e-3)
    x, target = torch.randn(examples, width), torch.randint(0, 10, (examples,))

    def step():
        loss = nn.functional.cross_entropy(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


def measured(step, steps, rounds):
    """What a step takes at each level, plain ones in between."""
    order, random = ["plain", *WATCHED], Random(0)
    sample = Sample(order)
    for turn in range(rounds + 1):
        random.shuffle(order)
        for name in order:
            gc.collect()
            with LEVELS[name]():
                step()
                cpu, wall = time.process_time(), time.perf_counter()
                for _ in range(steps):
                    step()
                wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            if turn:
                sample.wall[name].append(wall / steps)
                sample.cpu[name].append(cpu / steps)
    return sample


def waiting(quick):
    """The price of awaited steps, by the number of ops and by that of elements."""
    kinds = {
        "ops": ("How an awaited step grows with its ops", lambda n: layered(4 * n, 32, 16)),
        "elements": (
            "How it grows with the examples in its batch",
            lambda n: layered(8, 64, 64 * n),
        ),
    }
    for unit, (title, make) in kinds.items():
        table = Table(title, [], floor="plain (ms)", ratio="of plain")
        sizes = SIZES[:2] if quick else SIZES
        samples = {}
        for size in sizes:
            steps = max(1, 20 // size)
            samples[size] = measured(make(size), steps, 3 if quick else 7)
        for name in WATCHED:
            costs = []
            for size, sample in samples.items():
                ours, plain = (sample.seconds(each) for each in (name, "plain"))
                ratio = sample.ratio(name, "plain", cpu=True)
                label = f"{size} x the {unit}"
                table.rows.append(Row(name, 1e3 * ours, label, floor=1e3 * plain, ratio=ratio))
                costs.append(ours)
            slope = exponent(sizes, costs)
            table.rows.append(Row(f"{name}: exponent", float("nan"), ratio=slope, goal=1.15))
        yield table


def resident():
    """MB that the process has in memory."""
    with contextlib.suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * resource.getpagesize() / 1e6
    return 0.0


def memory(quick):
    """By how much the process grows in awaited runs, once its caches are full."""
    runs = 200 if quick else 1_000
    table = Table(f"Memory of {runs:,} awaited runs", [], unit="MB more", ratio="KB a run")
    step = layered(8, 64, 64)
    for name in ("plain", *WATCHED):
        with LEVELS[name]():
            at = 0.0
            for turn in range(runs + 500):
                if turn == 500:
                    gc.collect()
                    at = resident()
                step()
            gc.collect()
            more = resident() - at
        table.rows.append(Row(name, more, ratio=more / runs * 1e3))
    return table


def traced(layers):
    """The ways of trace blocks around a model of so many layers."""
    torch.manual_seed(0)
    body = [part for _ in range(layers) for part in (nn.Linear(64, 64), nn.ReLU())]
    model = nn.Sequential(*body).eval()
    x = torch.randn(32, 64)

    def nothing():
        with tfdbg_cli.trace(model, x):
            pass

    def module():
        with tfdbg_cli.trace(model, x) as t:
            _ = t.module("1").output

    def value():
        with tfdbg_cli.trace(model, x) as t:
            _ = t["1/relu"].value

    def recorded():
        with tfdbg_cli.trace(model, x, keep=True) as t:
            _ = t["1/relu"].value

    return {
        "plain": lambda: model(x),
        "trace, nothing asked": nothing,
        "trace, a module read": module,
        "trace, one value read": value,
        "trace, all recorded (keep=True)": recorded,
    }


def tracing(quick):
    """What a block costs, by the number of layers."""
    table = Table(
        "How a trace block grows with the layers of a model",
        [],
        floor="plain (ms)",
        ratio="of plain",
    )
    sizes = [4 * size for size in (SIZES[:2] if quick else SIZES)]
    with torch.no_grad():
        samples = {
            size: interleaved(traced(size), 5 if quick else 15, steps=max(1, 40 // size), warm_up=2)
            for size in sizes
        }
    for way in list(samples[sizes[0]].wall)[1:]:
        costs = []
        for size, sample in samples.items():
            ours, plain = sample.seconds(way), sample.seconds("plain")
            ratio = sample.ratio(way, "plain", cpu=True)
            label = f"{size:,} layers"
            table.rows.append(Row(way, 1e3 * ours, label, floor=1e3 * plain, ratio=ratio))
            costs.append(ours)
        slope = exponent(sizes, costs)
        table.rows.append(Row(f"{way}: exponent", float("nan"), ratio=slope, goal=1.15))
    return table


def tables(quick):
    """Waiting, memory and tracing."""
    torch.set_num_threads(1)
    return [*waiting(quick), memory(quick), tracing(quick)]


if __name__ == "__main__":
    main(tables)
