"""PyTorch programs of which two variants make a pair: ``torch_pairs.py MODEL VARIANT``."""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

MODEL, VARIANT = sys.argv[1:]
WIDTH, HEADS, LENGTH, BATCH, CLASSES = 32, 4, 10, 4, 5


class Attention(nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.q, self.k, self.v, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))
        if VARIANT in ("fused", "fused_swapped"):
            with torch.random.fork_rng():
                self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
            parts = (
                (self.q, self.v, self.k) if VARIANT == "fused_swapped" else (self.q, self.k, self.v)
            )
            with torch.no_grad():
                self.qkv.weight.copy_(torch.cat([each.weight for each in parts]))
                self.qkv.bias.copy_(torch.cat([each.bias for each in parts]))
            del self.q, self.k, self.v

    def forward(self, x):
        batch, length, width = x.shape
        if hasattr(self, "qkv"):
            parts = self.qkv(x).chunk(3, -1)
        else:
            parts = self.q(x), self.k(x), self.v(x)
        q, k, v = (
            each.view(batch, length, HEADS, width // HEADS).transpose(1, 2) for each in parts
        )
        last = self.number == 1
        size = (width // HEADS) ** 0.5
        if VARIANT == "scale" and last:
            size = width // HEADS
        if VARIANT == "sdpa":
            mixed = F.scaled_dot_product_attention(q, k, v)
        elif VARIANT == "sdpa_causal":
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=last)
        else:
            if VARIANT == "scale_first":
                scores = (q / size) @ k.transpose(-1, -2)
            elif VARIANT == "einsum":
                scores = torch.einsum("bhqd,bhkd->bhqk", q, k) / size
            else:
                scores = q @ k.transpose(-1, -2) / size
            if VARIANT == "softmax_by_hand":
                exps = (scores - scores.amax(-1, keepdim=True)).exp()
                chances = exps / exps.sum(-1, keepdim=True)
            else:
                chances = scores.softmax(-2 if VARIANT == "softmax_dim" and last else -1)
            mixed = chances @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Norm(nn.LayerNorm):
    def forward(self, x):
        if VARIANT != "norm_by_hand":
            return super().forward(x)
        middle = x.mean(-1, keepdim=True)
        spread = (x - middle).pow(2).mean(-1, keepdim=True)
        return (x - middle) / (spread + self.eps).sqrt() * self.weight + self.bias


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.ModuleList(Attention(number) for number in range(2))
        self.up = nn.ModuleList(nn.Linear(WIDTH, 64) for _ in range(2))
        self.down = nn.ModuleList(nn.Linear(64, WIDTH) for _ in range(2))
        self.norm = Norm(WIDTH, eps=1e-2 if VARIANT == "eps" else 1e-5)
        self.head = nn.Linear(WIDTH, CLASSES)

    def act(self, x, last):
        if VARIANT == "gelu_by_hand":
            return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))
        return F.gelu(x, approximate="tanh" if VARIANT == "gelu" and last else "none")

    def forward(self, x):
        for number, (attention, up, down) in enumerate(
            zip(self.attention, self.up, self.down, strict=True)
        ):
            if VARIANT == "checkpoint":
                x = x + torch.utils.checkpoint.checkpoint(
                    lambda y, attention=attention: attention(self.norm(y)), x, use_reentrant=False
                )
            elif VARIANT == "residual" and number == 1:
                x = attention(self.norm(x))
            else:
                x = x + attention(self.norm(x))
            x = x + down(self.act(up(x), number == 1))
        x = x.sum(1) / LENGTH if VARIANT == "mean_by_sum" else x.mean(1)
        if VARIANT == "mean_dim":
            x = x - x.mean(0)
        return self.head(x)


