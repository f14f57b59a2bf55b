"""What is known of a dump's tensors, and the thread that finds out the rest."""

import gc
import threading
import time
import weakref

import numpy as np
import pytest

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dump import Datum
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump, write_run_folder
from tfdbg_cli.tensors.measurements import Background, Measurements, halt
from tfdbg_cli.tensors.statistics import Health, Statistics

# What is said to come soon is there within so many seconds, however busy the machine is.
PATIENCE = 20.0


def threads():
    return [t for t in threading.enumerate() if t.name == "tfdbg statistics"]


def soon(what):
    """Whether something becomes true; asks until it does."""
    end = time.monotonic() + PATIENCE
    while not what():
        if time.monotonic() > end:
            return False
        threading.Event().wait(0.002)
    return True


@pytest.fixture(autouse=True)
def no_thread_stays():
    yield
    halt()
    assert soon(lambda: not threads())


class Gate:
    """A value whose loading waits until somebody opens it."""

    def __init__(self, value=None):
        self.value = np.ones(3) if value is None else value
        self.is_loading, self.is_open = threading.Event(), threading.Event()

    def __call__(self):
        self.is_loading.set()
        assert self.is_open.wait(PATIENCE)
        return self.value


def gated(dump, name, load):
    datum = Datum(name, 0, load, timestamp=1, dtype="float64", shape=(3,), nbytes=24)
    dump.add_datum(datum)
    return datum


def test_a_dump_has_one_object_and_each_value_is_read_once():
    dump, other = MemoryDump(), MemoryDump()
    reads = []

    def load():
        reads.append(1)
        return np.array([1.0, np.nan])

    datum = gated(dump, "a", load)
    known = Measurements.of(dump)
    assert Measurements.of(dump) is known is not Measurements.of(other)
    assert known.peek(datum) is None
    assert reads == []
    assert known.measure(datum) == known.measure(datum) == known.peek(datum)
    assert known.peek(datum).health == Health(1, 0, 0)
    assert reads == [1]


def test_what_a_type_cannot_have_is_known_without_reading():
    dump = MemoryDump()
    known = Measurements.of(dump)

    def datum(dtype):
        return Datum("a", 0, pytest.fail, dtype=dtype, shape=(), nbytes=8)

    for dtype in ("string", "resource", "variant"):
        assert known.peek(datum(dtype)) == Statistics()
    assert known.peek(datum("int64"), numbers=False) == Statistics()
    assert known.peek(datum("int64")) is None
    assert known.peek(datum("bfloat16"), numbers=False) is None


def test_a_run_folder_knows_the_health_of_every_tensor(tmp_path):
    dump = MemoryDump()
    dump.add("bad", 0, np.array([np.nan, -np.inf, np.inf, np.inf], np.float32), timestamp=1)
    dump.add("whole", 0, np.arange(3), timestamp=2)
    write_run_folder(dump, tmp_path / "run")
    found = RunFolderDump(tmp_path / "run")
    known = Measurements.of(found)
    bad, whole = found.data()
    assert known.peek(bad, numbers=False) == Statistics(Health(1, 1, 2))
    assert known.peek(whole, numbers=False) == Statistics()
    assert known.peek(bad) is None
    for part in (tmp_path / "run").glob("tensors-*"):
        part.unlink()
    lost = known.measure(bad)
    assert lost.health == Health(1, 1, 2) and "is gone" in lost.error and lost.mean is None


def test_a_value_that_fails_to_load_has_an_error_instead():
    dump = MemoryDump()
    known = Measurements.of(dump)

    def load_damaged():
        raise DumpError("The file is damaged.")

    def load_wrong():
        raise RuntimeError("a bug\nof a plug-in")

    damaged, wrong = gated(dump, "a", load_damaged), gated(dump, "b", load_wrong)
    assert known.measure(damaged) == Statistics(error="The file is damaged.")
    assert known.measure(wrong) == Statistics(error="RuntimeError: a bug of a plug-in")
    dump.add_datum(untyped := Datum("c", 0, load_damaged))
    assert known.peek(untyped) is None
    assert known.measure(untyped).error == "The file is damaged."


