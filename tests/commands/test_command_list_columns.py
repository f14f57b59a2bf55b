"""``lt``: its columns, and JSON lines."""

import json
import re

import ml_dtypes
import numpy as np
import pytest
from command_kit import Shell, roles

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dump import Datum, InconvertibleTensorProto
from tfdbg_cli.dumps.memory import MemoryDump

# -- columns


def cells(shell, command, width=80):
    """Tensor -> the texts of its other cells, of columns that hold no blanks."""
    lines = shell.lines(command, width)
    at = next(n for n, text in enumerate(lines) if "Tensor name" in text)
    return {text.split()[-1]: text.split()[:-1] for text in lines[at + 1 :]}


def test_wide_screens_show_the_numbers_too(shell):
    narrow, wide = shell.document("lt", 100), shell.document("lt", 150)
    heads = [re.split(" {1,}(?=[A-Z])", d.lines(2, 3)[0].text) for d in (narrow, wide)]
    assert heads[1] == [*heads[0][:-1], "Min", "Max", "Mean", "Tensor name"]
    again = narrow.resized(150)
    assert [line.text for line in again] == [line.text for line in wide]
    assert narrow.resized(100) is narrow
    row = next(text for text in shell.lines("lt", 150) if text.endswith(" hidden/MatMul:0"))
    assert row.split()[-4:] == ["-6", "6", "0", "hidden/MatMul:0"]


def test_names_come_before_columns_where_there_is_little_room(shell):
    heads = {
        width: next(text for text in shell.lines("lt", width) if text.endswith("Tensor name"))
        for width in (60, 100, 160)
    }
    assert heads[60].endswith("Health   Tensor name")
    assert "Shape" not in heads[60]
    assert "Shape" in heads[100]
    assert "Min" not in heads[100]
    assert "Min" in heads[160]


def test_columns_by_name_in_any_order(shell):
    found = cells(shell, "lt -n hidden|bad -o mean,op_type,health")
    assert found["hidden/Relu:0"] == ["3", "Relu", "ok"]
    assert found["bad/Log:0"] == ["1.792", "Log", "2", "-inf"]
    lines = shell.lines("lt -n hidden/ -o tensor_name,dump_size")
    assert lines[3].split() == ["Tensor", "name", "Size", "(B)"]
    assert lines[4].split() == ["hidden/weights:0", "24"]
    assert lines[3].index("Size") == lines[4].index("24") == lines[5].index("24")
    assert shell.lines("lt -o size,size,name")[2].split() == ["Size", "(B)", "Tensor", "name"]
    assert shell.lines('lt -o "size, dtype"')[2].split()[:3] == ["Size", "(B)", "Dtype"]


def test_what_a_health_cell_says():
    dump = MemoryDump()
    inf, nan = np.inf, np.nan
    values = {
        "ok": np.array([1.0, 2.0]),
        "mixed": np.array([nan, nan, nan, -inf, inf, inf, 1], ml_dtypes.bfloat16),
        "whole": np.array([1, 2]),
        "words": np.array([b"a"], object),
        "unset": InconvertibleTensorProto("not yet", initialized=False),
    }
    for number, (name, value) in enumerate(values.items()):
        dump.add(name, 0, value, timestamp=number)

    def damaged():
        raise DumpError("x.bin is damaged: it ends early.")

    dump.add_datum(Datum("lost", 0, damaged, timestamp=9))
    shell = Shell(dump)
    assert cells(shell, "lt -o health,min,max") == {
        "ok:0": ["ok", "1", "2"],
        "mixed:0": ["3", "nan", "1", "-inf", "2", "+inf", "1", "1"],
        "whole:0": ["-", "1", "2"],
        "words:0": ["-", "-", "-"],
        "unset:0": ["-", "-", "-"],
        "lost:0": ["?", "?", "?"],
    }
    document = shell.document("lt")
    assert roles(document, "nan") == ["3 nan"]
    assert roles(document, "inf") == ["1 -inf", "2 +inf"]
    assert "lost:0" in cells(shell, "lt")
    assert cells(shell, "lt -o size,dtype")["lost:0"] == ["?", "(damaged)"]


