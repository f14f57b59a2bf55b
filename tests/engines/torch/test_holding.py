"""Values are those of their time, whatever the program does next, within the memory allowed."""

import copy
import gc
import io
import os
import weakref

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_kit import Mlp, capture, step, train

from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.engines.base import Watch


def test_values_are_copied_before_they_are_overwritten():
    x = torch.ones(3)
    with capture() as run:
        a = x * 2
        a.add_(1)
        a[1:].mul_(0)
        x.zero_()
    assert run.value("input/x:0").tolist() == [1, 1, 1]
    assert run.value("mul:0").tolist() == [2, 2, 2]
    assert run.value("add_:0").tolist() == [3, 3, 3]
    assert run.value("mul_:0").tolist() == [0, 0]
    assert run.value("zero_:0").tolist() == [0, 0, 0]


def test_values_share_memory_as_long_as_nobody_writes():
    with capture() as run:
        a = torch.zeros(1000)
        b = a + 1
    assert run.recorder.holder.held_bytes == 8000
    value = run.value("add:0")
    assert np.shares_memory(value, b.numpy())


def test_writes_that_no_schema_tells_of():
    norm = nn.BatchNorm1d(2)
    with capture() as run:
        norm(torch.tensor([[1.0, 2.0], [3.0, 6.0]]))
        norm(torch.tensor([[1.0, 2.0], [3.0, 6.0]]))
    assert run.value("running_mean:0").tolist() == [0, 0]
    assert run.value("native_batch_norm:3").tolist() == pytest.approx([0.2, 0.4])
    assert run.nodes["native_batch_norm_1"].inputs[3] == "native_batch_norm:3"
    assert run.value("native_batch_norm_1:3").tolist() == pytest.approx([0.38, 0.76])


def test_statistics_are_not_written_to_in_evaluation():
    norm = nn.BatchNorm1d(2).eval()
    with capture() as run:
        norm(torch.ones(2, 2))
    (node,) = [node for node in run.nodes.values() if "batch_norm" in node.op_type]
    assert "_writes" not in node.attributes
    assert len([d for d in run.dump.by_node(node.name) if d.nbytes]) == 1


def test_all_values_of_a_training_step_are_those_of_their_time():
    torch.manual_seed(0)
    model = Mlp()
    optimizer = torch.optim.Adam(model.parameters())
    x, y = torch.randn(4, 6), torch.zeros(4, dtype=torch.long)
    train(model, optimizer, x, y)
    seen = {}

    class Snapshots:
        def add(self, record, slot, tensor):
            seen[record, slot] = tensor.detach().clone().numpy()

    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    with capture(check=Snapshots()) as run:
        train(model, optimizer, x, y)
        train(model, optimizer, x, y)
    values = run.values()
    assert len(seen) > 100
    for (record, slot), value in seen.items():
        name = f"{record.name}:{slot}"
        assert np.array_equal(values[name], value, equal_nan=True), name
    for name, value in before.items():
        assert np.array_equal(values[f"{name}:0"], value.numpy()), name


def test_only_what_is_watched_is_held_and_all_is_recorded():
    model = Mlp()
    with capture(Watch(node_name="fc2")) as run:
        model(torch.ones(4, 6))
    held = {datum.node_name for datum in run.dump.data()}
    assert {"fc2/addmm", "fc2.weight", "fc2/t"} <= held
    assert all("fc2" in name for name in held)
    assert "fc1/addmm" in run.nodes

    with capture(Watch(op_type="^(relu|t)$")) as run:
        model(torch.ones(4, 6))
    assert {datum.node_name for datum in run.dump.data()} == {"relu", "fc1/t", "fc2/t"}

    with capture(Watch(tensor_dtype="int64")) as run:
        model(torch.ones(4, 6))
    assert {datum.dtype for datum in run.dump.data()} == {"int64"}


def test_a_watch_keeps_values_of_views_that_are_overwritten():
    with capture(Watch(op_type="^slice$")) as run:
        a = torch.zeros(4)
        part = a[:2]
        part.add_(1)
    assert run.value("slice:0").tolist() == [0, 0]


