"""``lp`` and ``ps`` after a timed run: rows, totals, order, filters, links, costs of lines."""

import json
import re
from functools import partial

import pytest
from command_kit import Shell, link_of, roles

from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.graph import Graph, Node
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.profile import CodeLine, Profile, ProfileEntry
from tfdbg_cli.dumps.sources import Frame, Sources
from tfdbg_cli.engines import numpy as tf
from tfdbg_cli.engines.numpy.debugging import ENGINE

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
GPU = "/job:localhost/replica:0/task:0/device:GPU:0"
MODEL = "/home/me/my models/net.py"
TRAIN = "/home/me/train.py"
SOURCES = {
    MODEL: "def layer(x):\n    y = matmul(x, w)\n    return relu(y)\n",
    TRAIN: "import net\nnet.layer(x)\n# end\n",
}


def profiled_dump():
    """Two devices, a repeated node, a fused one, one that the runtime made, one without a line."""
    product, relu = CodeLine(MODEL, 2, "layer"), CodeLine(MODEL, 3, "layer")
    step = CodeLine(TRAIN, 2, "<module>")
    cpu = [
        ProfileEntry("x", "Placeholder", 0.0, 1.0, 2.0, "_arg_x_0_0", "_Arg", step),
        ProfileEntry("hid/MatMul", "MatMul", 2.5, 100.0, 120.0, place=product),
        ProfileEntry("hid/Relu", "Relu", 130.0, 40.0, 50.0, kernel="_FusedMatMul", place=relu),
        ProfileEntry("hid/MatMul", "MatMul", 200.0, 1200.0, 1500.0, place=product),
        ProfileEntry("swap", "Copy", 1800.0, 7.0, 9.0),
    ]
    gpu = [ProfileEntry("out", "Softmax", 50.0, 2000.0, 2500.0, place=step)]

    def node(name, op_type, *inputs):
        frames = [Frame(TRAIN, 2, "<module>"), Frame(MODEL, 2, "layer")]
        return Node(name, op_type, inputs, frames=frames)

    graph = Graph(
        [
            node("x", "Placeholder"),
            node("hid/MatMul", "MatMul", "x:0"),
            node("hid/Relu", "Relu", "hid/MatMul:0"),
            node("out", "Softmax", "hid/Relu:0"),
        ]
    )
    return MemoryDump(
        graph,
        Sources(SOURCES, live=False),
        RunInfo(3, ["out:0"], {"x:0": [1.0]}),
        Profile([(CPU, reversed(cpu)), (GPU, gpu)]),
    )


@pytest.fixture
def shell():
    return Shell(profiled_dump(), "profile")


def rows(shell, command):
    """Node and exec time in microseconds of each row."""
    found = shell.lines(f"{command} --json")
    return [(item["node"], item["exec_time_us"]) for item in map(json.loads, found)]


def nodes(shell, command):
    return [node for node, _ in rows(shell, command)]


ALL = ["x", "hid/MatMul", "hid/Relu", "hid/MatMul", "swap", "out"]


def test_each_device_has_its_table_and_its_totals(shell):
    assert shell.lines("lp") == [
        "6 op execution(s) on 2 device(s):",
        "",
        f"Device 1 of 2: {CPU}",
        "",
        "Node          Op Type              Start Time (us)  Op Time (us)  Exec Time (us)  "
        "Filename:Lineno(function)",
        "x             Placeholder (_Arg)             0.0us         1.0us           2.0us  "
        "train.py:2(<module>)",
        "hid/MatMul    MatMul                         2.5us       100.0us         120.0us  "
        "net.py:2(layer)",
        "hid/Relu      Relu (_FusedMatMul)          130.0us        40.0us          50.0us  "
        "net.py:3(layer)",
        "hid/MatMul    MatMul                       200.0us      1200.0us        1500.0us  "
        "net.py:2(layer)",
        "swap          Copy                        1800.0us         7.0us           9.0us",
        "",
        "Device Total                                            1348.0us        1681.0us",
        "",
        f"Device 2 of 2: {GPU}",
        "",
        "Node          Op Type  Start Time (us)  Op Time (us)  Exec Time (us)  "
        "Filename:Lineno(function)",
        "out           Softmax           50.0us      2000.0us        2500.0us  "
        "train.py:2(<module>)",
        "",
        "Device Total                                2000.0us        2500.0us",
    ]


