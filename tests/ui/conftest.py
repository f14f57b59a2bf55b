import pytest


@pytest.fixture(autouse=True)
def _patient(monkeypatch):
    """How long counting matches may take is no matter of these tests, on a busy machine."""
    monkeypatch.setattr("tfdbg_cli.ui.screen.view._COUNT_SECONDS", 60.0)