def test_nothing_is_held_where_nothing_is_asked_for():
    with capture(hold=False) as run:
        a = torch.ones(1000)
        a.mul_(2)
        a + 1
    assert run.recorder.holder.held_bytes == 0
    assert not run.dump.data()
    assert run.nodes["add"].inputs == ("mul_:0",)


def test_storages_that_are_used_again_are_not_mistaken():
    with capture(hold=False) as run:
        x = torch.ones(64)
        for _ in range(50):
            torch.from_numpy(np.ones(64, np.float32)).add_(1)
            (x * 2).add_(1)
    for node in run.of_type("mul"):
        assert node.inputs == ("ones:0",)
        assert not node.control_inputs


def test_above_the_limit_the_oldest_values_go_to_disk(tmp_path):
    folders = []

    def root():
        folders.append(str(tmp_path))
        return str(tmp_path)

    x = torch.arange(1000.0)
    with capture(limit=20_000, spill_root=root) as run:
        for _ in range(20):
            x = x + 1
    assert run.recorder.holder.held_bytes <= 20_000
    assert folders
    assert [d.node_name for d in run.dump.data()][:2] == ["input/x", "add"]
    for count, name in enumerate(["add", *(f"add_{k}" for k in range(1, 20))], start=1):
        value = run.value(f"{name}:0")
        assert value[0] == count
        assert value.shape == (1000,)
    assert run.dump.by_tensor("add:0")[0].nbytes == 4000
    run.dump.close()
    assert os.listdir(tmp_path) == []
    (datum,) = run.dump.by_tensor("add:0")
    assert isinstance(run.dump.value(datum), InconvertibleTensorProto)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(300, dtype=torch.bfloat16),
        lambda: torch.ones(300, dtype=torch.complex64).conj(),
        lambda: torch.ones(20, 30).t() * 1,
        lambda: torch.ones(300, dtype=torch.bool),
        lambda: torch.ones((), dtype=torch.float64).expand(100).clone(),
        lambda: torch.eye(20).to_sparse(),
        lambda: torch.ones(300).to(torch.float8_e5m2),
    ],
)
def test_values_of_every_kind_come_back_from_disk(make):
    with capture() as plain:
        make()
    with capture(limit=0) as spilled:
        make()
    expected, found = plain.values(), spilled.values()
    assert expected.keys() == found.keys()
    for name, value in expected.items():
        assert found[name].dtype == value.dtype, name
        assert np.array_equal(found[name], value), name


def test_copies_count_for_the_limit_too():
    x = torch.ones(1000)
    with capture(limit=10_000) as run:
        for _ in range(20):
            x.add_(1)
    assert run.recorder.holder.held_bytes <= 10_000
    assert run.value("input/x:0")[0] == 1
    assert run.value("add__7:0")[0] == 9


def test_a_disk_that_is_full_leaves_values_in_memory():
    def root():
        raise OSError("No space left on device")

    with capture(limit=1000, spill_root=root) as run:
        a = torch.ones(1000)
        a + 1
    assert run.value("add:0")[0] == 2
    assert "No space left" in " ".join(run.dump.warnings)


def test_a_dump_that_is_settled_outlives_the_stop():
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x, y = torch.ones(4, 6), torch.zeros(4, dtype=torch.long)
    with capture() as run:
        train(model, optimizer, x, y)
    expected = {name: np.copy(value) for name, value in run.values().items()}
    run.dump.settle()
    train(model, optimizer, x, y)
    x.zero_()
    for name, value in run.values().items():
        assert np.array_equal(value, expected[name], equal_nan=True), name


def test_inputs_that_are_named_within_a_transform_outlive_it():
    w, x = torch.full((3,), 2.0), torch.ones(3)

    def loss(w, x):
        run.recorder.name_inputs(lambda: {"w": w, "x": x})
        return (w * x).sum()

    with capture() as run:
        torch.func.grad(loss)(w, x)
        x.add_(1)
    run.dump.settle()
    w.zero_()
    assert run.value("input/w:0").tolist() == [2, 2, 2]
    assert run.value("input/x:0").tolist() == [1, 1, 1]


