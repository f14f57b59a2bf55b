"""Tensors, modules and operators that are not the usual ones."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_kit import capture


def test_nested_tensors_are_recorded_as_the_dense_ones_they_consist_of():
    with capture() as run:
        nested = torch.nested.nested_tensor(
            [torch.ones(2, 3), torch.ones(1, 3)], layout=torch.jagged
        )
        twice = nested * 2
    assert twice.is_nested
    assert run.value("mul:0").tolist() == [[2, 2, 2]] * 3
    assert not run.dump.warnings


def test_strided_nested_tensors():
    with capture() as run:
        nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(1, 3)])
        twice = nested * 2
        twice.add_(1)
    assert run.nodes["add_"].inputs == ("mul:0",)
    assert float(np.max(run.value("mul:0"))) == 2
    assert float(np.max(run.value("add_:0"))) == 3
    assert not run.dump.warnings


def test_wrapper_subclasses_do_their_own_work_first():
    class Scaled(torch.Tensor):
        @staticmethod
        def __new__(cls, data, scale):
            return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=data.dtype)

        def __init__(self, data, scale):
            self.data_, self.scale = data, scale

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            plain = [a.data_ * a.scale if isinstance(a, Scaled) else a for a in args]
            return func(*plain, **(kwargs or {}))

    with capture() as run:
        result = torch.exp(Scaled(torch.zeros(2), 3.0))
    assert result.tolist() == [1, 1]
    assert list(run.nodes) == ["zeros", "mul", "exp"]


def test_sparse_tensors():
    with capture() as run:
        sparse = torch.eye(3).to_sparse()
        torch.sparse.mm(sparse, torch.ones(3, 2))
        sparse.mul_(2)
    assert run.value("to_sparse:0").tolist() == np.eye(3).tolist()
    assert run.value("sparse_addmm:0").tolist() == [[1, 1]] * 3
    assert not run.dump.warnings


def test_a_sparse_gradient():
    table = nn.Embedding(4, 2, sparse=True)
    with capture() as run:
        table(torch.tensor([1, 1])).sum().backward()
    gradient = run.value("gradients/weight/AccumulateGrad/clone:0")
    assert gradient.tolist() == [[0, 0], [2, 2], [0, 0], [0, 0]]


def test_quantized_tensors():
    x = torch.tensor([1.0, 2.0])
    with capture() as run:
        torch.quantize_per_tensor(x, 0.5, 0, torch.qint8).dequantize()
    assert run.value("quantize_per_tensor:0").tolist() == [1, 2]
    assert not run.dump.warnings


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.complex64, torch.bool])
def test_element_types(dtype):
    with capture() as run:
        torch.ones(2, dtype=dtype).clone()
    (datum,) = run.dump.by_tensor("clone:0")
    assert datum.dtype == str(dtype).removeprefix("torch.")
    assert run.dump.value(datum).dtype.name == datum.dtype


def test_float8():
    with capture() as run:
        torch.ones(3).to(torch.float8_e4m3fn)
    assert run.value("to_copy:0").astype(np.float32).tolist() == [1, 1, 1]


def test_fused_kernels_are_one_op():
    x = torch.ones(1, 2, 4)
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    lstm = nn.LSTM(4, 3)
    with capture() as run, torch.no_grad():
        layer(x)
        lstm(x)
    assert len(run.of_type("_transformer_encoder_layer_fwd")) == 1
    assert any("lstm" in node.op_type or "rnn" in node.op_type for node in run.nodes.values())


def test_operators_of_higher_order_are_one_op():
    x = torch.ones(2)

    def with_cond(x):
        return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))

    try:
        expected = with_cond(x)
    except RuntimeError:
        pytest.skip("cond needs a compiler here")
    with capture() as run:
        assert torch.equal(with_cond(x), expected)
    (node,) = run.of_type("cond")
    assert node.inputs == ("gt:0", "input/x:0")


def test_scripted_functions_and_modules():
    @torch.jit.script
    def scripted(x):
        return torch.relu(x) * 2

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x):
            return torch.relu(self.linear(x))

    module = torch.jit.script(Net())
    x = torch.ones(1, 2)
    with capture() as run:
        scripted(x)
        module(x).sum().backward()
    assert run.nodes["mul"].inputs == ("relu:0",)
    assert run.nodes["t"].inputs == ("linear.weight:0",)
    assert "gradients/linear.weight/AccumulateGrad/detach" in run.nodes


def test_generated_code_keeps_its_lines():
    traced = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()))
    with capture() as run:
        traced(torch.ones(1, 2))
    node = run.nodes["1/relu"]
    generated = [frame for frame in node.frames if frame.file.startswith("<eval_with_key>")]
    assert generated
    assert "self" in run.dump.sources().line(generated[0].file, generated[0].line)


def test_random_ops_in_place():
    torch.manual_seed(3)
    expected = torch.empty(3).normal_()
    torch.manual_seed(3)
    with capture() as run:
        drawn = torch.empty(3).normal_()
    assert torch.equal(drawn, expected)
    assert run.value("normal_:0").tolist() == expected.tolist()
    assert not run.dump.by_node("empty")  # it had no value


def test_indices_masks_and_several_outputs():
    x = torch.arange(6.0).reshape(2, 3)
    with capture() as run:
        indices = x.max(dim=1).indices
        x[:, indices]
        x[x > 2]
        F.dropout(x, 0.5)
        first, second = x.split(1)
        first + second
    assert run.value("max:0").tolist() == [2, 5]
    assert run.value("max:1").tolist() == [2, 2]
    assert "max:1" in run.nodes["index"].inputs
    assert run.nodes["add"].inputs == ("split:0", "split:1")


def test_complex_views():
    with capture() as run:
        z = torch.tensor([1 + 2j])
        z.conj().mul(1)
        torch.view_as_real(z).add_(1)
    assert run.value("lift_fresh:0").tolist() == [1 + 2j]
    assert run.value("mul:0").tolist() == [1 - 2j]
    assert not run.dump.warnings


def test_a_process_group_is_not_held():
    """Whoever lets go of it last waits for its threads, which may wait for that one."""
    dist = pytest.importorskip("torch.distributed")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with capture() as run:
            dist.all_reduce(torch.ones(2))
            dist.broadcast(torch.ones(2), 0)
    finally:
        dist.destroy_process_group()
    assert "ProcessGroup" in run.nodes["c10d.allreduce_"].attributes["_arg_process_group"]
    records = run.recorder.ops.records
    held = [value for each in records for value in (*each.constants, each.result)]
    assert not any(isinstance(value, torch.ScriptObject) for value in held)
