"""``pt``: the values of dumped tensors."""

import json
import re
import warnings

import ml_dtypes
import numpy as np
import pytest
from command_kit import Shell, link_of, roles
from safetensors.numpy import load_file

from tfdbg_cli.dumps.dump import InconvertibleTensorProto
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump


def test_a_tensor_with_its_dtype_and_shape(shell):
    lines = shell.lines("pt hidden/MatMul:0")
    assert lines[:4] == [
        'Tensor "hidden/MatMul:0:DebugIdentity":',
        "  dtype: float32",
        "  shape: (2, 2)",
        "",
    ]
    assert lines[4:] == ["array([[ 6.,  6.],", "       [-6., -6.]], dtype=float32)"]
    assert lines == shell.lines("print_tensor hidden/MatMul:0")
    assert roles(shell.document("pt hidden/MatMul:0"), "bold")[0].startswith('"hidden/MatMul:0')


def test_a_node_name_or_a_watch_key_will_do(shell):
    full = shell.lines("pt hidden/MatMul:0")
    assert shell.lines("pt hidden/MatMul") == full
    assert shell.lines("pt hidden/MatMul:0:DebugIdentity") == full


def test_several_slots_are_offered(shell):
    document = shell.document("pt uniq")
    assert "2 output slots" in document.text
    assert shell.lines(link_of(document, "uniq:1"))[-1] == "array([0, 0, 1], dtype=int32)"
    document = shell.document("pt uniq[0] -s -n 0")
    assert link_of(document, "uniq:1") == "pt uniq:1[0] -n 0 -s"
    assert "li -c -r uniq" in [item.command for item in document.menu]
    assert shell.lines("pt uniq:1[0] -n 0 -s")[-1] == "array(0, dtype=int32)"


def test_several_dumps_are_offered_with_every_option(shell):
    document = shell.document("pt loop/body:0 -s -a -r [2,3] --sort-by-magnitude --reverse")
    lines = [line.text for line in document]
    assert lines[0] == 'Tensor "loop/body:0" generated 4 dumps:'
    assert [text.split()[0] for text in lines[1:5]] == ["#0", "#1", "#2", "#3"]
    command = next(s.link.command for line in document for s in line.spans if s.link)
    assert command == "print_tensor loop/body:0 -n 0 -a -s --sort-by-magnitude --reverse -r [2,3]"
    text = shell.text(command)
    assert "Highlighted" in text
    assert "min" in text


def test_one_of_several_dumps_with_the_summary(shell):
    lines = shell.lines("pt loop/body:0 -n 2 -s")
    assert lines[-1] == "array(3, dtype=int32)"
    assert any("min" in text and "mean" in text for text in lines)
    assert shell.lines("pt loop/body:0 -n -1")[-1] == "array(4, dtype=int32)"
    assert lines[0] == 'Tensor "loop/body:0:DebugIdentity" (dump #2 of 4):'
    last = shell.lines("pt loop/body:0[...] -n -1")[0]
    assert last == 'Tensor "loop/body:0:DebugIdentity[...]" (dump #3 of 4):'
    assert "dump #" not in shell.text("pt ints:0")


def test_a_structure_is_called_by_its_fields():
    dump = MemoryDump(Graph([Node("pairs", "Pairs")]))
    dump.add("pairs", 0, np.zeros(3, [("a", "<f4"), ("b", "<i8", (2,))]), timestamp=1)
    shell = Shell(dump)
    name = "[('a', '<f4'), ('b', '<i8', (2,))]"
    assert shell.lines("pt pairs:0")[1] == f"  dtype: {name}"
    assert name in shell.text("lt")
    assert json.loads(shell.text("lt --json"))["dtype"] == name


