"""Data loaders: their ops are not a run, and bad values made there are found all the same."""

from __future__ import annotations

import pytest
from breakers_kit import EVERY_RUN, Both, lines_of

DATA = """
class Normalize(nn.Module):
    def forward(self, x):
        noise = torch.rand(()) * 1e-3
        return (x + noise) / (x.std() if x.max() < 5 else x.std() * 0)


class Digits(torch.utils.data.Dataset):
    transform = nn.Sequential(Normalize(), nn.Flatten(0))
    served = 0

    def __len__(self):
        return 24

    def __getitem__(self, i):
        self.served += 1
        x = torch.linspace(-1, 1, 4).reshape(2, 2) * (9 if i == BAD else 1)
        return self.transform(x), float(i)


def collate(items):
    return nn.Identity()(torch.stack([x for x, _ in items])), torch.tensor([y for _, y in items])


data = Digits()
loader = torch.utils.data.DataLoader(data, 6, collate_fn=collate, num_workers=WORKERS)
"""
LOOP = """
model = Net()
opt = torch.optim.SGD(model.parameters(), lr=0.1)
for x, y in loader:
    opt.zero_grad()
    loss = (model(x).sum(1) - y).square().mean()
    loss.backward()
    opt.step()
tell(loss.item(), digest(model), data.served, torch.rand(1).item())
"""


def program(bad: int = -1, workers: int = 0, loop: str = LOOP) -> str:
    return DATA.replace("BAD", str(bad)).replace("WORKERS", str(workers)) + loop


@pytest.mark.parametrize("workers", [0, 1])
def test_transforms_in_a_loader_are_no_runs(both: Both, workers: int) -> None:
    out = both(program(workers=workers))
    assert out.count("--- run-end: training run") == 4
    assert "inference run" not in out


def test_transforms_of_a_data_set_that_is_asked_directly_are_no_runs(both: Both) -> None:
    loop = LOOP.replace("in loader", "in [(data[i][0][None], torch.ones(1)) for i in range(3)]")
    out = both(program(loop=loop))
    assert out.count("--- run-end: training run") == 3
    assert "inference run" not in out


@pytest.mark.parametrize("level", ["modules", "ops", "values", "auto"])
def test_what_went_bad_in_a_loader_has_its_line(both: Both, level: str) -> None:
    path = both.write(program(bad=14))
    out = both.compare(path, f"config set level {level}", "run -f has_inf_or_nan")
    assert "--- run-end: training run #3" in out
    assert "It began in [div] div" in out
    assert "return (x + noise) / (x.std()" in out


@pytest.mark.parametrize("level", ["auto", "ops"])
def test_what_another_process_has_read_came_in_from_outside(both: Both, level: str) -> None:
    out = both(program(bad=8, workers=1), f"config set level {level}", "run -f", "exit")
    assert "Why:   it came in from outside (set_:0" in out


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("data.random = np.random.default_rng(0)", "has a generator of its own"),
        (
            "data.transform = lambda x: (open('log', 'a').close(), x.flatten() / (x.max() < 5))[1]",
            "writes to log",
        ),
        (
            "data.transform = lambda x, n=iter(range(99)): "
            "torch.cat([x[0] / (x.max() < 5), torch.ones(2) * next(n)])",
            "another one",
        ),
    ],
)
def test_what_is_not_read_twice_is_said(both: Both, change: str, why: str) -> None:
    path = both.write(program(bad=8, loop=f"\n{change}\n{LOOP}"))
    out = both.compare(
        path, "config set level modules", "run -f has_inf_or_nan", "run -f has_inf_or_nan"
    )
    assert "Not replayed: the batch of the data loader" in out
    assert why in out


def test_a_model_in_a_loader_is_a_run(both: Both) -> None:
    text = program().replace("return self.transform(x), float(i)", "return frozen(x), float(i)")
    out = both(
        f"frozen = nn.Sequential(nn.Flatten(0), nn.Linear(4, 4).requires_grad_(False))\n{text}"
    )
    assert "inference run" in out


@pytest.mark.parametrize(
    "line",
    [
        "nn.Softmax(0)(torch.tensor([float('inf'), 1.0]))",
        "nn.Softmax(0)(torch.tensor([float('inf'), 1.0], requires_grad=True))",
        "nn.MSELoss()(torch.zeros(2), torch.tensor([float('inf'), 1.0]))",
    ],
)
def test_a_module_without_parameters_outside_of_a_loader_is_one(both: Both, line: str) -> None:
    path = both.write(f"tell({line}.detach())\n")
    out = both.compare(path, "run -f has_inf_or_nan")
    assert "--- run-end:" in out
    assert lines_of(both.debugged(path, *EVERY_RUN)) == lines_of(both.alone(path))
