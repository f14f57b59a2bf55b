#%% sgd
train(Net())

#%% optimizers
for make in (torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad, torch.optim.NAdam, torch.optim.Rprop, torch.optim.Adadelta):
    for options in ({}, {"foreach": True}):
        torch.manual_seed(1)
        model = Net()
        optimizer = make(model.parameters(), lr=0.05, **options)
        train(model, optimizer, 2)
        print([sorted(state) for state in optimizer.state_dict()["state"].values()])

#%% fused_optimizer
model = Net()
train(model, torch.optim.AdamW(model.parameters(), fused=True))

#%% lbfgs
model, x = Net(), torch.randn(5, 3)
optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
def closure():
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    return loss
for _ in range(3):
    show(optimizer.step(closure))

#%% becomes_nan
model = Net()
train(model, torch.optim.SGD(model.parameters(), lr=1e12), 8)

#%% accumulation
model = Net()
optimizer = torch.optim.Adam(model.parameters())
for step in range(6):
    (model(torch.randn(2, 3)).mean() / 3).backward()
    if step % 3 == 2:
        show(nn.utils.clip_grad_norm_(model.parameters(), 0.1))
        optimizer.step()
        optimizer.zero_grad()
show(*model.parameters())

#%% gan
g, d = nn.Linear(2, 3), nn.Linear(3, 1)
og, od = torch.optim.Adam(g.parameters()), torch.optim.Adam(d.parameters())
for _ in range(3):
    fake = g(torch.randn(4, 2))
    loss = F.softplus(d(fake.detach())).mean() + F.softplus(-d(torch.randn(4, 3))).mean()
    od.zero_grad(), loss.backward(), od.step()
    loss = F.softplus(-d(fake)).mean()
    og.zero_grad(), loss.backward(), og.step()
    show(loss)
show(*g.parameters(), *d.parameters())

#%% by_hand
w = torch.randn(3, 1, requires_grad=True)
for _ in range(4):
    loss = (torch.randn(5, 3) @ w).square().mean()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        w.grad = None
    show(loss, w)
for _ in range(3):
    (torch.randn(5, 3) @ w).square().mean().backward()
    w.data -= 0.1 * w.grad.data
    w.grad.zero_()
    show(w)

#%% optimizer_in_backward
model = Net()
optimizers = {p: torch.optim.SGD([p], lr=0.1) for p in model.parameters()}
def hook(p):
    optimizers[p].step()
    optimizers[p].zero_grad()
for p in model.parameters():
    p.register_post_accumulate_grad_hook(hook)
for _ in range(3):
    model(torch.randn(5, 3)).square().mean().backward()
show(*model.parameters())

#%% evaluation
model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    model.train()
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(5, 3)).square().mean().backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        show(model(torch.ones(2, 3)))
    show(model(torch.ones(1, 3)))
show(*model.state_dict().values())

#%% schedulers_and_averages
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
model = Net()
average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
optimizer = torch.optim.AdamW(model.parameters())
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=6)
for _ in range(4):
    train(model, optimizer, 1)
    scheduler.step()
    average.update_parameters(model)
    print(scheduler.get_last_lr(), int(average.n_averaged))

#%% amp
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**30, growth_interval=2)
for step in range(5):
    optimizer.zero_grad()
    with torch.autocast("cpu", torch.float16):
        loss = model(torch.randn(5, 3)).float().square().mean() * (float("inf") if step == 2 else 1)
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    show(loss, scaler.get_scale())
show(*model.parameters())

#%% autocast_bfloat16
model = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 1))
with torch.autocast("cpu", torch.bfloat16):
    out = model(torch.randn(4, 3))
print(out.dtype, torch.is_autocast_enabled("cpu"))
show(out)
out.float().sum().backward()
show(*[p.grad for p in model.parameters()])

#%% checkpointing
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
blocks = nn.Sequential(*[nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Tanh()) for _ in range(4)])
for reentrant in (False, True):
    x = torch.randn(4, 3, requires_grad=True)
    y = checkpoint(blocks[0], x, use_reentrant=reentrant)
    y = checkpoint_sequential(blocks[1:], 2, y, use_reentrant=reentrant)
    y.sum().backward()
    show(y, x.grad, blocks[0][0].weight.grad, torch.rand(1))