def transformer() -> None:
    net = Net()
    kind = torch.optim.SGD
    options = {"lr": 0.05}
    if VARIANT in ("momentum_a", "momentum"):
        options["momentum"] = 0.9 if VARIANT == "momentum_a" else 0.5
    if VARIANT.startswith("adam"):
        kind = torch.optim.AdamW if VARIANT == "adamw" else torch.optim.Adam
        options = {"lr": 1e-3, "weight_decay": 0.1}
        options |= {"foreach": True} if VARIANT == "adam_foreach" else {}
        options |= {"fused": True} if VARIANT == "adam_fused" else {}
        options |= {"eps": 1e-3} if VARIANT == "adam_eps" else {}
        options |= {"betas": (0.9, 0.9)} if VARIANT == "adam_beta" else {}
    if VARIANT == "lr":
        options["lr"] = 0.06
    dtype = {"bf16": torch.bfloat16, "float64": torch.float64}.get(VARIANT, torch.float32)
    if VARIANT == "adam_bf16":
        dtype = torch.bfloat16
    net.to(dtype)
    if VARIANT == "init":
        with torch.no_grad():
            net.down[1].weight.mul_(1.01)
    model = torch.compile(net, backend="aot_eager") if VARIANT == "compile" else net
    if VARIANT == "threads":
        torch.set_num_threads(1)
    optimizer = kind(model.parameters(), **options)
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        x = torch.randn(BATCH, LENGTH, WIDTH, generator=generator).to(dtype)
        y = torch.randint(0, CLASSES, (BATCH,), generator=generator)
        if VARIANT == "batch":
            x = x * 1.01
        with torch.autocast(
            "cpu", torch.bfloat16, enabled=VARIANT in ("autocast", "autocast_scale")
        ):
            scores = model(x)
        if VARIANT == "loss_by_hand":
            loss = -scores.log_softmax(-1)[torch.arange(BATCH), y].mean()
        elif VARIANT == "smoothing":
            loss = F.cross_entropy(scores, y, label_smoothing=0.1)
        elif VARIANT == "sum":
            loss = F.cross_entropy(scores, y, reduction="sum")
        else:
            loss = F.cross_entropy(scores, y)
        optimizer.zero_grad()
        loss.backward()
        if VARIANT == "clip":
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        if VARIANT == "frozen":
            net.head.bias.grad = None
        optimizer.step()


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        padding = "reflect" if VARIANT == "padding" else "zeros"
        self.one = nn.Conv2d(3, 8, 3, padding=1, padding_mode=padding)
        self.norm = nn.BatchNorm2d(
            8,
            eps=1e-1 if VARIANT == "bn_eps" else 1e-5,
            momentum=0.3 if VARIANT == "bn_momentum" else 0.1,
        )
        self.two = nn.Conv2d(8, 16, 3, stride=2)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x):
        x = F.leaky_relu(self.norm(self.one(x)), 0.2 if VARIANT == "slope" else 0.1)
        x = F.relu_(self.two(x)) if VARIANT == "inplace" else self.two(x).relu()
        if VARIANT == "pool":
            return self.head(x.amax((2, 3)))
        if VARIANT == "pool_module":
            return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))
        return self.head(x.mean((2, 3)))


def convolutions() -> None:
    net = Convolutions()
    generator = torch.Generator().manual_seed(1)
    if VARIANT.startswith("eval"):
        for _ in range(3):
            net(torch.randn(8, 3, 12, 12, generator=generator) * 2 + 1)
        net.eval()
        if VARIANT in ("eval_folded", "eval_folded_wrong"):
            scale = net.norm.weight / (net.norm.running_var + net.norm.eps).sqrt()
            with torch.no_grad():
                net.one.weight.mul_(scale[:, None, None, None])
                bias = (
                    net.one.bias
                    if VARIANT == "eval_folded_wrong"
                    else net.one.bias - net.norm.running_mean
                )
                net.one.bias.copy_(bias * scale + net.norm.bias)
            net.norm = nn.Identity()
        with torch.no_grad():
            net(torch.randn(8, 3, 12, 12, generator=generator))
        return
    if VARIANT == "channels_last":
        net.to(memory_format=torch.channels_last)
    if VARIANT == "threads":
        torch.set_num_threads(1)
    adam = VARIANT in ("adam", "adam_channels_last")
    if VARIANT == "adam_channels_last":
        net.to(memory_format=torch.channels_last)
    kind = torch.optim.Adam if adam else torch.optim.SGD
    optimizer = kind(net.parameters(), lr=1e-3 if adam else 0.05)
    for _ in range(3):
        x = torch.randn(8, 3, 12, 12, generator=generator)
        y = torch.randint(0, CLASSES, (8,), generator=generator)
        with torch.autocast("cpu", torch.bfloat16, enabled=VARIANT == "autocast"):
            loss = F.cross_entropy(net(x).float(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(WIDTH, 16, batch_first=True)
        self.head = nn.Linear(16, CLASSES)
        if VARIANT in ("weight_norm_a", "weight_norm"):
            self.head = nn.utils.parametrizations.weight_norm(self.head)

    def forward(self, x):
        if VARIANT in ("cell", "cell_gates"):
            h = c = x.new_zeros(len(x), 16)
            for at in range(x.shape[1]):
                gates = (
                    x[:, at] @ self.lstm.weight_ih_l0.T
                    + self.lstm.bias_ih_l0
                    + h @ self.lstm.weight_hh_l0.T
                    + self.lstm.bias_hh_l0
                )
                i, f, g, o = gates.chunk(4, -1)
                if VARIANT == "cell_gates":
                    i, f = f, i
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
            return self.head(h)
        return self.head(self.lstm(x)[0][:, -1])


def recurrent() -> None:
    net = Recurrent()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        net(torch.randn(BATCH, LENGTH, WIDTH, generator=generator))


torch.manual_seed(0)
{"transformer": transformer, "convolutions": convolutions, "recurrent": recurrent}[MODEL]()
