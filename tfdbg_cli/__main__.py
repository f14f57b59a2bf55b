"""The command line: ``python -m tfdbg_cli``, and ``tfdbg`` where it is installed."""

import sys

from tfdbg_cli.front.main import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
