"""PyTorch tensors of every dtype and layout: their arrays and descriptions, and the commands."""

import json
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import torch
from program_server import python_in
from torch._subclasses.fake_tensor import FakeTensorMode
from torch_kit import observers
from torch_shell import dump_of, shell_of

from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.dumps.run_folder.writer import write_run_folder
from tfdbg_cli.engines.torch.values import arrays as values
from tfdbg_cli.engines.torch.values.arrays import describe, to_numpy
from tfdbg_cli.engines.torch.values.notes import note

torch.set_num_threads(1)

NAN, INF = float("nan"), float("inf")
NUMBERS = [[1.0, NAN, -INF], [INF, 0.5, -2.0]]
FLOAT8 = [
    name
    for name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
    if hasattr(torch, name)
]
SMALL = ["bfloat16", *FLOAT8]
INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
NATIVE = ["float16", "float32", "float64", "bool", *INTEGERS]


def quantized():
    return torch.quantize_per_tensor(torch.tensor([0.0, 0.5, -1.0]), 0.5, 3, torch.qint8)


def per_channel():
    scales, zeros = torch.tensor([0.5, 0.25]), torch.tensor([0, 1])
    return torch.quantize_per_channel(
        torch.tensor([[0.0, 1.0], [0.5, 0.25]]), scales, zeros, 0, torch.quint8
    )


def matrix():
    dense = torch.zeros(4, 6)
    dense[0, 1], dense[2, 3], dense[3, 5] = 1.5, NAN, -2.0
    return dense


SPARSE = {
    "coo": lambda dense: dense.to_sparse(),
    "csr": lambda dense: dense.to_sparse_csr(),
    "csc": lambda dense: dense.to_sparse_csc(),
    "bsr": lambda dense: dense.to_sparse_bsr((2, 3)),
    "bsc": lambda dense: dense.to_sparse_bsc((2, 3)),
}


def nested(layout, *parts):
    return torch.nested.nested_tensor(list(parts), layout=layout)


PARTS = (torch.tensor([[1.0, NAN]]), torch.tensor([[2.0, 3.0], [4.0, 5.0]]))


class Wrapper(torch.Tensor):
    """A class that holds another tensor and computes with it."""

    @staticmethod
    def __new__(cls, elem):
        return torch.Tensor._make_wrapper_subclass(cls, elem.shape, dtype=elem.dtype)

    def __init__(self, elem):
        self.elem = elem

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError("the debugger computes with a tensor of the user's class")


class Secret(Wrapper):
    """A class whose elements are nowhere to be found."""

    def __init__(self, elem):
        self.codes = torch.zeros(2, 7)


class Halves(Wrapper):
    """A quantized class that knows how to undo it."""

    def __init__(self, elem):
        self.codes = (elem * 2).to(torch.int8)

    def dequantize(self):
        return self.codes.float() / 2


