#%% nested_jagged
parts = [torch.randn(n, 3) for n in (2, 4, 1)]
x = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
model = nn.Linear(3, 2)
y = model(x)
y.sin().values().sum().backward() if False else torch.nested.to_padded_tensor(y.sin(), 0.0).sum().backward()
show(*y.unbind(), model.weight.grad)
show(*x.grad.unbind())

#%% nested_strided
parts = [torch.randn(n, 3) for n in (2, 1)]
x = torch.nested.nested_tensor(parts)
model = nn.Linear(3, 2)
y = torch.relu(model(x))
show(torch.nested.to_padded_tensor(y, -1.0))
print(y.is_nested, x.size(0))

#%% sparse_kinds
import warnings
warnings.simplefilter("ignore")
dense = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
for layout in ("to_sparse", "to_sparse_csr", "to_sparse_csc"):
    s = getattr(dense, layout)().requires_grad_()
    y = torch.sparse.mm(s, torch.ones(2, 2)) if layout != "to_sparse_csc" else s @ torch.ones(2, 2)
    y.sum().backward()
    print(layout, s.layout, y.tolist(), s.grad.to_dense().tolist())
s = torch.sparse_coo_tensor([[0, 0], [1, 1]], [1.0, 2.0], (2, 2))
print(s.is_coalesced(), s.coalesce().values().tolist(), (s + s).to_dense().tolist(), (s * 0.5).coalesce())
b = dense.repeat(2, 2).to_sparse_bsr((2, 2))
print(b.values().tolist())

#%% sparse_in_a_module
class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("adjacency", torch.eye(3).to_sparse())
        self.w = nn.Parameter(torch.randn(2, 2))
    def forward(self, x):
        return torch.sparse.mm(self.adjacency, x) @ self.w
train(Graph(), x=torch.randn(3, 2))

#%% quantized
import warnings
warnings.simplefilter("ignore")
x = torch.tensor([-1.0, 0.5, 2.0])
q = torch.quantize_per_tensor(x, 0.1, 10, torch.quint8)
print(q.int_repr().tolist(), q.dequantize().tolist(), torch.relu(q).dequantize().tolist())
c = torch.quantize_per_channel(torch.randn(2, 3), torch.tensor([0.1, 0.2]), torch.tensor([0, 0]), 0, torch.qint8)
print(c.q_per_channel_scales().tolist(), c.int_repr().tolist())
f = torch.fake_quantize_per_tensor_affine(x.requires_grad_(), 0.1, 0, -128, 127)
f.sum().backward()
show(f, x.grad)

#%% quantized_dynamic
import warnings
warnings.simplefilter("ignore")
model = torch.ao.quantization.quantize_dynamic(Net(), {nn.Linear}, dtype=torch.qint8)
with torch.no_grad():
    show(model(torch.randn(2, 3)))

#%% complex_numbers
x = torch.randn(4, dtype=torch.complex64, requires_grad=True)
y = torch.fft.fft(x)
(y.abs().square().sum() + torch.view_as_real(y).sum()).backward()
print(y.detach().tolist(), x.grad.tolist(), y.conj().is_conj(), y.imag.is_neg(), x.conj().imag.is_neg())
z = x.detach().conj()
z += 1
print(z.tolist(), z.resolve_conj().tolist(), torch.stft(torch.arange(16.0), 4, window=torch.ones(4), return_complex=True)[:, 0].tolist())

#%% low_precision
for dtype in (torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e8m0fnu):
    x = torch.tensor([1.0, 300.0, 0.1]).to(dtype)
    print(dtype, x.float().tolist(), x.view(torch.uint8).tolist())
model = nn.Linear(3, 2).to(torch.bfloat16)
model(torch.randn(2, 3).bfloat16()).sum().backward()
show(model.weight.grad.float())

#%% small_integers_and_bits
for dtype in (torch.uint8, torch.int8, torch.int16, torch.uint16, torch.uint32, torch.uint64, torch.bool):
    x = torch.ones(3).to(dtype)
    print(dtype, (x + x).tolist() if dtype in (torch.uint8, torch.int8, torch.int16, torch.bool) else x.tolist())
print(torch.tensor(3).bitwise_left_shift(2).item(), torch.iinfo(torch.uint16).max)

