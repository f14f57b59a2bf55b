#%% compile_eager
model = torch.compile(Net(), backend="eager")
train(model)

#%% compile_aot
model = Net()
train(torch.compile(model, backend="aot_eager"))
show(*[p.grad for p in model.parameters()])

#%% compile_function_and_breaks
@torch.compile(backend="eager")
def f(x):
    y = x * 2
    print("in the graph break")
    if y.sum() > 0:
        return y.sin()
    return y.cos()
for sign in (1, -1, 1):
    show(f(torch.ones(3) * sign))

#%% compile_counts
import torch._dynamo
seen = []
def backend(graph, inputs):
    seen.append(len(graph.graph.nodes))
    return graph.forward
f = torch.compile(lambda x: x.sin() + 1, backend=backend)
for n in (3, 3, 4, 5):
    show(f(torch.ones(n)))

#%% compile_inductor
model = torch.compile(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)))
with torch.no_grad():
    out = model(torch.ones(2, 3))
print([round(v, 4) for v in out.flatten().tolist()])

#%% jit
@torch.jit.script
def f(x: torch.Tensor, n: int):
    for i in range(n):
        if bool(x.sum() > 3):
            x = x - 1
        else:
            x = x * 2
    return x
show(f(torch.ones(2), 3))
model = Net()
traced = torch.jit.trace(model, torch.ones(1, 3))
traced.save("traced.pt")
show(torch.jit.load("traced.pt")(torch.ones(2, 3)))
train(torch.jit.script(model))
import os
os.remove("traced.pt")

#%% jit_error
@torch.jit.script
def f(x: torch.Tensor):
    return torch.reshape(x, [3])
try:
    f(torch.ones(2))
except RuntimeError as error:
    print(type(error).__name__, str(error).splitlines()[:4])

#%% export
model = Net().eval()
program = torch.export.export(model, (torch.ones(2, 3),), dynamic_shapes=({0: torch.export.Dim("n")},))
print(program.graph_signature.user_inputs, len(program.graph.nodes))
show(program.module()(torch.ones(4, 3)))

#%% fx_trace
from torch import fx
model = Net()
traced = fx.symbolic_trace(model)
print(traced.code)
show(traced(torch.ones(1, 3)))
class Show(fx.Interpreter):
    def run_node(self, n):
        print(n.op, n.name)
        return super().run_node(n)
show(Show(traced).run(torch.ones(1, 3)))

#%% make_fx
from torch.fx.experimental.proxy_tensor import make_fx
print(make_fx(lambda x: torch.tanh(x).sum())(torch.ones(2)).code)

#%% functorch
from torch.func import functional_call, grad, hessian, jacrev, jvp, stack_module_state, vmap
model, x = Net(), torch.randn(5, 3)
params = dict(model.named_parameters())
def loss(p, x):
    return functional_call(model, p, (x,)).square().mean()
for _ in range(3):
    g = grad(loss)(params, x)
    params = {n: (p - 0.1 * g[n]).detach() for n, p in params.items()}
show(*params.values())
show(*vmap(grad(loss), (None, 0))(params, x).values())
show(jacrev(lambda v: v**2)(torch.ones(2)), hessian(lambda v: (v**3).sum())(torch.ones(2)), jvp(torch.sin, (x[0],), (x[0],))[1])
show(vmap(lambda v: v + torch.rand(2), randomness="different")(torch.zeros(2, 2)))
p, b = stack_module_state([Net(), Net()])
show(vmap(lambda p, b, x: functional_call(model, (p, b), (x,)), (0, 0, None))(p, b, x))

