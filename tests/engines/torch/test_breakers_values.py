"""Values: fused kernels as parts, writes behind PyTorch's back, and memory that is given back."""

import pytest
from breakers_kit import EVERY_RUN, Both, nodes

FUSED = """
attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
lstm, gru = nn.LSTM(8, 3), nn.GRU(8, 3)

class Plain(nn.Module):
    def forward(self, x):
        x = x.unsqueeze(1)
        return F.scaled_dot_product_attention(x, x, x)

x = torch.randn(2, 5, 8)
found = []
with torch.no_grad():
    for module in (Plain(), layer, encoder, attention, lstm, gru):
        output = module(x, x, x) if module is attention else module(x)
        found.append(output[0] if isinstance(output, tuple) else output)
layer.train()
layer(x).sum().backward()
"""


def test_fused_kernels_stay_fused_and_the_numbers_theirs(both: Both) -> None:
    out = both(FUSED + "tell([digest(each) for each in found], digest(layer.linear1.weight.grad))")
    for number, kernel in enumerate(("flash_attention_for_cpu", "encoder_layer_fwd")):
        assert any(name.endswith(kernel) for name in nodes(out, number))
    assert any(name.endswith("/mkldnn_rnn_layer") for name in nodes(out, 4))
    assert "Warning" not in out


def test_fused_kernels_as_their_parts(both: Both) -> None:
    path = both.write(
        FUSED
        + """
from torch.backends import cuda, mha, mkldnn
tell(cuda.flash_sdp_enabled(), cuda.math_sdp_enabled(), mha.get_fastpath_enabled())
tell(mkldnn.enabled, [round(each.double().sum().item(), 3) + 0.0 for each in found[:1]])
print("numbers", *(each.double().abs().sum().item() for each in found))
"""
    )
    out = both.compare(path, "config set expand on", *EVERY_RUN)
    assert "softmax" in " ".join(nodes(out, 0))
    assert not [name for number in range(7) for name in nodes(out, number) if "flash" in name]
    for number, part in enumerate(("linear1/addmm", "layers.1.linear1/addmm"), 1):
        assert any(name.endswith(part) for name in nodes(out, number))
    for number in (4, 5):
        assert any(name.endswith("/sigmoid_") for name in nodes(out, number))
    assert "ran as parts: the numbers are those of the parts" in out
    alone = both.alone(path).out
    numbers = [
        [float(word) for word in text.rpartition("numbers ")[2].splitlines()[0].split()]
        for text in (alone, out)
    ]
    assert numbers[0] == pytest.approx(numbers[1], rel=1e-4)
    both.compare(path, "config set expand on", "run -t 1000")


BEHIND = """
class Scribble(nn.Module):
    def forward(self, x):
        y = x * 2
        before = y.sum()
        y.numpy()[0] = 9
        return y + before

scribble = Scribble()
with torch.no_grad():
    tell(scribble(torch.ones(3)).tolist())
"""


def test_what_is_written_through_numpy(both: Both) -> None:
    path = both.write(BEHIND)
    command = "pt scribble/mul:0"
    assert "[9., 2., 2.]" in both.compare(path, "run", command)
    assert "[2., 2., 2.]" in both.compare(path, "config set keep clone", "run", command)


def test_clones_are_as_good_as_references(both: Both) -> None:
    path = both.write("model = Net()\ntell(train(model).item(), digest(model))")
    by_reference = both.compare(path, "run", "pt first/addmm:0", *EVERY_RUN[1:])
    cloned = both.compare(path, "config set keep clone", "run", "pt first/addmm:0", *EVERY_RUN[1:])
    assert nodes(by_reference, 1) == nodes(cloned, 1)
    wanted = by_reference.split("--- pt")[1].split("---")[1]
    assert wanted in cloned


def test_memory_is_given_back_when_a_stop_is_left(both: Both) -> None:
    """Activations die with the program's last reference, be the debugger waiting or filtering."""
    path = both.write(
        """
        import gc
        import weakref

        alive = []

        class Watched(Net):
            def forward(self, x):
                hidden = torch.tanh(self.first(x))
                alive.append(weakref.ref(hidden.untyped_storage()))
                return self.second(hidden)

        model = Watched()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for index in range(8):
            train(model, 1, optimizer)
            gc.collect()
            print("alive", sum(each() is not None for each in alive[:-1]))
        tell(len(alive))
        """
    )
    for commands in (("run -f has_inf_or_nan",), ("run", "lt", *("run", "lt") * 8)):
        out = both.compare(path, *commands)
        counts = [int(line.split()[1]) for line in out.splitlines() if line.startswith("alive")]
        assert len(counts) == 8
        assert set(counts) == {0}


def test_fifty_debugged_runs_do_not_grow(both: Both) -> None:
    path = both.write(
        """
        import gc

        model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 8))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

        def tensors():
            gc.collect()
            return sum(issubclass(type(each), torch.Tensor) for each in gc.get_objects())

        counts = []
        for index in range(60):
            optimizer.zero_grad()
            loss = model(torch.randn(256, 64)).square().mean()
            loss.backward()
            optimizer.step()
            del loss
            if index in (9, 59):
                counts.append((tensors(), len(gc.get_objects())))
        print("tensors", counts[1][0] - counts[0][0], "objects", counts[1][1] - counts[0][1])
        tell("done")
        """
    )
    for commands in (
        ("run -f has_inf_or_nan",),
        ("config set level values", "run -f has_inf_or_nan"),
        ("config set level modules", "run -f has_inf_or_nan"),
    ):
        out = both.compare(path, *commands)
        (line,) = [each for each in out.splitlines() if each.startswith("tensors")]
        assert abs(int(line.split()[1])) <= 40  # what is recorded at the moment may differ
        assert int(line.split()[3]) < 3000


def test_an_op_that_cant_be_recorded_ends_a_wait_with_a_message(both):
    path = both.write(
        """
        class Odd(torch.Tensor):
            @property
            def dtype(self):
                raise KeyError("a secret")

        data = torch.ones(2, 4).as_subclass(Odd)
        weight = nn.Parameter(torch.ones(3, 4))
        optimizer = torch.optim.SGD([weight], lr=0.1)
        for step in range(4):
            optimizer.zero_grad()
            loss = nn.functional.linear(data, weight).as_subclass(torch.Tensor).sum()
            if step == 3:
                loss = (loss - loss) / (loss - loss)
            loss.backward()
            optimizer.step()
            tell(step, digest(weight))
        """
    )
    for level in ("modules", "ops", "values"):
        wait = "run -f has_inf_or_nan"
        out = both.compare(path, f"config set level {level}", wait, "run_info", wait)
        first, second = out.split("--- run-end: ")[1:]
        # By modules, no op of the first run was seen: those came before it.
        assert first.startswith(f"training run #{2 if level == 'modules' else 1}")
        assert "ends here without an answer" in first and "KeyError: 'a secret'" in first
        # Once said, it is known, and what passes is an answer.
        assert second.startswith("training run #4") and "--- why -f has_inf_or_nan ---" in second
