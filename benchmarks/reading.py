"""How long it takes to open dumps on disk and to look through them, with a peer beside each.

.venv/bin/python -m benchmarks.reading [--quick]

Peers: TensorFlow's `DebugDumpDir` for folders of the original's format, `np.isfinite` in blocks on
one core for the search for nan. The floor of opening is `os.walk`.
"""

import gc
import os
import re
import shutil
import statistics
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np

from benchmarks.harness import Row, Table, growth, interleaved, main, with_profile
from tfdbg_cli.commands.builtin import make_registry
from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.service import CommandService
from tfdbg_cli.commands.shell.history import History
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.dumps import finite
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.proto.tensor_proto import tensor_chunks
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump, write_run_folder
from tfdbg_cli.dumps.tfdbg_dir.debug_dump_dir import DebugDumpDir
from tfdbg_cli.dumps.tfdbg_dir.events import message_event, tensor_event
from tfdbg_cli.dumps.tfdbg_dir.names import device_name_to_device_path
from tfdbg_cli.filters.builtin import has_inf_or_nan
from tfdbg_cli.filters.registry import FilterRegistry
from tfdbg_cli.ui.screen.jobs import matching_steps

DEVICES = tuple(f"/job:localhost/replica:0/task:0/device:{kind}:0" for kind in ("CPU", "GPU"))
EACH = 20  # nodes of a scope
START = 1_700_000_000_000_000
COUNTS = (1_000, 10_000, 100_000)


def write_dumps(root, count):
    """A dump folder as TensorFlow's: scopes of 20 nodes on two devices, a nan in every 1,000th."""
    rng = np.random.default_rng(0)
    values = [rng.standard_normal((4, 4)).astype(np.float32) for _ in range(1000)]
    values[500][1, 2] = np.nan
    tensors = [[bytes(chunk) for chunk in tensor_chunks(value)] for value in values]
    folders = [os.path.join(root, device_name_to_device_path(device)) for device in DEVICES]
    Path(root).mkdir(parents=True)
    Path(root, "_tfdbg_fetches_info_").write_bytes(b"".join(message_event("['loss:0']")))
    scope = ""
    for number in range(count):
        device = 0 if number % (20 * EACH) < 10 * EACH else 1
        if number % EACH == 0:
            scope = f"model/layer_{number // EACH // 50}/block_{number // EACH % 50}"
            os.makedirs(os.path.join(folders[device], scope))
        node, stamp = f"{scope}/op_{number % EACH}", START + 7 * number
        tensor = tensors[number % len(tensors)]
        event = tensor_event(node, 0, "DebugIdentity", DEVICES[device], stamp, tensor)
        with open(f"{folders[device]}/{node}_0_DebugIdentity_{stamp}", "wb") as file:
            file.write(b"".join(event))


def write_run(root, count):
    """A run folder of a chain of so many nodes."""
    names = [f"model/layer_{i // 1000}/block_{i // 20 % 50}/op_{i}" for i in range(count)]
    inputs = [[], *([f"{name}:0"] for name in names)]
    dump = MemoryDump(Graph(Node(n, "MatMul", i) for n, i in zip(names, inputs, strict=False)))
    value = np.ones((4, 4), np.float32)
    for number, name in enumerate(names):
        dump.add(name, 0, value, timestamp=START + 7 * number)
    write_run_folder(dump, root)


def opened(dump):
    """A dump whose tensors are listed."""
    assert len(dump.data())
    return dump


def document_of(dump, text):
    """What a command shows."""
    context = Context("offline", make_registry(), FilterRegistry(), Settings(), dump=dump)
    service = CommandService(
        context, title="", title_role="end", initial_command="lt", history=History()
    )
    return service.run(text, 160).document


def screen_of(dump, text):
    """The first screen of a command."""
    return document_of(dump, text).lines(0, 60)


def first_list(dump):
    """The first screen of ``lt``."""
    return screen_of(dump, "lt")


def allocated(make):
    """Bytes that something takes."""
    gc.collect()
    tracemalloc.start()
    kept = make()
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return size if kept is not None else 0


def cpu(sample, name):
    """Median milliseconds of CPU."""
    return 1e3 * statistics.median(sample.cpu[name])


