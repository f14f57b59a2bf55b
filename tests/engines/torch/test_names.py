"""What nodes are called, and that they are called the same in every step."""

import gc
import os
import re
import weakref

import pytest
import torch
import torch.nn.functional as F
from samples import night
from torch import nn
from torch_kit import LEGAL, Mlp, capture, step, train

from tfdbg_cli.engines.torch.names.scopes import Names


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3)
        self.norm1 = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 4, 3, padding=1)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        x = F.relu(self.norm1(self.conv1(x)))
        x = x + self.conv2(x)
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(3, 3)

    def forward(self, x):
        return self.cell(torch.tanh(self.cell(x)))


def gpt2():
    os.environ["HF_HUB_OFFLINE"] = "1"
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(
        n_layer=2, n_head=2, n_embd=16, vocab_size=30, n_positions=16, use_cache=False
    )
    return transformers.GPT2LMHeadModel(config)


def steps(model, optimizer, make, count=3):
    """The names of the nodes of each of some training steps."""
    names = Names()
    found = []
    for _ in range(count):
        x, y = make()
        with capture(names=names) as run:
            train(model, optimizer, x, y)
        assert not run.dump.warnings
        found.append(list(run.nodes))
    return found


def test_names_of_a_training_step():
    model = Mlp()
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    x, y = torch.ones(4, 6), torch.zeros(4, dtype=torch.long)
    names = Names()
    for _ in range(2):
        with capture(names=names) as run:
            loss = train(model, optimizer, x, y)
            run.recorder.name_outputs({"loss": loss})
    expected = {
        "fc1.weight": "Parameter",
        "norm.running_mean": "Buffer",
        "input/x": "Input",
        "input/y": "Input",
        "fc1/addmm": "addmm",
        "norm/native_batch_norm": "native_batch_norm",
        "relu": "relu",
        "nll_loss_forward": "nll_loss_forward",
        "gradients/fc2/addmm_grad/mm_1": "mm",
        "gradients/fc1.weight/AccumulateGrad/detach": "detach",
        "optimizer/Adam/fc1.weight/exp_avg_sq": "State",
        "optimizer/Adam/fc1.weight/addcdiv_": "addcdiv_",
    }
    assert {name: run.nodes[name].op_type for name in expected} == expected
    assert all(LEGAL.fullmatch(name) for name in run.nodes)


@pytest.mark.parametrize("foreach", [False, True])
def test_names_of_an_mlp_are_stable(foreach):
    model = Mlp()
    optimizer = torch.optim.AdamW(model.parameters(), foreach=foreach)
    found = steps(
        model, optimizer, lambda: (torch.randn(4, 6), torch.zeros(4, dtype=torch.long)), 4
    )
    assert found[1] == found[2] == found[3]
    assert len(found[1]) > 60


def test_names_of_a_convolutional_net_are_stable():
    model = ConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    found = steps(
        model, optimizer, lambda: (torch.randn(2, 1, 6, 6), torch.zeros(2, dtype=torch.long))
    )
    assert found[1] == found[2]
    assert {"conv1/convolution", "add", "head/addmm"} <= set(found[1])
    assert "gradients/conv2/convolution_grad/convolution_backward" in found[1]


@night
def test_names_of_a_transformer_are_stable():
    model = gpt2()
    optimizer = torch.optim.AdamW(model.parameters())
    names = Names()
    found = []
    for length in (8, 8, 6):
        ids = torch.randint(0, 30, (2, length))
        with capture(names=names) as run:
            optimizer.zero_grad()
            model(ids, labels=ids).loss.backward()
            step(optimizer)
        assert not run.dump.warnings
        found.append(list(run.nodes))
    assert found[1] == found[2]
    assert {"transformer.h.0.attn.c_attn/addmm", "input/ids", "lm_head.weight"} & set(found[1]) == {
        "transformer.h.0.attn.c_attn/addmm",
        "input/ids",
    }
    assert "transformer.wte.weight" in found[1]  # of which lm_head has the same
    assert "gradients/transformer.h.1.mlp.c_fc/addmm_grad/mm" in found[1]
    assert all(LEGAL.fullmatch(name) for name in found[1])


def test_the_kth_op_of_a_kind_and_the_nth_call_of_a_module():
    model = Shared()
    with capture() as run:
        y = model(torch.ones(1, 3))
        (y + 1) + 2
    assert {"cell/addmm", "cell-1/addmm", "add", "add_1"} <= set(run.nodes)


def second_update(**options):
    """The second run of a model with Adam, which has its moments by then."""
    model = Mlp()
    x, y = torch.ones(4, 6), torch.zeros(4, dtype=torch.long)
    optimizer = torch.optim.Adam(model.parameters(), **options)
    train(model, optimizer, x, y)
    with capture() as run:
        train(model, optimizer, x, y)
    return model, run


