"""Runs of TensorFlow sessions: plain, under `run -f`, and the original's way to the same answer.

The original's way is a run whose tensors its runtime dumps to memory, read with TensorFlow's own
reader, in which the filter is looked for.
"""

import argparse
import contextlib
import functools
import importlib.util
import os
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import tfdbg_cli
from benchmarks.harness import Row, Sample, Table, exponent, interleaved, main, with_profile
from tfdbg_cli.engines.base import Watch

AWAITED = Watch(filter_name="has_inf_or_nan", predicate=tfdbg_cli.has_inf_or_nan)
FILTERED = "run -f has_inf_or_nan"
EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def mnist(tf):
    """The step of examples/debug_mnist.py, without its bug."""
    spec = importlib.util.spec_from_file_location("debug_mnist", EXAMPLES / "debug_mnist.py")
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    options = argparse.Namespace(stable=True, learning_rate=1e-4, hidden_units=1000)
    x, labels, step, _ = example.build_model(tf, options)
    (images, classes), _ = example.load_digits()
    return step, {x: images[:100], labels: classes[:100]}


def chain(tf, count):
    """A graph of so many ops, one after the other, that the optimizer can't make less of."""
    x = at = tf.placeholder(tf.float32, [8])
    factor = tf.constant(1.01)
    for number in range(count):
        at = tf.tanh(at) if number % 2 else at * factor
    return at, {x: np.ones(8, np.float32)}


