"""Drives a recorder by hand: what the engine's patches do, without runs and sessions."""

import contextlib
import re

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.torch.record.run_recorder import RunRecorder

__all__ = ["LEGAL", "Mlp", "Run", "capture", "library", "observers", "on_thread", "step", "train"]

torch.set_num_threads(1)

#: What TensorFlow's readers accept as the name of a node.
LEGAL = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\-/]*")


def library(function):
    """Make a function count as library code: it is no part of the program that is debugged."""
    function.__code__ = function.__code__.replace(co_filename="/site-packages/torch_kit.py")
    return function


def observers():
    """A dispatch mode and a function mode as programs have them, and what they have been told."""
    seen = []

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    class Functions(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    return Operators(), Functions(), seen


class Run:
    """One recorded run.

    Attributes:
        recorder: records it.
        dump: after it.
    """

    def __init__(self, recorder):
        self.recorder = recorder
        self.dump = None

    @property
    def nodes(self):
        return self.dump.graph().nodes

    def of_type(self, op_type):
        return [node for node in self.nodes.values() if node.op_type == op_type]

    def value(self, tensor):
        """The only value of a tensor."""
        (datum,) = self.dump.by_tensor(tensor)
        return self.dump.value(datum)

    def values(self):
        return {datum.tensor_name: self.dump.value(datum) for datum in self.dump.data()}


@contextlib.contextmanager
def on_thread(recorder):
    """Record what another thread does, the calling one."""
    leave = recorder.join()
    try:
        yield
    finally:
        leave()


_active = []


@contextlib.contextmanager
def capture(watch=None, **options):
    """Record what is done inside."""
    run = Run(RunRecorder(watch or Watch(), **options))
    run.recorder.start()
    _active.append(run.recorder)
    try:
        with _patches():
            yield run
    finally:
        _active.pop()
        run.recorder.stop()
        run.dump = run.recorder.make_dump()


@contextlib.contextmanager
def _patches():
    module_call, backward, grad = nn.Module.__call__, torch.autograd.backward, torch.autograd.grad

    @library
    def call(self, *args, **kwargs):
        recorder = _active[-1]
        recorder.enter_module(self)
        try:
            return module_call(self, *args, **kwargs)
        finally:
            recorder.leave_module(self)

    def in_backward(original):
        @library
        def run(*args, **kwargs):
            recorder = _active[-1]
            recorder.enter_phase("backward")
            try:
                return original(*args, **kwargs)
            finally:
                recorder.leave_phase()

        return run

    nn.Module.__call__ = call
    torch.autograd.backward, torch.autograd.grad = in_backward(backward), in_backward(grad)
    try:
        yield
    finally:
        nn.Module.__call__ = module_call
        torch.autograd.backward, torch.autograd.grad = backward, grad


@library
def step(optimizer, closure=None):
    """An optimizer's step, recorded if a recorder is at work."""
    if not _active:
        return optimizer.step(closure) if closure else optimizer.step()
    _active[-1].enter_phase("optimizer", optimizer)
    try:
        return optimizer.step(closure) if closure else optimizer.step()
    finally:
        _active[-1].leave_phase()


class Mlp(nn.Module):
    """A small network with what changes buffers and draws random numbers."""

    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(6, 8)
        self.norm = nn.BatchNorm1d(8)
        self.dropout = nn.Dropout(0.25)
        self.fc2 = nn.Linear(8, 3)

    def forward(self, x):
        hidden = torch.relu(self.norm(self.fc1(x)))
        return self.fc2(self.dropout(hidden))


def train(model, optimizer, x, y, criterion=nn.functional.cross_entropy):
    """One training step."""
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    step(optimizer)
    return loss
