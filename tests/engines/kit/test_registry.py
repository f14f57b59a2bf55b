"""Engines of other packages that can't be loaded: one line says why, and what to do."""

import pytest

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines import registry

MODULE = """\
from tfdbg_cli.engines.kit.recording.program_kit import ProgramKit
from tfdbg_cli.common.traits import EngineTraits

class MyEngine(ProgramKit):
    pass

OTHER = ProgramKit(EngineTraits("other", "other"), ["json"], lambda engine, patches: None)
NUMBER = 3
"""


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Loads the engine ``mine`` of a package with an entry point."""
    monkeypatch.syspath_prepend(tmp_path)
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (tmp_path / "my_engines.py").write_text(MODULE)
    (tmp_path / "my_needy_engine.py").write_text("import no_such_dependency.inner\n")
    (tmp_path / "my_early_engine.py").write_text("import no_such_framework\n")

    def load(*lines, name="mine"):
        text = "\n".join(("[tfdbg_cli.engines]", *lines, ""))
        (info / "entry_points.txt").write_text(text)
        registry.entries.cache_clear()
        registry.load.cache_clear()
        return registry.load(name)

    yield load
    registry.entries.cache_clear()
    registry.load.cache_clear()


@pytest.mark.parametrize(
    ("line", "said", "hint"),
    [
        ("mine.json = my_engines:MyEngine", "my_engines:MyEngine is the class MyEngine", "object"),
        ("mine.json = my_engines:NUMBER", "my_engines:NUMBER is of class int", "object"),
        ("mine.json = my_engines:NONE", "has no attribute 'NONE'", "package.module:ENGINE"),
        ("mine.json = my_engines:OTHER", 'is called "other" itself', '"other.json"'),
        ("mine.json = no_such_package.engine:ENGINE", "No module named", "needs no_such_package"),
        ("mine.json = my_needy_engine:ENGINE", "No module named", "needs no_such_dependency"),
        (
            "mine.no_such_framework = my_early_engine:ENGINE",
            "No module named",
            "Is no_such_framework installed?",
        ),
    ],
)
def test_the_line_has_the_cause_and_the_fix(load, line, said, hint):
    with pytest.raises(UserError) as told:
        load(line)
    text = str(told.value)
    assert text.startswith("The mine engine can't be loaded: ")
    assert said in text
    assert hint in text
    assert "\n" not in told.value.args[0]


def test_a_name_that_is_taken_is_told_once(load, capsys):
    engine = load("numpy.json = my_engines:OTHER", "other.json = my_engines:OTHER", name="other")
    assert engine.name == "other"
    said = capsys.readouterr().err
    assert said.count("the engine my_engines:OTHER isn't used") == 1
    assert "tfdbg_cli.engines.numpy.debugging:ENGINE is called numpy, too" in said


def test_an_engine_may_be_loaded_by_several_modules(load, capsys):
    load("other.json = my_engines:OTHER", "other.csv = my_engines:OTHER", name="other")
    entry = next(each for each in registry.entries() if each.name == "other")
    assert entry.modules == ("json", "csv")
    assert capsys.readouterr().err == ""
