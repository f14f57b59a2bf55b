"""Reasons of ops that compute several things inside: norms, losses, decompositions, optimizers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from tfdbg_cli.common.arrays import Array, np
from tfdbg_cli.common.node_words import ARGUMENT, WRITES
from tfdbg_cli.dumps.graph import Node, node_name_of
from tfdbg_cli.filters.causes.patterns import is_of_negative_determinant, number_of
from tfdbg_cli.filters.causes.rules import CLOSE, MOST_OF_MATRIX, places_of
from tfdbg_cli.filters.lineage import TensorLineage, floats, value_of
from tfdbg_cli.filters.magnitude import largest_number

__all__ = ["WholeOp", "inside"]

# What PyTorch ignores where a program says nothing else.
_IGNORED = -100


class WholeOp(NamedTuple):
    """An op that has made something bad.

    Attributes:
        lineage: of the dump.
        node: of the op.
        slot: which output is bad.
        made: that.
        given: what it was given, as far as that is known.
    """

    lineage: TensorLineage
    node: Node
    slot: int
    made: Array
    given: Sequence[Array | None]

    def first(self) -> Array | None:
        """The first input, if it is known and finite."""
        x = self.given[0] if self.given else None
        return x if x is not None and x.size and np.isfinite(x).all() else None


#: The kind of a reason and its text.
_Reason = tuple[str, str]


def inside(op: WholeOp) -> _Reason | None:
    """What became of finite inputs inside of an op that computes several things.

    Args:
        op: it.

    Returns:
        The kind of the reason and its text; ``None``: it isn't known.
    """
    find = _OPS.get(op.node.op_type)
    return find(op) if find is not None else None


def _squares(op: WholeOp) -> _Reason | None:
    x = op.first()
    if x is None:
        return None
    x = x.astype(np.float64)
    if op.node.op_type == "mse_loss":
        other = op.given[1] if len(op.given) > 1 else None
        if other is None:
            return None
        x = x - other.astype(np.float64)
    else:
        x = x - x.mean()
    largest = largest_number("float64" if op.made.dtype == np.float64 else "float32")
    if largest is None or float(np.square(x).max()) * x.size <= largest:
        return None
    top = f"numbers up to {np.abs(x).max():.5g}"
    name = op.node.op_type
    return (
        "overflow",
        f"squares of {top} leave float32 inside of {name}: its limit is {largest:.5g}",
    )


def _running(op: WholeOp) -> _Reason | None:
    """Of a batch norm, which is given the variance last, if it doesn't compute it itself."""
    found = _squares(op)
    variance = op.given[-1] if len(op.given) > 2 else None
    if found is not None or op.first() is None or variance is None or op.made.ndim < 2:
        return found
    channels = -1 if op.node.attributes.get("data_format", "").endswith("C") else 1
    made = np.moveaxis(op.made, channels, 0).reshape(op.made.shape[channels], -1)
    if variance.shape != made.shape[:1]:
        return None
    bad = np.asarray(~np.isfinite(made).all(1))
    if not np.isnan(made[bad]).all() or not (variance[bad] < 0).all():
        return None
    least = f"the smallest is {variance[bad].min():.5g}"
    return "variance", f"batch norm takes the root of a negative variance{places_of(bad)}: {least}"


def _fused_norm(op: WholeOp) -> _Reason | None:
    """Of a batch norm that says whether it computes the variance itself."""
    return _squares(op) if op.node.attributes.get("is_training") == "True" else _running(op)


def _too_long(op: WholeOp) -> _Reason | None:
    """Of CTC, which needs a step for each label, and one for the blank between equal ones."""
    by_name = op.lineage.dump.by_tensor
    found = [value_of(each) for name in op.node.inputs[1:4] for each in by_name(name)[:1]]
    told = [op.node.attributes.get(f"{ARGUMENT}{name}", "") for name in _LENGTHS]
    found += [[int(each) for each in re.findall(r"\d+", text)] for text in told if text]
    bad = np.isposinf(op.made)
    if op.slot or not bad.any() or [np.shape(each) for each in found[1:]] != [bad.shape] * 2:
        return None
    labels, steps, counts = (np.asarray(each) for each in found)
    ends = np.cumsum(counts)
    rows = [
        labels[at, :count] if labels.ndim > 1 else labels[ends[at] - count : ends[at]]
        for at, count in enumerate(counts)
    ]
    needs = np.array([len(row) + np.count_nonzero(row[1:] == row[:-1]) for row in rows])
    if not (needs[bad] > steps[bad]).all():
        return None
    first = f"it needs {needs[bad][0]} steps, and its input has {steps[bad][0]}"
    return "ctc", f"a target is too long for its input{places_of(bad)}: {first}"


