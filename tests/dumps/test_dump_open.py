import pytest
from directory_kit import CPU0
from dump_samples import START

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.open import are_of_dump, find_runs, is_dump, list_runs, open_dump
from tfdbg_cli.dumps.proto.graph_def import NodeDef
from tfdbg_cli.dumps.run_folder.dump import RunFolderDump, write_run_folder
from tfdbg_cli.dumps.tfdbg_dir.debug_dump_dir import DebugDumpDir
from tfdbg_cli.dumps.tfdbg_dir.writer import write_dump_directory


def test_each_kind_is_recognised(dump, tmp_path):
    write_run_folder(dump, tmp_path / "a")
    write_dump_directory(dump, tmp_path / "b")
    assert isinstance(open_dump(tmp_path / "a"), RunFolderDump)
    assert isinstance(open_dump(str(tmp_path / "b")), DebugDumpDir)
    assert list_runs(tmp_path / "a") == [tmp_path / "a"]
    assert [is_dump(tmp_path / name) for name in ("a", "b", "", "none")] == [
        True,
        True,
        False,
        False,
    ]
    kinds = (
        ["run.json"],
        ["_tfdbg_device_,job_a"],
        ["tensors-00000.safetensors"],
        ["a.safetensors"],
    )
    assert [*map(are_of_dump, kinds)] == [True, True, True, False]


def test_a_session_root_lists_its_runs_in_time_order(dump, tmp_path):
    names = ["run_900_2", "run_1000_3", "run_1000_10"]
    for name in reversed(names):
        write_dump_directory(dump, tmp_path / name)
    (tmp_path / "notes").mkdir()
    (tmp_path / "run_1000_11").write_text("no folder")
    (tmp_path / "run_1000_10" / "README").write_text("a stranger")
    assert [path.name for path in list_runs(tmp_path)] == names
    (tmp_path / "run_1000_12").symlink_to("run_1000_12")  # leads nowhere
    assert [path.name for path in find_runs(tmp_path)] == names
    last = open_dump(tmp_path)
    assert len(last.data()) == len(open_dump(tmp_path / names[-1]).data())
    assert "holds 3 runs" in last.warnings[0] and "run_1000_10" in last.warnings[0]


@pytest.mark.parametrize("left", ["run.json", "tensors.jsonl", "tensors-00000.safetensors"])
def test_a_run_folder_is_told_by_any_file_of_it(left, dump, tmp_path):
    write_run_folder(dump, tmp_path)
    for path in [each for each in tmp_path.iterdir() if each.name != left and each.is_file()]:
        path.unlink()
    assert isinstance(open_dump(tmp_path), RunFolderDump)


def test_nothing_is_validated_that_nobody_wants_validated(maker):
    maker.graph([NodeDef("a", "Const", device=CPU0), NodeDef("b", "Neg", ["a"], CPU0)])
    maker.tensor("a", time=START + 9)
    maker.tensor("b", time=START)
    for options in ({}, {"validate": True}, {"validate": False}):
        dump = open_dump(maker.root, **options)
        dump.graph()
        is_told = any("before its input" in line for line in dump.warnings)
        assert is_told == options.get("validate", True)


def test_a_root_with_one_run_opens_it(dump, tmp_path):
    write_run_folder(dump, tmp_path / "run_1_0")
    assert open_dump(tmp_path).warnings == []


def test_what_is_no_dump_is_said(dump, tmp_path):
    with pytest.raises(UserError, match="doesn't exist"):
        open_dump(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="is empty"):
        open_dump(tmp_path / "empty")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "file").touch()
    (tmp_path / "other" / "model.safetensors").touch()
    (tmp_path / "other" / "tensors-notes.txt").touch()
    with pytest.raises(UserError, match="holds no dump") as caught:
        open_dump(tmp_path / "other")
    assert "tensors.jsonl" in caught.value.hint
    with pytest.raises(UserError, match="is a file"):
        open_dump(tmp_path / "other" / "file")


def test_a_file_of_a_dump_leads_to_its_folder(dump, tmp_path):
    write_run_folder(dump, tmp_path / "a")
    with pytest.raises(UserError) as caught:
        open_dump(tmp_path / "a" / "run.json")
    assert str(tmp_path / "a") in caught.value.hint
