"""The client of remote attach, some of whose calls to the system fail: ``FAULT LOG OPTIONS…``."""

import sys

from fault_shim import install

from tfdbg_cli.__main__ import main

if __name__ == "__main__":
    _, told, log, *arguments = sys.argv
    sys.argv = ["tfdbg_cli", *arguments]
    install(told, log, has_begun=True)
    sys.exit(main())
