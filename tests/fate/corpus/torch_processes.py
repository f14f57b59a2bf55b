#%% loader_workers
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, n):
        return torch.full((3,), float(n)) + torch.rand(3)
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if __name__ == "__main__":
    for epoch in range(2):
        for batch in DataLoader(Data(), batch_size=4, shuffle=True, num_workers=2):
            optimizer.zero_grad()
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            show(loss)

#%% loader_persistent
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
class Data(IterableDataset):
    def __iter__(self):
        for n in range(4):
            yield get_worker_info().id, n, torch.rand(1).item()
loader = DataLoader(Data(), batch_size=None, num_workers=2, persistent_workers=True)
print(sorted(loader), sorted(loader))

#%% loader_error
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, n):
        if n == 2:
            raise ValueError("bad item")
        return n
try:
    for batch in DataLoader(Data(), num_workers=1):
        print(batch)
except ValueError as error:
    print(type(error).__name__, str(error).splitlines()[-1])

#%% loader_killed
import os
from torch.utils.data import DataLoader, Dataset
class Data(Dataset):
    def __len__(self):
        return 2
    def __getitem__(self, n):
        os._exit(3)
try:
    list(DataLoader(Data(), num_workers=1))
except RuntimeError as error:
    print("worker died")

#%% loader_spawn
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.arange(6.0).reshape(6, 1))
if __name__ == "__main__":
    loader = DataLoader(data, batch_size=3, num_workers=1, multiprocessing_context="spawn", generator=torch.Generator().manual_seed(1), shuffle=True)
    for (batch,) in loader:
        show(batch)

#%% loader_models_in_workers
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1)
model = Net()
class Data(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, n):
        with torch.no_grad():
            return model(torch.full((1, 3), float(n)))
for batch in DataLoader(Data(), num_workers=1):
    loss = model(torch.ones(1, 3)).sum() * batch.sum()
    loss.backward()
    show(loss)

#%% spawn_processes
import torch.multiprocessing as mp
def work(rank, shared):
    model = nn.Linear(3, 1)
    with torch.no_grad():
        shared[rank] = float(rank + model(torch.ones(1, 3)).numel())
if __name__ == "__main__":
    shared = torch.zeros(2).share_memory_()
    mp.spawn(work, (shared,), 2)
    show(shared)

#%% spawn_error
import torch.multiprocessing as mp
def work(rank):
    raise ValueError("in a rank")
if __name__ == "__main__":
    try:
        mp.spawn(work, (), 1)
    except mp.ProcessRaisedException as error:
        print(str(error).splitlines()[-1])

#%% fork_and_train
import os
torch.set_num_threads(1)
model = Net()
train(model, count=1)
sys.stdout.flush()
child = os.fork()
train(model, count=1)
sys.stdout.flush()
if not child:
    os._exit(4)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

#%% fork_in_forward
import os
torch.set_num_threads(1)
class Forks(nn.Module):
    def forward(self, x):
        child = os.fork()
        if not child:
            sys.exit(7)
        return x + os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
show(nn.Sequential(nn.Identity(), Forks())(torch.ones(1)))

#%% queues_of_tensors
import torch.multiprocessing as mp
def work(q, out):
    out.copy_(q.get() * 2)
if __name__ == "__main__":
    context = mp.get_context("fork")
    q, out = context.SimpleQueue(), torch.zeros(3).share_memory_()
    process = context.Process(target=work, args=(q, out))
    process.start()
    q.put(torch.ones(3))
    process.join()
    show(out, process.exitcode)

#%% ddp_one_rank
import torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
model = nn.parallel.DistributedDataParallel(Net())
train(model)
x = torch.ones(2)
dist.all_reduce(x)
work = dist.all_reduce(x, async_op=True)
work.wait()
show(x)
dist.destroy_process_group()

#%% ddp_two_ranks
import os
import torch.distributed as dist
import torch.multiprocessing as mp
def work(rank, results):
    dist.init_process_group("gloo", init_method=f"file://{os.getcwd()}/meet", rank=rank, world_size=2)
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        optimizer.zero_grad()
        loss = model(torch.full((2, 3), float(rank + step))).square().mean()
        loss.backward()
        optimizer.step()
        results[rank, step] = loss.item()
    # Kept: PyTorch's own deadlock, seen plain too. The last holder of the group, the reducer,
    # waits for gloo's thread with the GIL, which that thread needs to drop the barrier.
    work.model = model
    dist.barrier()
    dist.destroy_process_group()
if __name__ == "__main__":
    results = torch.zeros(2, 3).share_memory_()
    mp.start_processes(work, (results,), 2, start_method="fork")
    show(results)
    if os.path.exists("meet"):
        os.remove("meet")

#%% fsdp2_one_rank
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
from torch.distributed.tensor import init_device_mesh
model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
mesh = init_device_mesh("cpu", (1,))
for part in (model[0], model[2]):
    fully_shard(part, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(5, 3)).square().mean()
    loss.backward()
    optimizer.step()
    show(loss)
print([p.full_tensor().tolist() for p in model.parameters()])
dist.destroy_process_group()

#%% rpc_like_store
import torch.distributed as dist
store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
store.set("a", "1")
print(store.get("a"), store.add("n", 2))

#%% threads_that_fail_in_a_run
import threading
model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def work():
    with torch.no_grad():
        model(torch.ones(1, 3))
    1 / 0
for _ in range(3):
    optimizer.zero_grad()
    loss = model(torch.randn(5, 3)).sum()
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    loss.backward()
    optimizer.step()
    show(loss)

#%% subprocess_trains
import subprocess
code = "import torch, sys; torch.manual_seed(0); m = torch.nn.Linear(2, 1); m(torch.ones(1, 2)).sum().backward(); print(m.weight.tolist(), 'tfdbg_cli' in sys.modules)"
done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
print(done.returncode, done.stdout, done.stderr)

#%% daemon_trains_on
import threading
model = nn.Linear(3, 1)
def work():
    while True:
        with torch.no_grad():
            model(torch.ones(1, 3))
threading.Thread(target=work, daemon=True).start()
train(nn.Linear(3, 1), x=torch.ones(2, 3))
print("ends", flush=True)
import os
os._exit(0)
