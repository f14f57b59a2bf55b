"""Training loops of many shapes, in each of which one step goes wrong: ``watched_loops.py SHAPE``.

Prints a digest of all that the loop leaves: parameters, buffers, random numbers, its own records.
"""

import hashlib
import itertools
import random
import sys

import torch
import torch.nn.functional as F
from torch import nn

torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 16)
        self.norm = nn.BatchNorm1d(16)
        self.dropout = nn.Dropout(0.3)
        self.fc2 = nn.Linear(16, 3)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.fc2(self.dropout(torch.relu(self.norm(self.fc1(x)))))


def batch():
    return torch.randn(32, 8), torch.randint(0, 3, (32,))


def criterion(logits, y, is_bad):
    """A loss, a bad one on demand; its gradients are good, so that all goes on in numbers."""
    loss = F.cross_entropy(logits, y)
    return loss + torch.log(0.0 * loss.detach()) if is_bad else loss


def function(net, opt):
    total = 0
    for n in range(5):
        x, y = batch()
        x = net.fc1.weight.new_tensor(x.tolist())
        x = net(x * 0.5)
        total += 1
        loss = criterion(x, y, n == 3)
        update(loss, opt)
    return total


def update(loss, opt):
    opt.zero_grad()
    loss.backward()
    opt.step()


class Trainer:
    def __init__(self, net, opt):
        self.net, self.opt = net, opt
        self.__seen = []
        self.count = 0

    def forward(self, x):
        return self.net(x)

    def train(self):
        for n in range(5):
            self.step(n, *batch())
        return self.__seen, self.count

    def step(self, n, x, y):
        self.count += 1
        try:
            logits = self.net(x)
            self.__seen.append(random.random())
            self.count += 1
            loss = criterion(logits, y, n == 3)
            self.opt.zero_grad(set_to_none=False)
            loss.backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        finally:
            self.count += 1
        self.opt.step()


class Heir(Trainer):
    def step(self, n, x, y):
        scale: float = 2.0
        loss: torch.Tensor = criterion(super().forward(x) * scale, y, n == 3)
        loss.backward()
        self.opt.step()
        self.opt.zero_grad()


def method(net, opt):
    return Trainer(net, opt).train()


def inherited(net, opt):
    return Heir(net, opt).train()


def autocast(net, opt):
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
    for n in range(5):
        x, y = batch()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = net(x)
            loss = criterion(logits.float(), y, n == 3)
        opt.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(opt)
        scaler.update()
    return scaler.get_scale()


def accumulation(net, opt):
    losses = []
    for n in range(9):
        x, y = batch()
        loss = criterion(net(x), y, n == 4) / 3
        losses.append(loss.item())
        loss.backward()
        if n % 3 == 2:
            opt.step()
            opt.zero_grad()
    return len(losses)


def closure(net, opt):
    opt = torch.optim.LBFGS(net.parameters(), lr=0.01, max_iter=3)
    calls = []
    for n in range(4):
        x, y = batch()

        def evaluate():
            opt.zero_grad()
            loss = criterion(net(x), y, n == 2)  # noqa: B023 - called in this round
            calls.append(n)  # noqa: B023 - called in this round
            loss.backward()
            return loss

        opt.step(evaluate)
    return len(calls)


def unrolled(net, opt):
    cell = nn.GRUCell(8, 8)
    opt.add_param_group({"params": cell.parameters()})
    for n in range(5):
        h, outs, xs = torch.zeros(4, 8), [], torch.randn(5, 4, 8)
        for x in xs:
            h = cell(F.dropout(x), h)
            outs.append(net(h))
        loss = criterion(torch.cat(outs), torch.randint(0, 3, (20,)), n == 3)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return len(outs)


def skipping(net, opt):
    for n in range(8):
        x, y = batch()
        logits = net(x)
        if n % 3 == 1:
            continue
        loss = criterion(logits, y, n == 5)
        opt.zero_grad()
        loss.backward()
        opt.step()


def traced(net, opt):
    lines = []

    def trace(frame, event, argument):
        if frame.f_code is not criterion.__code__:
            return None
        lines.append(event)
        return trace

    sys.settrace(trace)
    total = function(net, opt)
    is_ours = sys.gettrace() is trace
    sys.settrace(None)
    return total, len(lines), is_ours


def inference(net, opt):
    net.train()
    seen = []
    with torch.no_grad():
        for n in range(5):
            x, _ = batch()
            logits = net(x / (0.0 if n == 3 else 1.0))
            seen.append(logits.isnan().any().item())
    return seen


# Those that can't be run once more, or not with the same result.


def generator(net, opt):
    def losses():
        for n in range(5):
            x, y = batch()
            loss = criterion(net(x), y, n == 3)
            yield loss
            update(loss, opt)

    return len(list(losses()))


def iterator(net, opt):
    batches = iter([batch() for _ in range(5)])
    for n in range(5):
        loss = criterion(net(next(batches)[0]), torch.zeros(32, dtype=torch.int64), n == 3)
        update(loss, opt)


def dispatch_mode(net, opt):
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as mode:
        for n in range(5):
            x, y = batch()
            update(criterion(net(x), y, n == 3), opt)
    return mode.get_total_flops()


def in_backward(net, opt):
    opts = {p: torch.optim.SGD([p], 0.1) for p in net.parameters()}
    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: opts[p].step())
    for n in range(5):
        x, y = batch()
        net.zero_grad()
        criterion(net(x), y, n == 3).backward()


def passing(net, opt):
    count = itertools.count()
    for _ in range(5):
        x, y = batch()
        loss = criterion(net(x), y, next_is_bad(count))
        update(loss, opt)


def next_is_bad(count):
    return next(count) == 3


def bad_update(net, opt):
    for n in range(5):
        x, y = batch()
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        if n == 3:
            opt.param_groups[0]["lr"] = float("inf")
        opt.step()


# The loop of a module: its variables are everybody's.


def module_level(net, opt):
    space = {"net": net, "opt": opt, "batch": batch, "criterion": criterion, "torch": torch}
    with open(__file__.replace("loops", "module"), encoding="utf-8") as file:
        code = compile(file.read(), file.name, "exec")
    exec(code, space)
    return space["seen"], space["count"]


def main():
    shapes = sys.argv[1:]
    for shape in shapes:
        torch.manual_seed(0)
        random.seed(0)
        net = Net()
        opt = torch.optim.Adam(net.parameters(), 1e-2)
        said = globals()[shape](net, opt)
        digest = hashlib.sha256()
        for tensor in [*net.state_dict().values(), torch.get_rng_state()]:
            digest.update(tensor.detach().numpy().tobytes())
        print("LEFT", shape, digest.hexdigest()[:16], net.calls, random.random(), said, flush=True)


if __name__ == "__main__":
    main()
