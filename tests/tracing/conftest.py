"""A small model of the NumPy engine whose numbers can be computed by hand."""

import linecache

import numpy as np
import pytest
from trace_kit import Model

import tfdbg_cli
from tfdbg_cli.engines import numpy as tf


@pytest.fixture
def model():
    with tf.Graph().as_default():
        yield Model()


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


@pytest.fixture
def torch_engine(monkeypatch):
    """PyTorch's engine as in a process of its own: what other tests have left sees no calls."""
    from tfdbg_cli.engines.torch.engine import ENGINE

    if ENGINE._program is not None:
        ENGINE._program.patches.undo()
    monkeypatch.setattr(ENGINE, "_program", None)
    yield ENGINE
    if ENGINE._program is not None:
        ENGINE._program.patches.undo()


@pytest.fixture
def x():
    """What the models of PyTorch are given."""
    torch = pytest.importorskip("torch")
    return torch.linspace(-1, 1, 12).reshape(3, 4)


@pytest.fixture
def known():
    """Runs a text whose lines are known to Python; gives its namespace."""
    names = []

    def run(text, **space):
        name = f"<known text {len(names)}>"
        names.append(name)
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        space = {"tfdbg_cli": tfdbg_cli, "__name__": "known", **space}
        exec(compile(text, name, "exec"), space)
        return space

    yield run
    for name in names:
        linecache.cache.pop(name, None)
