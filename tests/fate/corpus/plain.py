import sys

#%% hello
print("hello", *sys.argv)

#%% error
def f(x):
    return 1 / x
f(0)

#%% chained_errors
def read(name):
    try:
        return {}[name]
    except KeyError as error:
        raise ValueError("no setting") from error
try:
    read("a")
except ValueError:
    raise RuntimeError("while it starts")

#%% error_group
raise ExceptionGroup("several", [ValueError(1), TypeError("two"), ExceptionGroup("in", [OSError(3, "x")])])

#%% error_notes
error = ValueError("what")
error.add_note("this is why")
raise error

#%% syntax_error_in_eval
try:
    eval("1 +")
except SyntaxError as error:
    print(error)
exec("def broken(:")

#%% exit_status
sys.exit(7)

#%% exit_text
print("before")
sys.exit("it can't go on")

#%% exit_big
sys.exit(256 + 3)

#%% exit_in_thread
import threading
thread = threading.Thread(target=sys.exit, args=(3,))
thread.start()
thread.join()
print("main goes on")

#%% os_exit
import os
print("never flushed")
sys.stderr.write("flushed\n")
os._exit(9)

#%% killed
import os, signal
print("flushed", flush=True)
os.kill(os.getpid(), signal.SIGKILL)

#%% terminated
import os, signal
print("flushed", flush=True)
os.kill(os.getpid(), signal.SIGTERM)

#%% abort
import os
print("flushed", flush=True)
os.abort()

#%% keyboard_interrupt
print("before", flush=True)
raise KeyboardInterrupt

#%% interrupt_by_signal
import os, signal, time
print("before", flush=True)
try:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(5)
except KeyboardInterrupt:
    print("caught")
sys.exit(4)

#%% handlers_of_signals
import os, signal
for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGALRM, signal.SIGCHLD, signal.SIGPIPE, signal.SIGWINCH):
    print(number.name, signal.getsignal(number))
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler, signal.pthread_sigmask(signal.SIG_BLOCK, []))
print(signal.getitimer(signal.ITIMER_REAL), signal.set_wakeup_fd(-1))

#%% handler_raises
import os, signal
class Told(Exception):
    pass
def handle(number, frame):
    raise Told(signal.Signals(number).name)
signal.signal(signal.SIGUSR1, handle)
try:
    os.kill(os.getpid(), signal.SIGUSR1)
    sum(range(100000))
except Told as told:
    print("told", told)
os.kill(os.getpid(), signal.SIGUSR1)
sum(range(100000))

#%% alarm
import signal, time
signal.setitimer(signal.ITIMER_REAL, 0.05)
signal.signal(signal.SIGALRM, lambda *a: sys.exit(11))
time.sleep(5)

#%% atexit_order
import atexit, threading
for number in range(3):
    atexit.register(print, "exit", number)
threading._register_atexit(print, "threads end")
def late():
    threading.Event().wait(0.1)
    print("thread ends")
threading.Thread(target=late).start()
print("main ends")

#%% atexit_raises
import atexit
class Bad:
    def __call__(self):
        raise ValueError("at exit")
    def __repr__(self):
        return "bad"
atexit.register(Bad())
print("main ends")

#%% atexit_exits
import atexit, os
atexit.register(lambda: (sys.stdout.flush(), os._exit(6)))
print("main ends")

#%% excepthook
def hook(kind, error, trace):
    print("hook", kind.__name__, error, trace.tb_lineno, trace.tb_next)
sys.excepthook = hook
raise ValueError("for the hook")

#%% excepthook_raises # alone
def hook(kind, error, trace):
    raise RuntimeError("the hook itself")
sys.excepthook = hook
raise ValueError("for the hook")

#%% thread_error
import threading
def bad():
    raise ValueError("in a thread")
thread = threading.Thread(target=bad, name="worker")
thread.start()
thread.join()
print(threading.active_count(), [each.name for each in threading.enumerate()])

#%% thread_excepthook
import threading
threading.excepthook = lambda args: print("thread hook", args.exc_type.__name__, args.thread.name)
thread = threading.Thread(target=lambda: 1 / 0, name="worker")
thread.start()
thread.join()

#%% unraisable
class Bad:
    def __del__(self):
        raise ValueError("in del")
seen = []
sys.unraisablehook = lambda args: seen.append((args.exc_type.__name__, str(args.exc_value)))
Bad()
print(seen)

