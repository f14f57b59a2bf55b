"""How long the first screen takes as tensors and lists grow.

.venv/bin/python benchmarks/screens.py
"""

import time

import numpy as np

from tfdbg_cli.commands.builtin import make_registry
from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.history import History
from tfdbg_cli.commands.service import CommandService
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.filters.registry import FilterRegistry
from tfdbg_cli.settings import Settings


def service(dump):
    context = Context("run-end", make_registry(), FilterRegistry(), Settings(), dump=dump)
    return CommandService(
        context, title="", title_role="end", initial_command="lt", history=History()
    )


def first_screen(dump, command, jump=False):
    start = time.perf_counter()
    document = service(dump).run(command, 160).document
    at = document.line_count - 60 if jump else 0
    document.lines(at, at + 60)
    return 1e3 * (time.perf_counter() - start)


def main():
    for size in (10**4, 10**6, 10**8):
        dump = MemoryDump()
        dump.add("big", 0, np.broadcast_to(np.float32(1.5), (size // 1000, 1000)))
        top, end = first_screen(dump, "pt -a big:0"), first_screen(dump, "pt -a big:0", jump=True)
        print(f"pt -a, {size:>11,} elements: top {top:7.2f} ms, last screen {end:7.2f} ms")
    for count in (10**3, 10**4, 10**5):
        dump = MemoryDump()
        value = np.zeros(3, np.float32)
        for number in range(count):
            dump.add(f"scope/node_{number}", 0, value, timestamp=number)
        top = first_screen(dump, "lt")
        print(f"lt,    {count:>11,} tensors:  top {top:7.2f} ms")


if __name__ == "__main__":
    main()
