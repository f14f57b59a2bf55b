"""Tensors that only their class can compute with, or whose memory was given back: never touched."""

import itertools

import pytest
from breakers_kit import EVERY_RUN, Both, lines_of
from samples import sample

#: Each way to look at a run: all of it, the op records, modules, copies, step by step.
WAYS = {
    "everything": EVERY_RUN,
    "filter": ("run -f has_inf_or_nan",),
    "values": ("config set level values", "run -f origin_of_nonfinite"),
    "records": ("config set level ops", "run -f origin_of_nonfinite"),
    "modules": ("config set level modules", "run -f has_inf_or_nan"),
    "other filter": ("run -f exploding",),
    "check": ("--check", "has_inf_or_nan"),
    "copies": ("config set keep clone", *EVERY_RUN),
    "numbers": ("track --norms", "run -t 1000"),
    "steps": ("s", "exit") * 6,
}

PASSES = """
import warnings

warnings.simplefilter("ignore")  # that a layout is new

class Pass(nn.Module):
    def __init__(self, function=lambda x: x):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.function = function

    def forward(self, x):
        return self.function(x)
"""

WRAPPED = f"""{PASSES}
asked = []

class Scaled(torch.Tensor):
    @staticmethod
    def __new__(cls, data, scale):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=data.dtype)

    def __init__(self, data, scale):
        self.data_, self.scale = data, scale

    def dequantize(self):
        asked.append("dequantize")
        return self.data_ * self.scale

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        asked.append(str(func))
        plain = [a.data_ * a.scale if isinstance(a, Scaled) else a for a in args]
        return func(*plain, **(kwargs or {{}}))

class Counting(torch.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        asked.append(str(func))
        with torch._C._DisableTorchDispatch():
            return func(*args, **(kwargs or {{}}))
"""

NESTED = f"""{PASSES}
def rows(*lengths, **options):
    parts = [torch.randn(n, 3) for n in lengths]
    return torch.nested.nested_tensor(parts, **options)

jagged = rows(2, 3, layout=torch.jagged)
starts, lengths = torch.tensor([0, 1, 2]), torch.tensor([2, 3, 1])
holed = torch.nested.narrow(torch.randn(3, 5, 4), 1, starts, lengths, layout=torch.jagged)
double, keep = Pass(lambda x: x * 2), Pass()
tell(digest(double(jagged).values()), digest(keep(holed).values()))
tell(digest(*double(rows(1, 4)).unbind()))
net = nn.Linear(3, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(6):
    optimizer.zero_grad()
    net(rows(2, 3, layout=torch.jagged)).values().square().mean().backward()
    optimizer.step()
tell(digest(net))
"""

OTHERS = f"""{PASSES}
double, keep = Pass(lambda x: x * 2), Pass()
eye = torch.eye(4)
for each in (eye.to_sparse(), eye.to_sparse_csr(), eye.to_sparse_csc(), eye.to_sparse_bsr((2, 2))):
    tell(digest(keep(each).to_dense()))
tell(digest(double(eye.to_sparse()).to_dense()), digest(double(eye.to_mkldnn()).to_dense()))
tell(keep(torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)).int_repr().tolist())
tell(double(torch.ones(2, device="meta")).shape, double(torch.ones(0, 3)).shape)
tell(digest(torch.vmap(double)(eye)), digest(torch.func.grad(lambda x: double(x).sum())(eye)))

from torch._subclasses.fake_tensor import FakeTensorMode
fake = FakeTensorMode().from_tensor(eye)
tell(type(double(fake)).__name__)
functional = torch._to_functional_tensor(torch.ones(3))
torch._enable_functionalization(reapply_views=True)
try:
    made = double(functional)
finally:
    torch._disable_functionalization()
tell(torch._from_functional_tensor(made).tolist())
"""

FREED = f"""{PASSES}
def free(tensor):
    tensor.untyped_storage().resize_(0)
    return tensor

LARGE = 9_000_000  # what is smaller than 32 MiB may stay with the process when it is freed

def made_and_freed(x):
    made = x * 2
    total = made.sum()
    free(made)
    return made, total

tell(Pass(made_and_freed)(torch.ones(LARGE))[1].item())
net = Pass(lambda x: (net.weight * x).sum())
net.weight = nn.Parameter(torch.ones(LARGE))
net.register_buffer("table", free(torch.ones(LARGE)))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(6):
    net.weight.untyped_storage().resize_(4 * LARGE)
    net.weight.data.fill_(step)
    optimizer.zero_grad()
    loss = net(torch.ones(LARGE))
    loss.backward()
    optimizer.step()
    free(net.weight)
    tell(loss.item())
"""

TANGENTS = f"""{PASSES}
import torch.autograd.forward_ad as forward
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, linearize, vmap, vjp

net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
x, v = torch.randn(5, 3), torch.ones(5, 3)
loss = lambda x: net(x).square().mean()
double = Pass(lambda x: x * 2)

def dual(function):
    with forward.dual_level():
        made = function(forward.make_dual(x, v))
        return [*forward.unpack_dual(made)]

tell(digest(*jvp(net, (x,), (v,))), digest(*jvp(loss, (x,), (v,))), digest(*dual(net)))
tell(digest(*dual(double)), digest(*dual(lambda x: double(x.sum()))))
tell(digest(jacfwd(loss)(x)), digest(jacrev(loss)(x)), digest(hessian(loss)(x[0])))
tell(digest(linearize(loss, x)[1](v)), digest(vjp(net, x)[1](net(x))[0]))
tell(digest(jvp(grad(loss), (x,), (v,))[1]), digest(grad(lambda x: jvp(loss, (x,), (v,))[1])(x)))
tell(digest(vmap(jacfwd(net))(x)), digest(jacfwd(jacfwd(loss))(x[0])))
parameters = dict(net.named_parameters())
along = {{name: torch.ones_like(each) for name, each in parameters.items()}}
call = lambda parameters: functional_call(net, parameters, (x,)).sum()
tell(digest(*jvp(call, (parameters,), (along,))))
with forward.dual_level():  # tensors without tangents, and tangents that nobody gave
    one = forward.make_dual(torch.ones(3), torch.zeros(3))
    half = double(one) + double(torch.ones(3)) * nn.Linear(3, 3)(torch.ones(3))
    tell(digest(*forward.unpack_dual(half)))
    tell(double(torch._efficientzerotensor((3,))).clone().tolist())
optimizer = torch.optim.Adam(net.parameters())
for _ in range(6):
    made, slope = jvp(net, (x,), (v,))
    optimizer.zero_grad()
    (made - slope.detach()).square().mean().backward()
    optimizer.step()
tell(digest(net))
"""

