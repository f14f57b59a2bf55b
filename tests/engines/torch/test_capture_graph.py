"""What is recorded of ops: edges, attributes, stacks, failures."""

import functools
import linecache
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch_kit import Mlp, capture, library, step, train

from tfdbg_cli.dumps.sources import own_frame


def line_here(offset=0):
    return sys._getframe(1).f_lineno + offset


def test_views_are_nodes_that_edges_pass_through():
    x = torch.ones(2, 3)
    with capture() as run:
        x.t().reshape(6)[1:3].mul(2)
    assert run.nodes["mul"].inputs == ("slice:0",)
    assert run.nodes["slice"].inputs[0].startswith(("view", "unsafe_view", "clone"))
    assert run.dump.graph().path("input/x", "mul")
    assert run.nodes["slice"].attributes["_view"] == "true"
    assert "_view" not in run.nodes["mul"].attributes


def test_an_op_in_place_reads_the_version_before_and_is_read_from_then_on():
    with capture() as run:
        a = torch.zeros(4)
        a.add_(1)
        a.mul_(2)
        a + 1
    assert run.nodes["add_"].inputs == ("zeros:0",)
    assert run.nodes["mul_"].inputs == ("add_:0",)
    assert run.nodes["add"].inputs == ("mul_:0",)
    assert run.nodes["mul_"].attributes["_writes"] == "add_:0"


def test_what_is_read_after_a_write_through_a_view_has_what_was_written():
    with capture() as run:
        base = torch.zeros(4)
        part = base[:2]
        part.add_(1)
        base + 1
        part + 1
        view = base[1:]
        view * 2
    assert run.nodes["add"].inputs == ("zeros_written:0",)
    assert run.nodes["zeros_written"].inputs == ("zeros:0", "add_:0")
    assert run.nodes["zeros_written"].op_type == "written"
    assert run.nodes["add_1"].inputs == ("add_:0",)
    assert run.nodes["slice_1"].inputs == ("zeros_written:0",)
    assert run.value("zeros:0").tolist() == [0, 0, 0, 0]
    assert run.value("zeros_written:0").tolist() == [1, 1, 0, 0]
    assert run.value("slice_1:0").tolist() == [1, 0, 0]
    assert run.value("add:0").tolist() == [2, 2, 1, 1]


def test_several_writes_and_reads_give_a_node_for_each_read():
    with capture() as run:
        x = torch.zeros(2, 3)
        x[0].fill_(1)
        x.data[1, 1] = 2
        x.sum()
        x.view(-1)[5] = 3
        x.mean()
        x.data.mul_(2)
        x.exp()
    assert run.nodes["sum"].inputs == ("zeros_written_1:0",)
    assert run.value("zeros_written_1:0").tolist() == [[1, 1, 1], [0, 2, 0]]
    assert run.nodes["mean"].inputs == ("zeros_written_2:0",)
    assert run.value("zeros_written_2:0").tolist() == [[1, 1, 1], [0, 2, 3]]
    assert run.nodes["exp"].inputs == ("mul_:0",)  # it is the same elements, all of them
    first, *others = run.nodes["zeros_written_2"].inputs
    assert first == "zeros_written_1:0"
    assert [run.value(each).tolist() for each in others] == [3]


def test_a_view_is_the_same_after_a_write_beside_it():
    with capture() as run:
        x = torch.zeros(2, 3)
        first, second = x[0], x[1]
        first.add_(1)
        second + 1
    assert run.nodes["add"].inputs == ("select_1:0",)


def test_a_tensor_that_is_filled_row_by_row_is_copied_once():
    with capture() as run:
        x = torch.zeros(50, 1000)
        for at in range(50):
            x[at] = at
        total = x.sum()
        held = run.recorder.holder.held_bytes
    assert held < 4 * x.numel() * x.element_size()
    assert total.item() == sum(range(50)) * 1000
    (source,) = run.nodes["sum"].inputs
    assert run.value(source)[:, 0].tolist() == list(range(50))