def test_a_slice_is_kept_when_a_dump_is_to_be_chosen():
    dump = MemoryDump(Graph([Node("a", "A")]))
    for number in range(2):
        dump.add("a", 0, np.arange(4) + 10 * number, timestamp=number)
    shell = Shell(dump)
    document = shell.document("pt a:0[1:, ]")
    command = next(s.link.command for line in document for s in line.spans if s.link)
    assert shell.lines(command)[-1] == "array([1, 2, 3])"


@pytest.mark.parametrize(
    ("slicing", "shape", "last"),
    [
        ("[0, :]", "(30,)", None),
        ("[0:2, 3:5]", "(2, 2)", "       [33., 34.]])"),
        ("[-1, -1]", "()", "array(2999.)"),
        ("[..., 0]", "(100,)", None),
        ("[::-50, 0]", "(2,)", "array([2970., 1470.])"),
        ("[[-2, -1], 1]", "(2,)", "array([2941., 2971.])"),
        ("[newaxis, 3, None, :2]", "(1, 1, 2)", "array([[[90., 91.]]])"),
        ("[_ > 2997]", "(2,)", "array([2998., 2999.])"),
        ("[_[:, 0] > 2950, 2]", "(1,)", "array([2972.])"),
        ("[np.isnan(_)]", "(0,)", "array([], dtype=float64)"),
        ("[:2, `ints:0`[0]]", "(2, 2)", "       [31., 52.]])"),
        ("[len(`uniq:0`), feeds['input/x'].shape[0]]", "()", "array(62.)"),
    ],
)
def test_slices_as_in_numpy(shell, slicing, shape, last):
    lines = shell.lines(f"pt big:0{slicing}")
    assert lines[0] == f'Tensor "big:0:DebugIdentity{slicing}":'
    assert lines[1:3] == ["  dtype: float64", f"  shape: {shape}"]
    if last is not None:
        assert lines[-1] == last
    assert shell.lines(f'pt "big:0{slicing}"') == lines


def test_large_tensors_have_ellipses_unless_all_is_asked_for(shell):
    short = shell.lines("pt big:0")
    assert any("..." in text for text in short)
    assert "-a shows all" in short[-1]
    full = shell.lines("pt big:0 -a")
    assert not any("..." in text for text in full)
    assert "2.999e+03]])" in full[-1]
    shell.settings.override("max_elements", 10_000)
    assert shell.lines("pt big:0") == full


def test_ranges_are_highlighted_down_to_single_digits(shell):
    document = shell.document("pt ints:0 -r [3,100]")
    assert document.lines(0, 1)[0].text == (
        'Tensor "ints:0:DebugIdentity": Highlighted([3, 100]): 3 of 4 element(s) (75.00%)'
    )
    assert [text.strip() for text in roles(document, "highlight")[1:]] == ["22", "3", "5"]


@pytest.mark.parametrize(
    ("command", "share"),
    [
        ("pt hidden/Relu:0 -r 0,1", "2 of 4 element(s) (50.00%)"),
        ('pt hidden/MatMul:0 -r "[[-inf, -1], [6, inf]]"', "4 of 4"),
        ("pt hidden/MatMul:0 -r [[-inf,-1],[60,inf]]", "2 of 4"),
        ("pt empty:0 -r 0,1", "0 of 0 element(s) (0.00%)"),
        ("pt cplx:0 --ranges 0,5", "1 of 2"),
    ],
)
def test_ranges_of_all_kinds(shell, command, share):
    assert share in shell.lines(command)[0]


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("bad/Log:0", ["-inf", "total"]),
        ("bad/Mul:0", ["nan", "total"]),
        ("cplx:0", ["nan", "total"]),
        ("flags:0", ["False", "True", "total"]),
        ("empty:0", []),
        ("text:0", []),
        ("ints:0", ["min", "max", "mean", "std"]),
    ],
)
def test_the_summary_works_for_every_dtype(shell, name, parts):
    text = shell.text(f"pt -s {name}")
    assert "Numeric summary:" in text
    for part in parts:
        assert part in text


