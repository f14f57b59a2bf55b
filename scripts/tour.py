"""Plays the story of the first NaN on a terminal emulator and writes docs/tour.md from its screens.

.venv/bin/python scripts/tour.py [FOLDER]
"""

import pathlib
import sys
from typing import NamedTuple

from capture import ROOT, Player


class Step(NamedTuple):
    """One step of the story.

    Attributes:
        heading: of its section.
        told: what the reader should know.
        keys: what is typed; ``None``: nothing.
        shown: a text that must appear.
        picture: name of an SVG, if there is one.
    """

    heading: str
    told: str
    keys: str | None
    shown: str
    picture: str = ""


#: Behind it the text is no screen.
BY_HAND = "<!-- what follows is written by hand -->\n"

STORY = (
    Step(
        "The first screen",
        "`python -m tfdbg_cli examples/debug_mnist.py` stops before the program's first run. The "
        "screen lists the commands that you can start with, and the fetches and feeds of the run. "
        "Underlined words are links: click them, or use Tab and Enter. F1 shows the keys.",
        None,
        "run_info",
    ),
    Step(
        "Until something goes bad",
        "`run -f` lets the program run on until an op makes a NaN or an infinity from clean "
        "inputs. The stop opens with the verdict: the tensor where it began, the reason, the line "
        "of the program, the inputs, and the results that became bad. Below the verdict is a list "
        "of the tensors that passed the filter; the column *Health* counts their bad elements.",
        "run -f\r",
        "cross_entropy/Log:0",
        "tour-list",
    ),
    Step(
        "The first bad tensor",
        "Click the tensor's name, or type `pt --bad -s`. The screen shows dtype and shape, "
        "statistics, a histogram of the finite elements, and links to the bad ones. Esc moves from "
        "the prompt to the page, where `n` and `N` step through the bad elements.",
        "pt --bad -s\r",
        "Bad elements:",
        "tour-tensor",
    ),
    Step(
        "Where it began",
        "`li --to-first-bad` goes back from a bad tensor to the first bad one, and says whether "
        "its inputs were clean. They were: the logarithm itself is to blame.",
        "li --to-first-bad cross_entropy/Neg\r",
        "inputs were clean",
        "tour-origin",
    ),
    Step(
        "The line of the program",
        "`ni -t` shows the node and the Python stack that made it, your own lines first.",
        "here cross_entropy/Log:0; ni -t\r",
        "Traceback of node construction",
    ),
    Step(
        "What is around it",
        "`graph` draws a node between its inputs and its readers, with the health of each tensor "
        "on the wire. The arrow keys go from node to node.",
        "graph\r",
        "226 -inf",
        "tour-graph",
    ),
    Step(
        "The source",
        "`ps` annotates the file: `*` marks the lines that this run computed, and the nodes of "
        "each line are listed below it.",
        "ps\r",
        "tf.log(y)",
        "tour-source",
    ),
    Step(
        "The cause",
        "The softmax underflows to 0, and the logarithm of 0 is -inf. `pt` with a range highlights "
        "the zeros; `eval` finds their indices.",
        'eval "np.argwhere(`Softmax:0` == 0)[:3]"\r',
        "eval of expression",
    ),
    Step(
        "A picture",
        "`pt Softmax:0 --map`, or the key `v` on a tensor, draws a heat map. Here each row is an "
        "image and each column a class. NaN and infinities have their own colours and are never "
        "lost, even if a cell stands for many elements. `+` and `-` zoom; the cursor shows index "
        "and value.",
        "pt Softmax:0 --map\r",
        "exact",
        "tour-map",
    ),
    Step(
        "Only some lines",
        "On any screen `&` keeps the lines that match, and `/` searches. Alt-Left and Alt-Right, "
        "or the arrows at the top, go back and forward through the screens.",
        "lt\r&gradients.*Softmax\r",
        "lines",
    ),
    Step(
        "Lists by key",
        "`lt -o hist` shows how the elements of each tensor are distributed. `c` puts a cursor "
        "into a list. Then keys sort, hide, filter and select, and each key shows the command that "
        "does the same.",
        "lt -o hist,health\r",
        "\u2588",
        "tour-histograms",
    ),
    Step(
        "How long it takes",
        "`run -p` times the ops of the next run. `lp` lists them (`-s exec_time -r`: slowest "
        "first), and `ps` then puts a bar beside each source line.",
        "run -p\rlp -s exec_time -r\r",
        "Device 1 of 1",
        "tour-profile",
    ),
)

HEAD = """\
# The tour

The story of a NaN, screen by screen. `scripts/tour.py` captured every screen below from the running
program. The example is `examples/debug_mnist.py`, on the NumPy engine that comes with the debugger.
"""


def main(folder: pathlib.Path) -> None:
    """Play, and write tour.md and its pictures to a folder."""
    parts = [HEAD]
    with Player("-m", "tfdbg_cli", "examples/debug_mnist.py") as player:
        for number, step in enumerate(STORY, 1):
            if step.keys is None:
                player.settle(step.shown)
            else:
                *before, last = step.keys.split("\r")[:-1]
                for keys in before:
                    player.type(keys + "\r", "F1: keys")
                player.type(last + "\r", step.shown)
            parts += [f"## {number}. {step.heading}", step.told]
            if step.picture:
                name = f"{step.picture}.svg"
                (folder / name).write_text(player.svg(), encoding="utf-8")
                parts.append(f"![{step.heading}]({name})")
            else:
                parts.append(f"```\n{player.text.rstrip()}\n```")
    # What is written by hand stays.
    kept = (ROOT / "docs" / "tour.md").read_text(encoding="utf-8").partition(BY_HAND)[2]
    text = "\n\n".join(parts) + f"\n\n{BY_HAND}{kept}"
    (folder / "tour.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs")
