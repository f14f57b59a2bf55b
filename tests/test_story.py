"""The story of the tour: a loss becomes NaN, and its user finds the line that did it."""

import re

import numpy as np
import pytest
from examples_kit import ENGINES, EXAMPLES, line_of, needs, python, screens
from examples_kit import debug as debug_example

EXAMPLE = EXAMPLES / "debug_mnist.py"
LOG_LINE = line_of("debug_mnist.py", "tf.log(y)")


def debug(commands, *arguments):
    """The example in batch mode."""
    return debug_example(commands, "debug_mnist.py", *arguments)


@pytest.fixture(scope="module", params=ENGINES)
def story(request, tmp_path_factory):
    """The whole hunt in one run of the program."""
    saved = tmp_path_factory.mktemp("story") / "log.npy"
    done = debug(
        [
            "run -f has_inf_or_nan",
            "lt",
            "ri",
            "ni -t cross_entropy/Log",
            "pt -s cross_entropy/Log:0",
            "pt -s -a cross_entropy/Log:0",
            'eval "np.argwhere(np.isinf(`cross_entropy/Log:0`))"',
            "li -r -t cross_entropy/Log",
            f"pt cross_entropy/Log:0 -w {saved}",
            "ps debug_mnist.py",
            "pt -r 0,0 Softmax:0",
        ],
        "--engine",
        request.param,
        "--max-steps",
        "8",
    )
    assert done.status == 0, done.err
    return done.out, screens(done.out), saved


def test_the_breakpoint_stops_at_the_first_bad_tensor(story):
    _, shown, _ = story
    verdict = shown["why -f has_inf_or_nan"]
    assert verdict[0].startswith("It began in [Log] cross_entropy/Log:0 ")
    assert verdict[1].startswith("Why:   the logarithm of 0 at ")
    at = next(at for at, text in enumerate(verdict) if "passing filter" in text)
    lines = verdict[at:]
    count = int(lines[0].split()[0])
    assert lines[0] == f'{count} dumped tensor(s) passing filter "has_inf_or_nan":'
    assert lines[2].endswith("Tensor name")
    assert lines[3].endswith(" cross_entropy/Log:0")
    assert len(lines) == 3 + count
    assert not any("Softmax:0" in text for text in lines)


def test_the_run_is_the_same_before_and_after(story):
    output, shown, _ = story
    title = re.search(
        r"^--- run-end: run #(\d+): 1 fetch \(train/Adam\); 2 feeds ---$", output, re.M
    )
    number = int(title[1])
    assert f"Session.run() call #{number}:" in shown["ri"]
    # One run makes the variables, and each step asks for the accuracy before it trains.
    assert output[: title.start()].count("Accuracy at step") == (number - 1) // 2
    assert len(re.findall(r"^Accuracy at step", output, re.M)) == 8


def test_every_tensor_of_the_run_is_listed(story):
    _, shown, _ = story
    lines = shown["lt"]
    count = int(lines[0].split()[0])
    assert len(lines) == 3 + count
    names = [text.split()[-1] for text in lines[3:]]
    assert {"input/x-input:0", "hidden/Relu:0", "Softmax:0", "cross_entropy/Log:0"} <= set(names)
    assert names.index("Softmax:0") < names.index("cross_entropy/Log:0")


def test_the_value_holds_minus_infinity(story):
    _, shown, _ = story
    lines = shown["pt -s cross_entropy/Log:0"]
    assert lines[0] == 'Tensor "cross_entropy/Log:0:DebugIdentity":'
    assert lines[1:3] == ["  dtype: float32", "  shape: (100, 10)"]
    at = lines.index("Numeric summary:")
    heads, counts = (text.strip("| ").split() for text in lines[at + 1 : at + 3])
    table = dict(zip([h for h in heads if h != "|"], [c for c in counts if c != "|"], strict=True))
    assert int(table["-inf"]) > 0
    assert "nan" not in table
    assert int(table["total"]) == 1000
    full = "\n".join(shown["pt -s -a cross_entropy/Log:0"])
    assert full.partition("array(")[2].count("-inf") == int(table["-inf"])
    places = shown['eval "np.argwhere(np.isinf(`cross_entropy/Log:0`))"']
    assert f"  shape: ({table['-inf']}, 2)" in places