def test_an_interrupt_goes_through_and_leaves_nothing_behind():
    dump = MemoryDump()
    datum = gated(dump, "a", lambda: np.zeros(4_000_000))
    known = Measurements.of(dump)

    def check():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        known.measure(datum, check)
    assert known.peek(datum) is None
    assert known.measure(datum).mean == 0.0


def test_the_latest_wish_comes_first_and_then_the_thread_ends():
    dump = MemoryDump()
    order, first = [], Gate()

    def load(name):
        def read():
            order.append(name)
            return np.zeros(1)

        return read

    a = gated(dump, "a", first)
    others = [gated(dump, name, load(name)) for name in "bcdefg"]
    known = Measurements.of(dump)
    background = Background(known)
    assert not background.is_pending and threads() == []
    background.want([a])
    assert first.is_loading.wait(PATIENCE)
    background.want(others[:3])
    background.want(others[3:])
    background.want([others[4]])
    assert background.is_pending
    assert known.peek(a) is None
    first.is_open.set()
    assert soon(lambda: not background.is_pending)
    assert order == ["f", "e", "g", "b", "c", "d"]
    assert all(known.peek(datum) is not None for datum in (a, *others))
    assert soon(lambda: not threads())


def test_a_failure_does_not_end_the_thread():
    dump = MemoryDump()

    def fail():
        raise OSError("disk")

    data = [gated(dump, "a", fail), gated(dump, "b", lambda: np.ones(1))]
    known = Measurements.of(dump)
    background = Background(known)
    background.want(data)
    assert soon(lambda: not background.is_pending)
    assert known.peek(data[0]).error == "OSError: disk"
    assert known.peek(data[1]).mean == 1.0


class Endless:
    """An array of so many blocks that measuring it never comes to an end by itself."""

    def __init__(self):
        self.is_loaded = threading.Event()

    def __call__(self):
        self.is_loaded.set()
        return np.broadcast_to(np.float32(1), (1 << 20, 1 << 20))


def test_halt_ends_it_in_the_middle_of_a_tensor_and_asking_starts_it_again():
    dump, endless = MemoryDump(), Endless()
    datum = gated(dump, "a", endless)
    known = Measurements.of(dump)
    background = Background(known)
    background.want([datum])
    assert endless.is_loaded.wait(PATIENCE)
    halt()
    assert soon(lambda: not threads())
    assert known.peek(datum) is None
    endless.is_loaded.clear()
    assert background.is_pending
    assert endless.is_loaded.wait(PATIENCE)
    background.drop([datum])
    assert soon(lambda: not threads())
    assert not background.is_pending


def test_it_ends_by_itself_when_nobody_asks_any_more():
    dump, endless = MemoryDump(), Endless()
    background = Background(Measurements.of(dump))
    background.want([gated(dump, "a", endless)])
    assert endless.is_loaded.wait(PATIENCE)
    assert soon(lambda: not threads())


def test_it_ends_with_its_owner_and_lets_go_of_the_values():
    dump, endless = MemoryDump(), Endless()
    background = Background(Measurements.of(dump))
    background.want([gated(dump, "a", endless)])
    assert endless.is_loaded.wait(PATIENCE)
    gc.collect()
    gc.disable()  # what is let go of is gone at once, without a search for cycles
    try:
        gone = [weakref.ref(thing) for thing in (dump, background, endless)]
        del background, dump, endless
        assert soon(lambda: not threads())
        assert soon(lambda: all(reference() is None for reference in gone))
    finally:
        gc.enable()


def test_known_statistics_do_not_keep_a_dump(tmp_path):
    made = MemoryDump()
    made.add("a", 0, np.ones(3), timestamp=1)
    write_run_folder(made, tmp_path / "run")
    dump = RunFolderDump(tmp_path / "run")
    Measurements.of(dump).measure(dump.data()[0])
    gone = weakref.ref(dump)
    del dump
    gc.collect()
    assert gone() is None


def test_the_end_of_the_program_waits_for_the_thread_to_end():
    """It may be in the code of a framework, which the end of the interpreter would abort."""
    dump, gate = MemoryDump(), Gate()
    background = Background(Measurements.of(dump))
    background.want([gated(dump, "a", gate)])
    assert gate.is_loading.wait(PATIENCE)
    halt(0.01)
    assert threads()  # not for ever
    threading.Timer(0.1, gate.is_open.set).start()
    halt(PATIENCE)
    assert not threads()