def test_alias_and_long_name_are_the_same(shell):
    assert shell.lines("lp") == shell.lines("list_profile")


def test_totals_stand_under_the_times(shell):
    # Defect 43: one column too far to the left.
    lines = shell.lines("lp -d CPU")
    head = next(text for text in lines if text.startswith("Node"))
    total = next(text for text in lines if text.startswith("Device Total"))
    for column, value in (("Op Time (us)", "1348.0us"), ("Exec Time (us)", "1681.0us")):
        assert head.index(column) + len(column) == total.index(value) + len(value)


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("start_time", ALL),
        ("node", ["hid/MatMul", "hid/MatMul", "hid/Relu", "swap", "x", "out"]),
        ("op_type", ["swap", "hid/MatMul", "hid/MatMul", "x", "hid/Relu", "out"]),
        ("op_time", ["x", "swap", "hid/Relu", "hid/MatMul", "hid/MatMul", "out"]),
        ("exec_time", ["x", "swap", "hid/Relu", "hid/MatMul", "hid/MatMul", "out"]),
        ("line", ["swap", "hid/MatMul", "hid/MatMul", "hid/Relu", "x", "out"]),
    ],
)
def test_sorting_by_each_key_and_back(shell, key, expected):
    assert nodes(shell, f"lp -s {key}") == expected
    shown = [text.split()[0] for text in shell.lines(f"lp -d CPU -s {key}")[6:-2]]
    assert shown == expected[:-1]
    backwards = rows(shell, f"lp --sort_by {key} -r -d CPU")
    assert sorted(backwards) == sorted(rows(shell, "lp -d CPU"))
    if key not in ("node", "op_type", "line"):  # no two entries are equal
        assert [node for node, _ in backwards] == expected[:-1][::-1]
    else:
        assert backwards[0][0] == expected[-2]


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ("-d GPU", ["out"]),
        ("--device_name_filter ^/job", ALL),
        ("-n MatMul", ["hid/MatMul", "hid/MatMul"]),
        ("-n ^MatMul", []),
        ("-n _arg_", ["x"]),
        ("--node_name_filter hid/", ["hid/MatMul", "hid/Relu", "hid/MatMul"]),
        ("-t atMul", ["hid/MatMul", "hid/Relu", "hid/MatMul"]),
        ("-t ^MatMul$", ["hid/MatMul", "hid/MatMul"]),
        ("--op_type_filter Softmax", ["out"]),
        ("-f net", ["hid/MatMul", "hid/Relu", "hid/MatMul"]),
        ('-f "my models/"', ["hid/MatMul", "hid/Relu", "hid/MatMul"]),
        ("--file_path_filter ^net", []),
        ("-f net --min_lineno 3", ["hid/Relu"]),
        ("-f net --max_lineno 3", ["hid/MatMul", "hid/MatMul"]),
        ("--min_lineno 2 --max_lineno 3", ["x", "hid/MatMul", "hid/MatMul", "out"]),
        ("--min_lineno -1 --max_lineno -1", ALL),
        ("-e >120us", ["hid/MatMul", "out"]),
        ("-e >=120", ["hid/MatMul", "hid/MatMul", "out"]),
        ("--execution_time <=9us", ["x", "swap"]),
        ("-e [9us,120us)", ["hid/Relu", "swap"]),
        ("-e (1ms,inf)", ["hid/MatMul", "out"]),
        ('-o "[ 7us, 0.1ms ]"', ["hid/MatMul", "hid/Relu", "swap"]),
        ("--op_time <1.2ms -n hid", ["hid/MatMul", "hid/Relu"]),
        ("-o >1us -e <3ms -t Mul -f net -d CPU", ["hid/MatMul", "hid/Relu", "hid/MatMul"]),
    ],
)
def test_filters_choose_and_combine(shell, filters, expected):
    assert nodes(shell, f"lp {filters}") == expected
    text = shell.text(f"lp {filters}")
    assert text.startswith(f"{len(expected)} of 6 op execution(s)" if expected != ALL else "6")