#%% meta_tensors
with torch.device("meta"):
    model = Net()
print(model(torch.empty(5, 3, device="meta")).shape, [p.is_meta for p in model.parameters()])
model = model.to_empty(device="cpu")
for p in model.parameters():
    nn.init.constant_(p, 0.5)
train(model)

#%% fake_tensors
from torch._subclasses.fake_tensor import FakeTensorMode
with FakeTensorMode() as mode:
    model = Net()
    y = model(torch.empty(4, 3))
    y.sum().backward()
    print(type(y).__name__, y.shape, model.first.weight.grad.shape)
print(torch.rand(1).item())

#%% subclasses
class Named(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        calls.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})
calls = []
x = torch.randn(2, 3).as_subclass(Named)
model = Net()
y = model(x)
y.sum().backward()
print(type(y).__name__, calls, type(model.first.weight.grad).__name__)

#%% subclasses_everywhere
class Named(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        calls.append(getattr(func, "__name__", str(func)))
        if calls[-1] == "__get__":
            calls[-1] = func.__self__.__name__
        return super().__torch_function__(func, types, args, kwargs or {})
class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(3, 3).as_subclass(Named))
        self.register_buffer("count", torch.zeros(()).as_subclass(Named))
    def forward(self, x, *, scale=None, more=()):
        self.count += 1
        y = torch.tanh(x @ self.weight) * scale["by"]
        return {"y": [y, more], "again": y.clone().mul_(2)}
class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.last = Inner(), nn.Linear(3, 1)
    def forward(self, x):
        out = self.inner(x, scale={"by": x.detach() + 1}, more=(x,))
        return self.last(out["y"][0] + out["again"])
calls = []
def told(name):
    print(name, len(calls), calls)
    calls.clear()
model = Outer()
optimizers = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), torch.optim.AdamW(model.parameters(), foreach=False)
told("made")
for step in range(4):
    x = torch.rand(2, 3).as_subclass(Named)
    x.requires_grad_(step % 2 == 0)
    out = model(x)
    told("forward")
    loss = out.square().mean()
    loss.backward()
    told("backward")
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad(set_to_none=step < 2)
    told("step")
    if step == 2:
        torch.autograd.backward([model(x).sum(), (x * 2).sum()])
        (g,) = torch.autograd.grad(model(x).sum(), x)
        told("grad")
    with torch.no_grad():
        model.eval()(x)
        model.train().inner(x, scale={"by": 2})
        told("inference")
    try:
        model(x[:, :2])
    except RuntimeError as error:
        told("failed")
show(*model.parameters(), model.inner.count)
told("shown")

#%% function_modes_see_the_program_alone
from torch.overrides import TorchFunctionMode
class Seen(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        calls.append(func.__self__.__name__ if getattr(func, "__name__", "") == "__get__" else getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))
calls = []
model = Net()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
for step in range(4):
    with Seen():
        optimizer.zero_grad()
        loss = model(torch.randn(5, 3)).square().mean()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            model(torch.ones(1, 3))
        x = torch.ones(3).to_sparse() * 2
        y = torch.ones(2, 3).t().contiguous()
    print(len(calls), calls)
    calls.clear()
show(*model.parameters())

#%% dispatch_subclass
import torch.utils._pytree as pytree
class Logged(torch.Tensor):
    @staticmethod
    def __new__(cls, elem):
        return torch.Tensor._make_wrapper_subclass(cls, elem.shape, dtype=elem.dtype, requires_grad=elem.requires_grad)
    def __init__(self, elem):
        self.elem = elem.detach()
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        calls.append(str(func))
        un = lambda t: t.elem if isinstance(t, Logged) else t
        out = func(*pytree.tree_map(un, args), **pytree.tree_map(un, kwargs or {}))
        return pytree.tree_map(lambda t: Logged(t) if isinstance(t, torch.Tensor) else t, out)
    def __repr__(self):
        return "Logged"
calls = []
model = Net()
x = Logged(torch.randn(2, 3).requires_grad_())
y = model(x)
y.sum().backward()
print(calls)
print(y.elem.tolist(), x.grad.elem.tolist())