def _labels(op: WholeOp) -> _Reason | None:
    dump, node = op.lineage.dump, op.node
    weights = [floats(each) for each in dump.by_tensor(f"{node.name}:1")]
    is_of_none = any(each is not None and not each.any() for each in weights)
    if not is_of_none and len(node.inputs) > 1:
        labels = [value_of(each) for each in dump.by_tensor(node.inputs[1])]
        told = [int(each) for each in node.attributes.values() if re.fullmatch(r"-\d+", each)]
        ignored = (*told, _IGNORED)[0]
        is_of_none = any(
            isinstance(each, np.ndarray) and (each == ignored).all() for each in labels
        )
    text = "the mean over labels that are all ignored, or of weight 0"
    return ("nothing", text) if is_of_none else None


def _outside(op: WholeOp) -> _Reason | None:
    """Of JAX's ``gather``, which fills what is outside of the array with nan, if it is told to."""
    told = op.node.attributes
    axes = re.search(r"start_index_map=\(([\d, ]*)\)", told.get("dimension_numbers", ""))
    sizes = [int(each) for each in re.findall(r"\d+", told.get("slice_sizes", ""))]
    if axes is None or not told.get("mode", "").endswith("FILL_OR_DROP") or len(op.given) < 2:
        return None
    x, indices = op.given[:2]
    if x is None or indices is None or len(sizes) != x.ndim or not indices.ndim:
        return None
    for at, axis in enumerate(map(int, re.findall(r"\d+", axes[1]))):
        found = indices[..., at]
        bad = found[(found < 0) | (found > x.shape[axis] - sizes[axis])]
        if bad.size:
            size, first = x.shape[axis], int(bad[0])
            where = f"outside of axis {axis}, which has {size} elements"
            if bad.size == 1:
                return "index", f"index {first} is {where}: JAX gives nan there"
            return (
                "index",
                f"{bad.size} indices are {where}, the first {first}: JAX gives nan there",
            )
    return None


def _saturated(op: WholeOp) -> _Reason | None:
    p = op.given[1] if len(op.given) > 1 else None
    if p is None or p.shape != op.made.shape:
        return None
    if not np.isin(p[~np.isfinite(op.made)], (0, 1)).all():
        return None
    return "log", "the gradient of binary cross entropy at a probability of exactly 0 or 1"


def _weight_norm(op: WholeOp) -> _Reason | None:
    v = op.given[0] if op.given else None
    if v is None or v.shape != op.made.shape or v[~np.isfinite(op.made)].any():
        return None
    return "norm", "the norm of a zero vector, by which weight_norm divides"


def _matrices(op: WholeOp) -> Array | None:
    """The matrices that an op was given; ``None``: they aren't known, or are too large."""
    x = op.first()
    if x is None or x.ndim < 2 or x.shape[-1] != x.shape[-2] or x.size > MOST_OF_MATRIX:
        return None
    return x.astype(np.float64)


def _cholesky(op: WholeOp) -> _Reason | None:
    x = _matrices(op)
    if x is None or x.shape != op.made.shape:
        return None
    bad = np.asarray(~np.isfinite(op.made).all((-2, -1)))
    values = np.linalg.eigvalsh(x[bad])  # of the lower half, which is what the op reads
    if not (values[:, 0] <= np.abs(values).max(-1) * CLOSE).all():
        return None
    text = f"Cholesky of a matrix that isn't positive definite{places_of(bad)}"
    return "matrix", f"{text}: its smallest eigenvalue is {values[0, 0]:.3g}"


def _singular(name: str, whole: bool) -> Callable[[WholeOp], _Reason | None]:
    """A function that has no value of a matrix that is singular.

    Args:
        name: of it.
        whole: it gives a matrix or a vector for each matrix, not a number.
    """

    def find(op: WholeOp) -> _Reason | None:
        x = _matrices(op)
        if x is None:
            return None
        parts = tuple(range(x.ndim - 2, op.made.ndim))
        bad = np.asarray(~np.isfinite(op.made).all(parts) if whole else np.isneginf(op.made))
        if x.shape[:-2] != bad.shape or not bad.any():
            return None
        values = np.linalg.svd(x[bad], compute_uv=False)
        if not (values[:, -1] <= values[:, 0] * CLOSE).all():
            return None
        return "matrix", f"the {name} of a singular matrix{places_of(bad)}"

    return find


def _negative_determinant(op: WholeOp) -> _Reason | None:
    """Of ``logdet``, or of its choice between nan and a logarithm, which isn't nan itself."""
    graph, bad, x = op.lineage.graph, np.isnan(op.made), _matrices(op)
    if op.node.op_type == "logdet":
        if x is None or x.shape[:-2] != bad.shape:
            return None
        is_known = bool((np.linalg.slogdet(x[bad])[0] < 0).all())
    else:
        is_known = graph is not None and is_of_negative_determinant(graph.nodes, op.node)
    if not is_known or not bad.any():
        return None
    return "determinant", f"the logarithm of a negative determinant{places_of(bad)}"