def test_variables_are_what_they_are_at_the_end():
    with capture() as run:
        x = torch.zeros(3)
        k = x[1:]
        k.add_(1)
        x[2] = 5
    assert run.value(run.recorder.tensor_name(x)).tolist() == [0, 1, 5]
    assert run.value(run.recorder.tensor_name(k)).tolist() == [1, 5]


def test_out_arguments_are_written_to():
    out = torch.empty(3)
    with capture() as run:
        torch.add(torch.ones(3), 1, out=out)
        out * 2
    assert run.nodes["mul"].inputs == ("add:0",)
    assert run.value("add:0").tolist() == [2, 2, 2]


def test_data_and_what_autograd_has_saved_are_known_by_their_memory():
    w = torch.ones(3, requires_grad=True)
    with capture() as run:
        y = w.exp()
        y.data.mul(2)
        y.sum().backward()
    graph = run.dump.graph()
    assert "exp" in graph.ancestors("mul")
    assert "exp" in graph.ancestors("gradients/exp_grad/mul")
    assert not [name for name in run.nodes if name.startswith("input/tensor")]


def test_lists_give_slots():
    params = [torch.ones(2), torch.ones(3)]
    with capture() as run:
        made = torch._foreach_mul(params, 3.0)
        torch._foreach_add_(made, 1.0)
        made[1] + 1
    assert run.nodes["foreach_mul"].inputs == ("input/params.0:0", "input/params.1:0")
    assert run.nodes["foreach_add_"].inputs == ("foreach_mul:0", "foreach_mul:1")
    assert run.nodes["add"].inputs == ("foreach_add_:1",)
    assert run.value("foreach_add_:1").tolist() == [4, 4, 4]


def test_ops_without_tensors_are_nodes_too():
    x = torch.tensor([3.0])
    with capture() as run:
        assert x.item() == 3
    node = run.nodes["local_scalar_dense"]
    assert node.attributes["_result"] == "3.0"
    assert not run.dump.by_node(node.name)


def test_attributes():
    model = Mlp().eval()
    with capture() as run:
        F.softmax(model(torch.ones(2, 6)), dim=1)
    attributes = run.nodes["softmax"].attributes
    assert attributes["_aten"] == "aten::_softmax"
    assert attributes["_api"] == "F.softmax"
    assert attributes["_phase"] == "forward"
    assert attributes["_arg_dim"] == "1"
    assert attributes["T"] == "float32"
    assert attributes["_output_shapes"] == "[[2, 3]]"
    linear = run.nodes["fc2/addmm"].attributes
    assert linear["_api"] == "F.linear"
    assert linear["_module"] == "fc2 (Linear)"


def test_what_the_program_has_written_is_told():
    x = torch.ones(2, 2)
    half = functools.partial(torch.mul, other=0.5)
    with capture() as run:
        x.exp()
        torch.log(x)
        x + 1
        x @ torch.softmax(
            x,
            dim=1,
        )
        x -= 1
        half(x)
        (x * x * x * x * x * x * x * x * x * x * x * x * x * x * x).cos()
    names = ("exp", "log", "add", "softmax", "mm", "sub_", "mul", "cos")
    assert [run.nodes[name].attributes["_api"] for name in names] == [
        "x.exp",
        "torch.log",
        "x + 1",
        "torch.softmax",
        "x @ torch.softmax(x, dim=1)",
        "x -= 1",
        "half",
        "(…).cos",
    ]


def test_a_function_that_pytorch_calls_inside_of_its_own_is_told_by_the_outer_one():
    x = torch.ones(2, 3)
    with capture() as run:
        F.cross_entropy(x, torch.zeros(2, dtype=torch.long))
        exec("x.cos()")  # nobody has its source
    assert run.nodes["nll_loss_forward"].attributes["_api"] == "F.cross_entropy"
    assert "_api" not in run.nodes["cos"].attributes