def test_names_of_lists_of_an_optimizer():
    model, run = second_update(foreach=True)
    node = run.nodes["optimizer/Adam/_foreach_addcdiv_"]
    assert node.inputs[:2] == ("fc1.weight:0", "fc1.bias:0")
    assert len(run.dump.by_node(node.name)) == len(list(model.parameters()))
    assert "optimizer/Adam/fc1.weight/exp_avg" in run.nodes


def test_a_fused_optimizer_writes_to_all_but_the_gradients():
    model, run = second_update(fused=True)
    node = run.nodes["optimizer/Adam/_fused_adam_"]
    written = node.attributes["_writes"].split(", ")
    assert {"fc1.weight:0", "optimizer/Adam/fc1.weight/exp_avg:0"} <= set(written)
    assert not [name for name in written if name.startswith("gradients/")]
    assert run.value("optimizer/Adam/_fused_adam_:0").tolist() == model.fc1.weight.tolist()


def test_several_optimizers_of_a_kind_are_numbered():
    first, second = nn.Linear(2, 2), nn.Linear(2, 2)
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (first, second)]
    names = Names()
    found = []
    for _ in range(2):
        with capture(names=names) as run:
            (first(torch.ones(1, 2)) + second(torch.ones(1, 2))).sum().backward()
            for optimizer in reversed(optimizers):
                step(optimizer)
        found.append([name for name in run.nodes if name.startswith("optimizer/")])
    assert found[0] == found[1]
    assert {name.split("/")[1] for name in found[0]} == {"SGD", "SGD_1"}


class Descent(torch.optim.Optimizer):
    """An optimizer of the program's own."""

    def __init__(self, params):
        super().__init__(params, {})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p].setdefault("count", torch.zeros(1)).add_(1)
                p.sub_(scaled(p.grad))


def scaled(gradient):
    return gradient * 0.1


def test_an_optimizer_of_the_programs_own():
    model = nn.Linear(2, 2)
    optimizer = Descent(model.parameters())
    names = Names()
    with capture(names=names) as run:
        model(torch.ones(1, 2)).sum().backward()
        step(optimizer)
    assert run.nodes["optimizer/Descent/weight/mul"].attributes["_phase"] == "optimizer"
    assert "optimizer/Descent/weight/sub_" in run.nodes
    with capture(names=names) as run:
        step(optimizer)
    assert run.nodes["optimizer/Descent/weight/count"].op_type == "State"
    assert run.nodes["optimizer/Descent/weight/mul"].inputs == ("input/weight.grad:0",)


def test_the_first_module_with_parameters_is_the_main_one():
    class Generator(nn.Linear):
        pass

    D, G = nn.Sequential(nn.Linear(3, 1)), Generator(2, 3)
    criterion = nn.MSELoss()
    names = Names()
    for _ in range(2):
        with capture(names=names) as run:
            criterion(torch.ones(1), torch.ones(1))
            D(G(torch.ones(1, 2)))
        # G is called first, as the argument of D.
        assert {"addmm", "D.0/addmm", "criterion/mse_loss"} <= set(run.nodes)
        assert {"weight", "D.0.weight"} <= set(run.nodes)


def test_attributes_and_parts_give_names_too():
    class Trainer:
        def __init__(self):
            self.model = Mlp()
            self.critic = nn.Linear(3, 1)
            self._loss = nn.L1Loss()

        def run(self):
            out = self.critic(self.model(torch.ones(4, 6)))
            return self._loss(out, torch.zeros(4, 1))

    with capture() as run:
        Trainer().run()
    assert {"fc1/addmm", "critic/addmm", "loss/mean"} & set(run.nodes) >= {
        "fc1/addmm",
        "critic/addmm",
    }
    assert any(name.startswith("loss/") for name in run.nodes)

    model = Mlp()
    with capture() as run:
        model.fc1(torch.ones(4, 6))
        model.fc2(torch.ones(4, 8))
    assert {"fc1/addmm", "fc2/addmm", "fc1.weight"} <= set(run.nodes)


def test_modules_that_are_made_anew_in_each_step():
    names = Names()
    x = torch.ones(2, 3)
    for _ in range(2):
        with capture(names=names) as run:
            nn.Softmax(dim=1)(nn.ReLU()(x))
            nn.ReLU()(x)
        assert {"ReLU/relu", "Softmax/_softmax", "ReLU-1/relu"} <= set(run.nodes)


