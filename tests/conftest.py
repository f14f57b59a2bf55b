"""No test reads or writes the settings and the history of the person who runs it; the markers.

``TFDBG_TESTS_SWITCH=1e-6`` lets threads take turns every microsecond.
"""

import atexit
import gc
import os
import shutil
import sys
import tempfile
from pathlib import Path

import hypothesis
import pytest
from markers import is_left_out, marks
from strict_warnings import FRAMEWORKS_OWN

import tfdbg_cli.engines.registry  # noqa: F401 (it makes the settings of engines known, as at any start)

_ROOT = Path(__file__).parent

# For what is made before any test, such as the programs that a module's tests share.
_HOME = tempfile.mkdtemp(prefix="tests-home-")
atexit.register(shutil.rmtree, _HOME, ignore_errors=True)
for _name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
    os.environ[_name] = os.path.join(_HOME, _name)


@pytest.fixture(autouse=True)
def _own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(autouse=True, scope="module")
def _own_garbage():
    # Each collection would look through a million objects of all frameworks and earlier tests.
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="module")
def _own_traces():
    yield
    # Of a trace that goes on, the tests of another file would see the patches.
    intervening = sys.modules.get("tfdbg_cli.sessions.wrappers.intervening")
    assert not intervening or not intervening._patches, "a trace was not removed: t.remove()"


@pytest.fixture(autouse=True)
def _own_messages(monkeypatch):
    # A debugger of an earlier test may be alive, and its stderr was another one.
    monkeypatch.setattr("tfdbg_cli.common.streams._CURRENT", [])


if _interval := os.environ.get("TFDBG_TESTS_SWITCH"):
    sys.setswitchinterval(float(_interval))

# How long an example takes says how busy the machine is, or whether threads take turns.
_patient = hypothesis.settings(
    deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("patient", _patient)
hypothesis.settings.load_profile("patient")

# A process that has used gRPC would go on polling in the children that tests fork.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")


def pytest_configure(config):
    for line in FRAMEWORKS_OWN:
        config.addinivalue_line("filterwarnings", line)


def pytest_ignore_collect(collection_path, config):
    return is_left_out(collection_path, config.getoption("markexpr")) or None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        for name in marks(item, _ROOT):
            item.add_marker(name)
