"""Memory and time of dumping many runs: `DumpingDebugWrapperSession`, ours and the original's.

.venv/bin/python benchmarks/dumping.py [RUNS] [NODES]

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


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    nodes = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    print(f"{runs} runs of {2 * nodes + 1} nodes")
    for peer in PEERS:
        code = f"import dumping; print(*dumping.measure({peer!r}, {runs}, {nodes}))"
        here = os.path.dirname(os.path.abspath(__file__))
        path = os.pathsep.join([here, os.path.dirname(here)])
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        grown, median = map(float, done.stdout.split()[-2:])
        print(f"{peer:<10} {median:8.2f} ms a run {grown / 1e3:10.1f} kB more memory a run")


if __name__ == "__main__":
    main()