def test_a_file_is_found_by_any_part_of_its_path(shell):
    # Defect 33.
    assert nodes(shell, "lp -f train.py") == ["x", "out"]


def test_totals_are_those_of_what_is_listed(shell):
    lines = shell.lines("lp -n MatMul -d CPU")
    assert lines[-1].split() == ["Device", "Total", "1300.0us", "1620.0us"]


def test_a_filter_that_nothing_passes_says_so(shell):
    text = shell.text("lp -n nothing")
    assert text.count("No op execution passes.") == 2
    assert "Total" not in text
    assert 'Node name regex filter: "nothing"' in text


def test_other_units(shell):
    lines = shell.lines("lp -d CPU --time_unit ms")
    assert "Start Time (ms)  Op Time (ms)  Exec Time (ms)" in lines[5]
    assert lines[9].split()[2:5] == ["0.2000ms", "1.2000ms", "1.5000ms"]
    assert lines[-1].split()[2:] == ["1.3480ms", "1.6810ms"]
    assert shell.lines("lp -d CPU --time_unit s")[9].split()[4] == "0.0015000s"


def test_heads_sort_and_keep_every_filter(shell):
    # Defect 43: they forgot all but three.
    command = (
        'lp -d "CPU|GPU" -n "hid|a b" -t "Mul" -f "my models" --min_lineno 2 --max_lineno 9 '
        '-e ">1us" -o "[1us, 5ms)" --time_unit ms'
    )
    document = shell.document(command)
    for head, key in (
        ("Node", "node"),
        ("Op Type", "op_type"),
        ("Start Time (ms)", "start_time"),
        ("Op Time (ms)", "op_time"),
        ("Exec Time (ms)", "exec_time"),
        ("Filename:Lineno(function)", "line"),
    ):
        link = link_of(document, head)
        turn = " -r" if key == "start_time" else ""
        assert link.endswith(f" -s {key}{turn}")
        assert sorted(rows(shell, link)) == sorted(rows(shell, command))
        assert "Start Time (ms)" in shell.text(link)
    by_op = link_of(document, "Op Time (ms)")
    assert link_of(shell.document(by_op), "Op Time (ms)") == f"{by_op} -r"
    assert link_of(shell.document(f"{by_op} -r"), "Op Time (ms)") == by_op


def test_every_link_and_menu_item_leads_somewhere(shell):
    followed = set()
    waiting = ["lp", "ri", "lp -e >10us -t Mul", f'ps "{MODEL}"', "ls"]
    while waiting:
        command = waiting.pop()
        if command in followed or command.split()[0] in ("run", "invoke_stepper", "exit", "help"):
            continue
        followed.add(command)
        waiting += shell.links(command)
    assert {command.split()[0] for command in followed} >= {"lp", "ps", "ni", "ri", "pf"}


def test_nodes_and_lines_are_links_where_something_is_known(shell):
    document = shell.document("lp -d CPU -n hid -e >100us")
    assert link_of(document, "hid/MatMul") == "ni -a -d -t hid/MatMul"
    line = link_of(document, "net.py:2(layer)")
    assert line == f'ps "{MODEL}" --init_line 2 -d CPU -n hid'
    shown = shell.document(line)
    assert shown.lines(shown.initial_line, shown.initial_line + 1)[0].text.endswith(
        "    y = matmul(x, w)"
    )
    assert "swap" in roles(shell.document("lp"), "")
    assert [item.command for item in shell.document("ni hid/MatMul").menu if item.enabled] == [
        *("li -c -r hid/MatMul", "lo -c -r hid/MatMul", "graph hid/MatMul", "lp")
    ]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("lp -s foo", "invalid choice: 'foo' (choose from 'node', 'op_type', 'start_time'"),
        ("lp --time_unit h", "invalid choice: 'h' (choose from 'us', 'ms', 's')"),
        ("lp -e 100us", '"100us" is not a valid interval. Write >10us, <=1ms or [10us,1ms)'),
        ("lp -e [2us,1us]", "its start is above its end"),
        ("lp -o [1us,1h]", '"1h" is not a valid time. Write 100us, 1.5ms or 2s'),
        ("lp -d TPU", f'No device matches "TPU". There are {CPU}, {GPU}.'),
        ("lp -d [", '-d: "[" is not a regular expression'),
        ("lp -n (", '-n: "(" is not a regular expression'),
        ("lp -t (", '-t: "(" is not a regular expression'),
        ("lp -f (", '-f: "(" is not a regular expression'),
        ("lp --min_lineno x", "invalid int value: 'x'"),
        ("lp foo", '"foo" is one word too many'),
        ("ps net.py --cost_type time", "choose from 'exec_time', 'op_time'"),
        ("ps nothing.py", 'No source file "nothing.py" made a node in this run'),
        ("ps", "the following arguments are required"),
        ("lt", "list_tensors is not available after a run that was timed. run -p keeps no tensors"),
        ("pt x:0", "print_tensor is not available after a run that was timed."),
    ],
)
def test_mistakes_are_told_in_one_line(shell, command, message):
    assert message in shell.error(command)


