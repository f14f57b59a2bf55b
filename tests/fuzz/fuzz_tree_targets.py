"""Targets: what many dumps bring with them: listings, indexes, comparisons; models and inputs."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import json
import os
import shutil
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from fuzz_dump_targets import _run_folder, _scratch
from fuzz_kit import BrokenPromiseError, Target, confined, memory_folder, shown
from fuzz_samples import files_of, small_dump, write_small_folder

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.comparing.alignment import align, read_map
from tfdbg_cli.comparing.bars import Bars, read_rules
from tfdbg_cli.comparing.comparison import Comparison
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.dumps.remote.shadow import Shadow
from tfdbg_cli.front.trees import compare_main, scan_main
from tfdbg_cli.scanning.tree import find_folders
from tfdbg_cli.tensors.files.loading import open_arrays

__all__ = ["LEFT_OUT", "TARGETS"]

# Indexes beside dumps.


@functools.cache
def _tree() -> Path:
    """Two trees with a dump each, and what scans of them have written."""
    root = Path(memory_folder(), "trees")
    for name in ("one", "other"):
        (root / name).mkdir(parents=True)
        write_small_folder(root / name / "run")
    _told(scan_main, [str(root / "one")])
    _told(compare_main, [str(root / "one"), str(root / "other")])
    return root


def _told(main: Any, arguments: list[str]) -> list[str]:
    """What it prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        main([*arguments, "--executor", "threads", "--jobs", "1"])
    return [*out.getvalue().splitlines(), *err.getvalue().splitlines()]


def _read_index(data: bytes) -> None:
    """An index that lies in a tree: what is told of it is the truth, or that it is none."""
    root = _tree()
    mains = {"scan": scan_main, "compare": compare_main}
    name = "compare" if data[:1] > b"a" else "scan"
    arguments = [str(root / "one"), *([str(root / "other")] if name == "compare" else [])]
    path = root / "one" / f"tfdbg-{name}.jsonl"
    whole = path.read_bytes()
    truth = _told(mains[name], arguments)
    try:
        path.write_bytes(data[1:])
        with confined(root):
            said = _told(mains[name], arguments)
    finally:
        path.write_bytes(whole)
        path.with_name(f"{path.name}.before").unlink(missing_ok=True)
    shown(*said)
    # A line without a checksum may say something else; no damage makes one of it.
    if said != truth and "is not an index" not in said[0] and b'"crc32"' in data:
        lines = [json.loads(line) for line in data[1:].splitlines() if _is_json(line)]
        if not any(isinstance(line, dict) and "crc32" not in line for line in lines):
            raise BrokenPromiseError(f"{said} is told in place of {truth}")


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _index_seeds() -> list[bytes]:
    one = _tree() / "one"
    found = []
    for mark, name in ((b"a", "scan"), (b"b", "compare")):
        head, *lines = (one / f"tfdbg-{name}.jsonl").read_bytes().splitlines(keepends=True)
        bare = [json.dumps(_without(line)).encode() + b"\n" for line in lines]
        found += [mark + b"".join([head, *each]) for each in (lines, bare, [*bare, *lines])]
    return found


def _without(line: bytes) -> Any:
    return {name: value for name, value in json.loads(line or b"{}").items() if name != "crc32"}


# Listings of object stores.

_listed: list[tuple[str, int]] = []


@functools.cache
def _register() -> None:
    import fsspec

    class Listed(fsspec.spec.AbstractFileSystem):  # type: ignore[misc, name-defined]
        protocol = "listed"
        cachable = False

        def find(self, path: str, **_: Any) -> dict[str, Any]:
            root = self._strip_protocol(path)
            return {f"{root}/{name}": {"size": size} for name, size in _listed}

        def isdir(self, path: str) -> bool:
            return True

        def cat_file(self, path: str, **_: Any) -> bytes:
            return b"{}"

    fsspec.register_implementation("listed", Listed, clobber=True)


