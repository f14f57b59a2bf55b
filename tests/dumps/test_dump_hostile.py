"""Dumps as an attacker or a broken disk makes them: each part is damaged on its own."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from directory_kit import CPU0
from dump_reading import read_all, service_over
from dump_samples import ROOT, make_dump
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from samples import IS_LONG

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.open import open_dump
from tfdbg_cli.dumps.profile import Profile, ProfileEntry
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump, RunFolderWriter
from tfdbg_cli.dumps.tfdbg_dir.names import device_name_to_device_path
from tfdbg_cli.dumps.tfdbg_dir.writer import write_dump_directory

#: How many damaged dumps each of the tests looks through, with all commands.
EXAMPLES = 120 if IS_LONG else 40
COMMANDS = [
    "lt",
    "lt -s size",
    "lt -f has_inf_or_nan",
    "lt -o time,size,op_type,dtype,shape,min,device",
    "lt --json",
    "ri",
    "err",
    "pt h/MatMul",
    "pt loop -n 3",
    "pt words:0",
    "pf x:0",
    "ni -a -d -t h/Relu",
    "li -r -t h/Relu",
    "li --to-first-bad h/Relu",
    "li -r h/Relu -o op_type,edge,dtype,shape,size,health,min,time,device,phase,module",
    "lo -r x",
    "lo x -s health",
    "why",
    "ls",
    "ps /home/user/train.py",
]


def look_through(folder):
    """Everything that somebody may do with a dump; what is wrong is a warning or a DumpError."""
    dump = read_all(folder)
    service = service_over(dump)
    for command in COMMANDS:
        reply = service.run(command)
        if reply.document is not None:
            assert isinstance(reply.document.text, str)
        else:
            assert "Error in the debugger" not in reply.message.text, reply.details
    assert all(line.isprintable() or line for line in dump.warnings)
    return dump


def make_folder(path):
    writer = RunFolderWriter(path)
    dump = make_dump()
    writer.add_graph(dump.graph(), dump.sources())
    for datum in dump.data():
        writer.add(datum, op_type=dump.op_type(datum.node_name))
    entry = ProfileEntry("x", "Neg", 1.0, 2.0, 3.0)
    writer.add_profile(Profile([(CPU0, [entry])]))
    writer.finish(dump.run_info(), ["a warning"])


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    """A folder with every kind of file, once."""
    path = tmp_path_factory.mktemp("good") / "run"
    make_folder(path)
    assert look_through(path).warnings == ["a warning"]
    return path


@pytest.fixture(scope="module")
def good_directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "run"
    write_dump_directory(make_dump(), path)
    return path


def files_of(folder):
    return sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file())


#: What stands in the place of a field.
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from([-1, 0, 1, 1 << 62, 1 << 64, -(1 << 70), 10**300, 10**4000]),
    st.sampled_from([float("inf"), float("nan"), -0.5, 1e308]),
    st.sampled_from(["", "x", "\0", "\ud800", "..", "a/b", "\x1b[2J", "inf", "y" * 300]),
    st.lists(st.sampled_from([-1, 2, 1 << 61, "a", None, float("inf")]), max_size=3),
    st.just({}),
    st.just({"base64": "%%"}),
    st.just(json.loads("[" * 900 + "]" * 900)),
)


def places_of(found, path=()):
    """The ways to all values in a JSON document."""
    yield path
    pairs = ()
    if isinstance(found, dict | list):
        pairs = found.items() if isinstance(found, dict) else enumerate(found)
    for key, value in pairs:
        yield from places_of(value, (*path, key))


def replaced(found, path, value):
    if not path:
        return value
    copied = dict(found) if isinstance(found, dict) else list(found)
    copied[path[0]] = replaced(copied[path[0]], path[1:], value)
    return copied


@pytest.mark.slow
@settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_field_of_the_json_may_be_anything(good, tmp_path_factory, data):
    folder = shutil.copytree(good, tmp_path_factory.mktemp("json") / "run")
    name = data.draw(
        st.sampled_from([f for f in files_of(good) if f.suffix in (".json", ".jsonl")])
    )
    lines = (folder / name).read_text().splitlines()
    is_lines = name.suffix == ".jsonl"
    number = data.draw(st.integers(0, len(lines) - 1)) if is_lines else 0
    text = lines[number] if is_lines else "\n".join(lines)
    found = json.loads(text)
    path = data.draw(st.sampled_from(list(places_of(found))))
    changed = json.dumps(replaced(found, path, data.draw(JUNK)))
    changed = changed.replace("Infinity", "1e999")
    lines = [*lines[:number], changed, *lines[number + 1 :]] if is_lines else [changed]
    (folder / name).write_text("\n".join(lines) + "\n")
    dump = look_through(folder)
    # One bad line costs that line.
    assert len(dump.data()) >= 17
    assert name.name == "run.json" or len(dump.run_info().fetches) == 2


def damage(data, content):
    """Some bytes, changed, cut out, put in or repeated."""
    at = data.draw(st.integers(0, max(len(content) - 1, 0)))
    how = data.draw(st.sampled_from(["flip", "cut", "end", "insert", "fill", "nest"]))
    if how == "flip":
        return content[:at] + bytes([data.draw(st.integers(0, 255))]) + content[at + 1 :]
    if how == "cut":
        return content[:at] + content[at + data.draw(st.integers(1, 40)) :]
    if how == "end":
        return content[:at]
    if how == "insert":
        return content[:at] + data.draw(st.binary(min_size=1, max_size=12)) + content[at:]
    if how == "nest":
        return content[:at] + b"[" * 20_000 + content[at:]
    return content[:at] + b"\xff" * 11 + content[at + 11 :]


@pytest.mark.slow
@settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_byte_of_a_run_folder_may_be_another(good, tmp_path_factory, data):
    folder = shutil.copytree(good, tmp_path_factory.mktemp("bytes") / "run")
    name = data.draw(st.sampled_from(files_of(good)))
    (folder / name).write_bytes(damage(data, (good / name).read_bytes()))
    look_through(folder)


@pytest.mark.slow
@settings(deadline=None, max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_byte_of_a_dump_directory_may_be_another(good_directory, tmp_path_factory, data):
    folder = shutil.copytree(good_directory, tmp_path_factory.mktemp("bytes") / "run")
    name = data.draw(st.sampled_from(files_of(good_directory)))
    (folder / name).write_bytes(damage(data, (good_directory / name).read_bytes()))
    dump = look_through(folder)
    assert len(dump.data()) >= 17


def cli(*arguments):
    """Another process, so that what hangs ends the test and not the tests."""
    done = subprocess.run(
        [sys.executable, "-m", "tfdbg_cli", "--batch", *arguments],
        capture_output=True,
        check=False,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    printed = done.stdout + done.stderr
    assert "Traceback (most" not in printed
    assert "debugger failed" not in printed
    return printed


ENDLESS = {
    "fifo": os.mkfifo,
    "device": lambda path: os.symlink("/dev/zero", path),
    "folder": os.mkdir,
    "loop": lambda path: os.symlink(path, path),
    "nowhere": lambda path: os.symlink("/nowhere/at/all", path),
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_only_plain_files_are_read(kind, good, tmp_path):
    for name in files_of(good):
        folder = tmp_path / "_".join(["no", *name.parts])
        shutil.copytree(good, folder)
        (folder / name).unlink()
        ENDLESS[kind](folder / name)
    # Every file of one dump.
    shutil.copytree(good, tmp_path / "all")
    for name in files_of(good):
        (tmp_path / "all" / name).unlink()
        ENDLESS[kind](tmp_path / "all" / name)
    os.symlink("rank_3", tmp_path / "rank_3")
    asked = ["lt", "ni -t h/Relu", "ps /home/user/train.py", "pt h/MatMul", "ri", "lp"]
    uses = [f"-cuse {number}; {'; '.join(asked[:3])}" for number in range(len(files_of(good)))]
    printed = cli(*(f"-c{each}" for each in asked), "-cruns", *uses, f"--dump-dir={tmp_path}")
    assert "h/Relu:0" in printed
    printed = cli("-clt", f"--dump-dir={tmp_path / 'no_run.json'}")
    assert "18 dumped tensor(s)" in printed
    assert f"Warning: {tmp_path / 'no_run.json' / 'run.json'}" in printed


def test_a_dump_in_the_originals_format_may_hold_anything(good_directory, tmp_path):
    device = device_name_to_device_path(CPU0)
    folder = shutil.copytree(good_directory, tmp_path / "run")
    name = next(path for path in files_of(folder) if path.name.startswith("_tfdbg_graph"))
    for at, make in enumerate(ENDLESS.values()):
        make(folder / f"_tfdbg_core_metadata_{at}")
        make(folder / name.parent / f"_tfdbg_graph_hash{at}_{9 * 10**15 + at}")
        make(folder / name.parent / f"t{at}_0_DebugIdentity_{10**15 + at}")
    os.symlink("/", folder / device.replace("CPU_0", "CPU_9"))
    secret = tmp_path / "secret"
    secret.write_text("SECRET")
    os.symlink(secret, folder / "_tfdbg_fetches_info_2")
    printed = cli("-clt", "-cni -t h/Relu", "-cri", "-cpt h/MatMul", f"--dump-dir={folder}")
    assert "h/MatMul:0" in printed
    assert "leads out of the dump" in printed
    assert "SECRET" not in printed


def test_nothing_is_read_from_outside_of_the_folder(good, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "index.json").write_text(json.dumps({"/home/user/train.py": "secret.txt"}))
    (outside / "secret.txt").write_text("SECRET\n" * 40)
    folder = shutil.copytree(good, tmp_path / "run")
    source = next((folder / "sources").glob("*.py"))
    source.unlink()
    source.symlink_to(outside / "secret.txt")
    found = RunFolderDump(folder)
    assert found.sources().lines("/home/user/train.py") is None
    assert any("leads out of the dump" in line for line in found.warnings)
    shutil.rmtree(folder / "sources")
    (folder / "sources").symlink_to(outside)
    assert RunFolderDump(folder).sources().paths() == []
    # A link to what is in the folder is no harm.
    (folder / "graph.pb").rename(folder / "graph-1.pb")
    (folder / "graph.pb").symlink_to("graph-1.pb")
    assert "h/Relu" in RunFolderDump(folder).graph()
    # Nor is a folder that is itself reached by a link.
    (tmp_path / "link").symlink_to(good)
    assert look_through(tmp_path / "link").warnings == ["a warning"]


def test_a_damaged_field_of_the_run_hides_no_other(good, tmp_path):
    folder = shutil.copytree(good, tmp_path / "run")
    path = folder / "run.json"
    text = path.read_text()
    for old, new in (('"call_count": 3', '"call_count": 1e999'), ('"kind": "run"', '"kind": [1]')):
        assert old in text
        text = text.replace(old, new)
    path.write_text(text)
    found = RunFolderDump(folder)
    info = found.run_info()
    assert (info.call_count, info.kind) == (0, "run")
    assert (info.fetches, info.error.type_name) == (["h/Relu:0", "train"], "ValueError")
    assert any("call_count" in line for line in found.warnings)


def test_a_rank_and_a_run_are_damaged_on_their_own(good, tmp_path):
    for rank in ("rank_0", "rank_1"):
        shutil.copytree(good, tmp_path / rank / "run_000001")
    for name in ("run.json", "tensors.jsonl"):
        (tmp_path / "rank_1" / "run_000001" / name).write_text('{"a":' * 100_000)
    dump = open_dump(tmp_path)
    assert len(dump.by_node("rank_0/loop")) == 12
    assert any("Rank 1" in line and "damaged" in line for line in dump.warnings)
    for command in COMMANDS:
        reply = service_over(dump).run(command)
        assert reply.document is None or reply.document.text
        assert reply.message is None or "Error in the debugger" not in reply.message.text


def test_a_shape_from_nowhere_takes_no_memory(good, tmp_path):
    folder = shutil.copytree(good, tmp_path / "run")
    path = folder / "tensors.jsonl"
    lines = path.read_text().splitlines()
    record = json.loads(lines[1])
    lines[1] = json.dumps({**record, "shape": [1 << 40], "bytes": 1 << 42})
    lines[2] = json.dumps({**json.loads(lines[2]), "shape": [1 << 40, 1 << 40]})
    path.write_text("\n".join(lines))
    found = look_through(folder)
    assert len(found.data()) == 17
    with pytest.raises(DumpError, match="damaged"):
        found.data()[0].get_tensor()