def test_a_saved_value_can_be_loaded(shell, tmp_path):
    path = tmp_path / "a b.npy"
    text = shell.text(f'pt big:0[1] -w "{path}"')
    assert f"Saved value to: {path}" in text
    np.testing.assert_array_equal(np.load(path), np.arange(30.0, 60.0))
    assert [entry.name for entry in tmp_path.iterdir() if entry.suffix == ".npy"] == ["a b.npy"]
    shell.document(f"pt text:0 -w {tmp_path}/text.npy")
    assert np.load(tmp_path / "text.npy").tolist() == [b"abc", b"\xff"]
    size = f"({(tmp_path / 'text.npy').stat().st_size}B)"
    assert size in shell.text(f"pt text:0 -w {tmp_path}/text")
    shell.document(f"pt hidden/MatMul:0 -w {tmp_path}/m.npz")
    with np.load(tmp_path / "m.npz") as archive:
        assert archive["hidden/MatMul:0"].tolist() == [[6, 6], [-6, -6]]
    shell.document(f"pt bad/Mul:0 -w {tmp_path}/m.safetensors")
    assert np.isnan(load_file(tmp_path / "m.safetensors")["bad/Mul:0"]).sum() == 2
    shell.document(f"pt ints:0 -w {tmp_path}/m.csv")
    assert (tmp_path / "m.csv").read_text() == "1,22\n3,5\n"


def test_what_is_printed_of_bad_elements_says_where_they_were_saved(shell, tmp_path):
    document = shell.document(f"pt bad/Mul:0 --bad -w {tmp_path / 'x.npy'}")
    printed = document.printed.lines(0, document.printed.line_count)
    assert any(each.text.startswith("Saved value to: ") for each in printed)


def test_bfloat16_is_shown_by_its_name():
    dump = MemoryDump(Graph([Node("a", "A")]))
    dump.add("a", 0, np.array([1, np.inf], ml_dtypes.bfloat16), timestamp=1)
    text = Shell(dump).text("pt -s a:0")
    assert "dtype: bfloat16" in text
    assert "+inf" in text
    assert "inf]" in text


