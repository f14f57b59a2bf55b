"""Dumps are read on a machine that has neither TensorFlow nor ml_dtypes nor protobuf."""

import json
import subprocess
import sys
import textwrap

import ml_dtypes
import numpy as np
import pytest
from dump_samples import ROOT, START

from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.run_folder.dump import write_run_folder
from tfdbg_cli.dumps.tfdbg_dir.writer import write_dump_directory

PROGRAM = """
    import json, sys

    class Blocker:
        def find_spec(self, name, path=None, target=None):
            if name.partition(".")[0] in ("tensorflow", "ml_dtypes", "google", "safetensors"):
                raise ImportError(name)

    sys.meta_path.insert(0, Blocker())
    sys.path.insert(0, sys.argv[1])
    from tfdbg_cli.dumps.open import open_dump
    from tfdbg_cli.dumps.run_folder.dump import write_run_folder
    from tfdbg_cli.dumps.tfdbg_dir.writer import write_dump_directory

    found = {}
    dump = open_dump(sys.argv[2])
    for datum in dump.data():
        value = datum.get_tensor()
        if hasattr(value, "tolist"):
            found.setdefault(datum.tensor_name, [datum.dtype, str(value.tolist())])
    found["nodes"] = len(dump.graph() or ())
    found["warnings"] = dump.warnings
    if len(sys.argv) > 3:
        write_run_folder(dump, sys.argv[3] + "/a")
        write_dump_directory(dump, sys.argv[3] + "/b")
    print(json.dumps(found))
"""


def read_elsewhere(*args):
    command = [sys.executable, "-c", textwrap.dedent(PROGRAM), ROOT, *args]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


SMALL = [ml_dtypes.bfloat16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn, ml_dtypes.int4]


@pytest.mark.parametrize("write", [write_run_folder, write_dump_directory])
def test_small_types_are_read_and_copied_without_ml_dtypes(write, tmp_path):
    dump = MemoryDump()
    for number, dtype in enumerate(SMALL):
        value = np.array([-2, 1.5, 0, 4]).astype(dtype)
        dump.add(f"n{number}", 0, value, timestamp=START + number)
    write(dump, tmp_path / "dump")
    first = read_elsewhere(tmp_path / "dump", tmp_path)
    assert first["warnings"] == []
    for number, dtype in enumerate(SMALL):
        values = dump.by_tensor(f"n{number}:0")[0].get_tensor()
        name = np.dtype(dtype).name
        plain = values.astype(np.int64 if name == "int4" else np.float64).tolist()
        assert first[f"n{number}:0"] == [name, str(plain)]
    for copy in ("a", "b"):
        assert read_elsewhere(tmp_path / copy) == first


@pytest.mark.tensorflow
def test_a_dump_of_tensorflow_is_read_without_it(tf_run):
    found = read_elsewhere(tf_run)
    assert found["warnings"] == []
    assert found["nodes"] > 40
    assert found["cast_bfloat16:0"] == ["bfloat16", "[[2.0, 4.0], [6.0, 0.0]]"]
    assert found["cast_float8_e4m3fn:0"] == ["float8_e4m3fn", "[[2.0, 4.0], [6.0, 0.0]]"]
    assert found["joined:0"] == ["string", "[b'abc', b'', b'\\xff\\x00z']"]
    assert found["input/x:0"] == ["float32", "[[1.0, 2.0], [3.0, -4.0]]"]