@pytest.mark.parametrize("mode", ["run-start", "run-end", "offline"])
def test_there_is_nothing_to_list_where_nothing_was_timed(mode):
    shell = Shell(None if mode == "run-start" else profiled_dump(), mode)
    assert "list_profile is not available" in shell.error("lp")


def test_an_interval_is_no_redirection(shell, tmp_path):
    path = tmp_path / "out.txt"
    reply = shell.reply(f"lp -e >1ms > {path}")
    assert not reply.failed
    assert path.read_text().splitlines()[0] == "2 of 6 op execution(s) on 2 device(s):"
    assert nodes(shell, "lp -e >1e3us") == nodes(shell, "lp -e >=1000.5") == ["hid/MatMul", "out"]
    assert shell.lines("lp -e >.01s")[0].startswith("0 of 6 ")
    assert '">" is not a valid interval' in shell.error("lp -e > 1ms")


def test_json_tells_everything(shell):
    fed, product = (json.loads(shell.lines("lp --json")[at]) for at in (0, 1))
    assert fed == {
        "device": CPU,
        "node": "x",
        "op_type": "Placeholder",
        "kernel": "_Arg",
        "runtime_name": "_arg_x_0_0",
        "start_time_us": 0.0,
        "op_time_us": 1.0,
        "exec_time_us": 2.0,
        "file": TRAIN,
        "line": 2,
        "function": "<module>",
    }
    assert (product["kernel"], product["runtime_name"]) == ("MatMul", "hid/MatMul")
    assert json.loads(shell.lines("lp --json -n swap")[0])["file"] is None


def test_the_source_shows_what_each_line_cost(shell):
    assert shell.lines("ps net.py") == [
        "              exec_time  #nodes    lineno",
        "                         (#execs)         source",
        "                                   L1     def layer(x):",
        "[||||||||||]   1620.0us  1(2)      L2         y = matmul(x, w)",
        "[|         ]     50.0us  1(1)      L3         return relu(y)",
    ]
    assert shell.document("ps net.py").title == f"profile of {MODEL}"


def test_the_source_can_show_computing_alone_in_another_unit(shell):
    lines = shell.lines("ps train.py --cost_type op_time --time_unit ms")
    assert lines[0].split() == ["op_time", "#nodes", "lineno"]
    assert lines[3] == "[||||||||||]  2.0010ms  2(2)      L2     net.layer(x)"
    lines = shell.lines("ps train.py -d CPU")
    assert 'Device name regex filter: "CPU"' in lines
    assert lines[-2] == "[||||||||||]      2.0us  1(1)      L2     net.layer(x)"
    assert shell.lines("ps net.py -t ^Relu")[-2:] == [
        "                                   L2         y = matmul(x, w)",
        "[||||||||||]     50.0us  1(1)      L3         return relu(y)",
    ]


def test_the_counts_of_a_line_list_its_ops(shell):
    document = shell.document(f'ps "{MODEL}" -d CPU -t Mul --time_unit ms')
    link = link_of(document, "1(2)")
    words = f'lp -f "^{re.escape(MODEL)}$" --min_lineno 2 --max_lineno 3 -d CPU -t Mul'
    assert link == f"{words} --time_unit ms"
    assert rows(shell, link) == [("hid/MatMul", 120.0), ("hid/MatMul", 1500.0)]


