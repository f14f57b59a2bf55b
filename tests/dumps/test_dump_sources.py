"""The text of source files as it ran."""

import contextlib
import importlib
import json
import linecache
import os
import subprocess
import sys
import time
import traceback
import types
import zipfile

import numpy as np
import pytest

from tfdbg_cli.dumps import source_text, sources
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.source_text import (
    CHANGED,
    decode_source,
    keep_source,
    live_source,
    split_source,
)
from tfdbg_cli.dumps.sources import (
    Frame,
    Sources,
    capture_stack,
    is_debugger_path,
    is_library_path,
    own_frame,
    own_place,
    show_program_only,
    user_frame,
    without_debugger,
)
from tfdbg_cli.engines import numpy as numpy_engine

OLD = time.time() - 3600


def write(path, data, when=OLD):
    path.write_bytes(data)
    os.utime(path, (when, when))
    return str(path)


def test_the_users_frame_is_found_past_those_of_a_library():
    found = []

    def look():
        caller = sys._getframe(1)
        found.extend((is_library_path(caller.f_code.co_filename), user_frame(caller)))

    with contextlib.ExitStack() as stack:
        stack.callback(look)
    assert found == [True, sys._getframe()]
    assert user_frame(None) is None


def test_an_error_comes_from_the_innermost_line_of_the_users():
    try:
        with contextlib.ExitStack() as stack:
            stack.callback(int, "x")
            line = sys._getframe().f_lineno
    except ValueError as error:
        place = own_place(error)
    assert place[0] == __file__
    assert abs(place[1] - line) <= 2
    assert own_place(ValueError("never raised"), sys._getframe())[0] == __file__
    assert own_place(ValueError("never raised"), None) == ("", 0)


def test_an_error_that_left_only_a_library_so_far_comes_from_who_called_it():
    with pytest.raises(json.JSONDecodeError) as caught:
        json.loads("{")
    inside = caught.value.with_traceback(caught.value.__traceback__.tb_next)
    assert not own_place(ValueError("raised nowhere"))[0]
    assert own_place(inside)[0] == __file__


def test_lines_end_where_python_ends_them():
    text = "a = 1\fb\r\nc\x0b\x1c\x85\u2028d\re\n\n"
    assert split_source(text) == ["a = 1\fb", "c\x0b\x1c\x85\u2028d", "e", ""]
    assert split_source("") == []
    code = compile("x = 1\n\f\ny = '\x1c'\nz = 3", "f", "exec")
    last = max(line for _, _, line in code.co_lines() if line)
    assert split_source("x = 1\n\f\ny = '\x1c'\nz = 3")[last - 1] == "z = 3"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("# é\n".encode(), "# é\n"),
        ("\ufeff# é\n".encode(), "# é\n"),
        ("# -*- coding: latin-1 -*-\n# é\n".encode("latin-1"), "# -*- coding: latin-1 -*-\n# é\n"),
        (b"# \xe9\n", "# \ufffd\n"),
        (b"# coding: no-such-thing\nx\n", "# coding: no-such-thing\nx\n"),
        (b"", ""),
        (b"\xa7\r\r\n\0\0\0\0", None),
    ],
)
def test_files_are_read_by_their_coding_cookie(data, text):
    assert decode_source(data) == text


def test_a_file_that_is_read_stays_as_it_was(tmp_path):
    path = write(tmp_path / "early.py", b"first = 1\n")
    sources = Sources()
    assert sources.lines(path) == ["first = 1"]
    write(tmp_path / "early.py", b"second = 2\n", time.time() + 10)
    linecache.checkcache()
    assert Sources().lines(path) == sources.lines(path) == ["first = 1"]
    assert Sources().note(path) == ""


def test_a_file_that_was_edited_before_it_was_read_says_so(tmp_path):
    path = write(tmp_path / "late.py", b"x = 1\n", time.time() + 10)
    sources = Sources()
    assert sources.note(path) == CHANGED
    assert sources.lines(path) == ["x = 1"]
    assert sources.line(path, 1) == "x = 1"
    assert sources.line(path, 2) == sources.line(path, 0) == ""