def test_what_is_no_array_is_said_to_be_none():
    dump = MemoryDump(Graph([Node("v", "VariableV2"), Node("q", "Queue")]))
    dump.add("v", 0, InconvertibleTensorProto("variable v", initialized=False), timestamp=1)
    dump.add("q", 0, InconvertibleTensorProto("a queue"), timestamp=2)
    shell = Shell(dump)
    assert "Uninitialized tensor:" in shell.text("pt v:0")
    assert "a queue" in shell.text("pt q:0")
    assert "not an array" in shell.error("eval `v:0`")
    for command in ("pt v:0 -s", "pt q:0 -r 0,1", "lt", "ni -d v", "lt -f has_inf_or_nan"):
        shell.document(command)
    assert "a queue" in shell.text("pt q:0[0]")
    assert "no array" in shell.error("pt q:0 -w /dev/null")


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("pt", ["required", "TENSOR[SLICE]"]),
        ("pt a:0 b:0", ['"b:0" is one word too many']),
        ("pt hidden/Matmul", ['"hidden/Matmul"', "Did you mean hidden/MatMul:0"]),
        ("pt hidden/MatMull:0", ["hidden/MatMull", "Did you mean hidden/MatMul:0"]),
        ("pt hidden/MatMul:3", ["did not generate any dumps", "hidden/MatMul:0"]),
        ("pt init", ["did not generate any dumps", "did not compute"]),
        ("pt init:0", ["did not generate any dumps", "did not compute"]),
        ("pt big:0[", ["not closed"]),
        ("pt big:0[]", ["slice is empty"]),
        ("pt big:0[a]", ["[a] does not fit", "name 'a' is not defined", "_ is the tensor"]),
        ("pt big:0[1.5]", ['"1.5" is not an index']),
        ("pt big:0[_ >]", ["SyntaxError: invalid syntax", 'at "]"']),
        ("pt big:0[_.foo]", ["AttributeError", "'foo'"]),
        ("pt big:0[_ > `nowhere:0`]", ["nowhere", "does not exist"]),
        ("pt big:0[`flags:0`]", ["IndexError", "boolean index", "The shape is (100, 30)."]),
        ("pt big:0[[0,1],[1,2,3]]", ["does not fit", "(100, 30)"]),
        ("pt big:0[0][1]", ["not a single slice", "One pair of brackets"]),
        ("pt 'big:0[0] + _[1]'", ["not a single slice"]),
        ("pt big:0[0,0,0]", ["3 indices", "2 dimension(s)"]),
        ("pt big:0[200]", ["does not fit", "(100, 30)"]),
        ("pt big:0[::0]", ["step"]),
        ("pt ints:0 -n 1", ["Invalid number (1)", "one dump"]),
        ("pt loop/body:0 -n 9", ["Specified number (9) exceeds", "(4)", "Use 0 to 3."]),
        ("pt ints:0 -n x", ["-n/--number", "invalid int value: 'x'"]),
        ("pt ints:0 -r 1", ["not a range", "low,high"]),
        ("pt ints:0 -r 2,1", ["is empty"]),
        ("pt text:0 -r 0,1", ["numbers", "strings"]),
        ("pt ints:0 --bad", ["int32", "never nan", "floating point"]),
        ("pt text:0 --bad", ["string", "never nan"]),
        ("pt text:0 --sort-by-magnitude", ["string", "no magnitude"]),
        ("pt ints:0 --reverse", ["--sort-by-magnitude"]),
        ("pt ints:0 -w x.txt", ["x.txt", ".npy", ".npz", ".safetensors", ".csv"]),
        ("pt ints:0 -w /no/such/place/x.npy", ["/no/such/place/x.npy", "can't be written"]),
        ("pt ints:0 -q", ["no option -q"]),
    ],
)
def test_mistakes_are_one_line_with_cause_and_fix(shell, capfd, command, parts):
    text = shell.error(command)
    for part in parts:
        assert part in text
    assert capfd.readouterr() == ("", "")


def test_the_options_of_a_choice_are_kept_whatever_they_hold(tmp_path):
    dump = MemoryDump(Graph([Node("a b", "A")]))
    for number in range(2):
        dump.add("a b", 0, np.array([1.0, np.nan]), timestamp=number)
    shell = Shell(dump)
    path = tmp_path / "out > file.npy"
    document = shell.document(f"pt 'a b:0[_ > 0]' --bad -r '[0, 1]' -w '{path}'")
    assert not path.exists()
    command = next(s.link.command for line in document for s in line.spans if s.link)
    text = shell.text(command)
    assert "No bad elements among 1." in text
    assert "1 of 1 element(s)" in text
    assert np.load(path).tolist() == [1.0]


def test_what_is_refused_writes_nothing(shell, tmp_path):
    for options in ("--bad", "--reverse", "-r 2,1"):
        shell.error(f"pt ints:0 {options} -w {tmp_path}/x.npy")
    shell.error(f"pt text:0 --sort-by-magnitude -w {tmp_path}/x.npy")
    assert list(tmp_path.iterdir()) == []


def test_names_with_brackets():
    dump = MemoryDump()
    dump.add("layers[0].w", 0, np.arange(3), timestamp=1)
    dump.add("layers", 0, np.arange(9), timestamp=2)
    shell = Shell(dump)
    for command in (
        "layers[0].w:0[1]",
        "layers[0].w[1]",
        "'layers[0].w:0'[1]",
        "'layers[0].w:0[1]'",
    ):
        assert shell.lines(f"pt {command}")[-1] == "array(1)"
    assert shell.lines("pt layers[0]")[0] == 'Tensor "layers:0:DebugIdentity[0]":'
    assert shell.lines("eval `layers[0].w:0`")[-1] == "array([0, 1, 2])"