def deep(tf, count):
    """A training step of about so many ops: layers and Adam."""
    x = at = tf.placeholder(tf.float32, [None, 8])
    for number in range(max(1, count // 55)):
        at = tf.nn.relu(at @ tf.get_variable(f"w{number}", [8, 8], use_resource=True))
    loss = tf.reduce_mean(tf.square(at))
    return tf.train.AdamOptimizer(1e-4).minimize(loss), {x: np.ones((4, 8), np.float32)}


@contextlib.contextmanager
def opened(tf, build):
    """A session on one thread and the arguments of a run of a graph."""
    with tf.Graph().as_default() as graph:
        fetches, feeds = build(tf)
        init = tf.global_variables_initializer()
        config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1)
        with tf.Session(graph=graph, config=config) as session:
            session.run(init)
            yield session, fetches, feeds


def original(tf, session, fetches, feeds, root):
    """A run as the original made it under ``run -f``."""
    from tensorflow.python.debug.lib import debug_data, debug_utils

    folder = tempfile.mkdtemp(dir=root)
    options = tf.RunOptions()
    debug_utils.watch_graph(options, session.graph, debug_urls=[f"file://{folder}"])
    session.run(fetches, feeds, options=options)
    dump = debug_data.DebugDumpDir(folder, validate=False)
    assert not dump.find(debug_data.has_inf_or_nan, first_n=1)
    shutil.rmtree(folder)


def measured(tf, build, rounds, root):
    """The ways of one run, and our way."""
    from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE
    from tfdbg_cli.engines.tensorflow.sessions.install import open_doors

    # Under the launcher the patches are in place all the time.
    with opened(tf, build) as (session, fetches, feeds), open_doors():
        adapter = ENGINE.adapt(session)

        def ours():
            capture = adapter.debug_run(fetches, feeds, None, None, AWAITED)
            assert capture.filter_passed is False

        ways = {"plain": lambda: session.run(fetches, feeds), "ours": ours}
        if not root:
            ways["fetched"] = fetched(tf, session, fetches, feeds)
        sample = interleaved(ways, rounds, warm_up=3)
        theirs = None
        if root:
            ways["original"] = lambda: original(tf, session, fetches, feeds, root)
            theirs = interleaved(ways, max(2, rounds // 10))
        yield sample, theirs, ours


def fetched(tf, session, fetches, feeds):
    """A run that fetches all that ours fetches, by a callable of TensorFlow's own."""
    from tensorflow.core.protobuf import config_pb2

    from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE

    adapter = ENGINE.adapt(session)
    plan, _ = adapter._plan(fetches, feeds, AWAITED, None, True)
    options = config_pb2.CallableOptions(
        feed=[tensor.name for tensor in feeds],
        fetch=[tensor.name for tensor in plan.prepared.tensors],
        target=[op.name for op in plan.targets],
    )
    call, values = session._make_callable_from_options(options), list(feeds.values())
    return lambda: call(*values)


def traces(session, fetches, feeds):
    """The ways of trace blocks: an op near the beginning of the graph is read."""
    name = next(op.outputs[0].name for op in session.graph.get_operations() if op.type in _EARLY)

    def nothing():
        with tfdbg_cli.trace(session, fetches, feeds):
            pass

    def value():
        with tfdbg_cli.trace(session, fetches, feeds) as t:
            _ = t[name].value

    return {
        "plain": lambda: session.run(fetches, feeds),
        "trace, nothing asked": nothing,
        "trace, one value read": value,
    }


_EARLY = frozenset({"Tanh", "Relu"})


def first_runs(tf, build):
    """CPU seconds of the first run of a session, plain and ours."""
    from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE

    taken = []
    for is_ours in (False, True):
        with opened(tf, build) as (session, fetches, feeds):
            adapter, began = ENGINE.adapt(session), time.process_time()
            if is_ours:
                adapter.debug_run(fetches, feeds, None, None, AWAITED)
            else:
                session.run(fetches, feeds)
            taken.append(time.process_time() - began)
    return taken


def grown(tf, runs):
    """By how many MB the process grows in so many awaited runs, after a hundred of them."""
    from tfdbg_cli.engines.tensorflow.sessions.engine import ENGINE

    with opened(tf, lambda tf: deep(tf, 1000)) as (session, fetches, feeds):
        adapter = ENGINE.adapt(session)
        at = 0.0
        for turn in range(runs + 100):
            if turn == 100:
                at = resident()
            adapter.debug_run(fetches, feeds, None, None, AWAITED)
        return resident() - at


def resident():
    """MB that the process has in memory."""
    with contextlib.suppress(OSError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * resource.getpagesize() / 1e6
    return 0.0


def tables(quick):
    """What a run costs, how that grows, the first run, and memory."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if importlib.util.find_spec("tensorflow") is None:
        return []
    import tensorflow.compat.v1 as tf

    tf.disable_v2_behavior()
    tf.logging.set_verbosity(tf.logging.ERROR)
    rounds = 15 if quick else 60
    root = tempfile.mkdtemp(prefix="tfdbg_benchmark_", dir=_memory())
    try:
        return [*_costs(tf, rounds, root), *_growth(tf, rounds, quick), *_rest(tf, quick)]
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _memory():
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def _costs(tf, rounds, root):
    costs = Table(
        "A run until a filter passes",
        [],
        peer="original (ms)",
        floor="plain (ms)",
        ratio="of plain",
        note="The original's way: dumped to memory, read with TensorFlow's reader, searched. "
        "Ratios are of CPU time.",
    )
    shares = Table("The same as a share of the original's way", [], ratio="of the original")
    graphs = {
        "MNIST": (mnist, 2.5, 1 / 8),
        "1,400 ops in a chain": (lambda tf: chain(tf, 1400), 4, None),
        "a step of 1,400 ops": (lambda tf: deep(tf, 1400), 4, None),
    }
    for name, (build, goal, share) in graphs.items():
        for sample, theirs, ours in measured(tf, build, rounds, root):
            row = _row(name, "", sample, goal)
            row.peer = theirs.seconds("original") * 1e3
            costs.rows.append(with_profile(costs, row, ours, 20))
            ratio = theirs.ratio("ours", "original", cpu=True)
            shares.rows.append(Row(name, row.ours, peer=row.peer, ratio=ratio, goal=share))
    return costs, shares


def _row(name: str, size: str, sample: Sample, goal: float | None) -> Row:
    return Row(
        name,
        sample.seconds("ours") * 1e3,
        size,
        floor=sample.seconds("plain") * 1e3,
        ratio=sample.ratio("ours", "plain", cpu=True),
        goal=goal,
    )


def _growth(tf, rounds, quick):
    sizes = [1_400, 14_000] if quick else [1_400, 14_000, 140_000]
    table = Table(
        "How the price of a run grows",
        [],
        peer="all fetched (ms)",
        floor="plain (ms)",
        ratio="of plain",
        note="Beside it a callable of TensorFlow's own that fetches the same tensors: what is "
        "fetched stays in memory until the run is over, beyond the processor's caches in the end.",
    )
    for name, kind, most in (("ops in a chain", chain, 14_000), ("a training step", deep, 140_000)):
        costs, theirs = [], []
        for size in [each for each in sizes if each <= most]:
            build = functools.partial(kind, count=size)
            for sample, _, _ in measured(tf, build, max(5, rounds // 4), ""):
                row = _row(name, f"{size:,}", sample, None)
                row.peer = sample.seconds("fetched") * 1e3
                table.rows.append(row)
                costs.append(sample.seconds("ours"))
                theirs.append(sample.seconds("fetched"))
        slopes = {
            "exponent": (exponent(sizes[: len(costs)], costs), 1.15),
            "exponent of all fetched": (exponent(sizes[: len(theirs)], theirs), None),
        }
        for said, (slope, goal) in slopes.items():
            table.rows.append(Row(f"{name}: {said}", float("nan"), ratio=slope, goal=goal))
    return [table, _traced(tf, rounds, quick)]


def _traced(tf, rounds, quick):
    sizes = [140, 1_400] if quick else [140, 1_400, 14_000]
    table = Table("How a trace block grows", [], floor="plain (ms)", ratio="of plain")
    samples = {}
    for size in sizes:
        with opened(tf, functools.partial(deep, count=size)) as opened_session:
            samples[size] = interleaved(traces(*opened_session), max(5, rounds // 6), warm_up=3)
    for way in list(samples[sizes[0]].wall)[1:]:
        for size, sample in samples.items():
            ours, plain = sample.seconds(way) * 1e3, sample.seconds("plain") * 1e3
            ratio = sample.ratio(way, "plain", cpu=True)
            table.rows.append(Row(way, ours, f"{size:,} ops", floor=plain, ratio=ratio))
        slope = exponent(sizes, [sample.seconds(way) for sample in samples.values()])
        table.rows.append(Row(f"{way}: exponent", float("nan"), ratio=slope, goal=1.15))
    return table


def _rest(tf, quick):
    count = 5_000 if quick else 50_000
    first = Table(
        "The first run of a session",
        [],
        unit="s of CPU",
        floor="plain",
        ratio="of plain",
        note="TensorFlow prepares a graph when it is first run; what is fetched is part of it. "
        "Where all of a large graph is fetched, most of what is added is its check of devices "
        "(`PruneGraph`, `ValidateFeedAndFetchDevices`), which compares the name of each node with "
        "that of each fetched tensor. Only partial runs go without it, and those set up all of "
        "their fetches again in each run.",
    )
    for name, kind in (("ops in a chain", chain), ("a training step", deep)):
        plain, ours = first_runs(tf, lambda tf, kind=kind: kind(tf, count))
        row = Row(name, ours, f"{count:,}", floor=plain, ratio=ours / plain, goal=1.5)
        first.rows.append(row)
    runs = 200 if quick else 1_000
    memory = Table("Memory", [], unit="MB more", ratio="KB a run")
    more = grown(tf, runs)
    memory.rows.append(Row(f"{runs:,} awaited runs of 1,000 ops", more, ratio=more / runs * 1e3))
    return first, memory


if __name__ == "__main__":
    sys.path.insert(0, str(EXAMPLES.parent))
    main(tables)