class Labelled(torch.Tensor):
    """A subclass with data and with functions of its own."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        raise AssertionError("the debugger calls functions of a user's class")


@pytest.mark.parametrize("name", NATIVE)
def test_types_that_numpy_has(name):
    tensor = torch.tensor([[0, 1, 3]]).to(getattr(torch, name))
    array = to_numpy(tensor)
    assert array.dtype.name == name
    assert array.tolist() == tensor.tolist()
    assert describe(tensor) == (name, (1, 3), 3 * tensor.element_size())
    assert note(tensor) == ""


@pytest.mark.parametrize("name", SMALL)
def test_small_floats_keep_their_bits(name):
    codes = torch.arange(256, dtype=torch.uint8)
    dtype = getattr(torch, name)
    tensor = codes.view(dtype) if name != "bfloat16" else torch.tensor(NUMBERS).to(dtype)
    array = to_numpy(tensor)
    assert array.dtype == np.dtype(getattr(ml_dtypes, name))
    np.testing.assert_array_equal(array.astype(np.float32), tensor.float().numpy())
    assert describe(tensor) == (name, tuple(tensor.shape), tensor.numel() * tensor.element_size())


@pytest.mark.skipif(not hasattr(torch, "float8_e8m0fnu"), reason="needs a newer PyTorch")
def test_scales_are_powers_of_two():
    tensor = torch.tensor([127, 128, 255], dtype=torch.uint8).view(torch.float8_e8m0fnu)
    np.testing.assert_array_equal(to_numpy(tensor).astype(np.float32), [1.0, 2.0, NAN])


def test_without_ml_dtypes_the_numbers_and_the_name_stay():
    code = (
        "import sys; sys.modules['ml_dtypes'] = None\n"
        "import torch\n"
        "from tfdbg_cli.engines.torch.values.arrays import describe, to_numpy\n"
        "for name in sys.argv[1:]:\n"
        "    t = torch.tensor([1.5, -2.0]).to(getattr(torch, name))\n"
        "    print(describe(t)[0], to_numpy(t).dtype, to_numpy(t).tolist())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *SMALL], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [f"{name} float32 [1.5, -2.0]" for name in SMALL]


def test_packed_types_are_shown_as_stored():
    codes = torch.tensor([1, 2, 200], dtype=torch.uint8)
    for name in ("float4_e2m1fn_x2", "uint3", "bits8"):
        if hasattr(torch, name):
            tensor = codes.view(getattr(torch, name))
            assert to_numpy(tensor).tolist() == [1, 2, 200]
            assert describe(tensor) == (name, (3,), 3)
            assert "byte" in note(tensor)
    if hasattr(torch, "bits16"):
        assert to_numpy(torch.tensor([1, -1], dtype=torch.int16).view(torch.bits16)).tolist() == [
            1,
            65535,
        ]
    if hasattr(torch, "uint4"):
        assert to_numpy(codes[:2].view(torch.uint4)).astype(int).tolist() == [1, 2]
    if hasattr(torch, "int4"):
        tensor = torch.tensor([1, -2], dtype=torch.int8).view(torch.int4)
        assert to_numpy(tensor).astype(int).tolist() == [1, -2]


def test_complex_numbers_and_their_lazy_bits():
    tensor = torch.tensor([1 + 2j, complex(NAN, 1)])
    assert to_numpy(tensor[:1].conj()).tolist() == [1 - 2j]
    assert to_numpy(tensor[:1].conj().imag).tolist() == [-2.0]
    half = tensor.to(torch.complex32)
    assert to_numpy(half).dtype == np.complex64
    assert to_numpy(half)[0] == 1 + 2j
    assert describe(half) == ("complex32", (2,), 8)
    assert "complex64" in note(half)


def test_quantized_tensors_are_numbers():
    assert to_numpy(quantized()).tolist() == [0.0, 0.5, -1.0]
    assert describe(quantized()) == ("float32", (3,), 3)
    assert note(quantized()) == "dequantized qint8, scale 0.5, zero point 3"
    assert to_numpy(per_channel()).tolist() == [[0.0, 1.0], [0.5, 0.25]]
    told = "dequantized quint8, scales 0.5, 0.25, zero points 0, 1, along dimension 0"
    assert note(per_channel()) == told


@pytest.mark.parametrize("layout", SPARSE)
def test_sparse_tensors_are_dense_arrays(layout):
    tensor = SPARSE[layout](matrix())
    np.testing.assert_array_equal(to_numpy(tensor), matrix().numpy())
    dtype, shape, nbytes = describe(tensor)
    assert (dtype, shape) == ("float32", (4, 6))
    stored = 3 if layout in ("coo", "csr", "csc") else 12
    assert nbytes > stored * 4
    assert note(tensor) == f"sparse {layout.upper()}, {stored} of 24 elements stored"


@pytest.mark.parametrize("layout", SPARSE)
def test_large_sparse_tensors_are_their_values(layout, monkeypatch):
    monkeypatch.setattr(values, "LARGEST_DENSE", 64)
    tensor = SPARSE[layout](matrix())
    array = to_numpy(tensor)
    assert describe(tensor)[1] == array.shape
    assert np.nansum(array) == -0.5
    assert np.isnan(array).sum() == 1
    assert "without their places" in note(tensor)


def test_sparse_indices_that_repeat_add_up():
    tensor = torch.sparse_coo_tensor([[0, 0, 2]], [1.0, 2.0, 5.0], (3,))
    assert to_numpy(tensor).tolist() == [3.0, 0.0, 5.0]
    assert "repeat" in note(tensor)
    assert not tensor.is_coalesced()


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged], ids=str)
def test_nested_tensors_are_joined(layout):
    tensor = nested(layout, *PARTS)
    np.testing.assert_array_equal(to_numpy(tensor), torch.cat(PARTS).numpy())
    assert describe(tensor) == ("float32", (3, 2), 24)
    assert note(tensor) == "nested, 2 parts joined along dimension 0: [1, 2], [2, 2]"


def test_nested_tensors_that_differ_in_several_dimensions_are_flat():
    tensor = nested(torch.strided, torch.ones(2, 3), torch.zeros(4, 1))
    assert to_numpy(tensor).tolist() == [1.0] * 6 + [0.0] * 4
    assert describe(tensor)[1] == (10,)
    assert "flat" in note(tensor)


def test_nested_tensors_of_other_kinds():
    transposed = nested(torch.jagged, *PARTS).transpose(1, 2)
    np.testing.assert_array_equal(to_numpy(transposed), torch.cat(PARTS).t().numpy())
    whole = torch.arange(12.0).reshape(3, 4)
    narrowed = torch.nested.narrow(
        whole, 1, torch.tensor([0, 1, 2]), torch.tensor([1, 2, 2]), layout=torch.jagged
    )
    assert to_numpy(narrowed).tolist() == [0.0, 5.0, 6.0, 10.0, 11.0]
    assert describe(narrowed)[1] == (5,)
    empty = torch.nested.nested_tensor([])
    assert to_numpy(empty).shape == describe(empty)[1] == (0,)


def test_classes_of_the_users():
    elem = torch.tensor([1.0, NAN])
    np.testing.assert_array_equal(to_numpy(Wrapper(elem)), elem.numpy())
    np.testing.assert_array_equal(to_numpy(Wrapper(Wrapper(elem))), elem.numpy())
    assert describe(Wrapper(elem.bfloat16())) == ("bfloat16", (2,), 4)
    assert note(Wrapper(elem)) == "what a Wrapper holds"
    assert to_numpy(Halves(torch.tensor([0.5, -1.0]))).tolist() == [0.5, -1.0]
    assert describe(Halves(elem[:1])) == ("float32", (1,), 1)
    secret = to_numpy(Secret(elem))
    assert isinstance(secret, InconvertibleTensorProto)
    assert "codes [2, 7]" in str(secret)
    labelled = elem.clone().as_subclass(Labelled)
    np.testing.assert_array_equal(to_numpy(labelled), elem.numpy())
    assert describe(labelled) == ("float32", (2,), 8)
    assert to_numpy(torch.nn.Parameter(torch.ones(2))).tolist() == [1.0, 1.0]


def test_distributed_tensors_are_this_ranks_shard(tmp_path):
    code = (
        "import torch, torch.distributed as dist, sys\n"
        "from torch.distributed.device_mesh import init_device_mesh\n"
        "from torch.distributed.tensor import Shard, distribute_tensor\n"
        "from tfdbg_cli.engines.torch.values.notes import note\n"
        "from tfdbg_cli.engines.torch.values.arrays import describe, to_numpy\n"
        "dist.init_process_group('gloo', init_method='file://' + sys.argv[1], rank=0, "
        "world_size=1)\n"
        "t = distribute_tensor(torch.arange(4.0), init_device_mesh('cpu', (1,)), [Shard(0)])\n"
        "print(to_numpy(t).tolist(), describe(t))\n"
        "print(note(t))\n"
        "dist.destroy_process_group()\n"
    )
    program = tmp_path / "program.py"
    program.write_text(code)
    done = python_in(tmp_path, "program.py", str(tmp_path / "meet"))
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "[0.0, 1.0, 2.0, 3.0] ('float32', (4,), 16)"
    assert second.startswith("this rank's shard of [4], placed ")


def test_tensors_without_elements_say_so():
    with FakeTensorMode():
        fake = torch.ones(2, 3)
    for tensor in (fake, torch.ones(2, 3, device="meta")):
        value = to_numpy(tensor)
        assert isinstance(value, InconvertibleTensorProto)
        assert "no elements" in str(value)
        assert describe(tensor) == ("float32", (2, 3), 0)
    freed = torch.ones(1000)
    freed.untyped_storage().resize_(0)
    assert "given back" in str(to_numpy(freed))


def test_shapes_and_strides():
    base = torch.arange(12.0, dtype=torch.bfloat16).reshape(3, 4)
    for tensor in (base.t(), base[:, ::2], base[1], base[0, 0], base[:0], torch.empty(0)):
        array = to_numpy(tensor)
        assert array.shape == tuple(tensor.shape) == describe(tensor)[1]
        np.testing.assert_array_equal(array.astype(np.float32), tensor.float().numpy())


def test_tensors_under_autograd_and_inference_mode():
    leaf = torch.ones(2, requires_grad=True)
    assert to_numpy(leaf * 2).tolist() == [2.0, 2.0]
    with torch.inference_mode():
        inferred = torch.ones(2)
        assert to_numpy(inferred).tolist() == [1.0, 1.0]
        assert to_numpy(torch.ones(2, dtype=torch.bfloat16)).tolist() == [1.0, 1.0]
    assert to_numpy(inferred).tolist() == [1.0, 1.0]
    assert to_numpy(inferred.conj()).tolist() == [1.0, 1.0]


def test_transforms_show_what_they_compute_with():
    seen = []

    def function(x):
        seen.append((to_numpy(x), describe(x)))
        return x.sum()

    torch.func.vmap(torch.func.grad(function))(torch.ones(2, 3))
    (value, description), *_ = seen
    assert value.tolist() == [[1.0] * 3] * 2
    assert description == ("float32", (2, 3), 24)


EVERYTHING = {
    "plain": lambda: torch.tensor(NUMBERS),
    **{name: lambda name=name: torch.tensor(NUMBERS).to(getattr(torch, name)) for name in SMALL},
    "complex32": lambda: torch.tensor([complex(NAN, 1)]).to(torch.complex32),
    "quantized": quantized,
    "per_channel": per_channel,
    **{layout: lambda layout=layout: SPARSE[layout](matrix()) for layout in SPARSE},
    "nested": lambda: nested(torch.strided, *PARTS),
    "jagged": lambda: nested(torch.jagged, *PARTS),
    "wrapper": lambda: Wrapper(torch.tensor([NAN])),
    "labelled": lambda: torch.tensor([NAN]).as_subclass(Labelled),
    "meta": lambda: torch.ones(2, device="meta"),
    "secret": lambda: Secret(torch.ones(2)),
    "leaf": lambda: torch.ones(2, requires_grad=True),
    "scalar": lambda: torch.tensor(3),
    "empty": lambda: torch.empty(0, 3),
}


@pytest.mark.parametrize("name", EVERYTHING)
def test_looking_is_not_seen_by_the_program(name):
    tensor = EVERYTHING[name]()
    operators, functions, seen = observers()
    attributes = dict(vars(tensor))
    state = torch.random.get_rng_state()
    number = torch._C._autograd._get_sequence_nr()
    grad_mode = torch.is_grad_enabled()
    with operators:
        value, description = to_numpy(tensor), describe(tensor)
        note(tensor)
    with functions:
        to_numpy(tensor)
        describe(tensor)
        note(tensor)
    assert not seen
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch._C._autograd._get_sequence_nr() == number
    assert torch.is_grad_enabled() == grad_mode
    assert dict(vars(tensor)) == attributes
    if isinstance(value, np.ndarray):
        assert description[1] == value.shape
        assert not value.flags.writeable
        if value.dtype.name != description[0]:
            assert description[0] == "complex32"


#: name -> nan, -inf, +inf; None: has no health.
HEALTH = {
    "plain": (1, 1, 1),
    "bfloat16": (1, 1, 1),
    "float8_e5m2": (1, 1, 1),
    "float8_e4m3fn": (3, 0, 0),
    "float8_e4m3fnuz": (3, 0, 0),
    "float8_e5m2fnuz": (3, 0, 0),
    "complex32": (1, 0, 0),
    "quantized": (0, 0, 0),
    "per_channel": (0, 0, 0),
    **dict.fromkeys((*SPARSE, "nested", "jagged", "wrapper", "labelled"), (1, 0, 0)),
    "meta": None,
    "secret": None,
    "leaf": (0, 0, 0),
    "scalar": None,
    "empty": (0, 0, 0),
}


@pytest.fixture(scope="module")
def everything():
    return shell_of(**{name: EVERYTHING[name]() for name in EVERYTHING})


@pytest.mark.parametrize("name", EVERYTHING)
def test_commands_on_everything(everything, name):
    if name.startswith("float8"):
        # What becomes of an infinity is PyTorch's own affair, and differs between versions.
        array = to_numpy(EVERYTHING[name]()).astype(np.float32)
        counts = (
            int(np.isnan(array).sum()),
            int((array == -INF).sum()),
            int((array == INF).sum()),
        )
    else:
        counts = HEALTH[name]
    text = everything.text(f"pt {name}:0")
    summary = everything.text(f"pt -s {name}:0")
    if name in ("meta", "secret"):
        assert "Not a tensor of numbers" in text and "Not a tensor of numbers" in summary
    else:
        assert f"dtype: {describe(EVERYTHING[name]())[0]}" in text
        assert "Numeric summary" in summary
    (row,) = (
        json.loads(line)
        for line in everything.lines(f"lt --json -n ^{name}$ -o health")
        if line.strip().startswith("{")
    )
    health = row["health"]
    assert (health and (health["nan"], health["neg_inf"], health["pos_inf"])) == counts
    found = everything.text("lt -f has_inf_or_nan -n ^" + name + "$")
    assert (f"{name}:0" in found) == bool(counts and any(counts))


def test_everything_can_be_written_and_read_back(tmp_path):
    tensors = {name: make() for name, make in EVERYTHING.items() if name != "nested"}
    dump = dump_of(**tensors)
    write_run_folder(dump, tmp_path / "run")
    again = open_dump(tmp_path / "run")
    assert not [line for line in again.warnings if "has no value" in line]
    for datum in dump.data():
        value, (stored,) = dump.value(datum), again.by_tensor(datum.tensor_name)
        if isinstance(value, np.ndarray):
            back = again.value(stored)
            assert back.dtype == value.dtype
            assert back.tobytes() == value.tobytes()


def test_device_tensors_come_to_the_host():
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    tensor = torch.tensor(NUMBERS, device="cuda").bfloat16()
    np.testing.assert_array_equal(to_numpy(tensor), to_numpy(tensor.cpu()))
    assert describe(tensor) == describe(tensor.cpu())