@contextlib.contextmanager
def _removed_later() -> Iterator[None]:
    """Folders are removed once nobody is confined: by names in open folders, which look outside."""
    later: list[str] = []
    try:
        with mock.patch("shutil.rmtree", lambda path, **_: later.append(path)):
            yield
    finally:
        for path in later:
            shutil.rmtree(path)


def _read_listing(data: bytes) -> None:
    """An address in the first line, then names, each with its size behind a tab."""
    _register()
    # Half a character is what some servers may say, too.
    text = data.decode("utf-8", "replace").replace("\ufffe", "\ud800")
    address, *lines = text.split("\n")
    _listed[:] = []
    for line in lines[:50]:
        name, _, size = line.partition("\t")
        _listed.append((name, int(size) if size.lstrip("-").isdecimal() and len(size) < 18 else 1))
    address = f"listed://{address}"
    with Shadow("listed://place", keeps=False) as first:
        place = Path(first).parents[1]
    others = {*place.iterdir()}  # of tests before, in the same process
    with _removed_later(), confined(place):
        for folder in find_folders(address):
            shown(repr(folder.path)[1:-1])
            if ".." in folder.path.split("/"):
                raise BrokenPromiseError(f"a dump at {folder.path!r}")
        with contextlib.suppress(UserError), Shadow(address, keeps=True) as copy:
            new = (each for each in place.iterdir() if each not in others)
            for path in (inner for each in new for inner in (each, *each.rglob("*"))):
                if not os.path.realpath(path).startswith(str(Path(copy).parent)):
                    raise BrokenPromiseError(f"{path} is outside of {copy}")
            open_dump(copy, validate=False).data()
    if left := {*place.iterdir()} - others:
        raise BrokenPromiseError(f"left behind: {left}")


# Comparisons.


def _compared(folder: str) -> None:
    """A damaged folder beside the run that it was, and the other way round."""
    truth = small_dump()
    dump = open_dump(folder)
    for one, other in ((dump, truth), (truth, dump)):
        comparison = Comparison(one, other, align(one, other), Bars())
        row = comparison.first_apart()
        if row is not None:
            shown(row.said, row.gap.note)
        for each in comparison.rows():
            str(each.gap)


def _comparison_seeds() -> list[bytes]:
    folder = _scratch("run folder", write_small_folder)
    files = [Path(folder, name).read_bytes() for name in files_of(folder)]
    found = [bytes([number]) + content for number, content in enumerate(files)]
    return [each for each in found if len(each) < 4000]


@functools.cache
def _typed() -> Path:
    return Path(memory_folder(), "typed")


def _read_typed(data: bytes) -> None:
    """A file of ``--rules`` or ``--map``."""
    path = _typed()
    path.write_bytes(data[1:])
    # Python itself warns of what may mean something else in a later version.
    with confined(path.parent), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if data[:1] > b"a":
            text_of_node = "encoder.1/x"
            for pattern, name in read_map(str(path)):
                if match := pattern.fullmatch(text_of_node):
                    assert isinstance(match.expand(name), str)
        else:
            for rule in read_rules(str(path)):
                assert rule.rtol is None or isinstance(rule.rtol, float)


# Models.


def _read_model(data: bytes) -> None:
    """A model, as the graph of a run knows it."""
    from tfdbg_cli.engines.kit.stacks import Stack
    from tfdbg_cli.engines.onnx.graph import nodes_of
    from tfdbg_cli.engines.onnx.model import read_model

    folder = os.path.dirname(_typed())
    with confined(folder):
        model = read_model(data)
        for node in nodes_of(model, Stack(())):
            assert isinstance(node.name, str) and isinstance(node.op_type, str)
            for key, text in node.attributes.items():
                assert isinstance(key, str) and isinstance(text, str)
            assert node.frames is None or all(frame.line >= 0 for frame in node.frames)
        for weight in model.weights.values():
            with contextlib.suppress(UserError):
                weight.load()
    model.node_of_error(RuntimeError(data.decode("utf-8", "replace")))


