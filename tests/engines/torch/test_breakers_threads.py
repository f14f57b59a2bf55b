"""Threads and processes: which ones belong to a run, and that none of them hangs or is recorded."""

import pytest
from breakers_kit import EVERY_RUN, Both, lines_of, nodes, shown
from samples import night

IN_A_THREAD = """
import threading

def work():
    model = Net()
    tell(train(model).item(), digest(model))

thread = threading.Thread(target=work, name="trainer")
thread.start()
thread.join()
"""


# Others that the main thread waits for.
WAITS = (
    """
from concurrent.futures import ThreadPoolExecutor
ThreadPoolExecutor(1).submit(work).result()
""",
    """
import asyncio
asyncio.run(asyncio.to_thread(work))
""",
)


def test_training_in_another_thread(both: Both) -> None:
    """Its runs are the program's, if the main thread has none before."""
    path = both.write(IN_A_THREAD)
    for first in ((), ("config set threads .*", "run -n")):
        out = both.compare(path, *first, *EVERY_RUN)
        assert out.count("--- run-end: trainer: training run") == 3 - bool(first)
    work = IN_A_THREAD.partition("thread =")[0]
    for at, wait in enumerate(WAITS):
        out = both.compare(both.write(work + wait, f"wait_{at}"), *EVERY_RUN)
        assert out.count(": training run #") == 3, wait
    alone = both.write(f"train(Net(), 1)\n{IN_A_THREAD}\ntrain(Net(), 1)", "second")
    out = both.compare(alone, *EVERY_RUN)
    assert out.count("--- run-end: training run") == 2 and "trainer:" not in out
    # Nobody asks, and nothing is there to run the commands at.
    path.write_text(path.read_text().replace("tell(train(model).item(), digest(model))", "tell(0)"))
    assert both.debugged(path, *EVERY_RUN).status == 1


def test_threads_that_train_at_once(both: Both) -> None:
    """Nothing is read that another one may be freeing."""
    text = """
        import threading

        models = [Net() for _ in range(3)]
        optimizers = [torch.optim.Adam(each.parameters()) for each in models]

        def work(at):
            for _ in range(40):
                optimizers[at].zero_grad()
                models[at](torch.ones(8, 4)).mean().backward()
                optimizers[at].step()

        threads = [threading.Thread(target=work, args=(at,)) for at in range(FIRST, 3)]
        for thread in threads:
            thread.start()
        if FIRST:
            work(0)
        for thread in threads:
            thread.join()
        tell(digest(*models))
    """
    for first in "01":
        path = both.write(text.replace("FIRST", first), f"first_{first}")
        done = both.debugged(path, "run -f has_inf_or_nan")
        assert (done.status, lines_of(done)) == (0, lines_of(both.alone(path)))
        assert "no tensor passed has_inf_or_nan" in done.err


def test_threads_are_chosen_by_their_names(both: Both) -> None:
    path = both.write(
        """
        import threading

        other = Net()
        train(other, 1)
        model = Net()
        lock = threading.Lock()

        def work(count):
            with lock:
                tell(threading.current_thread().name, train(model, count).item())

        for name in ("trainer-1", "loader", "trainer-2"):
            thread = threading.Thread(target=work, args=(2,), name=name)
            thread.start()
            thread.join()
        train(other, 2)
        tell(digest(model, other))
        """
    )
    out = both.compare(path, "config set threads trainer.*", "run -n", *EVERY_RUN)
    assert out.count("--- run-end: trainer-1: training run") == 2
    assert out.count("--- run-end: trainer-2: training run") == 2
    assert nodes(out, 1)[1:] == nodes(out, 3)[1:]
    both.compare(path, "run", "config set threads trainer.*", *EVERY_RUN[1:])


