"""The operators that make nothing bad of what is clean, so that nobody looks at what they give."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch_kit import capture

from tfdbg_cli.engines.torch.record.clean_ops import CLEAN, REAL
from tfdbg_cli.engines.torch.runs.exact_check import Verdicts

torch.set_num_threads(1)
DTYPES = sorted(REAL, key=str)
_ZERO = torch.zeros((), dtype=torch.int64)


def _extreme(dtype, shape=(4, 6), seed=0):
    """Random numbers of all magnitudes, and the ends of the dtype's range."""
    info = torch.finfo(dtype)
    generator = torch.Generator().manual_seed(seed)
    exponents = torch.rand(shape, generator=generator, dtype=torch.float64) * 2 - 1
    signs = torch.randint(0, 2, shape, generator=generator) * 2 - 1
    scale = torch.log10(torch.tensor(info.max, dtype=torch.float64)) * 0.99
    found = (signs * 10 ** (exponents * scale)).to(dtype)
    ends = [info.max, info.min, info.tiny, -info.tiny, 0.0, -0.0, info.eps, 1.0]
    found.reshape(-1)[: len(ends)] = torch.tensor(ends, dtype=dtype)
    return found[:, torch.randperm(shape[1], generator=generator)]


def _calls(name, x, y, mask, index):
    """The arguments with which an operator is called; none: it isn't known here."""
    unary = [(x,), (x[:, :1],), (x[0],)]
    shaped = {
        "_softmax": [(x, 1, False), (x, 0, False), (x[:, :1], 1, False)],
        "_safe_softmax": [(x, 1), (x, 0)],
        "amax": [(x, [1]), (x, [0, 1], True)],
        "amin": [(x, [1]), (x, [0, 1], True)],
        "bernoulli": [(torch.rand(4, 6, dtype=x.dtype),)],
        "bernoulli.p": [(x, 0.5)],
        "bernoulli_.Tensor": [(x, torch.rand(4, 6))],
        "bernoulli_.float": [(x, 0.5), (torch.full_like(x, float("nan")), 0.5)],
        "cat": [([x, y],), ([x, y], 1)],
        "stack": [([x, y],)],
        "diagonal_copy": [(x,)],
        "embedding": [(x, index), (x, index, 1)],
        "expand_copy": [(x[:1], [4, 6])],
        "eye": [(3,)],
        "tril": [(x,), (x[:, :1],)],
        "triu": [(x,), (x[:, :1],)],
        "flip": [(x, [0])],
        "gather": [(x, 0, index[None].expand(4, -1))],
        "index.Tensor": [(x, [index]), (x, [None, index])],
        "index_select": [(x, 0, index)],
        "masked_select": [(x, mask)],
        "max.dim": [(x, 1)],
        "min.dim": [(x, 1)],
        "new_ones": [(x, [2])],
        "new_zeros": [(x, [2])],
        "ones": [([2],)],
        "zeros": [([2],)],
        "rand": [([5],)],
        "permute_copy": [(x, [1, 0])],
        "repeat": [(x, [2, 1])],
        "roll": [(x, [1], [0])],
        "select_backward": [(x[0], [4, 6], 0, 1)],
        "select_copy.int": [(x, 0, 1)],
        "slice_backward": [(x, [8, 6], 0, 0, 8, 2)],
        "slice_copy.Tensor": [(x, 0, 1)],
        "sort.stable": [(x,)],
        "squeeze_copy.dim": [(x[:1], 0)],
        "take": [(x, index)],
        "threshold_backward": [(x, y, 0.0)],
        "topk": [(x, 2)],
        "transpose_copy.int": [(x, 0, 1)],
        "unsqueeze_copy": [(x, 0)],
        "view_copy": [(x, [24])],
        "where.self": [(mask, x, y)],
        "maximum": [(x, y)],
        "minimum": [(x, y)],
    }
    return shaped.get(name, unary)


@pytest.mark.parametrize("overload", sorted(CLEAN))
def test_what_it_makes_of_clean_tensors_is_clean(overload):
    name = overload.removeprefix("aten::")
    plain, _, variant = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, plain), variant or "default")
    keywords = {"stable": True} if name == "sort.stable" else {}
    mask = torch.arange(24).reshape(4, 6) % 3 == 0
    index = torch.tensor([0, 3, 1, 1])
    looked_at = 0
    for dtype, seed in itertools.product(DTYPES, range(8)):
        x, y = _extreme(dtype, seed=seed), _extreme(dtype, seed=seed + 100)
        for args in _calls(name, x, y, mask, index):
            result = operator(
                *(a.clone() if isinstance(a, torch.Tensor) else a for a in args), **keywords
            )
            for out in result if isinstance(result, tuple) else (result,):
                if out.dtype in REAL:
                    looked_at += 1
                    assert torch.isfinite(out).all(), (overload, dtype, seed)
    assert looked_at >= 8 * len(DTYPES)


def test_what_came_in_bad_is_looked_at_all_the_same():
    verdicts = Verdicts()
    with capture(hold=False, check=verdicts) as run:
        a = torch.tensor([1.0, -1.0]).log()  # the first bad one
        a.relu().tanh()
        torch.cat([a, a])
    assert [record.name for record, _ in verdicts.bad()] == ["log", "relu", "tanh", "cat"]
    assert run.dump is not None


def test_parameters_and_memory_without_values_vouch_for_nothing():
    table = torch.nn.Embedding.from_pretrained(torch.tensor([[float("nan")], [1.0]]))
    empty = torch.full((3,), float("nan"))
    verdicts = Verdicts()
    with capture(hold=False, check=verdicts):
        table(torch.tensor([0]))
        torch.empty_like(empty).copy_(empty)
    names = [record.name for record, _ in verdicts.bad()]
    assert names == ["embedding", "input/empty", "copy_"]


def test_only_what_may_be_bad_is_summed():
    seen = []

    class Counting(Verdicts):
        def add(self, key, slot, tensor):
            seen.append(key)
            super().add(key, slot, tensor)

    with capture(hold=False, check=Counting()):
        x = torch.ones(3).mul(2)
        x.relu().clone().tanh().neg().mul(2)
    assert [record.name for record in seen] == ["mul", "mul_1"]