def _model_seeds() -> Iterator[bytes]:
    from onnx import parser

    head = '<ir_version: 8, opset_import: ["" : 17]>\n'
    for text in (
        "g (float[2] x) => (float[2] y) <float[2] w = {1, 2}> { [n] y = Add(x, w) }",
        "g (float[N] x, bool b) => (float[N] y) { y = If (b) <then_branch = t () => (float[N] u)"
        " { u = Log(x) }, else_branch = e () => (float[N] v) { v = Neg(x) }> }",
        "g (float[2] x) => (float[2] y) { c = Constant <value = float[2] {1, 2}> () y = Mul(x, c)}",
    ):
        yield parser.parse_model(head + text).SerializeToString()


# Inputs of a model.


def _read_arrays(data: bytes) -> None:
    """A file of ``--inputs``: what it says of its arrays, then their values."""
    path = _typed()
    path.write_bytes(data)
    with confined(path.parent), open_arrays(str(path)) as file:
        for name in ("",) if file.names is None else file.names:
            header = file.header(name)
            value = file.load(name)
            assert (value.dtype, value.shape, value.nbytes) == header


def _array_seeds() -> Iterator[bytes]:
    values = {
        "x": np.arange(6, dtype="f4").reshape(2, 3),
        "w/b": np.array(["ab", ""]),
        "": np.ones(()),
    }
    for save in (np.savez, np.savez_compressed):
        file = io.BytesIO()
        save(file, **values)
        yield file.getvalue()
    for version in ((1, 0), (2, 0), (3, 0)):
        file = io.BytesIO()
        np.lib.format.write_array(file, np.asfortranarray(values["x"]), version)
        yield file.getvalue()


def _is_there(*names: str) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in names)


def _targets() -> Iterable[Target]:
    yield Target(
        "index",
        _read_index,
        _index_seeds,
        (b'"passed": ', b'"first": []', b'"problems": ', b'"state": ""', b',"crc32":"', b"\\u001b"),
        longest=3000,
        few=25,
    )
    if _is_there("fsspec"):
        yield Target(
            "listing",
            _read_listing,
            lambda: [
                b"b/tree\nrun/run.json\t9\nrun/tensors.jsonl\t3\nother\t1",
                b"b/..\n../x\t1\na/../b\t-1\nx\t1\nx/y\t2",
                b"z/\nrun.json\t2\na//b\t1\n/etc/x\t4\ntensors.jsonl\t0",
            ],
            (
                b"/..",
                b"../",
                b"\n",
                b"\t",
                b"\0",
                b"//",
                b"run.json",
                b"a/" * 300,
                "\ufffe".encode(),
            ),
            few=60,
        )
    yield Target(
        "compared",
        lambda data: _run_folder(data[:1].replace(b"\xff", b"\0") + data[1:], _compared),
        _comparison_seeds,
        (b"nan", b"\x7f\xf0", b'"digest"', b"1e400", b"[]", b'"shape":[', b"-1"),
        few=60,
    )
    yield Target(
        "typed",
        _read_typed,
        lambda: [
            b"aMatMul float16 rtol=1e-2 atol=1e-5 share=0.001 # why\n.* .* rtol=nan",
            b"bencoder\\.(\\d+)/(.*) -> enc_\\1/\\2\n# x\n(?P<a>x) -> \\g<a>",
        ],
        (b"rtol=", b"share=", b" -> ", b"\\1", b"\\g<", b"(" * 150, b"1e999", b"#"),
    )
    yield Target(
        "arrays",
        _read_arrays,
        _array_seeds,
        (
            b"'shape': (",
            b"'descr': ",
            b"'<f4'",
            b"'|O'",
            b"'<U9999999'",
            b"True",
            b"PK\x01\x02",
            b"PK\x05\x06",
        ),
        few=1000,
    )
    if _is_there("onnx"):
        yield Target(
            "model",
            _read_model,
            _model_seeds,
            (b"stack_trace", b'File "', b"location", b"../", b"\x70\x01", b"\x6a\x02", b"x:0"),
            few=250,
        )


TARGETS = [*_targets()]
#: Those that need what isn't installed.
LEFT_OUT = {"listing", "model"} - {target.name for target in TARGETS}
