"""A program with many runs that prints as it goes, SECONDS (its argument) between them.

WHAT, its second argument, is what takes the terminal at its step 40: ``pdb`` or ``curses``.
"""

import curses
import sys
import time

from tfdbg_cli.engines import numpy as tf


def main() -> None:
    what = sys.argv[2] if len(sys.argv) > 2 else ""
    pause = float(sys.argv[1]) if len(sys.argv) > 1 else 0.005
    x = tf.placeholder(tf.float32, [2], name="x")
    y = tf.multiply(x, 2.0, name="y")
    with tf.Session() as session:
        for step in range(100_000):
            session.run(y, {x: [step, 1.0]})
            print(f"step {step} of the program", flush=True)
            time.sleep(pause)
            if step == 40 and what == "pdb":
                breakpoint()
            elif step == 40 and what == "curses":
                time.sleep(1)  # longer than the row takes to be drawn
                curses.wrapper(show)
                print("one line\nanother line")
                input("back on the terminal")


def show(window: curses.window) -> None:
    """Fill the screen to its last row, and wait for q."""
    rows, columns = window.getmaxyx()
    while True:
        for row in range(rows):
            window.addnstr(row, 0, f"row {row} of the program's own screen", columns - 1)
        if window.getch() == ord("q"):
            return


if __name__ == "__main__":
    main()
