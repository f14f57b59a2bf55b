"""The contract of an engine with a fault: for tests of the contract itself."""

from test_fake_contract import FakeProgram

from tfdbg_cli.testing.engine_contract import EngineContract


class TestFaulty(EngineContract):
    def make(self):
        return FakeProgram()
