"""The operators that make nothing bad of what is clean, so that nobody looks at what they give."""

from __future__ import annotations

import importlib

import numpy as np
import torch
from torch_kit import capture

from tfdbg_cli.common.traits import op_roles
from tfdbg_cli.engines.kit.op_facts import Op, Value
from tfdbg_cli.engines.torch.record.op_facts import FACTS
from tfdbg_cli.engines.torch.runs.exact_check import Verdicts
from tfdbg_cli.testing.op_facts_contract import (
    Call,
    ComputedOp,
    Operand,
    OpFactsContract,
    Unsupported,
)

torch.set_num_threads(1)
X, ROW, LINE = Operand((3, 4)), Operand((1, 4)), Operand((4,))
INDEX, MASK = np.array([0, 2, 1, 1]), np.arange(12).reshape(3, 4) % 3 == 0


def of(*operands, **keywords):
    """A call; operands are arrays to be filled, indices, or as they are."""
    flat = [each for one in operands for each in (one if isinstance(one, list) else [one])]
    return Call(
        tuple(each for each in flat if isinstance(each, Operand | np.ndarray)), (operands, keywords)
    )


#: Overload -> its calls, where it isn't one of one array.
CALLS = {
    "_safe_softmax": [of(X, 1), of(X, 0), of(Operand((3, 1)), 1)],
    "_softmax": [of(X, 1, False), of(X, 0, False), of(Operand((3, 1)), 1, False)],
    **{key: [of(X, [1]), of(X, [0, 1], True)] for key in ("amax", "amin")},
    "bernoulli": [of(np.full((3, 4), 0.5, dtype)) for dtype in ("float32", "float64")],
    "bernoulli.p": [of(X, 0.5)],
    "bernoulli_.Tensor": [of(X, np.full((3, 4), 0.5, "float32"))],
    "bernoulli_.float": [of(X, 0.5)],
    "cat": [of([X, X]), of([X, ROW]), of([Operand((3,), "int64"), LINE])],
    "stack": [of([X, X])],
    "embedding": [of(X, INDEX), of(X, INDEX, 1)],
    "expand_copy": [of(ROW, [3, 4])],
    **{key: [of(X), of(Operand((3, 1)))] for key in ("tril", "triu")},
    "flip": [of(X, [0])],
    "gather": [of(X, 0, INDEX[None].repeat(3, 0))],
    "index.Tensor": [of(X, [INDEX]), of(X, [None, INDEX])],
    "index_select": [of(X, 0, INDEX)],
    "masked_select": [of(X, MASK)],
    **{key: [of(X, 1)] for key in ("max.dim", "min.dim")},
    **{key: [of(X, [2])] for key in ("new_ones", "new_zeros")},
    "eye": [of(2)],
    **{key: [of([2])] for key in ("ones", "rand", "zeros")},
    "permute_copy": [of(X, [1, 0])],
    "repeat": [of(X, [2, 1])],
    "roll": [of(X, [1], [0])],
    "select_backward": [of(LINE, [3, 4], 0, 1)],
    "select_copy.int": [of(X, 0, 1)],
    "slice_backward": [of(X, [6, 4], 0, 0, 6, 2)],
    "slice_copy.Tensor": [of(X, 0, 1)],
    "sort.stable": [of(X, stable=True)],
    "squeeze_copy.dim": [of(ROW, 0)],
    "take": [of(X, INDEX)],
    "threshold_backward": [of(X, X, 0.0)],
    "topk": [of(X, 2)],
    "transpose_copy.int": [of(X, 0, 1)],
    "unsqueeze_copy": [of(X, 0)],
    "view_copy": [of(X, [12])],
    "where.self": [of(MASK, X, X), of(MASK, X, Operand((3, 4), "int64"))],
    **{key: [of(X, X), of(X, Operand((3, 4), "int64"))] for key in ("maximum", "minimum")},
}


def tensor_of(array):
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(array.copy())


def name_of(tensor):
    return str(tensor.dtype).removeprefix("torch.")


class TestTorchFacts(OpFactsContract):
    facts = FACTS

    def calls(self, name):
        return CALLS.get(name.removeprefix("aten::"), [of(X), of(LINE)])

    def compute(self, name, call, operands):
        plain, _, variant = name.removeprefix("aten::").partition(".")
        operator = getattr(getattr(torch.ops.aten, plain), variant or "default")
        tensors = [*map(tensor_of, operands)]
        given = iter([*tensors])
        args, keywords = call.more

        def filled(value):
            if isinstance(value, list):
                return [*map(filled, value)]
            return next(given) if isinstance(value, Operand | np.ndarray) else value

        dtypes = [*map(name_of, tensors)]
        try:
            made = operator(*map(filled, args), **keywords)
        except (RuntimeError, IndexError) as error:
            raise Unsupported from error
        outputs = made if isinstance(made, tuple) else (made,)
        op = Op(
            name,
            tuple(Value(at, dtype) for at, dtype in enumerate(dtypes)),
            tuple(Value(f"out {at}", name_of(each)) for at, each in enumerate(outputs)),
        )
        arrays = [each.to(torch.complex128).numpy() for each in outputs]
        return ComputedOp(op, range(len(tensors)), arrays)


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


def test_what_reasons_and_origins_know_of_are_operators():
    roles = op_roles("torch")
    nodes = {name for name in roles.meanings if name.endswith("Backward0")}
    known = {*roles.meanings, *roles.choosing, *roles.placing, *roles.replacing} - nodes
    importlib.import_module("torch.ao.quantization.fx._decomposed")  # registers its operators
    spaces = {name: getattr(torch.ops, name.rpartition(".")[0] or "aten") for name in known}
    assert not [name for name in sorted(known) if not hasattr(spaces[name], name.split(".")[-1])]