#%% forward_mode_of_modules
import torch.autograd.forward_ad as forward
from torch.func import functional_call, grad, hessian, jacfwd, jvp, linearize, vmap
model, x, v = Net(), torch.randn(5, 3), torch.ones(5, 3)
loss = lambda x: model(x).square().mean()
show(*jvp(model, (x,), (v,)), *jvp(loss, (x,), (v,)), jacfwd(loss)(x), hessian(loss)(x[0]), vmap(jacfwd(model))(x))
show(linearize(loss, x)[1](v), jvp(grad(loss), (x,), (v,))[1], grad(lambda x: jvp(loss, (x,), (v,))[1])(x))
params = dict(model.named_parameters())
show(*jvp(lambda p: functional_call(model, p, (x,)).sum(), (params,), ({n: torch.ones_like(p) for n, p in params.items()},)))
with forward.dual_level():
    show(*forward.unpack_dual(model(forward.make_dual(x, v))), torch.tanh(torch._efficientzerotensor((2,))).clone())
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for _ in range(3):
    made, slope = jvp(model, (torch.randn(5, 3),), (v,))
    optimizer.zero_grad()
    (made - slope.detach()).square().mean().backward()
    optimizer.step()
show(*model.parameters(), torch.rand(1))

#%% vmap_error
from torch.func import vmap
try:
    vmap(lambda x: x.item())(torch.ones(2))
except RuntimeError as error:
    print(str(error)[:60])
show(vmap(torch.sin)(torch.ones(2)))

#%% dispatch_mode
from torch.utils._python_dispatch import TorchDispatchMode
class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        seen.append(str(func))
        return func(*args, **(kwargs or {}))
seen = []
model = Net()
with Mode():
    train(model, count=2)
print(len(seen), seen)

#%% dispatch_mode_raises
from torch.utils._python_dispatch import TorchDispatchMode
class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if "tanh_backward" in str(func):
            raise RuntimeError("not this one")
        return func(*args, **(kwargs or {}))
model = Net()
for _ in range(2):
    try:
        with Mode():
            train(model, count=1)
    except RuntimeError as error:
        print(error)
train(model, count=2)

