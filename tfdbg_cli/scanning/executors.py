"""Who does the work: threads or processes here, or the workers of a cluster."""

from __future__ import annotations

import atexit
import importlib
import os
import signal
import sys
from collections.abc import Iterable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import active_children, get_context
from typing import Any

from tfdbg_cli.common.errors import UserError, one_line

__all__ = ["end_in_order", "give_up", "make_executor"]

_WAYS = "threads, processes, dask://HOST:PORT, mpi, or MODULE:FACTORY"


def make_executor(text: str, jobs: int | None) -> Executor:
    """The executor of a name.

    Args:
        text: ``threads``, ``processes``, ``dask://host:port`` (needs dask.distributed), ``mpi``
            (needs mpi4py), or ``module:factory``: what the factory gives is taken.
        jobs: how many at once, of threads and processes; ``None``: one per core.

    Raises:
        UserError: there is none of that name.
    """
    jobs = jobs or os.cpu_count() or 1
    if text == "threads":
        return ThreadPoolExecutor(jobs)
    if text == "processes":
        return ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_ignore_interrupts)
    if text.startswith("dask://"):
        return _of_dask("tcp://" + text.removeprefix("dask://"))
    if text == "mpi":
        pool: Executor = _made(_imported("mpi4py.futures", "pip install mpi4py").MPIPoolExecutor)
        return pool
    module, colon, factory = text.partition(":")
    if not colon:
        raise UserError(f'there is no executor "{text}".', f"Use {_WAYS}.")
    sys.path.insert(0, os.getcwd())  # as `python -m` does
    try:
        make = getattr(_imported(module, f"It must be found from {os.getcwd()}."), factory, None)
    finally:
        sys.path.pop(0)
    if not callable(make):
        raise UserError(f'module "{module}" has no "{factory}" to call.')
    made = _made(make)
    if not isinstance(made, Executor):
        raise UserError(f"{text} gives a {type(made).__name__}, no concurrent.futures.Executor.")
    return made


def end_in_order(text: str) -> None:
    """After all the work is done: the status that the process ends with is no crash.

    A process that ends with a status but 0 makes mpi4py abort all processes of MPI, which Open MPI
    reports as an accident. After `MPI.Finalize` there is nothing left to abort.

    Args:
        text: the executor, as `make_executor` takes it.
    """
    if text == "mpi":
        mpi = importlib.import_module("mpi4py.MPI")
        atexit.register(lambda: mpi.Is_finalized() or mpi.Finalize())


def give_up(executor: Executor, running: Iterable[Future[Any]]) -> None:
    """Let nobody wait for what an executor was given."""
    if isinstance(executor, ProcessPoolExecutor):
        for child in active_children():
            child.terminate()
        executor.shutdown()
    else:
        for future in running:
            future.cancel()
        executor.shutdown(wait=False)


def _ignore_interrupts() -> None:
    """A Ctrl-C is for whoever waits for the workers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _of_dask(address: str) -> Executor:
    distributed = _imported("distributed", "pip install distributed")
    try:
        client = distributed.Client(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise UserError(f"no Dask scheduler answers at {address}: {one_line(error)}") from error
    made: Executor = client.get_executor(pure=False)
    return made


def _imported(module: str, hint: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise UserError(f'"{module}" can\'t be imported: {error}.', hint) from error


def _made(make: Any) -> Any:
    try:
        return make()
    except Exception as error:
        raise UserError(f"the executor can't be made: {one_line(error)}") from error