def test_a_module_that_was_written_and_then_imported_has_not_changed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    when = time.time() + 10
    path = write(tmp_path / "tfdbg_written_now.py", b"x = 1\n", when)
    module = importlib.import_module("tfdbg_written_now")
    try:
        sources = Sources()
        assert sources.note(path) == ""
        # It was taken when the Sources were made, not when somebody asked.
        write(tmp_path / "tfdbg_written_now.py", b"y = 2\n", when + 10)
        assert sources.lines(path) == ["x = 1"]
    finally:
        del sys.modules[module.__name__]


def test_a_module_that_was_edited_after_its_import_has_changed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    path = write(tmp_path / "tfdbg_edited_now.py", b"x = 1\n")
    module = importlib.import_module("tfdbg_edited_now")
    try:
        write(tmp_path / "tfdbg_edited_now.py", b"y = 2\n", time.time() + 10)
        assert Sources().note(path) == CHANGED
    finally:
        del sys.modules[module.__name__]


def test_what_the_launcher_compiled_is_kept(tmp_path):
    path = write(tmp_path / "script.py", b"edited\n", time.time() + 10)
    keep_source(path, b"ran\n")
    found = live_source(path)
    assert found is not None and found.lines == ["ran"] and not found.note


def test_what_has_no_end_is_no_source(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    assert live_source(str(tmp_path / "fifo")) is None
    assert live_source("/dev/zero") is None


def test_names_that_are_no_files():
    linecache.cache["<ipython-input-7-x>"] = (5, None, ["a\n", "b\n"], "<ipython-input-7-x>")
    try:
        assert Sources().lines("<ipython-input-7-x>") == ["a", "b"]
    finally:
        del linecache.cache["<ipython-input-7-x>"]
    assert Sources().lines("<string>") is None
    # Not the file of that name that happens to be on sys.path.
    assert Sources().lines("no_such_folder/abc.py") is None
    assert Sources(live=False).lines(__file__) is None


def test_a_module_in_an_archive(tmp_path, monkeypatch):
    archive = tmp_path / "code.par"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("tfdbg_in_archive.py", "x = 1\n\ny = 2\n")
    monkeypatch.syspath_prepend(str(archive))
    module = importlib.import_module("tfdbg_in_archive")
    try:
        assert Sources().lines(module.__file__) == ["x = 1", "", "y = 2"]
    finally:
        del sys.modules[module.__name__]


def test_texts_that_a_dump_kept_win():
    sources = Sources({__file__: "kept\f\nline 2\r\n"}, live=True)
    assert sources.lines(__file__) == ["kept\f", "line 2"]
    assert sources.note(__file__) == ""
    assert sources.paths() == [__file__]


def test_the_users_own_frame_is_the_innermost_line_of_a_file():
    library = Frame("/x/site-packages/tf/ops.py", 1, "f")
    mine, string = Frame("/home/me/a.py", 3, "<module>"), Frame("<string>", 1, "<module>")
    assert own_frame([library, mine, string, library]) == mine
    assert own_frame([library, string]) == string
    assert own_frame([library]) is own_frame([]) is None
    assert is_library_path("/tmp/__autograph_generated_filex8_3.py")


class CountedModules(dict):
    """``sys.modules`` that counts how often all of it is looked at."""

    scans = 0

    def values(self):
        self.scans += 1
        return super().values()

    def items(self):
        self.scans += 1
        return super().items()

    def __iter__(self):
        self.scans += 1
        return super().__iter__()


def test_modules_are_looked_at_again_only_if_some_were_imported(tmp_path, monkeypatch):
    def add(name):
        path = write(tmp_path / f"{name}.py", b"ran\n")
        module = types.ModuleType(name)
        module.__file__ = path
        modules[name] = module
        return path

    def is_taken(path):
        found = path in source_text._kept
        write(tmp_path / os.path.basename(path), b"edited\n", time.time() + 10)
        return found and live_source(path).lines == ["ran"]

    # Tests before this one may have had more files than are kept unasked.
    monkeypatch.setattr(source_text, "_kept", {})
    modules = CountedModules(sys.modules)
    monkeypatch.setattr(sys, "modules", modules)
    first = add("tfdbg_first")
    MemoryDump()
    assert is_taken(first)
    before = modules.scans
    for _ in range(10):
        MemoryDump()
    assert modules.scans == before
    # One that has left costs one more look, not one for each dump from then on.
    second = add("tfdbg_second")
    MemoryDump()
    del modules["tfdbg_first"]
    before = modules.scans
    for _ in range(10):
        MemoryDump()
    assert modules.scans == before + 1
    assert is_taken(second)
    # As many as there were, but not the same ones.
    del modules["tfdbg_second"]
    third = add("tfdbg_third")
    MemoryDump()
    assert is_taken(third)
    # The same name, another file.
    del modules["tfdbg_third"]
    (tmp_path / "tfdbg_third.py").rename(tmp_path / "tfdbg_other.py")
    other = modules["tfdbg_third"] = types.ModuleType("tfdbg_third")
    other.__file__ = write(tmp_path / "tfdbg_other.py", b"ran\n")
    MemoryDump()
    assert is_taken(other.__file__)


def test_reading_a_hundred_modules_is_not_noticed(tmp_path):
    for number in range(100):
        (tmp_path / f"m{number}.py").write_text("x = 1\n" * 500)
    program = (
        "import sys, time\n"
        f"sys.path.insert(0, {str(tmp_path)!r})\n"
        "for n in range(100): __import__(f'm{n}')\n"
        "from tfdbg_cli.dumps.sources import Sources\n"
        "begin = time.perf_counter(); Sources(); first = time.perf_counter() - begin\n"
        "begin = time.perf_counter(); Sources(); print(first, time.perf_counter() - begin)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    first, second = map(float, done.stdout.split())
    assert first < 1 and second < 0.01


@pytest.mark.parametrize(
    ("path", "is_library"),
    [
        (sources.__file__, True),
        (numpy_engine.__file__, True),
        (os.__file__, True),
        (np.__file__, True),
        ("C:\\Python\\Lib\\site-packages\\mine\\model.py", True),
        ("/usr/lib/python3/dist-packages/mine.py", True),
        ("/tmp/__autograph_generated_file7.py", True),
        ("<frozen importlib._bootstrap>", True),
        ("<string>", False),
        ("C:\\Users\\me\\train.py", False),
        ("/home/me/site-packages.py", False),
        (__file__, False),
    ],
)
def test_whose_a_file_is(path, is_library):
    assert is_library_path(path) is is_library
    is_ours = path in (sources.__file__, "<frozen importlib._bootstrap>")
    assert is_debugger_path(path) is is_ours


def test_a_stack_has_the_outermost_frame_first_and_none_of_a_framework():
    def inner():
        return capture_stack(sys._getframe()), capture_stack(
            sys._getframe(), os.path.dirname(__file__)
        )

    whole, rest = inner()
    own = [(frame.file, frame.function) for frame in whole if frame.file == __file__]
    assert own == [
        (__file__, "test_a_stack_has_the_outermost_frame_first_and_none_of_a_framework"),
        (__file__, "inner"),
    ]
    assert whole[-1].function == "inner" and whole[-1].line == inner.__code__.co_firstlineno + 1
    assert rest == tuple(frame for frame in whole if frame.file != __file__) and rest


def test_an_error_is_shown_with_the_frames_of_the_program():
    dump = MemoryDump()
    dump.add("x", 0, np.array(1))

    def files(error):
        return [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]

    with pytest.raises(ZeroDivisionError) as caught:
        dump.find(lambda datum, value: 1 / 0)
    before = files(caught.value)
    shown = without_debugger(caught.value.__traceback__)
    assert [frame.f_code.co_filename for frame, _ in traceback.walk_tb(shown)] == [__file__] * 2
    assert files(caught.value) == before and len(before) > 3
    show_program_only(caught.value)
    assert files(caught.value) == [__file__] * 2