@pytest.mark.parametrize(
    ("command", "hint"),
    [
        ("pt cross_entropy/Log:0", "Did you mean log:0"),
        ("pt cross_entropy/Log", "Did you mean log:0"),
        ("ni -t cross_entropy/Log", "Did you mean log"),
        ("li encoder/layer/MatMul_1", "Did you mean decoder/layers/0/matmul_1"),
        ("pt hiden/relu:0", "Did you mean hidden/Relu:0, output_of_it_all/relu:0"),
    ],
)
def test_the_op_of_that_name_elsewhere_is_offered(command, hint):
    names = ["log", "decoder/layers/0/matmul_1", "output_of_it_all/relu", "hidden/Relu", "x"]
    dump = MemoryDump(Graph([Node(name, "Op") for name in names]))
    for name in names:
        dump.add(name, 0, np.ones(3), timestamp=1)
    assert hint in Shell(dump).error(command)


def test_bad_elements_are_counted_and_linked():
    dump = MemoryDump(Graph([Node("a", "A")]))
    value = np.ones((100, 50), np.float32)
    value[::3, 7] = np.nan
    value[50, 1] = -np.inf
    dump.add("a", 0, value, timestamp=1)
    document = Shell(dump).document("pt a:0 --bad")
    lines = [line.text for line in document]
    assert lines[4] == "Bad elements: 35 of 5000 (34 NaN, 1 -Inf)"
    links = [s.link.command for line in document for s in line.spans if s.link]
    assert links[:3] == ["@[0,7]", "@[3,7]", "@[6,7]"]
    assert len(links) == 20
    assert "the first 20; on the screen Esc, then n and N step" in document.text
    for link in links:
        index = tuple(int(i) for i in link[2:-1].split(","))
        first, last = document.lines(document.locate(index), document.locate(index) + 1)[0].indices
        assert first <= index <= last
    # What n and N search for is nowhere but in the elements.
    pattern, at, found = re.compile(document.initial_search), -1, []
    while (at := document.find(pattern, at + 1)) is not None:
        found.append(at)
    assert len(found) == 35
    assert [at for at, text in enumerate(lines) if pattern.search(text)] == found
    back, at = [], len(lines)
    while (at := document.find(pattern, at - 1, -1)) is not None:
        back.append(at)
    assert back == found[::-1]
    assert document.find(pattern, found[3] + 1, 1, found[4]) is None
    assert document.find(pattern, found[4] - 1, -1, found[3]) is None
    assert document.resized(60).initial_search == document.initial_search


def test_no_bad_elements_is_said(shell):
    document = shell.document("pt big:0 --bad")
    assert "No bad elements among 3000." in document.text
    assert document.initial_search == ""
    assert "..." in document.text
    assert "(1 NaN)" in shell.text("pt cplx:0 --bad")
    assert "No bad elements among 0." in shell.text("pt empty:0 --bad")
    assert "(1 NaN)" in shell.text("pt bad/Mul:0[1, 1] --bad")


def test_elements_by_magnitude(shell):
    assert shell.lines("pt bad/Log:0 --sort-by-magnitude")[4:] == [
        "[1,0]  -inf",
        "[1,1]  -inf",
        "[0,0]  1.7917595",
        "[0,1]  1.7917595",
    ]
    short = shell.lines("pt big:0 --sort-by-magnitude")
    assert short[4] == "[99,29]  2999.0"
    assert len(short) == 1006
    assert short[-1] == "(2000 more of 3000 elements; -a shows all)"
    full = shell.document("pt big:0 --sort-by-magnitude --reverse -a")
    assert (full.line_count, full.lines(4, 5)[0].text) == (3004, "[0,0]    0.0")
    assert full.locate((99, 29)) == 3003