def test_the_variables_of_the_program_are_told():
    x, y = torch.ones(4, 6), torch.zeros(4, dtype=torch.long)
    model = Mlp()
    with capture() as run:
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        run.recorder.name_outputs({"loss": loss, "out": {"logits": logits}, "n": 3})
    assert run.nodes["nll_loss_forward"].attributes["_aliases"] == "loss"
    assert run.nodes["fc2/addmm"].attributes["_aliases"] == "out.logits"
    assert run.recorder.tensor_name(loss) == "nll_loss_forward:0"
    assert run.recorder.tensor_name(torch.ones(1)) == ""


def test_stacks_lead_from_the_script_to_the_op_without_the_debugger():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x):
            return torch.log(self.inner(x))

    net = Net()
    with capture() as run:
        net(torch.ones(1, 2))
    frames = run.nodes["log"].frames
    assert own_frame(frames).function == "forward"
    assert own_frame(frames).line == line_here(-7)
    text = linecache.getline(__file__, own_frame(frames).line)
    assert text[slice(*own_frame(frames).columns)] == "torch.log(self.inner(x))"
    linear = run.nodes["inner/addmm"].frames
    assert [frame.function for frame in linear][-1] == "forward"
    assert linear[-1].file.endswith("linear.py")
    assert own_frame(linear).line == own_frame(frames).line
    assert not any("tfdbg_cli/engines" in frame.file for frame in frames + linear)
    names = [frame.function for frame in linear]
    assert names.index("test_stacks_lead_from_the_script_to_the_op_without_the_debugger") < (
        names.index("forward")
    )


def test_an_op_of_a_backward_pass_has_the_line_whose_gradient_it_is():
    w = torch.ones(3, requires_grad=True)
    with capture() as run:
        y = torch.exp(w)
        made_at = line_here(-1)
        y.sum().backward()
        called_at = line_here(-1)
    node = run.nodes["gradients/exp_grad/mul"]
    assert own_frame(node.frames).line == made_at
    assert node.attributes["_forward_node"] == "exp"
    assert f":{called_at} in test_an_op" in node.attributes["_backward_called_at"]
    assert run.nodes["gradients/w/AccumulateGrad/detach"].attributes["_grad_of"] == "w"


def test_an_op_of_an_optimizer_has_the_line_of_the_step():
    model = Mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    with capture() as run:
        train(model, optimizer, torch.ones(4, 6), torch.zeros(4, dtype=torch.long))
    node = run.nodes["optimizer/SGD/fc1.weight/add_"]
    assert own_frame(node.frames).function == "train"
    assert node.attributes["_phase"] == "optimizer"


def mismatch():
    return torch.mm(torch.ones(2, 3), torch.ones(2, 3))


@pytest.mark.parametrize(
    ("call", "node", "inputs"),
    [
        (mismatch, "mm", ("ones:0", "ones_1:0")),
        (lambda: torch.cat([torch.ones(2), torch.ones(2, 2)]), "cat", ("ones:0", "ones_1:0")),
        (lambda: torch.ones(2) + torch.ones(3), "add", ("ones:0", "ones_1:0")),
        (lambda: torch.ones(6).view(4), "view", ("ones:0",)),
        (lambda: F.linear(torch.ones(2, 3), torch.ones(2, 2)), "mm", ("ones:0", "t:0")),
        (
            lambda: F.embedding(torch.tensor([9]), torch.ones(2, 2)),
            "embedding",
            ("ones:0", "lift_fresh:0"),
        ),
        (
            lambda: F.conv2d(torch.ones(1, 1, 4, 4), torch.ones(1, 2, 3, 3)),
            "convolution",
            ("ones:0", "ones_1:0"),
        ),
        (
            lambda: F.cross_entropy(torch.ones(1, 2), torch.tensor([5])),
            "nll_loss_forward",
            ("log_softmax:0", "lift_fresh:0"),
        ),
    ],
)
def test_an_op_that_raises_is_a_node_and_the_exception_goes_on(call, node, inputs):
    with pytest.raises((RuntimeError, IndexError)) as plain:
        call()
    with capture() as run, pytest.raises(type(plain.value)) as caught:
        call()
    assert str(caught.value) == str(plain.value)
    failure = run.recorder.ops.failure
    assert failure.exception is caught.value
    assert (failure.node_name, failure.inputs) == (node, inputs)
    assert run.nodes[node].inputs == inputs
    assert type(plain.value).__name__ in run.nodes[node].attributes["_error"]
    assert not run.dump.by_node(node)