def _determinant(op: WholeOp) -> _Reason | None:
    return _LOG_OF_DETERMINANT(op) or _negative_determinant(op)


def _triangular(op: WholeOp) -> _Reason | None:
    """Of a system of equations, or of the parts that LU has made of its matrix."""
    x = _matrices(op)
    is_unit = any(
        "unit" in name and value.lower() in ("true", "1")
        for name, value in op.node.attributes.items()
    )
    if x is None or is_unit or op.made.shape[: x.ndim - 2] != x.shape[:-2]:
        return None
    bad = np.asarray(~np.isfinite(op.made).all(tuple(range(x.ndim - 2, op.made.ndim))))
    has_zero = (np.diagonal(x, axis1=-2, axis2=-1) == 0).any(-1)
    if not has_zero[bad].all():
        return None
    return "matrix", f"a division by a 0 on the diagonal: the matrix is singular{places_of(bad)}"


def _by_lu(op: WholeOp) -> _Reason | None:
    """Of a system of equations whose op is given the parts as well, as JAX solves and inverts."""
    nodes = op.lineage.graph.nodes if op.lineage.graph is not None else {}
    makers = (nodes.get(node_name_of(each)) for each in op.node.inputs)
    at = next((at for at, each in enumerate(makers) if each and each.op_type == "lu"), None)
    return _triangular(op._replace(given=op.given[at:])) if at is not None else None


def _whole_step(op: WholeOp) -> _Reason | None:
    """Of an optimizer's step in one op, which is given the parameters, then their gradients."""
    written = op.node.attributes.get(WRITES, "").split(", ")
    count = next((at for at, each in enumerate(op.node.inputs) if each not in written), 0)
    rate, eps, decay = (number_of(op.node, f"{ARGUMENT}{name}") for name in _STEP_NUMBERS)
    if rate is not None and not np.isfinite(rate):
        return "number", f"the learning rate is {rate:g}"
    gradient = op.given[count + op.slot] if op.slot < count < len(op.given) - op.slot else None
    bad = ~np.isfinite(op.made)
    if eps != 0 or gradient is None or gradient.shape != bad.shape:
        return None
    # What decays is in the gradient, but for AdamW.
    is_zero = not gradient[bad].any() and not (decay and "adamw" not in op.node.op_type)
    if not is_zero or not np.isnan(op.made[bad]).all():
        return None
    return "eps", f"0 / 0{places_of(bad)}: the gradient is 0 there, and eps is 0"


_LOG_OF_DETERMINANT = _singular("logarithm of the determinant", whole=False)
_LENGTHS = ("input_lengths", "target_lengths")
_STEP_NUMBERS = ("lr", "eps", "weight_decay")
_OPS: Mapping[str, Callable[[WholeOp], _Reason | None]] = {
    **dict.fromkeys(
        (
            *("native_layer_norm", "native_group_norm", "mse_loss", "instance_norm"),
            *("_native_batch_norm_legit", "var", "std", "var_mean", "std_mean", "layer_norm"),
            "group_norm",
        ),
        _squares,
    ),
    **dict.fromkeys(
        (
            *("native_batch_norm", "batch_norm", "_native_batch_norm_legit_no_training"),
            "BatchNormalization",
        ),
        _running,
    ),
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), _fused_norm),
    **dict.fromkeys(("_ctc_loss", "ctc_loss"), _too_long),
    **dict.fromkeys(
        (
            *("nll_loss_forward", "nll_loss2d_forward", "nll_loss", "nll_loss2d", "nll_loss_nd"),
            "cross_entropy_loss",
        ),
        _labels,
    ),
    "gather": _outside,
    "_weight_norm_interface": _weight_norm,
    "binary_cross_entropy_backward": _saturated,
    "BinaryCrossEntropyBackward0": _saturated,
    **dict.fromkeys(("cholesky", "Cholesky"), _cholesky),
    **dict.fromkeys(
        ("_linalg_slogdet", "linalg_slogdet", "LogMatrixDeterminant", "slogdet"),
        _LOG_OF_DETERMINANT,
    ),
    "logdet": _determinant,
    "where": _negative_determinant,
    "linalg_inv_ex": _singular("inverse", whole=True),
    **dict.fromkeys(
        ("_linalg_solve_ex", "linalg_solve_ex"),
        _singular("solution of a system of equations", whole=True),
    ),
    **dict.fromkeys(
        (
            *("linalg_lu_solve", "linalg_solve_triangular", "lu_solve", "triangular_solve"),
            "MatrixTriangularSolve",
        ),
        _triangular,
    ),
    "custom_linear_solve": _by_lu,
    **dict.fromkeys(
        ("_fused_adagrad_", "_fused_adam_", "_fused_adamw_", "_fused_sgd_"), _whole_step
    ),
}