def test_the_summary_has_quantiles_and_a_histogram(shell):
    lines = shell.lines("pt big:0 -s")
    assert any(text.split()[1:4] == ["0%", "1%", "25%"] for text in lines)
    at = next(at for at, text in enumerate(lines) if text.startswith("Histogram"))
    bars = [text[4:] for text in lines[at + 1 : at + 6]]
    assert {len(text) for text in bars} == {60} and set(bars[1]) == {"█"}
    assert (lines[at + 6][:4], lines[at + 7].split()[0]) == (" 0 ┼", "0")
    assert lines[at + 7].split()[-1] == "2999"
    assert "imag" not in shell.text("pt cplx:0 -s")
    assert "real: 1 nan" in shell.text("pt cplx:0 -s")
    assert "2 distinct" in shell.text("pt text:0 -s")


def test_the_scales_of_the_histogram_are_links(shell):
    document = shell.document("pt big:0[1:] -s --log y")
    found = [span for made in document for span in made.spans if span.link is not None]
    assert {span.link.command: span.text for span in found} == {
        "pt big:0[1:] -s --log xy": "log",
        "pt big:0[1:] -s": "linear",
    }
    assert {span.text for span in found} == {"log", "linear"}
    both = shell.text('pt "big:0[1:]" -s --log xy')
    assert "pt" not in both and both != shell.text('pt "big:0[1:]" -s')
    assert "--log goes with -s." in shell.reply("pt big:0 --log x").message.text
    assert "Histogram  values: logarithmic  counts: linear" in shell.text("eval -s --log x `big:0`")
    # What nobody has asked for takes one line.
    assert f"0 |{'█' * 40}| 2999" in shell.lines("eval `big:0`")

    def heights(width):
        texts = [made.text for made in document.resized(width)]
        bars = [text for text in texts if "│" in text or "┤" in text]
        assert max(map(len, bars)) <= width
        return len(bars)

    assert (heights(50), heights(80), heights(160)) == (5, 5, 8)


def test_stored_results_can_be_printed(shell):
    shell.document("eval -o twice `big:0`*2")
    lines = shell.lines("pt twice[0, :3]")
    assert lines == ['Tensor "twice[0, :3]":', "  dtype: float64", "  shape: (3,)", "", lines[-1]]
    assert lines[-1] == "array([0., 2., 4.])"
    shell.document("eval -o ints 5")
    assert shell.lines("pt ints")[0].startswith('Tensor "ints:0:')
    shell.document("eval -o some [1]")
    assert shell.lines("pt some")[-1] == "[1]"
    assert "Only arrays" in shell.error("pt some[0]")
    assert "one value" in shell.error("pt twice -n 2")
    assert shell.complete("pt twi") == ["pt twice"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex128"])
def test_what_numpy_is_to_raise_is_for_the_program(dtype):
    real = dtype.replace("complex128", "float64")
    limits = np.finfo(real)
    numbers = [limits.max, -limits.max, limits.tiny, limits.smallest_subnormal, 0, 1]
    value = np.array([*numbers, np.nan, np.inf, -np.inf], dtype)
    dump = MemoryDump()
    dump.add("a", 0, value)
    dump.add("small", 0, value[:3])
    commands = [
        f"pt {name}:0{options}"
        for name in ("a", "small")
        for options in ("", " -s", " -r [-inf,1e30]", " --sort-by-magnitude", " --bad")
    ]
    commands += ["eval `a:0`*`a:0`", "eval '`a:0`/0'", "lt"]

    def shown():
        shell = Shell(dump)
        return [shell.text(command) for command in commands]

    plain = shown()
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert shown() == plain


def test_the_screen_width_is_obeyed(shell):
    for width in (30, 60, 200):
        lines = shell.lines("pt big:0[0]", width)[4:]
        assert max(len(text) for text in lines) <= width
        if width < 200:
            assert len(lines) > 1