def test_the_autograd_graph_is_not_kept():
    model = Mlp()
    with capture() as run:
        loss = model(torch.ones(4, 6)).sum()
        token = torch.ones(1)
        loss.register_hook(lambda grad, token=token: grad)
        gone = weakref.ref(token)
        del token, loss
        gc.collect()
        assert gone() is None
    assert "sum" in run.nodes


def test_nothing_is_left_on_tensors_modules_and_optimizers():
    model = Mlp()
    optimizer = torch.optim.Adam(model.parameters())
    x, y = torch.ones(4, 6), torch.zeros(4, dtype=torch.long)

    def state():
        tensors = [*model.parameters(), *model.buffers(), x, y]
        return (
            [dict(vars(tensor)) for tensor in tensors],
            [sorted(vars(module)) for module in model.modules()],
            [len(module._forward_hooks) for module in model.modules()],
            sorted(vars(optimizer)),
        )

    plain = state()
    with capture() as run:
        loss = train(model, optimizer, x, y)
        twin = copy.deepcopy(model)
        torch.save({"model": model.state_dict(), "loss": loss}, io.BytesIO())
        torch.save(model, io.BytesIO())
        assert not vars(loss)
    assert state() == plain
    assert torch.equal(twin.fc1.weight, model.fc1.weight)
    copy.deepcopy(model)
    torch.save(model, io.BytesIO())
    assert torch._C._len_torch_dispatch_stack() == torch._C._len_torch_function_stack() == 0
    assert not run.dump.warnings


def conv():
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(64, 3)
    )


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(6, 2, 12, dropout=0.2, batch_first=True)
        self.head = nn.Linear(6, 3)

    def forward(self, x):
        return self.head(self.layer(x[:, None])[:, 0])


@pytest.mark.parametrize(
    ("make", "shape"),
    [(Mlp, (4, 6)), (conv, (4, 1, 6, 6)), (Small, (4, 6))],
    ids=["mlp", "conv", "transformer"],
)
@pytest.mark.parametrize("limit", [None, 2000])
def test_training_is_bitwise_the_same(make, shape, limit):
    def run(is_recorded):
        torch.manual_seed(1)
        model = make()
        optimizer = torch.optim.Adam(model.parameters())
        for _ in range(3):
            x, y = torch.randn(shape), torch.randint(0, 3, (shape[0],))
            if is_recorded:
                with capture(limit=limit):
                    train(model, optimizer, x, y)
            else:
                train(model, optimizer, x, y)
        tensors = [*model.state_dict().values(), *(p.grad for p in model.parameters())]
        states = [v for state in optimizer.state.values() for v in state.values()]
        return [*tensors, *states, torch.get_rng_state()]

    plain, recorded = run(False), run(True)
    assert len(plain) == len(recorded)
    assert all(torch.equal(a, b) for a, b in zip(plain, recorded, strict=True))


def test_the_state_of_an_optimizer_is_held_as_it_was():
    w = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([w], lr=1.0, momentum=0.5, foreach=False)
    for _ in range(2):
        with capture() as run:
            F.mse_loss(w, torch.zeros(2)).backward()
            step(optimizer)
            optimizer.zero_grad()
    (state,) = run.of_type("State")
    assert state.name.endswith("/momentum_buffer")
    assert run.value(f"{state.name}:0").tolist() == [1, 1]


def test_memory_is_let_go_of_as_soon_as_a_run_is():
    gc.collect()
    gc.disable()
    try:
        model = Mlp()
        optimizer = torch.optim.Adam(model.parameters())
        x, y = torch.ones(4, 6), torch.zeros(4, dtype=torch.long)
        with capture() as run:
            train(model, optimizer, x, y)
        (datum,) = run.dump.by_tensor("relu:0")
        value = weakref.ref(run.dump.value(datum).base)
        recorder = weakref.ref(run.recorder)
        assert run.nodes["relu"].frames
        del run, datum
        assert recorder() is None
        assert value() is None
    finally:
        gc.enable()
