import copy
import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim

mx.random.seed(5)
x = mx.random.normal((4, 6))


def show(name, value):
    mx.eval(value)
    flat = value if isinstance(value, (list, tuple)) else [value]
    print(name, [memoryview(each.astype(mx.float32)).tolist() for each in flat])


def cube(v):
    return (v * v * v).sum()


def step(name, function, *args):
    show(name, function(*args))


step("second", mx.grad(lambda v: mx.grad(cube)(v).sum()), x)
step("vmap", mx.grad(lambda v: mx.vmap(mx.sum)(v * 2).sum()), x)
step("checkpoint", mx.grad(lambda v: mx.checkpoint(lambda u: mx.sin(u) * u)(v).sum()), x)


@mx.custom_function
def clipped(v):
    return mx.clip(v, -1, 1)


@clipped.vjp
def clipped_vjp(primals, cotangent, output):
    return cotangent * 0.5


step("custom", mx.grad(lambda v: clipped(v * 3).sum()), x)


def in_place(v):
    w = v * 1
    w += 2
    w[0] = w[1] * 3
    w[:, 1] *= 2
    w = w.at[2].add(v[3])
    return (
        sum(mx.exp(row * 0.1).sum() for row in w)
        + w.T[0].sum()
        + mx.random.uniform()
        + abs(w)[1, 1]
    )


step("in place", mx.value_and_grad(in_place), x)
step("jvp", lambda v: mx.jvp(cube, [v], [mx.ones_like(v)])[1], x)
step(
    "argnums",
    mx.grad(lambda a, b, scale=None: (a * b * scale).sum(), argnums=(0, 1)),
    x,
    x + 1,
    mx.array(2.0),
)
print(
    [
        each.sum().item()
        for each in mx.grad(lambda a, b: (a * b).sum(), argnums=[0], argnames="b")(x, b=x)[0]
    ]
)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(6, 3, 1)
        self.norm = nn.LayerNorm(3)
        self.drop = nn.Dropout(0.5)
        self.frozen = nn.Linear(3, 3)
        self.frozen.freeze()

    def __call__(self, x):
        h = self.drop(nn.silu(self.norm(self.conv(x[None]))))
        h = mx.fast.rms_norm(self.frozen(h), mx.ones(3), 1e-5)
        return mx.concatenate([part for part in mx.split(h, 2, axis=1)], axis=1)


net = Net()
opt = optim.AdamW(1e-2)
lg = nn.value_and_grad(net, lambda net, x: ((net(x) ** 2).mean(), x.sum()))
total = None
for i in range(4):
    (loss, extra), grads = lg(net, x.astype(mx.bfloat16) if i == 2 else x)
    grads, norm = optim.clip_grad_norm(grads, 1.0)
    if i % 2:
        opt.update(net, grads)
        mx.eval(net.state, opt.state)
    print(loss.item(), extra.item(), norm.item())
fast = mx.compile(lambda a, n: nn.gelu(a * n), shapeless=True)
for n in (1, 2, 2):
    show("fast", fast(x[:n], n))
net.eval()
show("net", net(x))
with mx.stream(mx.new_stream(mx.cpu)):
    show("stream", net(x * 2))
try:
    net(mx.ones((2, 2)))
except ValueError as error:
    print(error)
print(mx.random.uniform().item())