def test_modules_that_are_not_registered():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = [nn.Linear(2, 2)]
            object.__setattr__(self, "secret", nn.Linear(2, 2))

        def forward(self, x):
            return self.secret(self.hidden[0](x))

    net = Net()
    with capture() as run:
        net(torch.ones(1, 2))
    assert "net.Linear/addmm" in run.nodes
    assert "net.secret/addmm" in run.nodes


@pytest.mark.parametrize("wrap", [nn.DataParallel, torch.compile])
def test_wrappers_are_left_out(wrap):
    model = Mlp().eval()
    wrapped = wrap(model)
    with capture() as run:
        wrapped(torch.ones(4, 6))
    assert {"fc1/addmm", "relu", "fc1.weight"} <= set(run.nodes)
    names = Names()
    with capture(names=names) as run:
        model(torch.ones(4, 6))
        wrapped(torch.ones(4, 6))
    assert {"fc1/addmm", "fc1-1/addmm"} <= set(run.nodes)


def test_inputs_have_the_names_of_variables():
    batch = {"ids": torch.ones(2), "mask": torch.ones(2)}
    pair = (torch.ones(2), torch.ones(2))

    nameless = iter([torch.ones(2)])

    def inner(tensor):
        return tensor.exp()

    with capture() as run:
        inner(batch["ids"])
        (pair[1] + batch["mask"]).log()
        next(nameless).exp()
    assert run.nodes["exp"].inputs == ("input/tensor:0",)
    assert run.nodes["add"].inputs == ("input/pair.1:0", "input/batch.mask:0")
    assert run.nodes["exp_1"].inputs == ("input/tensor_0:0",)


def test_inputs_that_are_named_by_who_knows():
    values = [torch.ones(2), torch.ones(2)]
    with capture() as run:
        run.recorder.name_inputs(lambda: {"batch": {"x y": values[0], "rest": values[1:]}, "n": 3})
        values[0] + values[1]
    assert run.nodes["add"].inputs == ("input/batch.x y:0", "input/batch.rest.0:0")


def test_looking_for_names_leaves_no_tensor_in_a_frame():
    nameless = iter([torch.ones(2)])
    local = torch.ones(2)
    gone = weakref.ref(local)
    with capture(hold=False) as run:
        next(nameless).exp()  # a name is looked for in all frames
        del local
        gc.collect()
        assert gone() is None
    assert "input/tensor_0" in run.nodes


def test_names_are_kept_and_unique_whatever_modules_are_called():
    class Strange(nn.Module):
        def __init__(self):
            super().__init__()
            self.add_module("a b:c", nn.Linear(2, 2))
            self.add_module("exp", nn.Linear(2, 2))
            self.exp_1 = nn.Parameter(torch.ones(2))

        def forward(self, x):
            x = self.get_submodule("a b:c")(x) + self.exp_1
            return self.exp(x).exp().exp()

    strange = Strange()
    with capture() as run:
        strange(torch.ones(1, 2))
    assert "a b:c/addmm" in run.nodes
    assert run.nodes["exp_1"].op_type == "Parameter"
    assert len(run.of_type("exp")) == 2


def test_parameters_are_leaves_though_they_were_made_just_before_the_run():
    names = Names()
    with capture(names=names) as run:
        model = nn.Linear(2, 2)
        x = torch.ones(1, 2) * 3
        run.recorder.begin_run()
        model(x)
    assert set(run.nodes) == {"weight", "t", "bias", "ones", "mul", "addmm"}
    assert run.value("weight:0").tolist() == model.weight.tolist()


def test_parameters_that_no_module_owns():
    w = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([w], lr=0.1)
    with capture() as run:
        (w * 2).sum().backward()
        step(optimizer)
    assert {"input/w", "gradients/w/AccumulateGrad/detach"} <= set(run.nodes)
    assert any(name.startswith("optimizer/SGD/") for name in run.nodes)


TWO_MODELS = """
torch.manual_seed(0)
G = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 2))
D = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
both = [torch.optim.SGD(each.parameters(), 0.1) for each in (G, D)]
for step in range(4):
    fake = G(torch.randn(5, 4))
    D(fake.detach()).mean().backward()
    both[1].step()
    (-D(fake)).mean().backward()
    both[0].step()
tell(digest(G, D))
"""


def test_names_of_two_models_do_not_depend_on_what_was_watched(both):
    path = both.write(TWO_MODELS)
    found = []
    for commands in (["run -t 4"], ["run -t 3", "run"], ["run -t 2", "run", "run"]):
        out = both.debugged(path, *commands, "lt -t addmm", "exit")
        found.append(re.findall(r"(\S+addmm\S*):0$", out.out, re.MULTILINE))
    assert found[0]
    assert found[0] == found[1] == found[2]
