"""A launcher given as the program: the right order is said before it begins, and it goes on."""

import pytest
from samples import sample

STUB = "import sys\nprint('launched', sys.argv[1:])\n"
BATCH = ("--batch", "-c", "run -f has_inf_or_nan")
OWN = "tfdbg_cli --batch -c 'run -f has_inf_or_nan'"


@pytest.mark.parametrize(
    ("typed", "order"),
    [
        *sample(
            [
                (
                    "torchrun --nproc-per-node 2 x.py --lr 1",
                    f"torchrun --nproc-per-node 2 -m {OWN} x.py --lr 1",
                ),
                (
                    "torchrun --nnodes=2 -m pkg.x -m y",
                    f"torchrun --nnodes=2 -m {OWN} -m pkg.x -m y",
                ),
                ("torchrun --module pkg.x", f"torchrun -m {OWN} -m pkg.x"),
                (
                    "torchrun --no-python python -O x.py",
                    f"torchrun --no-python python -O -m {OWN} x.py",
                ),
                ("torchrun --standalone prog", f"torchrun … -m {OWN} …"),
                ("-m torch.distributed.run x.py", f"torchrun -m {OWN} x.py"),
                ("-mtorch.distributed.run x.py", f"torchrun -m {OWN} x.py"),
                (
                    "-m torch.distributed.launch --nproc-per-node 2 x.py",
                    f"python -m torch.distributed.launch --nproc-per-node 2 -m {OWN} x.py",
                ),
                ("accelerate launch --cpu x.py -a", f"accelerate launch --cpu -m {OWN} x.py -a"),
                ("accelerate-launch x.py", f"accelerate launch -m {OWN} x.py"),
                ("-m accelerate.commands.launch x.py", f"accelerate launch -m {OWN} x.py"),
                (
                    "-m accelerate.commands.accelerate_cli launch x.py",
                    f"accelerate launch -m {OWN} x.py",
                ),
                ("deepspeed --num_gpus 2 x.py", f"deepspeed --num_gpus 2 --module {OWN} x.py"),
                ("-m deepspeed.launcher.runner --module a.b", f"deepspeed --module {OWN} -m a.b"),
                ("composer -n 2 x.py", f"composer -n 2 -m {OWN} x.py"),
                ("horovodrun -np 2 python x.py", f"horovodrun -np 2 python -m {OWN} x.py"),
                (
                    "bin/mpirun -np 2 python3.12 -u -X dev x.py y",
                    f"mpirun -np 2 python3.12 -u -X dev -m {OWN} x.py y",
                ),
                ("mpiexec -n 2 python -m a.b", f"mpiexec -n 2 python -m {OWN} -m a.b"),
                ("srun ./x.py", f"srun python -m {OWN} ./x.py"),
                ("srun prog", f"srun … python -m {OWN} …"),
            ],
            2,
        )
    ],
)
def test_the_right_order_is_said_before_the_program_begins(runner, typed, order):
    words = typed.split()
    if words[0].startswith("-m"):
        module = words[1] if words[0] == "-m" else words[0][2:]
        for depth in range(1, module.count(".") + 1):
            runner.write(f"{'/'.join(module.split('.')[:depth])}/__init__.py", "")
        runner.write(f"{module.replace('.', '/')}.py", STUB)
    else:
        runner.write(words[0], STUB)
    done = runner.tfdbg(*BATCH, *words)
    assert done.notes[0].endswith(
        f"starts other processes, which the debugger is not in. To debug them: {order}"
    )
    assert done.stdout.startswith("launched [")  # it may be the launcher that is debugged


@pytest.mark.parametrize(
    "typed", ["accelerate env", "torchrun.py x.py", "torchrun -m tfdbg_cli x.py", "x.py torchrun"]
)
def test_what_is_no_launcher_or_in_order_is_left_alone(runner, typed):
    runner.write(typed.split()[0], STUB)
    done = runner.tfdbg(*typed.split())
    assert done.stdout.startswith("launched") and "other processes" not in done.stderr


def test_a_launcher_that_is_not_in_this_folder(runner):
    done = runner.tfdbg("torchrun", "x.py")
    assert done.status == 2
    assert done.notes[0].endswith("To debug them: torchrun -m tfdbg_cli x.py")
    assert "can't open file" in done.notes[1]


@pytest.mark.parametrize("option", ["--local-rank=3", "--local_rank=0"])
def test_what_launchers_put_before_the_arguments_is_the_programs(runner, option):
    """deepspeed and torch.distributed.launch take the debugger for the script."""
    runner.write("x.py", STUB)
    runner.write("pkg.py", STUB)
    for program in (("x.py",), ("-m", "pkg")):
        done = runner.tfdbg(option, "--batch", *program, "a")
        assert done.stdout == f"launched ['{option}', 'a']\n"
