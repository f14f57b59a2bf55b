"""The quick check by sums: overlooks nothing bad, and is not seen by the program."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch_kit import observers

from tfdbg_cli.engines.torch.runs.suspect_check import SumChecks
from tfdbg_cli.engines.torch.values.arrays import to_numpy
from tfdbg_cli.tensors.numeric import has_nonfinite

torch.set_num_threads(1)

NAN, INF = float("nan"), float("inf")
FLOAT8 = [
    name
    for name in (
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
    )
    if hasattr(torch, name)
]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
COMPLEX = ["complex32", "complex64", "complex128"]


def suspects(*tensors):
    checks = SumChecks()
    for number, tensor in enumerate(tensors):
        checks.add("op", number, tensor)
    return [slot for _, slot in checks.suspects()]


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
@pytest.mark.parametrize("name", FLOATS + COMPLEX)
def test_one_bad_element_among_many_is_seen(name, bad):
    dtype = getattr(torch, name)
    clean = torch.ones(1000).to(dtype)
    first, last = clean.clone(), clean.clone()
    first[0] = bad
    last[-1] = complex(1, bad) if dtype.is_complex else bad
    assert suspects(clean, first, clean, last, last[:-1], last[-1]) == [1, 3, 5]


@pytest.mark.parametrize("name", FLOAT8)
def test_every_code_of_float8(name):
    codes = torch.arange(256, dtype=torch.uint8)
    tensors = [code.view(getattr(torch, name)) for code in codes]
    expected = [at for at, tensor in enumerate(tensors) if has_nonfinite(to_numpy(tensor))]
    assert expected
    assert suspects(*tensors) == expected
    bad = int(expected[0])
    mixed = torch.tensor([0, 1, bad, 2, 3], dtype=torch.uint8).view(getattr(torch, name))
    assert suspects(mixed[:2], mixed, mixed[::2], mixed[:0]) == [1, 2]


@given(
    st.lists(st.floats(width=16), min_size=1, max_size=40),
    st.sampled_from(FLOATS),
)
def test_nothing_bad_is_overlooked(numbers, name):
    tensor = torch.tensor(numbers).to(getattr(torch, name))
    if has_nonfinite(to_numpy(tensor)):
        assert suspects(tensor) == [0]


def test_opposite_infinities_do_not_cancel():
    assert suspects(torch.tensor([INF, -INF]), torch.tensor([65504.0, INF]).half()) == [0, 1]


def test_finite_elements_may_be_suspected_but_are_not_bad():
    large = torch.full((10,), torch.finfo(torch.float32).max)
    assert suspects(large) == [0]
    assert not has_nonfinite(to_numpy(large))


def test_what_cannot_be_bad_costs_nothing():
    checks = SumChecks()
    for tensor in (torch.ones(3, dtype=torch.int64), torch.tensor([True]), torch.tensor(3)):
        checks.add("op", 0, tensor)
    checks.add("op", 0, torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8))
    assert not checks.totals
    assert checks.suspects() == []


def test_the_check_is_of_the_values_at_that_moment():
    checks = SumChecks()
    tensor = torch.tensor(1.0)
    checks.add("before", 0, tensor)
    tensor.fill_(NAN)
    checks.add("after", 0, tensor)
    tensor.fill_(2.0)
    assert checks.suspects() == [("after", 0)]
    assert checks.suspects() == [("after", 0)]
    assert len(checks.totals) == 2


def test_layouts_and_classes():
    dense = torch.zeros(4, 6)
    dense[1, 2] = NAN
    clean = torch.eye(4)
    sparse = [dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_bsr((2, 3))]
    assert suspects(*sparse, clean.to_sparse(), clean.to_sparse_csc()) == [0, 1, 2]
    for layout in (torch.strided, torch.jagged):
        parts = [torch.ones(1, 2), torch.full((2, 2), INF)]
        nested = torch.nested.nested_tensor(parts, layout=layout)
        fine = torch.nested.nested_tensor(parts[:1] * 2, layout=layout)
        assert suspects(fine, nested) == [1]
    assert suspects(torch.nn.Parameter(torch.tensor([NAN])), torch.tensor([NAN]).conj()) == [0, 1]
    freed = torch.full((10,), NAN)
    freed.untyped_storage().resize_(0)
    with FakeTensorMode():
        fake = torch.ones(3)
    assert suspects(freed, fake, torch.ones(2, device="meta"), torch.empty(0)) == []


def test_a_tensor_in_several_parts_is_named_once():
    bad = torch.full((1, 2), NAN)
    nested = torch.nested.nested_tensor([bad, bad], layout=torch.strided)
    assert suspects(torch.ones(1), nested) == [1]


class Broken(torch.Tensor):
    """A class whose attributes fail."""

    @staticmethod
    def __new__(cls):
        return torch.Tensor._make_wrapper_subclass(cls, (2,), dtype=torch.float32)

    def __tensor_flatten__(self):
        raise RuntimeError("not now")

    __torch_dispatch__ = classmethod(lambda cls, *args, **kwargs: 1 / 0)


def test_what_cannot_be_summed_is_a_suspect():
    assert suspects(torch.ones(1), Broken(), torch.ones(1)) == [1]


def test_the_program_sees_nothing():
    operators, functions, seen = observers()
    tensors = [
        torch.tensor([1.0, NAN]),
        torch.ones(2, requires_grad=True),
        torch.tensor([NAN]).bfloat16(),
        torch.tensor([NAN]).to(torch.float8_e5m2),
        torch.tensor([NAN]).to_sparse(),
        torch.nested.nested_tensor([torch.tensor([NAN])], layout=torch.jagged),
    ]
    checks = SumChecks()
    state = torch.random.get_rng_state()
    number = torch._C._autograd._get_sequence_nr()
    with operators, torch.autocast("cpu"):
        for slot, tensor in enumerate(tensors):
            checks.add("op", slot, tensor)
        found = checks.suspects()
    with functions:
        for slot, tensor in enumerate(tensors):
            checks.add("again", slot, tensor)
        assert checks.suspects()[:5] == found
    assert [slot for _, slot in found] == [0, 2, 3, 4, 5]
    assert not seen
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch._C._autograd._get_sequence_nr() == number


def test_within_a_transform():
    checks = SumChecks()

    def function(x):
        checks.add("x", 0, x)
        y = (x - 1).log()
        checks.add("y", 0, y)
        return y.sum()

    torch.func.vmap(torch.func.grad(function))(torch.ones(2, 3))
    assert checks.suspects() == [("y", 0)]


def test_in_inference_mode_and_read_outside():
    checks = SumChecks()
    with torch.inference_mode():
        checks.add("a", 0, torch.tensor([NAN]))
        checks.add("b", 0, torch.ones(2))
    assert checks.suspects() == [("a", 0)]


def test_many_tensors_of_many_types_come_in_order():
    checks = SumChecks()
    rng = np.random.default_rng(0)
    expected = []
    for number in range(300):
        name = [*FLOATS, "complex64", "float8_e5m2", "int32"][number % 7]
        values = torch.tensor(rng.normal(size=3))
        is_bad = number % 11 == 0 and name != "int32"
        if is_bad:
            values[1] = NAN
            expected.append((f"op{number}", number))
        checks.add(f"op{number}", number, values.to(getattr(torch, name)))
    assert checks.suspects() == expected
