"""Memory and time of dumping many runs: `DumpingDebugWrapperSession`, ours and the original's.

Each peer runs in a process of its own; the first tenth of the runs, which build executors and
plans, doesn't count.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from benchmarks.harness import Row, Table, main

PEERS = ("plain", "tfdbg_cli", "original")


def resident():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def measure(peer, runs, nodes):
    """Bytes by which the process grows in a run, and the median milliseconds of one."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import numpy as np
    import tensorflow.compat.v1 as tf

    import tfdbg_cli

    tf.disable_v2_behavior()
    last = x = tf.placeholder(tf.float32, [100], name="x")
    for number in range(nodes):
        last = tf.add(tf.tanh(last), x, name=f"n{number}")
    session = tf.Session()
    root = tempfile.mkdtemp(prefix="tfdbg_benchmark_")
    dumps = os.path.join(root, "dumps")
    if peer == "tfdbg_cli":
        wrapped = tfdbg_cli.DumpingDebugWrapperSession(session, dumps)
    elif peer == "original":
        from tensorflow.python.debug.wrappers import dumping_wrapper

        wrapped = dumping_wrapper.DumpingDebugWrapperSession(session, dumps)
    else:
        wrapped = session
    times, before, warm_up = [], 0, runs // 10
    for number in range(runs + warm_up):
        if number == warm_up:
            before = resident()
        start = time.perf_counter()
        wrapped.run(last, {x: np.ones(100)})
        if number >= warm_up:
            times.append(1e3 * (time.perf_counter() - start))
        for folder in os.listdir(dumps) if peer != "plain" else ():
            shutil.rmtree(os.path.join(dumps, folder))
    grown = (resident() - before) / runs
    shutil.rmtree(root, ignore_errors=True)
    return grown, statistics.median(times)


def tables(quick):
    """A row for the time, and one for the memory."""
    runs, nodes = (50, 100) if quick else (200, 100)
    found = {}
    for peer in PEERS:
        code = f"from benchmarks import dumping; print(*dumping.measure({peer!r}, {runs}, {nodes}))"
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        found[peer] = tuple(map(float, done.stdout.split()[-2:]))
    (_, plain), (grown, ours), (theirs_grown, theirs) = (found[peer] for peer in PEERS)
    size = f"{2 * nodes + 1} nodes"
    note = f"Medians of {runs} runs, each peer in a process of its own."
    return [
        Table(
            "DumpingDebugWrapperSession: a run",
            [Row("time", ours, size, theirs, plain, ratio=ours / theirs)],
            peer="original (ms)",
            floor="plain (ms)",
            ratio="of the original",
            note=note,
        ),
        Table(
            "DumpingDebugWrapperSession: growth of the process",
            [Row("memory", grown / 1e3, size, theirs_grown / 1e3)],
            unit="kB a run",
            peer="original (kB)",
            note=note,
        ),
    ]


if __name__ == "__main__":
    main(tables)
