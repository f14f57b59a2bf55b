"""What becomes of scripts is the same plain and debugged; ``scripts/fate`` runs all in all ways."""

import pytest
from fate_kit import APART, WAYS, Fate, Script, corpus
from fate_part_kit import MADE, part
from fate_programs import WAYS_OF_PROGRAMS, search


@pytest.mark.parametrize(("script", "way"), part("plain", "numpy", step=15))
def test_fates_are_the_same(fate, script, way):
    found = fate.difference(script, way)
    assert not found, found


def test_made_up_programs(tmp_path):
    search("numpy", 3 * MADE, tmp_path, WAYS_OF_PROGRAMS)


DIFFERENT = """\
import sys
if "tfdbg_cli" in sys.modules:
    print("seen")
    print("told", file=sys.stderr)
    open("left", "w").close()
    sys.exit(3)
"""


@pytest.mark.parametrize("forked", [False, True])
def test_differences_are_found(tmp_path, forked):
    fate = Fate(tmp_path, forked)
    # The child of a process that has imported the debugger would be seen by it.
    found = fate.difference(Script("plain/different", DIFFERENT), "batch")
    fate.close()
    for line in (
        "exit status: 0 plain, 3 debugged",
        "+seen",
        "+told",
        "file left: only debugged",
        "scripts/fate -k '^plain/different$' -w batch",
    ):
        assert line in found


def test_a_script_that_differs_from_itself_is_told(tmp_path):
    fate = Fate(tmp_path)
    found = fate.difference(Script("plain/now", "import time\nprint(time.time_ns())\n"), "batch")
    fate.close()
    assert "plain/now differs from itself" in found


def test_a_script_that_never_comes_to_its_subject_is_told(tmp_path):
    text = "from tfdbg_cli.engines import numpy as tf\ntf.no_such_op(1)\n"
    fate = Fate(tmp_path)
    found = fate.difference(Script("plain/early", text), "batch")
    fate.close()
    assert "plain/early asks for what nobody has: AttributeError: module 'tfdbg_cli" in found


def test_stdout_that_nobody_would_compare_is_refused(tmp_path):
    fate = Fate(tmp_path)
    with pytest.raises(ValueError, match="stdout of plain/other"):
        fate.difference(Script("plain/other", "print('other')\n"), "never")
    assert "+seen" in fate.difference(Script("plain/different", APART + DIFFERENT), "never")
    fate.close()


def test_the_corpus():
    scripts = list(corpus())
    assert len(scripts) >= 200
    assert len({script.name for script in scripts}) == len(scripts)
    assert len(WAYS) >= 5