def test_the_source_opens_at_a_line(shell):
    for flag in ("--init_line", "-b"):  # the links of `ls` say -b
        document = shell.document(f"ps net.py {flag} 3")
        (line,) = document.lines(document.initial_line, document.initial_line + 1)
        assert line.text.endswith("return relu(y)")
    assert shell.document("ps net.py").initial_line == 0
    assert shell.document("ps net.py --init_line 99").initial_line == 4


def test_a_file_without_costs_is_shown_as_it_is(shell):
    lines = shell.lines("ps train.py -n hid")
    assert "No op that was timed was made in this file." in lines
    assert lines[-3].split() == ["L1", "import", "net"]


def test_completion(shell):
    assert shell.complete("lp -s st") == ["lp -s start_time"]
    assert shell.complete("lp --time_unit ") == [
        "lp --time_unit us",
        *map("lp --time_unit {}".format, ("ms", "s")),
    ]
    assert shell.complete("lp -d ") == [f"lp -d {CPU}", f"lp -d {GPU}"]
    assert shell.complete("lp -t S") == ["lp -t Softmax"]
    assert shell.complete("lp -n hid/R") == ["lp -n hid/Relu"]
    assert "lp --execution_time" in shell.complete("lp --")
    assert shell.complete("ps tr") == ["ps train.py"]
    assert shell.complete("ps train.py --cost_type o") == ["ps train.py --cost_type op_time"]
    assert shell.complete("list_p") == ["list_profile"]


def test_run_info_offers_the_profile_and_no_tensors(shell):
    # Defect 44: an item that leads nowhere.
    menu = shell.document("ri").menu
    assert [item.command for item in menu] == ["list_profile", "run", "exit"]
    assert all(item.enabled for item in menu)
    assert shell.document("list_profile").text == shell.text("lp")
    offline = Shell(profiled_dump(), "offline-profile")
    assert [item.command for item in offline.document("ri").menu] == ["list_profile"]


def test_a_run_without_timings_says_so():
    shell = Shell(MemoryDump(Graph([]), profile=Profile()), "profile")
    assert shell.lines("lp") == [
        "0 op execution(s) on 0 device(s):",
        "There are no op timings of this run.",
    ]
    assert shell.lines("lp -d CPU --json") == []


def test_help_tells_which_ps_is_meant(shell):
    assert "time of each line's ops" in shell.text("help ps")
    assert "--cost_type" in shell.text("ps -h")


def test_the_numpy_engine_times_every_node():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [2, 2], name="x")
        y = tf.matmul(x, x, name="y")
        loop = tf.while_loop(
            lambda i: tf.less(i, 4), lambda i: tf.add(i, 1, name="body"), [0], name="loop"
        )
        adapter = ENGINE.adapt(session)
        run = partial(adapter.profile_run, {"y": y, "loop": loop}, {x: [[1.0, 2.0], [3.0, 4.0]]})
        capture = run(None, None)
    assert capture.value["loop"] == 4
    shell = Shell(capture.dump, "profile")
    assert nodes(shell, "lp -n ^y$") == ["y"]
    assert nodes(shell, "lp -n loop/body$") == ["loop/body"] * 4
    assert "x" not in nodes(shell, "lp")
    (row,) = map(json.loads, shell.lines("lp -n ^y$ --json"))
    assert row["file"] == __file__
    source = shell.lines(f"ps {__file__}")
    line = next(text for text in source if 'name="y")' in text)
    assert line.startswith("[|")
    assert " 1(1) " in line


def test_a_hundred_thousand_rows_are_made_when_somebody_looks():
    count = 100_000
    asked = []

    def locate(node):
        asked.append(node)
        return CodeLine(TRAIN, 2, "f")

    entries = [ProfileEntry(f"n{n}", "Add", float(n), 1.0, 2.0, place=locate) for n in range(count)]
    dump = MemoryDump(Graph([]), Sources(SOURCES, live=False), None, Profile([(CPU, entries)]))
    document = Shell(dump, "profile").document("lp -s exec_time -e >1us")
    assert document.line_count == count + 8
    assert asked == []
    assert [line.text.split()[0] for line in document.lines(50_006, 50_008)] == ["n50000", "n50001"]
    assert asked == ["n50000", "n50001"]