@pytest.mark.parametrize(
    "wait",
    [
        "thread = threading.Thread(target=work, name='worker-0')\n"
        "thread.start()\nwhile thread.is_alive(): time.sleep(0.001)",
        "with ThreadPoolExecutor(3, 'worker') as pool: [*pool.map(lambda _: work(), range(2))]",
    ],
)
def test_threads_alone_that_nobody_waits_for_can_be_chosen(both: Both, wait: str) -> None:
    head = (
        "import time\nfrom concurrent.futures import ThreadPoolExecutor\nlock = threading.Lock()\n"
    )
    work = "def work():\n    with lock:\n        tell(train(Net()).item())\n"
    path = both.write(f"import threading\n{head}{work}{wait}\n")
    done = both.debugged(path, *EVERY_RUN)
    assert (done.status, "run-end" in done.out) == (1, False)
    assert "what other threads did wasn't looked at (worker" in done.err
    chosen = ("config set level ops", "config set threads worker.*")
    assert "--- run-end: worker" in both.compare(path, *chosen, *EVERY_RUN)


def test_a_background_thread_is_not_mixed_in(both: Both) -> None:
    out = both(
        """
        import threading

        model, other = Net(), Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        turn, is_over = threading.Event(), threading.Event()

        def watch():
            while not is_over.is_set():
                other(torch.ones(3, 4)).sum().backward()
                turn.set()

        thread = threading.Thread(target=watch)
        thread.start()
        for _ in range(3):
            x = torch.randn(6, 4)
            optimizer.zero_grad()
            hidden = model(x)
            turn.clear()
            turn.wait()
            hidden.square().mean().backward()
            optimizer.step()
        is_over.set()
        thread.join()
        tell(digest(model), len(list(model.parameters())))
        """
    )
    assert out.count("--- run-end: training run") == 3
    assert len(nodes(out, 1)) == len(nodes(out, 2))
    assert not [name for name in nodes(out, 1) if "other" in name]


def test_threads_that_a_run_starts_belong_to_it(both: Both) -> None:
    out = both(
        """
        import threading
        from concurrent.futures import ThreadPoolExecutor

        pool = ThreadPoolExecutor(1)
        pool.submit(int).result()

        class Branches(nn.Module):
            def __init__(self):
                super().__init__()
                self.left, self.right = Net(), Net()

            def forward(self, x):
                found = {}

                class Worker(threading.Thread):
                    def run(self):
                        found["left"] = model.left(x).relu()
                        found["vars"] = "run" in vars(self)

                worker = Worker()
                worker.start()
                worker.join()
                assert not found["vars"]
                return found["left"] * pool.submit(self.right, x).result()

        model = Branches()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(torch.randn(6, 4)).mean()
            thread = threading.Thread(target=loss.backward)
            thread.start()
            thread.join()
            optimizer.step()
        original = threading.Thread.start
        assert original.__module__ == "threading" or original.__qualname__.endswith("start")
        tell(loss.item(), digest(model))
        """
    )
    for number in range(3):
        seen = set(nodes(out, number))
        assert {"left.first/addmm", "relu", "right.second/addmm"} <= seen
        assert "gradients/mul_grad/mul" in seen
        assert "optimizer/SGD/left.first.weight/add_" in seen


def test_models_in_parallel_on_threads(both: Both) -> None:
    out = both(
        """
        from torch.nn.parallel import parallel_apply

        models = nn.ModuleList([Net(), Net()])
        optimizer = torch.optim.SGD(models.parameters(), lr=0.1)

        class Both(nn.Module):
            def __init__(self):
                super().__init__()
                self.parts = models

            def forward(self, x):
                threads = []
                import concurrent.futures
                with concurrent.futures.ThreadPoolExecutor(2) as pool:
                    return sum(pool.map(lambda part: part(x), self.parts))

        model = Both()
        tell(train(model).item(), digest(model))
        """
    )
    assert {"parts.0.first/addmm", "parts.1.first/addmm"} <= set(nodes(out, 2))