#%% saved_tensor_hooks
from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
packed = []
def pack(t):
    packed.append(tuple(t.shape))
    return t * 1
model = Net()
with saved_tensors_hooks(pack, lambda t: t), save_on_cpu():
    loss = model(torch.randn(5, 3)).square().mean()
loss.backward()
with saved_tensors_hooks(pack, lambda t: t):
    loss = model(torch.randn(5, 3)).square().mean()
loss.backward()
print(packed)
show(*[p.grad for p in model.parameters()])

#%% double_backward
x = torch.randn(4, requires_grad=True)
(g,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
(h,) = torch.autograd.grad(g.square().sum(), x, create_graph=True)
h.sum().backward()
show(g, h, x.grad)
show(torch.autograd.functional.hessian(lambda v: (v**3).sum(), torch.ones(2)))

#%% wasserstein_penalty
critic = Net()
optimizer = torch.optim.RMSprop(critic.parameters())
for _ in range(3):
    x = torch.randn(5, 3, requires_grad=True)
    (g,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    optimizer.zero_grad()
    ((g.norm(2, 1) - 1) ** 2).mean().backward()
    optimizer.step()
show(*critic.parameters())

#%% forward_mode
import torch.autograd.forward_ad as fwd
with fwd.dual_level():
    dual = fwd.make_dual(torch.randn(3), torch.ones(3))
    show(*fwd.unpack_dual(torch.sin(dual) * dual))
show(torch.autograd.functional.jvp(lambda v: v.exp(), torch.ones(2), torch.ones(2))[1])

#%% error_in_forward
class Bad(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            raise ValueError("positive")
        return x
model = nn.Sequential(nn.Linear(3, 3), Bad())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for sign in (1, -1, 1):
    try:
        loss = model(torch.ones(1, 3) * sign).sum()
        loss.backward()
        optimizer.step()
        show(loss)
    except ValueError as error:
        print("caught", error)
show(*model.parameters())
model(torch.ones(1, 3)), model(-torch.ones(1, 3))

#%% uncaught_shape_error
model = Net()
train(model, count=1)
model(torch.randn(2, 4))

#%% error_in_backward
class Bad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, g):
        raise RuntimeError("no gradient")
model = Net()
optimizer = torch.optim.Adam(model.parameters())
for bad in (False, True, False):
    optimizer.zero_grad()
    y = model(torch.ones(1, 3))
    try:
        (Bad.apply(y) if bad else y).sum().backward()
    except RuntimeError as error:
        print("caught", error)
    optimizer.step()
    show(*model.parameters())
Bad.apply(model(torch.ones(1, 3))).sum().backward()

#%% error_in_step
class Bad(torch.optim.SGD):
    def step(self, closure=None):
        super().step(closure)
        raise KeyError("after the step")
model = Net()
optimizer = Bad(model.parameters(), lr=0.1)
for _ in range(2):
    try:
        train(model, optimizer, 1)
    except KeyError as error:
        print("caught", error)
    show(*model.parameters())

#%% inplace_error
x = torch.ones(3, requires_grad=True)
y = x.exp()
y.add_(1)
try:
    y.sum().backward()
except RuntimeError as error:
    print(str(error)[:100])
try:
    x.add_(1)
except RuntimeError as error:
    print(error)
w = torch.ones(2, requires_grad=True)
z = (w * w).sum()
z.backward()
z.backward()

#%% stops_early
class Enough(Exception):
    pass
model = Net()
def hook(module, args, out):
    raise Enough
model.first.register_forward_hook(hook)
for _ in range(2):
    try:
        model(torch.randn(1, 3))
    except Enough:
        print("enough", torch.rand(1).item())

#%% interrupted_in_the_middle_of_a_run
model = Net()
optimizer = torch.optim.Adam(model.parameters())
loss = model(torch.ones(1, 3)).sum()
raise KeyboardInterrupt

#%% keyboard_interrupt_in_training # differs in pty: the first SIGINT between two stops is taken for a Ctrl-C
import os, signal
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
try:
    for step in range(5):
        loss = model(torch.ones(1, 3)).sum()
        if step == 2:
            os.kill(os.getpid(), signal.SIGINT)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        show(loss)
except KeyboardInterrupt:
    print("saved")
    torch.save([p.detach().tolist() for p in model.parameters()], "last.pt")
    sys.exit(130)

#%% signal_handler_saves
import os, signal
model = Net()
def handle(number, frame):
    show("handled", number, model.second.bias)
signal.signal(signal.SIGUSR1, handle)
class Killed(nn.Module):
    def forward(self, x):
        os.kill(os.getpid(), signal.SIGUSR1)
        return x
train(nn.Sequential(model, Killed()))

#%% signal_handler_raises
import os, signal
class Told(Exception):
    pass
def handle(number, frame):
    raise Told("now")
signal.signal(signal.SIGUSR1, handle)
model = Net()
for step in range(3):
    try:
        loss = model(torch.ones(1, 3)).sum()
        os.kill(os.getpid(), signal.SIGUSR1)
        loss.backward()
    except Told as told:
        print("told", told)
train(model)

#%% os_exit_in_forward
import os
class Leave(nn.Module):
    def forward(self, x):
        print("leaving", flush=True)
        os._exit(5)
nn.Sequential(nn.Linear(3, 3), Leave())(torch.ones(1, 3))

#%% sys_exit_in_hook
model = Net()
model.first.weight.register_hook(lambda g: sys.exit(6))
loss = model(torch.ones(1, 3)).sum()
loss.backward()

#%% killed_in_training
import os, signal
model = Net()
train(model, count=2)
sys.stdout.flush()
model.register_forward_hook(lambda *a: os.kill(os.getpid(), signal.SIGKILL))
train(model)

#%% generator_training
def batches():
    try:
        while True:
            got = yield torch.randn(2, 3)
            print("sent", got)
    finally:
        print("closed")
model, made = Net(), batches()
next(made)
for i in range(3):
    loss = model(made.send(i)).sum()
    loss.backward()
    show(loss)
made.close()

#%% async_training
import asyncio
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
async def step(n):
    x = torch.full((1, 3), float(n))
    await asyncio.sleep(0)
    loss = model(x).sum()
    await asyncio.sleep(0)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()
async def main():
    print(await asyncio.gather(*map(step, range(4))))
asyncio.run(main())
show(*model.parameters())

#%% recurrent
for make in (nn.LSTM, nn.GRU, nn.RNN):
    torch.manual_seed(2)
    model = make(3, 4, num_layers=2, dropout=0.5, batch_first=True)
    out, state = model(torch.randn(2, 5, 3))
    out.sum().backward()
    show(out[0, -1], model.weight_ih_l0.grad[0], torch.rand(1))

#%% transformer
model = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
for mode in (True, False):
    model.train(mode)
    out = model(torch.randn(2, 4, 8), src_key_padding_mask=torch.tensor([[0, 0, 0, 1], [0, 0, 0, 0]]).bool())
    show(out[0, 0])
with torch.no_grad():
    show(model(torch.randn(2, 4, 8))[0, 0])

#%% convolutions_and_losses
model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(18, 4))
x = torch.randn(2, 1, 8, 8)
for loss in (nn.CrossEntropyLoss(label_smoothing=0.1), nn.MultiMarginLoss(), nn.NLLLoss()):
    value = loss(model(x).log_softmax(1), torch.tensor([0, 3]))
    value.backward()
    show(value, model[0].weight.grad[0])
show(F.ctc_loss(torch.randn(6, 2, 4).log_softmax(2), torch.tensor([[1, 2], [3, 1]]), torch.tensor([6, 6]), torch.tensor([2, 2])))

#%% sparse_embedding
table = nn.EmbeddingBag(6, 3, sparse=True, mode="sum")
optimizer = torch.optim.SparseAdam(table.parameters())
for _ in range(3):
    optimizer.zero_grad()
    table(torch.tensor([1, 2, 1, 5]), torch.tensor([0, 2])).square().sum().backward()
    optimizer.step()
    show(table.weight.grad.is_sparse, table.weight)

#%% copies_and_pickles
import copy, io, pickle
model = Net()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(3):
    train(model, optimizer, 1)
    twin, other = copy.deepcopy((model, optimizer))
    data = pickle.dumps((model, optimizer))
    print(len(data), [sorted(vars(each)) for each in (model, model.first, optimizer)])
    again, _ = pickle.loads(data)
    show(*again.parameters(), *twin.parameters())
    torch.save(model, f"model-{step}.pt")
    torch.save({"m": model.state_dict(), "o": optimizer.state_dict()}, f"both-{step}.pt")

#%% copy_in_the_middle
import copy
model, kept = Net(), []
model.first.register_forward_hook(lambda m, a, o: kept.append(copy.deepcopy(m.state_dict())))
model.second.register_full_backward_hook(lambda m, i, o: kept.append(copy.deepcopy(model)))
train(model)
print(len(kept), [sorted(vars(each)) for each in kept if isinstance(each, nn.Module)][0])

#%% resume
for part in range(2):
    torch.manual_seed(part)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    if part:
        saved = torch.load("state.pt")
        model.load_state_dict(saved["m"]), optimizer.load_state_dict(saved["o"])
        torch.set_rng_state(saved["r"])
    train(model, optimizer)
    torch.save({"m": model.state_dict(), "o": optimizer.state_dict(), "r": torch.get_rng_state()}, "state.pt")

#%% random_streams
import random
import numpy as np
random.seed(1), np.random.seed(1)
g = torch.Generator().manual_seed(5)
model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(2, 3, generator=g) * random.random()).sum() * np.random.rand()
    loss.backward()
    optimizer.step()
    with torch.random.fork_rng():
        torch.rand(3)
    show(loss, torch.rand(1), random.random(), np.random.rand(), torch.rand(1, generator=g))