#%% function_mode
from torch.overrides import TorchFunctionMode
class Mode(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        seen.append(getattr(func, "__name__", "?"))
        return func(*args, **(kwargs or {}))
seen = []
model = Net()
with Mode():
    train(model, count=2)
print(len(seen), seen)

#%% flop_and_op_counters
from torch.utils.flop_counter import FlopCounterMode
model = Net()
with FlopCounterMode(display=False) as counter:
    model(torch.ones(4, 3)).sum().backward()
print(counter.get_total_flops(), {str(k): v for k, v in counter.get_flop_counts()["Global"].items()})

#%% profiler # differs in never nonfinite keep digest check mortem pty track listen: under any dispatch mode PyTorch's profiler counts ops twice
import os
os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # it says when it begins
from torch.profiler import ProfilerActivity, profile
model = Net()
with profile(activities=[ProfilerActivity.CPU]) as prof:
    model(torch.ones(4, 3))
print(sorted((e.key, e.count) for e in prof.key_averages() if e.key in ("aten::addmm", "aten::tanh", "aten::linear")))
train(model)

#%% default_device_and_dtype
torch.set_default_dtype(torch.float64)
with torch.device("cpu"):
    train(Net())
torch.set_default_device("cpu")
print(torch.get_default_dtype(), torch.ones(1).dtype, torch.get_default_device())
train(Net())

#%% inference_mode
model = Net()
with torch.inference_mode():
    y = model(torch.ones(2, 3))
    y.add_(1)
show(y, y.is_inference())
try:
    (y * torch.ones(1, requires_grad=True)).sum().backward()
except RuntimeError as error:
    print(str(error)[:50])
y.add_(1) if False else None
with torch.no_grad(), torch.enable_grad():
    model(torch.ones(1, 3)).sum().backward()
print(torch.is_grad_enabled(), torch.is_inference_mode_enabled())

#%% hooks_of_all_kinds
import warnings
warnings.simplefilter("ignore")  # one says whose line called backward
from torch.nn.modules import module as hooks
seen = []
handles = [hooks.register_module_forward_pre_hook(lambda m, a: seen.append(type(m).__name__)), hooks.register_module_full_backward_hook(lambda m, i, o: seen.append(len(o)))]
model = Net()
model.first.register_forward_hook(lambda m, a, o: o * 2)
model.first.register_forward_pre_hook(lambda m, a: (a[0] + 1,))
model.second.register_full_backward_hook(lambda m, i, o: (i[0] * 3,))
model.register_forward_hook(lambda m, a, k, o: o + 1, with_kwargs=True)
model.first.weight.register_hook(lambda g: g.clamp(-1, 1))
model.register_state_dict_pre_hook(lambda *a: seen.append("state"))
optimizer = torch.optim.Adam(model.parameters())
optimizer.register_step_pre_hook(lambda *a: seen.append("pre"))
optimizer.register_step_post_hook(lambda *a: seen.append("post"))
train(model, optimizer)
model.state_dict()
print(seen, [len(m._forward_hooks) for m in model.modules()], len(hooks._global_forward_hooks), len(hooks._global_backward_hooks))
[h.remove() for h in handles]

#%% hooks_that_raise
model = Net()
count = [0]
def hook(*args):
    count[0] += 1
    if count[0] % 2:
        raise ValueError(f"hook {count[0]}")
model.first.register_forward_hook(hook)
model.second.weight.register_hook(hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
optimizer.register_step_post_hook(hook)
for _ in range(6):
    try:
        train(model, optimizer, 1)
    except ValueError as error:
        print("caught", error)

#%% always_called_hooks
model = Net()
model.register_forward_hook(lambda *a: print("always"), always_call=True)
try:
    model(torch.ones(1, 2))
except RuntimeError as error:
    print("caught")

#%% patched_forward
model = Net()
original = model.forward
model.forward = lambda x: original(x) * 2
train(model, count=2)
def call(self, *args):
    print("own call")
    return nn.Module.__call__(self, *args)
Net.__call__ = call
train(model, count=2)

#%% patched_module_call
kept = nn.Module.__call__
def call(self, *args, **kwargs):
    seen.append(type(self).__name__)
    return kept(self, *args, **kwargs)
seen = []
nn.Module.__call__ = call
train(Net(), count=2)
nn.Module.__call__ = kept
train(Net(), count=1)
print(seen, nn.Module.__call__ is kept)

#%% patched_backward
kept = torch.Tensor.backward
def backward(self, *args, **kwargs):
    print("backward of", tuple(self.shape))
    return kept(self, *args, **kwargs)
torch.Tensor.backward = backward
train(Net(), count=2)
torch.Tensor.backward = kept
step = torch.optim.SGD.step
torch.optim.SGD.step = lambda self, closure=None: print("step") or step(self, closure)
train(Net(), count=2)

#%% patched_functions
kept = F.linear
F.linear = lambda x, w, b=None: kept(x, w, b) * 2
train(Net(), count=2)
F.linear = kept
print(torch.Tensor.add.__name__, torch.nn.Module.__call__.__name__, torch.optim.SGD.step.__name__)

#%% patched_functionals
kept = F.cross_entropy
F.cross_entropy = lambda *args: kept(*args) * 2
class Classify(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
    def forward(self, x):
        return F.cross_entropy(self.layer(x), torch.tensor([0, 1]))
train(Classify(), x=torch.ones(2, 3))
print(float(F.cross_entropy(torch.zeros(1, 2), torch.tensor([0]))))

#%% dynamic_modules
class Odd(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleDict({"a": nn.Linear(3, 3)})
        self.heads = nn.ParameterList([torch.ones(3)])
    def __getattr__(self, name):
        if name == "made_up":
            return 3
        return super().__getattr__(name)
    def forward(self, x, *, extra=None):
        if "b" not in self.layers:
            self.layers["b"] = nn.Linear(3, 3)
        for layer in self.layers.values():
            x = layer(x)
        return {"out": x * self.heads[0], "extra": extra}
model = Odd()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(3):
    out = model(torch.ones(2, 3), extra=[i])
    out["out"].sum().backward()
    optimizer.step()
    print(out["extra"], model.made_up, len(list(model.parameters())))
show(*model.parameters())

#%% shared_and_reentrant_modules
class Again(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(3, 3)
        self.same = self.inner
    def forward(self, x, depth=2):
        x = self.same(self.inner(x))
        return self(x, depth - 1) if depth else x
model = Again()
train(model, count=2)
print(len(list(model.parameters())), len(model.state_dict()))

#%% parametrizations
from torch.nn.utils import parametrizations, parametrize, prune
model = Net()
parametrizations.weight_norm(model.first)
parametrizations.orthogonal(model.second)
prune.l1_unstructured(model.first, "bias", 0.5)
train(model)
parametrize.remove_parametrizations(model.first, "weight")
train(model, count=1)

#%% weakrefs_and_gc
import gc, weakref
gone = []
class Kept(nn.Module):
    def forward(self, x):
        y = x * 2
        refs.append(weakref.ref(y, lambda r: gone.append("y")))
        return y + 1
refs = []
model = Kept()
with torch.no_grad():
    for _ in range(3):
        model(torch.ones(2))
gc.collect()
print(len(gone), [r() is None for r in refs])
seen = weakref.ref(model)
del model
gc.collect()
print(seen() is None)

#%% del_prints
class Gone:
    def __init__(self, name):
        self.name = name
    def __del__(self):
        print("gone", self.name)
class Holder(nn.Module):
    def __init__(self):
        super().__init__()
        self.gone = Gone("module")
        self.inner = nn.Linear(3, 1)
    def forward(self, x):
        local = Gone("local")
        return self.inner(x)
model = Holder()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for i in range(2):
    loss = model(torch.ones(1, 3)).sum()
    loss.backward()
    optimizer.step()
    print("step", i)
del model, optimizer
import gc
gc.collect()
print("end")

#%% memory_given_back
import gc, weakref
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
refs = []
for _ in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(5, 3)).sum()
    refs.append(weakref.ref(loss))
    loss.backward()
    optimizer.step()
    del loss
    gc.collect()
    print([r() is None for r in refs])

#%% frames_and_refcounts
class Look(nn.Module):
    def forward(self, x):
        names = []
        frame = sys._getframe(1)
        while frame is not None:
            names.append(frame.f_code.co_name)
            frame = frame.f_back
        print([n for n in names if n in ("<module>", "forward", "helper")])
        return x * sys.getrefcount(object())
def helper(m):
    return m(torch.ones(1))
show(helper(nn.Sequential(Look(), Look())))

#%% traceback_of_the_program # differs in batch never nonfinite detach keep digest check precision mortem pty track listen: a traceback that the program prints has frames of the debugger
import traceback
class Bad(nn.Module):
    def forward(self, x):
        traceback.print_stack(limit=None) if False else None
        return x @ torch.ones(7, 7)
try:
    nn.Sequential(Bad())(torch.ones(2, 3))
except RuntimeError:
    print(traceback.format_exc())

#%% warnings_once
import warnings
for _ in range(3):
    torch.ones(2).to_sparse().to_sparse_csr() if False else None
    F.mse_loss(torch.ones(2, 1), torch.ones(2))
    warnings.warn("mine")
    torch.tensor(torch.ones(1))
    torch.ones(2, 3).T.T
    torch.arange(3).reshape(3, 1, 1).T
optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
torch.optim.lr_scheduler.StepLR(optimizer, 1).step()

#%% warnings_are_errors
import warnings
warnings.simplefilter("error")
train(Net(), count=2)
try:
    F.mse_loss(torch.ones(2, 1), torch.ones(2))
except UserWarning as error:
    print("raised", str(error)[:40])
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    F.mse_loss(Net()(torch.ones(2, 3)), torch.ones(2)).backward()
print([w.category.__name__ for w in seen], [w.filename.endswith("script.py") for w in seen])

#%% threads
import threading
results = {}
def work(n):
    torch.manual_seed(0) if False else None
    model = nn.Linear(3, 1)
    with torch.no_grad():
        model.weight.fill_(n)
        model.bias.fill_(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 3)).square().mean().backward()
        optimizer.step()
    results[n] = model.weight.tolist()
# The first use of kernels by several threads at once doesn't always give the same bits.
nn.Linear(3, 1)(torch.ones(2, 3)).square().mean()
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
[t.start() for t in threads]
train(nn.Linear(3, 1), x=torch.ones(2, 3)) if False else None
[t.join() for t in threads]
print(sorted(results.items()))

#%% threads_beside_training
import threading
model, stop, counted = Net(), threading.Event(), []
def evaluate():
    while not stop.is_set():
        with torch.no_grad():
            counted.append(model.second(torch.ones(1, 4)).shape)
thread = threading.Thread(target=evaluate)
thread.start()
train(nn.Linear(3, 1), x=torch.ones(2, 3))
stop.set()
thread.join()
print(set(counted), threading.active_count())

#%% thread_errors
import threading
from concurrent.futures import ThreadPoolExecutor
model = Net()
def work(n):
    return model(torch.ones(1, n)).sum().item()
with ThreadPoolExecutor(2) as pool:
    for future in [pool.submit(work, n) for n in (3, 2, 3)]:
        print(future.exception() is None)
threading.Thread(target=work, args=(5,)).start()

#%% data_parallel_and_multihead
model = nn.DataParallel(Net())
train(model)
attention = nn.MultiheadAttention(4, 2, batch_first=True)
out, weights = attention(*[torch.randn(1, 3, 4)] * 3)
out.sum().backward()
show(out, weights, attention.in_proj_weight.grad[0])

#%% setattr_and_slots
class Plain:
    __slots__ = ("model",)
holder = Plain()
holder.model = Net()
holder.model.first.weight = nn.Parameter(torch.ones(4, 3))
holder.model.extra = 3
train(holder.model)
print(sorted(vars(holder.model)), sorted(vars(torch.ones(1, requires_grad=True) * 2)), dir(holder.model).count("extra"))
x = torch.ones(2)
x.note = "mine"
y = holder.model.first.weight
y.note = 5
train(holder.model, count=1)
print(x.note, y.note, sorted(vars(y)))

#%% exceptions_with_tensors
model = Net()
def f():
    x = torch.ones(1, 3)
    loss = model(x).sum()
    loss.backward()
    raise ValueError(loss.item())
try:
    f()
except ValueError as error:
    frame = error.__traceback__.tb_next.tb_frame
    print(sorted(frame.f_locals), error.__context__, error.__cause__, getattr(error, "__notes__", None))
    raise KeyError("again") from error

#%% context_of_errors
model = Net()
try:
    try:
        1 / 0
    except ZeroDivisionError:
        model(torch.ones(1, 7))
except RuntimeError as error:
    print(type(error.__context__).__name__, error.__cause__, error.__suppress_context__, getattr(error, "__notes__", None))
    names = []
    t = error.__traceback__
    while t:
        names.append(t.tb_frame.f_code.co_name)
        t = t.tb_next
    print([n for n in names if n in ("<module>", "forward", "_call_impl", "_wrapped_call_impl")])

#%% scripts_that_time
import time
model = Net()
began = time.perf_counter()
train(model)
print(time.perf_counter() - began < 30, time.process_time() > 0)

#%% logging_and_env
import logging, os
logging.basicConfig(format="%(levelname)s %(name)s %(message)s", stream=sys.stdout, level=logging.INFO)
model = Net()
train(model)
logging.getLogger("torch").warning("mine")
print(sorted(name for name in os.environ if "TFDBG" in name), torch.get_num_threads())

#%% atexit_training
import atexit
model = Net()
atexit.register(train, model, None, 2)
train(model, count=1)
print("main ends")

#%% training_at_del
class Late:
    def __del__(self):
        show(model(torch.ones(1, 3)))
model = Net()
late = Late()
train(model, count=1)
del late

#%% recursion_in_forward
class Deep(nn.Module):
    def forward(self, x):
        return self(x * 1)
try:
    Deep()(torch.ones(1))
except RecursionError as error:
    print("too deep")
train(Net(), count=2)

#%% transformers_trainer # alone
from transformers import GPT2Config, GPT2LMHeadModel
model = GPT2LMHeadModel(GPT2Config(vocab_size=20, n_positions=8, n_embd=8, n_layer=1, n_head=2))
optimizer = torch.optim.AdamW(model.parameters())
ids = torch.randint(0, 20, (2, 6))
for _ in range(2):
    out = model(input_ids=ids, labels=ids)
    optimizer.zero_grad()
    out.loss.backward()
    optimizer.step()
    show(out.loss)
model.eval()
print(model.generate(ids[:, :3], max_new_tokens=3, do_sample=True, pad_token_id=0).tolist())