def test_the_node_leads_to_the_line_of_the_program(story):
    _, shown, _ = story
    lines = shown["ni -t cross_entropy/Log"]
    assert "Node cross_entropy/Log" in lines
    assert "  Op: Log" in lines
    assert "      [Softmax] Softmax" in lines
    at = lines.index(f"  Line:     {LOG_LINE}")
    assert lines[at - 1].endswith("examples/debug_mnist.py")
    assert lines[at + 1 : at + 3] == [
        "  Function: build_model",
        "  Text:     diff = -(y_ * tf.log(y))",
    ]


def test_the_source_names_the_node_under_its_line(story):
    _, shown, _ = story
    lines = next(found for head, found in shown.items() if head.startswith("source: "))
    at = next(n for n, text in enumerate(lines) if text.split()[:1] == [f"L{LOG_LINE}"])
    text, _, bad = lines[at].partition("  ◀ ")
    assert text.endswith("diff = -(y_ * tf.log(y))")
    assert bad.startswith("cross_entropy/Log:0 ") and "-inf" in bad
    assert "cross_entropy/Log" in [text.strip() for text in lines[at + 1 : at + 8]]


def test_its_inputs_lead_to_the_softmax_that_underflows(story):
    _, shown, _ = story
    lines = shown["li -r -t cross_entropy/Log"]
    assert lines[1] == "|- (1) [Softmax] Softmax"
    assert any("[MatMul] logits/Wx_plus_b/MatMul" in text for text in lines)
    head = shown["pt -r 0,0 Softmax:0"][0]
    assert int(re.search(r"Highlighted\(\[0, 0\]\): (\d+) of 1000", head)[1]) > 0


def test_a_saved_value_is_a_numpy_file(story):
    _, _, saved = story
    assert np.isneginf(np.load(saved)).any()


@pytest.mark.parametrize("engine", ENGINES)
def test_in_the_fixed_program_the_breakpoint_never_fires(engine):
    arguments = ("--engine", engine, "--stable")
    plain = python(EXAMPLE, *arguments)
    done = debug(["run -f has_inf_or_nan", "lt"], *arguments)
    assert done.status == plain.status == 0
    ours = [text for text in done.out.splitlines() if text.startswith("tfdbg:")]
    rest = [text for text in done.out.splitlines() if text not in ours]
    assert rest == plain.out.splitlines()
    assert float(rest[-1].split()[-1]) > 0.85


def test_searching_works_without_a_screen():
    done = debug(["run -f has_inf_or_nan", "pt -a cross_entropy/Log:0", "/inf"], "--max-steps", "6")
    assert done.status == 0
    lines = screens(done.out)["pt -a cross_entropy/Log:0"]
    found = [text for text in lines if re.match(r" *\d+:", text)]
    assert found
    assert all("inf" in text for text in found)
    bad = [text for text in lines if "-inf" in text and text not in found]
    assert len(found) == len(bad)


def test_a_command_that_fails_changes_the_exit_status_only():
    plain = python(EXAMPLE, "--max-steps", "2")
    done = debug(["pt nothing:0"], "--max-steps", "2")
    assert done.status == 1
    assert done.err.count("ERROR") == 1
    assert [t for t in done.out.splitlines() if "Accuracy" in t] == plain.out.splitlines()


TOUR = (EXAMPLES.parent / "docs" / "tour.md").read_text(encoding="utf-8")


def told_commands(text):
    """The commands of the tour's table."""
    table = text.partition("| type | and see |\n")[2]
    rows = table.partition("\n\n")[0].splitlines()[1:]
    return [re.match(r"\| (`+)(.+?)\1 \|", row)[2] for row in rows]


@pytest.mark.parametrize("engine", [*ENGINES, pytest.param("torch", marks=needs("torch"))])
def test_the_tours_names_exist_in_each_variant(engine):
    commands = told_commands(TOUR)
    assert len(commands) >= 8
    commands.remove("exit")
    if engine == "torch":
        pairs = re.findall(r"`([^`]+)`\s+for\s+`([^`]+)`", TOUR)
        assert pairs
        for theirs, name in pairs:
            commands = [command.replace(name, theirs) for command in commands]
        commands.insert(0, "config set level values")  # however busy the machine is
    done = debug(commands, "--engine", engine, "--max-steps", "6")
    assert done.status == 0, done.err
    assert "ERROR" not in done.err