def test_numbers_are_exact_where_there_is_room():
    dump = MemoryDump()
    dump.add("small", 0, np.array([-12345678, 3]), timestamp=1)
    dump.add("huge", 0, np.array([2**63, 2**64 - 1], np.uint64), timestamp=2)
    dump.add("flags", 0, np.array([True, False, False, False]), timestamp=3)
    dump.add("floats", 0, np.array([1e-30, 123456.789]), timestamp=4)
    assert cells(Shell(dump), "lt -o min,max,mean") == {
        "small:0": ["-12345678", "3", "-6.173e+06"],
        "huge:0": ["9.223e+18", "1.845e+19", "1.384e+19"],
        "flags:0": ["False", "True", "0.25"],
        "floats:0": ["1e-30", "1.235e+05", "6.173e+04"],
    }


def test_long_cells_push_the_next_ones_and_no_further(shell):
    lines = shell.lines("lt", 100)
    place = lines[2].index("Tensor name")
    long = next(text for text in lines if text.endswith(" cplx:0"))
    assert " complex128 (2,) " in long
    assert {text.index(text.split()[-1]) for text in lines[3:] if "(#" not in text} == {place}


def test_several_devices_and_debug_ops_open_what_they_name():
    dump = MemoryDump()
    for number, device in enumerate(("CPU:0", "CPU:1")):
        for step in range(2):
            dump.add(
                "a",
                0,
                np.array([number, step]),
                timestamp=2 * number + step,
                device_name=f"/job:localhost/replica:0/task:0/device:{device}",
            )
    dump.add("a", 0, np.array([7]), timestamp=4, debug_op="DebugNanCount")
    shell = Shell(dump)
    document = shell.document("lt -o device")
    shown = [(s.text, s.link.command) for line in document for s in line.spans if s.link][2:]
    assert shown == [
        *((f"a:0 (#{n})", f"pt a:0 -n {n}") for n in range(4)),
        ("a:0:DebugNanCount (#4)", "pt a:0 -n 4"),
    ]
    values = [shell.lines(command)[-1] for _, command in shown]
    assert values == [f"array([{a}, {b}])" for a in (0, 1) for b in (0, 1)] + ["array([7])"]
    assert document.lines(3, 4)[0].text.startswith("device:CPU:0 ")


def test_filters_by_element_type(shell):
    assert shell.tensors("lt --dtype ^complex") == ["cplx:0"]
    assert shell.tensors("lt --dtype 128 -f has_inf_or_nan") == ["cplx:0"]
    assert shell.tensors("lt --dtype float32 -t Log -n bad") == ["bad/Log:0"]
    assert 'Dtype regex filter: "string"' in shell.lines("lt --dtype string")


# -- JSON lines


def test_json_has_one_object_a_tensor(shell, dump):
    found = [json.loads(text) for text in shell.lines("lt --json")]
    assert [item["tensor"] for item in found] == [d.tensor_name for d in dump.data()]
    by_name = {item["tensor"]: item for item in found}
    assert by_name["bad/Log:0"] == {
        "tensor": "bad/Log:0",
        "node": "bad/Log",
        "slot": 0,
        "debug_op": "DebugIdentity",
        "execution": 0,
        "device": "/job:localhost/replica:0/task:0/device:CPU:0",
        "time_ms": by_name["bad/Log:0"]["time_ms"],
        "op_type": "Log",
        "dtype": "float32",
        "shape": [2, 2],
        "bytes": 16,
        "health": {"nan": 0, "neg_inf": 2, "pos_inf": 0},
        "min": pytest.approx(np.log(6), rel=1e-5),
        "max": pytest.approx(np.log(6), rel=1e-5),
        "mean": pytest.approx(np.log(6), rel=1e-5),
        "error": None,
    }
    assert by_name["ints:0"]["health"] is None and by_name["ints:0"]["max"] == 22
    assert by_name["flags:0"]["min"] is False
    assert by_name["text:0"]["mean"] is None
    assert [i["execution"] for i in found if i["tensor"] == "loop/body:0"] == [0, 1, 2, 3]
    assert [i["time_ms"] for i in found] == sorted(i["time_ms"] for i in found)
    some = [json.loads(text) for text in shell.lines("lt --json -n bad -s name -r")]
    assert [item["tensor"] for item in some] == ["bad/zero:0", "bad/Mul:0", "bad/Log:0"]


def test_json_of_what_cannot_be_read():
    def damaged():
        raise DumpError("x.bin is gone.")

    dump = MemoryDump()
    dump.add_datum(Datum("a", 0, damaged, timestamp=1))
    (text,) = Shell(dump).lines("lt --json")
    found = json.loads(text)
    assert (found["error"], found["shape"], found["health"]) == ("x.bin is gone.", None, None)