def test_what_ran_before_a_failure_is_there():
    with capture() as run, pytest.raises(RuntimeError):
        torch.mm(torch.ones(2, 3) * 2, torch.ones(2, 3))
    assert run.value("mul:0").tolist() == [[2, 2, 2], [2, 2, 2]]


def test_a_failure_of_the_recorder_is_a_warning_and_nothing_else():
    class Broken:
        def add(self, record, slot, tensor):
            raise ZeroDivisionError("not ours")

    with capture(check=Broken()) as run:
        result = torch.ones(2) * 3
    assert result.tolist() == [3, 3]
    assert "ZeroDivisionError" in run.dump.warnings[0]
    assert "mul" in run.nodes


def test_what_came_before_the_run_belongs_to_it_as_far_as_it_uses_it():
    with capture() as run:
        used = torch.ones(3) * 2
        torch.zeros(3) - 1
        run.recorder.begin_run()
        used + 1
        torch.ones(3)
    assert list(run.nodes) == ["ones", "mul", "add", "ones_1"]
    assert run.nodes["add"].inputs == ("mul:0",)
    assert run.value("mul:0").tolist() == [2, 2, 2]


def test_every_output_is_told_to_the_check_as_it_is_made():
    seen = []

    class Check:
        def add(self, record, slot, tensor):
            seen.append((record, slot, tensor.tolist()))

    with capture(check=Check()):
        a = torch.ones(2)
        a.view(1, 2)
        a.mul_(3)
        torch.empty(5)
    named = [(record.name, slot, values) for record, slot, values in seen]
    assert named == [("ones", 0, [1, 1]), ("mul_", 0, [3, 3])]


def test_times_follow_the_order_of_the_ops_and_devices_are_tensorflows():
    with capture() as run:
        torch.ones(2).exp().log()
    data = run.dump.data()
    assert [datum.node_name for datum in data] == ["ones", "exp", "log"]
    times = [datum.timestamp for datum in data]
    assert times == sorted(set(times))
    assert {len(str(time)) for time in times} == {16}
    assert data[0].device_name == "/job:localhost/replica:0/task:0/device:CPU:0"
    assert (data[0].dtype, data[0].shape, data[0].nbytes) == ("float32", (2,), 8)


def test_recording_may_stop_and_go_on():
    with capture() as run:
        a = torch.ones(2)
        run.recorder.stop()
        a.exp()
        run.recorder.start()
        a.log()
    assert list(run.nodes) == ["ones", "log"]


@library
def in_library(x):
    hidden = x * 2
    return hidden.exp()


def test_frames_of_libraries_are_kept_and_are_not_the_users():
    with capture() as run:
        in_library(torch.ones(1))
    node = run.nodes["exp"]
    assert node.frames[-1].function == "in_library"
    assert (
        own_frame(node.frames).function == "test_frames_of_libraries_are_kept_and_are_not_the_users"
    )


def test_a_closure_that_an_optimizer_calls_is_no_part_of_the_optimizer():
    model = nn.Linear(2, 1)
    x, y = torch.ones(3, 2), torch.zeros(3, 1)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=2)

    def closure():
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    with capture() as run:
        step(optimizer, closure)
    assert run.nodes["mse_loss"].attributes["_phase"] == "forward"
    assert run.nodes["gradients/addmm_grad/mm"].attributes["_phase"] == "backward"
    assert run.nodes["optimizer/LBFGS/weight/add_"].attributes["_phase"] == "optimizer"
    assert run.nodes["addmm_1"].inputs[0] == "optimizer/LBFGS/bias/add_:0"