PROGRAMS = {"nested": NESTED, "others": OTHERS, "freed": FREED, "tangents": TANGENTS}

#: Makes a tensor of each kind.
KINDS = {
    "conjugate": "torch.ones(3, dtype=torch.complex64).mul(1j).conj()",
    "negative": "torch.ones(3, dtype=torch.complex64).mul(1j).conj().imag",
    "half": "torch.ones(3).half()",
    "quarter": "torch.ones(3).to(torch.float8_e5m2)",
    "without memory": "torch._efficientzerotensor((3,))",
    "meta": "torch.ones(3, device='meta')",
    "empty": "torch.ones(0, 3)",
    "sparse": "torch.eye(3).to_sparse()",
    "mkldnn": "torch.eye(3).to_mkldnn()",
    "quantized": "torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)",
    "nested": "torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged)",
    "inference": "in_inference()",
    "of a class": "torch.ones(3).as_subclass(Counting)",
}


# The sample is each program once, each in another way.
@pytest.mark.parametrize(("name", "way"), [*sample(itertools.product(PROGRAMS, WAYS), 11)])
def test_the_program_does_what_it_does_alone(both: Both, name: str, way: str) -> None:
    out = both.compare(both.write(PROGRAMS[name]), *WAYS[way])
    assert "could not be recorded" not in out


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_class_is_asked_for_nothing(both: Both, way: tuple[str, ...]) -> None:
    program = f"""{WRAPPED}
keep = Pass()
for x in (Scaled(torch.ones(3), 2.0), torch.ones(3).as_subclass(Counting)):
    for _ in range(3):
        tell(type(keep(x)).__name__, asked)
"""
    both.compare(both.write(program), *way)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_tensors_of_all_kinds(both: Both, way: tuple[str, ...]) -> None:
    """Each comes into a module, goes through it and is looked at there."""
    both.compare(both.write(of_all_kinds("keep")), *way)


def test_tensors_of_all_kinds_in_trace_blocks(both: Both) -> None:
    plain, traced = (both.write(of_all_kinds(each), each) for each in ("keep", "traced"))
    done = both.alone(traced)
    assert lines_of(done) == lines_of(both.alone(plain)), done.err
    assert "cannot be read" not in done.out


def of_all_kinds(function: str) -> str:
    """A program that calls a function on each."""
    makers = "".join(f"    {name!r}: lambda: {maker},\n" for name, maker in KINDS.items())
    return f"""{WRAPPED}
import tfdbg_cli

keep = Pass(lambda x: (x, torch.ones(3).log()))

def traced(x):
    with tfdbg_cli.trace(keep, x) as t:
        given = t["input/x:0"].value
        logarithm = t["log:0"].value
    assert logarithm.tolist() == [0, 0, 0]
    return t.result

def in_inference():
    with torch.inference_mode():
        return torch.ones(3)

kinds = {{
{makers}}}
for name, make in kinds.items():
    made, other = {function}(make())
    tell(name, type(made).__name__, made.dtype, made.layout, other.tolist())
tell(asked)
"""


def test_they_are_listed_by_what_they_are_made_of(both: Both) -> None:
    shown = ("pt input/jagged:0", "run", "pt input/holed:0")
    out = both.compare(both.write(NESTED), "run", *shown)
    assert "(nested, 2 parts joined along dimension 0: [2, 3], [3, 3])" in out
    assert "(nested, 3 parts joined along dimension 0: [2, 4], [3, 4], [1, 4])" in out
    program = f"{WRAPPED}\nPass()(Scaled(torch.tensor([4.0, 5.0]), 2.0))\ntell(asked)\n"
    out = both.compare(both.write(program, "wrapped"), "run", "pt input/x:0")
    assert "(what a Scaled holds)" in out
    assert "array([4., 5.], dtype=float32)" in out


def test_memory_that_was_given_back_is_said_to_be_gone(both: Both) -> None:
    out = both.compare(both.write(FREED), "run", "pt mul:0")
    assert "Its memory was given back" in out or "its memory was given back" in out


def test_memory_that_is_used_again_shows_nothing_of_what_comes_later(both: Both) -> None:
    program = """
        class Again(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(3))

            def forward(self, x):
                first = x * self.weight
                second = first + 1
                first.untyped_storage().resize_(0)
                first.untyped_storage().resize_(12)
                first.fill_(7)
                return second

        with torch.no_grad():
            tell(Again()(torch.ones(3)).tolist())
        tell("resize_" in vars(torch.UntypedStorage))
        """
    path = both.write(program)
    out = both.compare(path, "run", "pt mul:0", "pt add:0", "pt fill_:0")
    gone, _, rest = out.partition("--- pt add:0")
    assert "Its memory was given back" in gone
    assert "array([2., 2., 2.]" in rest
    assert "array([7., 7., 7.]" in rest