#%% dispatch_subclass_raises
class Picky(torch.Tensor):
    @staticmethod
    def __new__(cls, elem):
        return torch.Tensor._make_wrapper_subclass(cls, elem.shape, dtype=elem.dtype)
    def __init__(self, elem):
        self.elem = elem
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise NotImplementedError(f"Picky refuses {func}")
    def __repr__(self):
        return "Picky"
model = Net()
for _ in range(2):
    try:
        model(Picky(torch.ones(2, 3)))
    except NotImplementedError as error:
        print(error)
train(model, count=2)

#%% views_and_in_place
x = torch.arange(6.0)
y = x.view(2, 3)
z = y.t()[1]
z.mul_(10)
x[0] = -1
show(x, y, z, x._version, y._version, z._base is x)
w = torch.zeros(4, requires_grad=True)
v = w.clone()
v[1:3] = 5
v.relu_().sum().backward()
show(v, w.grad)
a = torch.ones(3)
a.resize_(5)[3:] = 0
a.set_(torch.arange(2.0))
show(a, torch.as_strided(torch.arange(9.0), (2, 2), (3, 1)))

#%% in_place_in_modules
class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("seen", torch.zeros(3))
        self.layer = nn.Linear(3, 3)
    def forward(self, x):
        self.count += 1
        self.seen.copy_(x[0].detach())
        x = self.layer(x)
        x.relu_()
        return x
model = Counter()
train(model)
show(model.count, model.seen, model.seen._version)

#%% versions_and_pointers
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
pointers = [p.data_ptr() for p in model.parameters()]
train(model, optimizer)
print([p._version for p in model.parameters()], [p.grad._version for p in model.parameters()])
print(pointers == [p.data_ptr() for p in model.parameters()], [p.untyped_storage().nbytes() for p in model.parameters()])
loss = model(torch.ones(1, 3))
print(loss.grad_fn.name(), loss.grad_fn.next_functions[0][0].name(), loss._version, sys.getrefcount(loss))

#%% notes_at_nodes # differs in never nonfinite keep digest check precision mortem pty track: a key of ours in the metadata says that somebody waits for the node
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
train(model, optimizer)
print(sorted(model(torch.ones(1, 3)).grad_fn.metadata))

#%% numpy_memory
import numpy as np
a = np.zeros(3, "f4")
x = torch.from_numpy(a)
model = nn.Linear(3, 1)
y = model(x)
a[:] = 5
z = model(x)
x += 1
show(y, z, a.tolist())
out = y.detach().numpy()
out[0] = 7
show(y)

#%% shared_and_mapped
x = torch.ones(3).share_memory_()
print(x.is_shared(), nn.Linear(2, 2).share_memory().weight.is_shared())
with open("data", "wb") as file:
    file.write(bytes(12))
m = torch.from_file("data", shared=True, size=3)
m += 2
show(m)
buffer = bytearray(8)
b = torch.frombuffer(buffer, dtype=torch.float32)
b.fill_(1)
print(bytes(buffer))

#%% storages_freed
x = torch.ones(4)
y = x * 2
x.untyped_storage().resize_(0)
show(y, x.untyped_storage().nbytes())
model = nn.Linear(3, 1)
out = model(torch.ones(2, 3))
out.untyped_storage().resize_(0)
out.sum().backward() if False else print(out.shape)

#%% lazy_modules
model = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyBatchNorm1d(), nn.LazyLinear(1))
print(any(isinstance(p, nn.UninitializedParameter) for p in model.parameters()))
model(torch.ones(2, 3))
train(model)

#%% dtensor
import os
os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
import torch.distributed as dist
store = dist.HashStore()
dist.init_process_group("gloo", store=store, rank=0, world_size=1)
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh
mesh = init_device_mesh("cpu", (1,))
w = nn.Parameter(distribute_tensor(torch.randn(4, 3), mesh, [Shard(0)]))
x = distribute_tensor(torch.randn(2, 3), mesh, [Replicate()])
optimizer = torch.optim.SGD([w], lr=0.1)
for _ in range(3):
    loss = torch.tanh(x @ w.t()).square().sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(type(loss).__name__, loss.full_tensor().item())
print(w.full_tensor().tolist(), w.placements)
dist.destroy_process_group()

