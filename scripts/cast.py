"""Plays the first minute on a terminal emulator: docs/first-minute.cast, and as a moving picture.

.venv/bin/python scripts/cast.py

The cast is as https://docs.asciinema.org/manual/asciicast/v2/ says; `asciinema play` shows it.
"""

import json

import pyte
from capture import CELL_HEIGHT, ROOT, Player, draw_row, head

SIZE = (104, 28)

#: What is typed, what must appear, and how many seconds it is looked at.
STORY = (
    ("", "run_info", 2.5),
    ("run -f\r", "| why -f origin_of_nonfinite", 5.0),
    ("graph\r", "cross_entropy/Log", 4.0),
    ("pt Softmax:0 --map\r", "Softmax:0", 4.0),
    ("pt cross_entropy/Log:0 -s\r", "Histogram", 4.0),
    ("ps\r", "tf.log(y)", 4.0),
    ('eval "np.argwhere(`Softmax:0` == 0)[:3]"\r', "eval of expression", 4.0),
)
# Seconds: between two keys, that one frame lasts at least.
_KEY, _FRAME = 0.05, 0.04


def play() -> list[tuple[float, str]]:
    """What the terminal was told, and when, in seconds from the start."""
    with Player("-m", "tfdbg_cli", "examples/debug_mnist.py", size=SIZE) as player:
        for typed, shown, seconds in STORY:
            for key in typed[:-1]:
                player.send(key)
                player.watch(_KEY)
            player.type(typed[-1:], shown)
            player.watch(seconds)
        written = player.written
    start = written[0][0]
    # A place of another length would move what is behind it.
    place = "/home/you/work/projects/debuggers/tfdbg_cli"[-len(str(ROOT)) :]
    return [
        (when - start, data.decode(errors="replace").replace(str(ROOT), place))
        for when, data in written
    ]


def frames(events: list[tuple[float, str]]) -> list[tuple[float, list[str]]]:
    """When the screen changed, and its rows as parts of an SVG."""
    screen = pyte.Screen(*SIZE)
    stream = pyte.Stream(screen)
    made: list[tuple[float, list[str]]] = []
    for number, (when, data) in enumerate(events):
        stream.feed(data)
        behind = events[number + 1][0] if number + 1 < len(events) else when + 1
        if behind - when < _FRAME:
            continue
        rows = [draw_row(screen, y, 0) for y in range(screen.lines)]
        if not made or made[-1][1] != rows:
            made.append((when, rows))
    return made


def animated(made: list[tuple[float, list[str]]], last: float) -> str:
    """The frames as one SVG: each row that is ever shown stands in it once.

    Args:
        made: the frames.
        last: seconds that the last one is shown.
    """
    total = made[-1][0] + last
    names: dict[str, str] = {}
    for _, rows in made:
        for row in rows:
            if row:
                names.setdefault(row, f"r{len(names)}")
    parts = [*head(pyte.Screen(*SIZE)), "<defs>"]
    parts += [f'<g id="{name}">{row}</g>' for row, name in names.items()]
    parts.append("</defs><style>.f{visibility:hidden}")
    for number, (when, _) in enumerate(made):
        end = made[number + 1][0] if number + 1 < len(made) else total
        begin, stop = 100 * when / total, 100 * end / total
        before = "" if number == 0 else "0%{visibility:hidden}"
        after = "" if stop > 99.99 else f"{stop:.3f}%{{visibility:hidden}}"
        parts.append(f"@keyframes k{number}{{{before}{begin:.3f}%{{visibility:visible}}{after}}}")
        parts.append(f"#f{number}{{animation:k{number} {total:.2f}s step-end infinite}}")
    parts.append(
        "@media (prefers-reduced-motion){.f{animation:none!important}"
        f"#f{len(made) - 1}{{visibility:visible}}}}</style>"
    )
    for number, (_, rows) in enumerate(made):
        parts.append(f'<g class="f" id="f{number}">')
        parts += [
            f'<use href="#{names[row]}" y="{8 + y * CELL_HEIGHT}"/>'
            for y, row in enumerate(rows)
            if row
        ]
        parts.append("</g>")
    return "\n".join([*parts, "</svg>"]) + "\n"


def main() -> None:
    """Play, and write both."""
    events = play()
    title = "The first NaN within a minute"
    lines: list[object] = [
        {"version": 2, "width": SIZE[0], "height": SIZE[1], "title": title},
        *([round(when, 3), "o", data] for when, data in events),
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (ROOT / "docs" / "first-minute.cast").write_text(text, encoding="utf-8")
    picture = animated(frames(events), STORY[-1][2])
    (ROOT / "docs" / "first-minute.svg").write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