#%% executor_left_alone
import concurrent.futures
pool = concurrent.futures.ThreadPoolExecutor(2)
print(pool.submit(pow, 2, 5).result())

#%% joins_all_threads
import threading
threading.Thread(target=print, args=("in a thread",)).start()
for thread in threading.enumerate():
    if thread is not threading.current_thread():
        thread.join()
print("all have ended")

#%% daemon_thread
import threading, time
threading.Thread(target=time.sleep, args=(30,), daemon=True).start()
print("ends at once")

#%% names_of_main
print(sorted(name for name in globals() if name != "sys"))
print(__name__, __file__.split("/")[-1], __spec__, __package__, __doc__, type(__loader__).__name__, __builtins__.__name__)
import __main__
print(__main__.__dict__ is globals())

#%% path_and_flags
import os
print(sys.path[0] == os.getcwd(), sys.argv, sys.flags, sys.getrecursionlimit(), sys.getswitchinterval())
print(sys.gettrace(), sys.getprofile(), sys.excepthook is sys.__excepthook__, sys.displayhook is sys.__displayhook__)
print([type(each).__name__ for each in sys.meta_path][-3:], sys.dont_write_bytecode, sys.is_finalizing())

#%% environment
import os
print(sorted(name for name in os.environ if name not in ("LC_CTYPE", "_") and not name.startswith(("XDG", "PYTEST"))))
print(os.umask(0o22), os.getcwd().endswith("here"), os.nice(0))

#%% file_descriptors # alone
import os
numbers = []
for _ in range(5):
    numbers.append(os.open("/dev/null", os.O_RDONLY))
print(numbers, os.isatty(0), [os.get_inheritable(n) for n in range(3)])
os.closerange(3, 90)
with open("file", "w") as file:
    print(file.fileno())

#%% close_all
import os
print("before", flush=True)
os.closerange(3, 4096)
print(os.listdir("."))

#%% stdout_closed
import os
print("before", flush=True)
sys.stdout.close()
os.write(2, b"still here\n")

#%% stdout_replaced
import io
kept, sys.stdout = sys.stdout, io.StringIO()
print("caught")
caught, sys.stdout = sys.stdout.getvalue(), kept
print(repr(caught))

#%% reads_stdin
print(repr(sys.stdin.read()) if not sys.stdin.isatty() else "''")

#%% random_streams
import random
print(random.Random(3).random(), hash((1, 2)), random.Random(3).getstate()[1][:3])
random.seed(1)
print(random.random(), random.getstate()[1][-1])
import numpy as np
np.random.seed(1)
print(np.random.rand(2).tolist(), np.random.default_rng(5).random(2).tolist(), np.random.get_state()[2])

#%% gc_and_weakrefs
import gc, weakref
print(gc.isenabled(), gc.get_threshold(), gc.callbacks, gc.get_debug(), gc.get_freeze_count())
class Node:
    def __del__(self):
        print("gone", self.name)
a, b = Node(), Node()
a.name, b.name, a.other, b.other = "a", "b", b, a
seen = weakref.ref(a, lambda ref: print("callback"))
del a, b
gc.collect()
print(seen())

#%% del_at_exit
class Late:
    def __del__(self):
        print("deleted at the end", flush=True)
late = Late()

#%% warnings_shown
import warnings
warnings.warn("once")
for _ in range(2):
    warnings.warn("twice", DeprecationWarning)
print(warnings.showwarning.__module__, warnings.formatwarning.__module__)

#%% warnings_as_errors
import warnings
warnings.simplefilter("error")
import fractions, colorsys, wave_that_is_missing

#%% logging_set_up
import logging
print(logging.root.handlers, logging.root.level, logging.lastResort.level)
logging.warning("root was set up by this")
logging.getLogger("a.b").error("an error")

#%% locale_and_decimal
import decimal, locale
print(locale.setlocale(locale.LC_ALL), decimal.getcontext().prec)
print(sys.stdout.encoding, sys.stdout.errors, sys.stderr.errors, sys.stdin.encoding, sys.getfilesystemencoding())

#%% own_modules_named_as_others
import os, pathlib
pathlib.Path("json.py").write_text("print('own json')\n")
pathlib.Path("queue.py").write_text("print('own queue'); Queue = 1\n")
sys.modules.pop("json", None), sys.modules.pop("queue", None)
import json, queue
print(queue.Queue, json.__file__ == os.path.join(os.getcwd(), "json.py"))

