"""The drop-in: the public names, signatures and types of TensorFlow's own debugger."""

import importlib.util
import inspect
import re

import pytest

import tfdbg_cli as tf_debug
from tfdbg_cli.sessions.wrappers.requests import anchored

pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.skipif(importlib.util.find_spec("tensorflow") is None, reason="needs TensorFlow"),
]


@pytest.fixture(scope="module")
def original():
    """Name -> what the original has under it."""
    from tensorflow.python import debug
    from tensorflow.python.debug.lib import debug_gradients
    from tensorflow.python.debug.wrappers import dumping_wrapper, framework

    names = {}
    for module in (debug, framework, dumping_wrapper, debug_gradients):
        names.update({name: value for name, value in vars(module).items() if name[0] != "_"})
    return names


NAMES = [
    "BaseDebugWrapperSession",
    "DebugDumpDir",
    "DebugTensorDatum",
    "DumpingDebugHook",
    "DumpingDebugWrapperSession",
    "GradientsDebugger",
    "LocalCLIDebugHook",
    "LocalCLIDebugWrapperSession",
    "NonInteractiveDebugWrapperSession",
    "OnRunEndRequest",
    "OnRunEndResponse",
    "OnRunStartAction",
    "OnRunStartRequest",
    "OnRunStartResponse",
    "OnSessionInitAction",
    "OnSessionInitRequest",
    "OnSessionInitResponse",
    "WatchOptions",
    "add_debug_tensor_watch",
    "clear_gradient_debuggers",
    "gradient_values_from_dump",
    "has_inf_or_nan",
    "load_tensor_from_event",
    "load_tensor_from_event_file",
    "reconstruct_non_debug_graph_def",
    "watch_graph",
    "watch_graph_with_denylists",
]

# Where a default differs on purpose: another UI, memory instead of a URL, no path of its own.
OTHER_DEFAULTS = {"ui_type", "debug_urls", "config_file_path", "fetches"}


def parameters(value):
    return {
        name: parameter
        for name, parameter in inspect.signature(value).parameters.items()
        if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
    }


def takes(ours, theirs):
    """Whether whatever fits their parameters fits ours and means the same."""
    mine = parameters(ours)
    assert [name for name in mine if name in theirs] == list(theirs)
    for name, parameter in theirs.items():
        is_needed = mine[name].default is inspect.Parameter.empty
        if parameter.default is inspect.Parameter.empty:
            continue
        assert not is_needed, name
        if name not in OTHER_DEFAULTS and parameter.default is not None:
            assert mine[name].default == parameter.default, name


@pytest.mark.parametrize("name", NAMES)
def test_every_name_takes_the_arguments_of_the_original(original, name):
    ours, theirs = getattr(tf_debug, name), original[name]
    assert name in tf_debug.__all__
    if not inspect.isclass(ours):
        takes(ours, parameters(theirs))
        return
    assert inspect.isclass(theirs)
    if name not in ("DebugTensorDatum", "OnRunEndResponse"):
        takes(ours.__init__, parameters(theirs.__init__))
    for method, value in vars(theirs).items():
        if method[0] != "_" and inspect.isfunction(value):
            assert callable(getattr(ours, method, None)), method
            if name != "DebugDumpDir" or method != "find":
                wanted = parameters(value)
                known = parameters(getattr(ours, method))
                variadic = "args" in inspect.signature(getattr(ours, method)).parameters
                assert variadic or len(known) >= len(wanted), method
        elif method[0] != "_" and isinstance(value, property | str):
            assert hasattr(ours, method) or name in ("DebugTensorDatum", "DebugDumpDir"), method


def test_positional_arguments_mean_what_they_meant():
    """The first parameters stand in the same order, also those that TensorFlow 1 had."""
    names = list(parameters(tf_debug.LocalCLIDebugWrapperSession.__init__))
    assert names[1:7] == [
        *("sess", "dump_root", "log_usage", "ui_type", "thread_name_filter", "config_file_path"),
    ]
    for kind, before in (
        (tf_debug.DumpingDebugWrapperSession, "pass_through_operrors"),
        (tf_debug.GrpcDebugWrapperSession, "thread_name_filter"),
        (tf_debug.DumpingDebugHook, "thread_name_filter"),
        (tf_debug.GrpcDebugHook, "thread_name_filter"),
    ):
        names = list(parameters(kind.__init__))
        assert names[names.index(before) + 1] == "log_usage"
    assert "log_usage" in inspect.signature(tf_debug.LocalCLIDebugHook).parameters
    names = list(parameters(tf_debug.watch_graph_with_blacklists))
    assert names[4:7] == [
        *("node_name_regex_blacklist", "op_type_regex_blacklist", "tensor_dtype_regex_blacklist"),
    ]


def test_wrappers_and_hooks_are_what_tensorflow_asks_for(tmp_path):
    import tensorflow.compat.v1 as tf
    from tensorflow.python.client.session import SessionInterface

    with tf.Graph().as_default(), tf.Session() as session:
        local = tf_debug.LocalCLIDebugWrapperSession(session, ui_type="plain")
        dumping = tf_debug.DumpingDebugWrapperSession(session, str(tmp_path / "root"))
        assert isinstance(local, SessionInterface)
        assert isinstance(local, tf_debug.LocalCLIDebugWrapperSession)
        assert isinstance(dumping, tf_debug.NonInteractiveDebugWrapperSession)
        assert isinstance(dumping, SessionInterface)
        assert type(local).__name__ == "LocalCLIDebugWrapperSession"
        assert local.session is session
        assert local.graph is session.graph
        assert local.sess_str == session.sess_str
        assert local.graph_def == session.graph_def
        assert [d.name for d in local.list_devices()] == [d.name for d in session.list_devices()]
        assert hash(local) != hash(dumping)
    for hook in (tf_debug.LocalCLIDebugHook(), tf_debug.DumpingDebugHook(str(tmp_path / "hook"))):
        assert isinstance(hook, tf.train.SessionRunHook)
    assert isinstance(hook, tf_debug.DumpingDebugHook)


