"""Steps of optimizers of many kinds, one of which goes bad: ``watched_steps.py NAME``.

Prints a digest of all that the program leaves: parameters, states, gradients, random numbers.
"""

import hashlib
import random
import sys

import torch
from torch import nn

torch.set_num_threads(1)
BAD = 2
STEP = 0
AVERAGES = []
MADE = 0


class Own(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {"lr": 0.1})
        self.own = self.param_groups[0]["params"]

    def scale(self):
        return float("inf") if STEP == BAD else 1.0


class Attributes(Own):
    def __init__(self, params):
        super().__init__(params)
        self.moments = [torch.zeros_like(p) for p in self.own]
        self.count = 0

    @torch.no_grad()
    def step(self):
        self.count += 1
        print("STEP", self.count)
        for moment, p in zip(self.moments, self.own, strict=True):
            moment.mul_(0.9).add_(p.grad)
            p.sub_(moment / (1.0 if self.count != BAD + 1 else 0.0))


class States(Own):
    @torch.no_grad()
    def step(self):
        for p in self.own:
            total = self.state[p].setdefault("total", torch.zeros_like(p)).add_(p.grad.square())
            p.sub_(0.1 * p.grad / (total.sqrt() if STEP == BAD else total.sqrt() + 1))


class Replaces(Own):
    def step(self):
        for p in self.own:
            p.data = p.data - 0.1 * p.grad.data * self.scale()


class Gradients(Own):
    @torch.no_grad()
    def step(self):
        for p in self.own:
            p.grad.mul_(0.5)
            p.sub_(p.grad * self.scale())
            p.grad = None


class Noise(Own):
    @torch.no_grad()
    def step(self):
        for p in self.own:
            p.sub_(0.1 * p.grad + 1e-3 * torch.randn_like(p) * random.random())
            p.mul_(self.scale())


class Around(Own):
    def __init__(self, params):
        super().__init__(params)
        self.inner = torch.optim.SGD(self.own, 0.1, momentum=0.9)
        self.slow = [p.detach().clone() for p in self.own]

    @torch.no_grad()
    def step(self):
        self.inner.step()
        for slow, p in zip(self.slow, self.own, strict=True):
            slow.add_((p - slow) * 0.5 * self.scale())
            p.copy_(slow)


class Counts(Own):
    made, rows = 0, []

    @torch.no_grad()
    def step(self):
        global MADE
        MADE += 1
        Counts.made += 1
        Counts.rows.append(MADE)
        for p in self.own:
            p.sub_(0.1 * p.grad * self.scale())


class Closure(Own):
    def step(self, closure):
        closure()
        with torch.no_grad():
            for p in self.own:
                p.sub_(0.1 * p.grad * self.scale())


class Elsewhere(Own):
    @torch.no_grad()
    def step(self):
        if not AVERAGES:
            AVERAGES.extend(p.detach().clone() for p in self.own)
        for average, p in zip(AVERAGES, self.own, strict=True):
            p.sub_(0.1 * p.grad * self.scale())
            average.mul_(0.9).add_(p, alpha=0.1)


class Writes(Own):
    @torch.no_grad()
    def step(self):
        with open(f"{sys.argv[2]}/steps", "a", encoding="utf-8") as file:
            file.write("x")
        for p in self.own:
            p.mul_(self.scale())


OWN = (Attributes, States, Replaces, Gradients, Noise, Around, Counts, Closure, Elsewhere, Writes)
MAKE = {
    "adam": lambda params: torch.optim.Adam(params, 1e-2, eps=0.0),
    "scaled": lambda params: torch.optim.RMSprop(params, 1e-2, eps=0.0),
    **{kind.__name__.lower(): kind for kind in OWN},
}


def main():
    global STEP
    name = sys.argv[1]
    torch.manual_seed(0)
    random.seed(0)
    net = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 1))
    with torch.no_grad():
        net[0].bias[:] = -1
        net[0].weight[1] = 0
    opt = MAKE[name](net.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0) if name == "scaled" else None
    schedule = torch.optim.lr_scheduler.StepLR(opt, 2, 0.5)
    for STEP in range(4):  # noqa: B007 - the optimizers read it
        x = torch.randn(5, 4)

        def closure():
            opt.zero_grad()
            loss = net(x).square().mean()  # noqa: B023 - called in this round
            (scaler.scale(loss) if scaler else loss).backward()

        if name == "closure":
            opt.step(closure)
        else:
            closure()
            if scaler:
                scaler.step(opt)
                scaler.update()
            else:
                opt.step()
        schedule.step()
    digest = hashlib.sha256()
    states = [each for state in opt.state.values() for each in state.values()]
    gradients = [p.grad for p in net.parameters()]
    kept = [*getattr(opt, "slow", ()), *getattr(opt, "moments", ()), *AVERAGES]
    for each in [*net.state_dict().values(), *states, *kept, *gradients, torch.get_rng_state()]:
        if isinstance(each, torch.Tensor):
            digest.update(each.detach().numpy().tobytes())
    here = [[gradient is None for gradient in gradients], len(opt.state), getattr(opt, "count", 0)]
    here += [MADE, Counts.made, Counts.rows]
    tensors = [each for each in (*net.parameters(), *states) if isinstance(each, torch.Tensor)]
    here.append([each._version for each in tensors])
    print("LEFT", digest.hexdigest()[:16], random.random(), *here, flush=True)


if __name__ == "__main__":
    main()