def test_an_op_of_another_thread_amid_the_notes_of_one(both: Both) -> None:
    out = both(
        """
        import linecache, threading

        noted, done = threading.Event(), threading.Event()

        def trace(frame, event, argument):
            return stand_still if frame.f_code.co_name == "_start" else None

        def stand_still(frame, event, argument):
            # The op is in the list, where is not yet known.
            if "return len(log)" in linecache.getline(frame.f_code.co_filename, frame.f_lineno):
                noted.set()
                done.wait(60)
            return stand_still

        class Model(Net):
            def forward(self, x):
                x = torch.tanh(x)
                thread = threading.Thread(target=self.beside, args=(x,))
                thread.start()
                sys.settrace(trace)
                x = x * 2
                sys.settrace(None)
                was_seen = noted.is_set()
                noted.set()
                thread.join()
                print("stood still" if was_seen else "went on")
                return super().forward(x)

            def beside(self, x):
                noted.wait(60)
                self.other = torch.sigmoid(x)
                done.set()

        model = Model()
        tell(train(model, 1).item(), digest(model), digest(model.other))
        """
    )
    assert "stood still" in out
    assert {"mul", "sigmoid"} <= set(nodes(out))


LOADER = """
import multiprocessing
from torch.utils.data import DataLoader, Dataset

class Data(Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        assert torch._C._len_torch_dispatch_stack() == 0, "recorded in a worker"
        assert torch._C._len_torch_function_stack() == 0
        if index == {bad}:
            raise IndexError("no such picture")
        return Net()(torch.full((4,), float(index))).detach(), torch.ones(2)

def main():
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Data(), batch_size=4, num_workers=2, multiprocessing_context="{method}",
                        persistent_workers={persistent}, generator=torch.Generator())
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = F.mse_loss(model(x * 0), y)
            loss.backward()
            optimizer.step()
    tell(loss.item(), digest(model))

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(("method", "persistent"), [("fork", False), ("fork", True)])
def test_workers_of_a_loader(both: Both, method: str, persistent: bool) -> None:
    out = both(LOADER.format(method=method, persistent=persistent, bad=-1))
    assert out.count("--- run-end: training run") == 6


@night
def test_workers_that_are_spawned(both: Both) -> None:
    path = both.write(LOADER.format(method="spawn", persistent=True, bad=-1))
    out = both.compare(path, *EVERY_RUN)
    assert out.count("--- run-end: training run") == 6


def test_an_error_in_a_worker_is_raised(both: Both) -> None:
    path = both.write(LOADER.format(method="fork", persistent=False, bad=9))
    alone, done = both.alone(path), both.debugged(path, *EVERY_RUN)
    assert alone.status == done.status == 1
    assert "IndexError: no such picture" in done.err
    assert done.out.count("--- run-end: training run") == 3
    assert "Error type: IndexError" in done.out


@night
def test_processes_that_train(both: Both) -> None:
    """The debugger is about this process; others train as they would without it."""
    path = both.write(
        """
        import multiprocessing

        def work(queue):
            torch.manual_seed(1)
            model = Net()
            queue.put((train(model).item(), digest(model)))

        if __name__ == "__main__":
            first = Net()
            train(first, 1)
            for method in ("spawn", "fork"):
                context = multiprocessing.get_context(method)
                queue = context.Queue()
                process = context.Process(target=work, args=(queue,))
                process.start()
                tell(method, queue.get())
                process.join()
                tell(process.exitcode)
            train(first, 1)
            tell(digest(first))
        """
    )
    out = both.compare(path, *EVERY_RUN)
    assert shown(out).count("--- run-end: training run") == 2


def test_a_thread_keeps_nothing_of_the_run_that_it_was_started_in(both: Both) -> None:
    """What it let go of at its end, as the interpreter ends, would abort the process."""
    path = both.write(
        """
        import gc
        import threading
        import weakref

        go = threading.Event()
        thread = threading.Thread(target=go.wait, daemon=True)  # as the queue of a loader has one
        thread.start()
        model = Net()
        seen = []
        for _ in range(3):
            loss = train(model, 1)
            seen += [weakref.ref(each.grad.untyped_storage()) for each in model.parameters()]
            seen.append(weakref.ref(loss.untyped_storage()))
            model.zero_grad()
            del loss
        gc.collect()
        tell(sum(each() is not None for each in seen))
        kept = [each for each in gc.get_objects() if type(each).__name__ == "Record"]
        tell("records", sum(each.op_type == "addmm" for each in kept))
        go.set()
        thread.join()
        """
    )
    both.compare(path, "run -f has_inf_or_nan")