def dump_folders(folder, rounds, counts=COUNTS):
    """Tables of the original's format: opening and finding, beside TensorFlow's own reader."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from tensorflow.python.debug.lib import debug_data
    from tensorflow.python.platform import tf_logging

    tf_logging.set_verbosity(tf_logging.ERROR)
    peer = "TensorFlow's reader (ms)"
    opens = Table("Opening a dump folder of the original's format", [], "ms of CPU", peer)
    opens.floor, opens.ratio, opens.more_is_better = "os.walk (ms)", "reader / ours", True
    walks = Table("The same against its floor", [], "ms of CPU", ratio="ours / os.walk")
    finds = Table("Going through all values of a dump folder", [], "ms of CPU", peer)
    finds.ratio, finds.more_is_better = "reader / ours", True
    memory = Table("Memory of an open dump folder", [], "MB", "TensorFlow's reader (MB)")
    memory.ratio = "ours / reader"
    for count in counts:
        root, size = os.path.join(folder, f"dumps_{count}"), f"{count:,}"
        write_dumps(root, count)

        def ours(root=root):
            return opened(DebugDumpDir(root))

        def theirs(root=root):
            return debug_data.DebugDumpDir(root)

        def walk(root=root):
            return sum(len(files) for _, _, files in os.walk(root))

        def named(root=root):
            return DebugDumpDir(root).warnings

        at = interleaved({"ours": ours, "peer": theirs, "floor": walk, "named": named}, rounds)
        times = [cpu(at, name) for name in ("ours", "peer", "floor")]
        is_goal = count == 100_000
        row = Row("open", times[0], size, *times[1:], at.ratio("peer", "ours", cpu=True))
        row.goal = 15 if is_goal else None
        opens.rows.append(with_profile(opens, row, ours))
        row = Row("open", times[0], size, floor=times[2], ratio=at.ratio("ours", "floor", cpu=True))
        row.goal = 4 if is_goal else None
        walks.rows.append(with_profile(walks, row, ours))
        ratio = at.ratio("named", "floor", cpu=True)
        walks.rows.append(
            Row("open, name empty files", cpu(at, "named"), size, floor=times[2], ratio=ratio)
        )
        mine, other = ours(), theirs()
        for name, own, their, goal in (
            ("find has_inf_or_nan", has_inf_or_nan, debug_data.has_inf_or_nan, 5),
            ("find by a filter of the user", no_value, no_value, None),
        ):
            ways = {
                "ours": lambda mine=mine, own=own: mine.find(own),
                "peer": lambda other=other, their=their: other.find(their),
            }
            assert len(ways["ours"]()) == len(ways["peer"]())
            at = interleaved(ways, rounds)
            ratio = at.ratio("peer", "ours", cpu=True)
            row = Row(name, cpu(at, "ours"), size, cpu(at, "peer"), None, ratio)
            row.goal = goal if is_goal else None
            finds.rows.append(with_profile(finds, row, ways["ours"]))
        del mine, other
        held = [allocated(ours) / 1e6, allocated(theirs) / 1e6]
        row = Row("open", held[0], size, held[1], None, held[0] / held[1])
        row.goal = 0.25 if is_goal else None
        memory.rows.append(row)
    for table in (opens, walks, finds):
        table.note = growth(table.rows)
    return [opens, walks, finds, memory]


def no_value(datum, value):
    """A filter that dumps know nothing about."""
    return value is None


def run_folders(folder, rounds, counts=COUNTS):
    """Our format: from the folder to the first screen of ``lt``, a search, and what it takes."""
    table = Table("Run folders", [], "ms of CPU", ratio="ms")
    memory = Table("Memory of an open run folder, its first lt on the screen", [], "MB")
    for count in counts:
        root = os.path.join(folder, f"run_{count}")
        write_run(root, count)

        def look(root=root):
            return first_list(RunFolderDump(root))

        def kept(root=root):
            dump = RunFolderDump(root)
            return dump, first_list(dump)

        def all_of_them(root=root):
            return sum(datum.nbytes for datum in RunFolderDump(root).data())

        dump = opened(RunFolderDump(root))
        ways = {
            "look": look,
            "all": all_of_them,
            "find": lambda dump=dump: dump.find(has_inf_or_nan),
        }
        at = interleaved(ways, rounds)
        row = Row("open, first lt", cpu(at, "look"), f"{count:,}", ratio=cpu(at, "look"))
        row.goal = 100 if count == 100_000 else None
        table.rows.append(with_profile(table, row, look))
        table.rows.append(Row("open, look at each tensor", cpu(at, "all"), f"{count:,}"))
        table.rows.append(Row("find has_inf_or_nan", cpu(at, "find"), f"{count:,}"))
        memory.rows.append(Row("open, first lt", allocated(kept) / 1e6, f"{count:,}"))
    table.note = growth(table.rows)
    return [table, memory]


def bandwidth(rounds, size=1 << 27):
    """Gigabytes a second of the search for nan, against `np.isfinite` in blocks that are cached."""
    import ml_dtypes

    table = Table("Searching a large tensor for nan", [], "GB/s", "isfinite, float32 (GB/s)")
    table.ratio, table.more_is_better = "ours / isfinite", True
    table.note = "isfinite: of float32, in blocks of 512 KB, on one core. Best of the rounds."
    block, cores = 1 << 17, finite._cores
    plain = np.zeros(size, np.float32)

    def peer():
        return all(np.isfinite(plain[at : at + block]).all() for at in range(0, size, block))

    for dtype in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.complex64):
        values = np.zeros(plain.nbytes // np.dtype(dtype).itemsize, dtype)

        def on_all(values=values):
            assert finite.all_finite(values)

        def on_one(values=values):
            finite._cores = lambda: 1
            try:
                assert finite.all_finite(values)
            finally:
                finite._cores = cores

        at = interleaved({"peer": peer, "one": on_one, "all": on_all}, rounds)
        speed = {name: plain.nbytes / 1e9 / min(took) for name, took in at.wall.items()}
        for name, label in (("one", "one core"), ("all", f"all {cores()} cores")):
            row = Row(f"{np.dtype(dtype).name}, {label}", speed[name], "", speed["peer"])
            row.ratio = at.ratio("peer", name)
            row.goal = (0.45 if row.name.split(",")[0] in ("float16", "bfloat16") else 0.9) * (
                1 if name == "one" else 0
            ) or None
            table.rows.append(row)
    return table


def walks_of_graphs(rounds, counts=COUNTS):
    """``li -r``, ``--path`` and ``--to-first-bad`` in a graph of two inputs a node."""
    table = Table("Walks over a graph", [], "ms of CPU", ratio="ms")
    for count in counts:
        nodes = [Node("op_0", "Const")]
        for at in range(1, count):
            nodes.append(Node(f"op_{at}", "Add", [f"op_{at - 1}:0", f"op_{max(at - 7, 0)}:0"]))
        dump = MemoryDump(Graph(nodes))
        for at in range(0, count, 10):
            dump.add(f"op_{at}", 0, np.zeros(3, np.float32), timestamp=at)
        last = f"op_{count - 1}"
        for command in ("li -r -d 1000000", "li --path op_0", "li --to-first-bad"):

            def run(dump=dump, text=f"{command} {last}"):
                return screen_of(dump, text)

            took = cpu(interleaved({"ours": run}, rounds), "ours")
            row = Row(command, took, f"{count:,}", ratio=took)
            row.goal = 300 if count == 100_000 and "bad" not in command else None
            table.rows.append(with_profile(table, row, run))
    table.note = growth(table.rows)
    return table


def searches(rounds, size=200_000):
    """Millions of elements a second that ``&PATTERN`` goes through in ``pt -a``."""
    table = Table("Searching the text of a tensor", [], "ms of CPU", ratio="million elements/s")
    table.more_is_better = True
    normal = np.random.default_rng(0).standard_normal((size // 1000, 1000))
    for name in ("float32", "float64", "float16", "int32", "longdouble", "complex64"):
        dump = MemoryDump()
        dump.add("big", 0, (normal * (1e6 if name == "int32" else 1)).astype(name))
        document = document_of(dump, "pt -a big:0")
        for pattern in ("987654", r"987\.6|123\.4", "77", r"\d{4}"):

            def search(document=document, regex=re.compile(pattern)):
                return list(matching_steps(document, regex))

            took = cpu(interleaved({"ours": search}, rounds), "ours")
            row = Row(f"{name} &{pattern}", took, f"{size:,}", ratio=size / took / 1e3, goal=1)
            table.rows.append(with_profile(table, row, search))
    return table


def tables(quick=False):
    """All of them."""
    rounds, counts = (1, COUNTS[:2]) if quick else (5, COUNTS)
    where = "/dev/shm" if os.path.isdir("/dev/shm") else None
    folder = tempfile.mkdtemp(prefix="tfdbg_benchmark_", dir=where)
    try:
        found = dump_folders(folder, rounds, counts)
        found += run_folders(folder, rounds, counts)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    found.append(walks_of_graphs(rounds, counts))
    found.append(searches(rounds, 20_000 if quick else 200_000))
    found.append(bandwidth(rounds, 1 << (23 if quick else 27)))
    return found


if __name__ == "__main__":
    main(tables)
