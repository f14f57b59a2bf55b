"""The fake engine with the fault that the environment names."""

import os

import fake_engine
import faults

from tfdbg_cli.dumps.sources import add_debugger_path

add_debugger_path(fake_engine.__file__)  # as if it were the module of the entry point
faults.FAULTS.get(os.environ["FAULT"], lambda: None)()
ENGINE = fake_engine.ENGINE