#%% fork_and_wait
import os
print("before", flush=True)
child = os.fork()
if not child:
    print("in the child")
    sys.exit(5)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
try:
    os.wait()
except ChildProcessError as error:
    print(error)

#%% fork_error
import os
child = os.fork()
if not child:
    raise ValueError("in the child")
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

#%% subprocesses
import subprocess
done = subprocess.run([sys.executable, "-c", "import sys; print(sys.argv, 'tfdbg_cli' in sys.modules); sys.exit(3)", "a"], capture_output=True, text=True)
print(done.returncode, done.stdout, done.stderr)

#%% multiprocessing_spawn
import multiprocessing as mp
def work(x):
    print("in a child", x, flush=True)
    return x * x
if __name__ == "__main__":
    with mp.get_context("spawn").Pool(1) as pool:
        print(pool.map(work, range(3)))
    process = mp.get_context("spawn").Process(target=sys.exit, args=(4,))
    process.start()
    process.join()
    print(process.exitcode)

#%% multiprocessing_fork
import multiprocessing as mp
def work(x):
    if x == 2:
        raise ValueError(x)
    return x * x
with mp.get_context("fork").Pool(2) as pool:
    try:
        print(pool.map(work, range(3)))
    except ValueError as error:
        print("raised", error)

#%% exec_other_program
import os
print("before", flush=True)
os.execv(sys.executable, [sys.executable, "-c", "print('another program'); raise SystemExit(8)"])

#%% files_written
import os, json, pickle, shelve, sqlite3, zipfile
os.makedirs("a/b")
json.dump({"x": [1.5]}, open("a/b/x.json", "w"))
pickle.dump({"main": __name__}, open("x.pkl", "wb"))
os.symlink("a", "link")
with zipfile.ZipFile("x.zip", "w") as made:
    made.writestr(zipfile.ZipInfo("name"), "text")
print(sorted(os.listdir(".")))

#%% asyncio_program
import asyncio
async def work(n):
    await asyncio.sleep(0.001 * n)
    if n == 3:
        raise ValueError(n)
    return n
async def main():
    print(await asyncio.gather(*map(work, range(5)), return_exceptions=True))
    async with asyncio.TaskGroup() as group:
        group.create_task(work(1))
        group.create_task(work(3))
asyncio.run(main())

#%% contextvars_and_threads
import contextvars, threading
var = contextvars.ContextVar("var", default=0)
var.set(1)
thread = threading.Thread(target=lambda: print(var.get()))
thread.start()
thread.join()
print(var.get(), len(contextvars.copy_context()))

#%% recursion
def deep(n):
    return deep(n + 1)
try:
    deep(0)
except RecursionError as error:
    print(error)
sys.setrecursionlimit(200)
depth = 0
def count():
    global depth
    depth += 1
    count()
try:
    count()
except RecursionError:
    pass
print(100 < depth < 200)

#%% own_import_hook
import importlib.abc, importlib.machinery
class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def find_spec(self, name, path, target=None):
        if name.startswith("made_up"):
            return importlib.machinery.ModuleSpec(name, self)
    def exec_module(self, module):
        module.x = 5
sys.meta_path.insert(0, Finder())
import made_up_one
print(made_up_one.x, made_up_one.__spec__.loader is sys.meta_path[0])

#%% settrace
lines = []
def trace(frame, event, arg):
    if frame.f_code.co_name == "traced":
        lines.append((event, frame.f_lineno - frame.f_code.co_firstlineno))
    return trace
def traced():
    x = 1
    return x
sys.settrace(trace)
traced()
sys.settrace(None)
print(lines)

#%% pickled_main_objects
import pickle
class Mine:
    pass
data = pickle.dumps([Mine, Mine()], protocol=0)
print(data, type(pickle.loads(data)[1]) is Mine)

#%% resource_limits
import resource
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 0, resource.getrlimit(resource.RLIMIT_CORE))

#%% traceback_of_now
import traceback
def f():
    traceback.print_stack()
    print([frame.name for frame in traceback.extract_stack()][-2:])
try:
    1 / 0
except ZeroDivisionError:
    print(traceback.format_exc())
    print(sys.exc_info()[0])
