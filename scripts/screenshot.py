"""Runs the debugger on the example in a terminal emulator and draws its screen as docs/screen.svg.

.venv/bin/python scripts/screenshot.py
"""

from capture import ROOT, Player


def main() -> None:
    """Capture and draw."""
    with Player("-m", "tfdbg_cli", "examples/debug_mnist.py") as player:
        player.settle("run_info")
        player.type("run -f\r", "| why -f origin_of_nonfinite")
        (ROOT / "docs" / "screen.svg").write_text(player.svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