print(torch.get_rng_state().sum().item(), torch.initial_seed(), torch.randperm(5).tolist())
show(torch.multinomial(torch.ones(5), 3), torch.bernoulli(torch.full((4,), 0.5)), torch.empty(2).exponential_())
torch.seed() and None

#%% deterministic_and_anomaly
import warnings
warnings.simplefilter("ignore")
torch.use_deterministic_algorithms(True)
torch.autograd.set_detect_anomaly(True)
model = Net()
train(model)
x = torch.zeros(2, requires_grad=True)
try:
    torch.sqrt(x * -1 * 0 - 1).sum().backward()
except RuntimeError as error:
    print(str(error))

#%% reinforcement
policy = Net()
optimizer = torch.optim.Adam(policy.parameters())
for _ in range(3):
    logs = []
    for _ in range(3):
        with torch.no_grad():
            policy(torch.randn(1, 3))
        d = torch.distributions.Normal(policy(torch.randn(1, 3)), 1.0)
        logs.append(d.log_prob(d.sample()))
    optimizer.zero_grad()
    torch.stack(logs).sum().backward()
    optimizer.step()
show(*policy.parameters())

#%% skipped_and_retained
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
kept = []
for step in range(6):
    loss = model(torch.randn(2, 3)).sum()
    kept.append(loss)
    if step % 2:
        continue
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
print([value.item() for value in kept], [value.grad_fn.name() for value in kept])

#%% keras_on_torch # alone
import os
os.environ["KERAS_BACKEND"] = "torch"
import keras
import numpy as np
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.layers.Dense(4, "relu"), keras.layers.Dropout(0.5), keras.layers.Dense(1)])
model.compile("adam", "mse")
x = np.random.rand(8, 3).astype("f4")
print(model.fit(x, x.sum(1), epochs=2, batch_size=4, verbose=0).history["loss"], model.predict(x[:2], verbose=0).tolist())

#%% warnings_by_action
from by_filters import by_filters, user
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
def step():
    loss = F.mse_loss(model(torch.ones(2, 3)), torch.ones(3, 1))
    loss.backward()
    optimizer.step()
by_filters(
    {
        "mine": lambda: user(torch.ones(2)),
        "kernel": lambda: torch.ones(1, dtype=torch.complex64).to(torch.float32),
        "step": step,
        "loss": lambda: F.mse_loss(torch.ones(1, 3), torch.ones(3)),
        "softmax": lambda: nn.Softmax()(torch.ones(2, 2)),
        "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
        "schedule": lambda: schedule.step(1),
    },
    "torch",
)