#%% masked
import warnings
warnings.simplefilter("ignore")
from torch.masked import masked_tensor
m = masked_tensor(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([True, False, True]), requires_grad=True)
s = m.sum()
s.backward()
print(s, m.grad)

#%% scalars_and_empties
for x in (torch.tensor(2.0), torch.zeros(0), torch.zeros(0, 3), torch.zeros(2, 0, 3), torch.tensor(float("nan"))):
    show(x.sum(), x.shape, torch.relu(x))
model = nn.Linear(3, 2)
out = model(torch.zeros(0, 3))
out.sum().backward()
show(out, model.weight.grad, torch.tensor(3.5).item(), bool(torch.tensor(0.0)), float(torch.tensor(1)))

#%% printing
torch.set_printoptions(precision=2, sci_mode=False)
x = torch.randn(3, 3)
print(x, repr(x.requires_grad_() * 2), str(nn.Linear(2, 2)), f"{x[0, 0]:.3f}")
print(torch.nn.Parameter(torch.ones(2)), torch.ones(1, dtype=torch.float16), torch.zeros(2, dtype=torch.bool))

#%% named_and_channels_last
x = torch.randn(1, 2, 3, 3).to(memory_format=torch.channels_last).requires_grad_()
y = nn.Conv2d(2, 2, 1).to(memory_format=torch.channels_last)(x)
print(y.stride(), y.is_contiguous(memory_format=torch.channels_last))
y.sum().backward()
print(x.grad.stride())

#%% undefined_gradients
class Two(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.set_materialize_grads(False)
        return a * 1, b * 1
    @staticmethod
    def backward(ctx, ga, gb):
        print(ga is None, gb is None)
        return ga, gb
a, b = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
Two.apply(a, b)[0].sum().backward()
print(a.grad, b.grad)
c = torch.ones(2, requires_grad=True)
torch.autograd.backward([c.sum(), (c * 2)], [None, torch.ones(2)])
print(c.grad, torch.autograd.grad(a.sum(), [a, b], allow_unused=True))

#%% custom_functions
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, n):
        ctx.save_for_backward(x)
        ctx.n = n
        ctx.mark_non_differentiable(x)
        return x**n
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        print("backward", ctx.n, ctx.needs_input_grad, x._version)
        return g * ctx.n * x ** (ctx.n - 1), None
class InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)
    @staticmethod
    def backward(ctx, g):
        return g * 2
x = torch.randn(3, requires_grad=True)
y = Cube.apply(InPlace.apply(x * 1), 3)
y.sum().backward()
show(y, x.grad)

#%% custom_ops # differs in never nonfinite keep digest check precision mortem pty: the version of what a custom op has written counts one less in a run that is watched
@torch.library.custom_op("fate::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    print("called", x.requires_grad)
    return x * 2
@double.register_fake
def _(x):
    return torch.empty_like(x)
double.register_autograd(lambda ctx, g: g * 2)
@torch.library.custom_op("fate::fill", mutates_args={"x"})
def fill(x: torch.Tensor, v: float) -> None:
    x.fill_(v)
x = torch.randn(3, requires_grad=True)
double(x).sum().backward()
y = torch.zeros(2)
fill(y, 3.0)
show(x.grad, y, y._version)

#%% foreach_and_out
xs = [torch.ones(2), torch.ones(3)]
torch._foreach_mul_(xs, 3)
show(*torch._foreach_add(xs, 1), *torch._foreach_norm(xs))
out = torch.empty(3)
torch.mul(torch.arange(3.0), 2, out=out)
show(out, torch.max(torch.tensor([[1.0, 5.0]]), 1), torch.topk(torch.arange(4.0), 2))
torch.add(torch.ones(3), 1, out=out[:3])
show(out)

#%% cuda_not_there
print(torch.cuda.is_available(), torch.cuda.is_initialized(), torch.cuda.device_count())
try:
    torch.ones(1, device="cuda")
except Exception as error:
    print(type(error).__name__, str(error).splitlines()[0][:60])
model = Net()
try:
    model.to("cuda")
except Exception as error:
    print(type(error).__name__)
train(model)
print(torch.cuda.is_initialized(), torch.accelerator.is_available())