def test_an_abstract_wrapper_stays_abstract():
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(TypeError, match="abstract"):
            tf_debug.BaseDebugWrapperSession(session)
        with pytest.raises(TypeError, match="abstract"):
            tf_debug.NonInteractiveDebugWrapperSession(session)


def test_the_lists_have_their_old_names_too():
    old = tf_debug.WatchOptions(
        node_name_regex_whitelist="a",
        op_type_regex_whitelist="b",
        tensor_dtype_regex_whitelist="c",
    )
    assert (old.node_name_regex_allowlist, old.op_type_regex_allowlist) == ("a", "b")
    assert old.tensor_dtype_regex_allowlist == "c"
    with pytest.raises(TypeError, match="twice"):
        tf_debug.WatchOptions(node_name_regex_whitelist="a", node_name_regex_allowlist="a")


@pytest.mark.parametrize("regex", ["a", "(?i)A", "a|b", "^a", "(?i)(?m)a$", "", "xa", "[ab]$"])
@pytest.mark.parametrize("text", ["a", "ba", "ab", "A", "cab", ""])
def test_an_anchored_regex_is_found_where_the_regex_matches(regex, text):
    expected = re.match("(?im)a$" if regex == "(?i)(?m)a$" else regex, text)
    assert bool(re.search(anchored(regex), text)) == bool(expected)


@pytest.fixture
def graph():
    import tensorflow.compat.v1 as tf

    with tf.Graph().as_default() as made:
        x = tf.placeholder(tf.float32, [2], name="x")
        variable = tf.get_variable("v", initializer=[1.0, 2.0])
        tf.cast(tf.square(x * variable, name="square"), tf.int32, name="whole")
        yield made


@pytest.mark.parametrize(
    ("name", "lists"),
    [
        ("watch_graph", {}),
        ("watch_graph", {"node_name_regex_allowlist": "(v|sq)"}),
        ("watch_graph", {"op_type_regex_allowlist": "C", "tensor_dtype_regex_allowlist": "int"}),
        ("watch_graph_with_denylists", {}),
        ("watch_graph_with_denylists", {"node_name_regex_denylist": "v"}),
        (
            "watch_graph_with_denylists",
            {"op_type_regex_denylist": "Var", "tensor_dtype_regex_denylist": "int"},
        ),
    ],
)
def test_watches_are_those_of_the_original(original, graph, name, lists):
    import tensorflow.compat.v1 as tf

    common = {
        "debug_ops": ["DebugIdentity", "DebugNumericSummary(mute_if_healthy=true)"],
        "debug_urls": "file:///tmp/somewhere",
        "tolerate_debug_op_creation_failures": True,
        "global_step": 3,
        "reset_disk_byte_usage": True,
    }
    ours, theirs = tf.RunOptions(), tf.RunOptions()
    getattr(tf_debug, name)(ours, graph, **common, **lists)
    original[name](theirs, graph, **common, **lists)
    assert ours == theirs
    assert ours.debug_options.debug_tensor_watch_opts
    for keyword, value in lists.items():
        old = tf.RunOptions()
        if name == "watch_graph":
            renamed = {keyword.replace("allow", "white"): value}
            call = tf_debug.watch_graph
        else:
            renamed = {keyword.replace("deny", "black"): value}
            call = tf_debug.watch_graph_with_blacklists
        call(old, graph, debug_urls=["file:///tmp/somewhere"], **renamed)
        new = tf.RunOptions()
        getattr(tf_debug, name)(
            new, graph, debug_urls=["file:///tmp/somewhere"], **{keyword: value}
        )
        assert old == new


def test_watches_need_ops_and_urls(graph):
    import tensorflow.compat.v1 as tf

    with pytest.raises(ValueError, match="debug_urls must not be empty"):
        tf_debug.watch_graph(tf.RunOptions(), graph)
    with pytest.raises(ValueError, match="debug_ops must not be empty"):
        tf_debug.watch_graph(tf.RunOptions(), graph, debug_ops=[], debug_urls="file:///tmp")


def test_a_plain_run_that_is_watched_by_hand(original, graph, tmp_path):
    import tensorflow.compat.v1 as tf
    from tensorflow.core.framework import graph_pb2

    options = tf.RunOptions()
    root = tmp_path / "root"
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        tf_debug.watch_graph(options, graph, debug_urls=f"file://{root}")
        session.run("whole:0", {"x:0": [3.0, 4.0]}, options=options)
    dump = tf_debug.DebugDumpDir(str(root))
    (value,) = dump.get_tensors("whole", 0, "DebugIdentity")
    assert value.tolist() == [9, 64]
    proto = graph_pb2.GraphDef.FromString(dump.partition_graphs()[0].SerializeToString())
    cleared = tf_debug.reconstruct_non_debug_graph_def(proto)
    theirs = original["reconstruct_non_debug_graph_def"](proto)
    assert type(cleared) is graph_pb2.GraphDef
    assert {node.name for node in cleared.node} == {node.name for node in theirs.node}
    assert len(cleared.node) < len(proto.node)
