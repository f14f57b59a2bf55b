"""A real run of the NumPy engine, and a shell that drives the command service over its dump."""

import numpy as np

from tfdbg_cli.commands.builtin import make_registry
from tfdbg_cli.commands.context import Context
from tfdbg_cli.commands.service import CommandService
from tfdbg_cli.commands.shell.history import History
from tfdbg_cli.common.settings import Settings
from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.engines import numpy as tf
from tfdbg_cli.engines.base import Watch
from tfdbg_cli.engines.numpy.debugging import ENGINE
from tfdbg_cli.filters.registry import FilterRegistry

FED = [[1.0, 2.0, 3.0], [-1.0, -2.0, -3.0]]


def debug_run(session, fetches, feed_dict=None, call_count=2):
    """One debugged run, with what the session would say of it."""
    adapter = ENGINE.adapt(session)
    capture = adapter.debug_run(fetches, feed_dict, None, None, Watch())
    info = RunInfo(call_count, adapter.fetch_names(fetches), adapter.feeds(feed_dict), "numpy")
    if capture.error is not None:
        info.error = adapter.describe_error(capture.error)
    capture.dump.set_run_info(info)
    return capture.dump


def make_dump():
    """Nan, infinity, a loop, two slots, control edges, and a tensor of each kind of dtype."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 3], name="input/x")
        words = tf.placeholder(tf.string, [None], name="input/words")
        with tf.name_scope("hidden"):
            weights = tf.Variable(tf.ones([3, 2]), name="weights")
            product = tf.matmul(x, weights, name="MatMul")
            relu = tf.nn.relu(product, name="Relu")
        log = tf.log(relu, name="bad/Log")
        zero = tf.multiply(log, tf.constant(0.0, name="bad/zero"), name="bad/Mul")
        with tf.control_dependencies([product.op]):
            after = tf.identity(x, name="after")
        with tf.control_dependencies([after.op]):
            last = tf.identity(relu, name="last")
        loop = tf.while_loop(
            lambda i: tf.less(i, 4),
            lambda i: tf.add(i, 1, name="body"),
            [tf.constant(0, name="start")],
            name="loop",
        )
        unique = tf.unique(tf.constant([3, 3, 5], name="numbers"), name="uniq")
        others = [
            tf.constant([b"abc", b"\xff"], name="text"),
            tf.constant([[1, 22], [3, 5]], name="ints"),
            tf.constant(np.array([1 + 2j, complex(np.nan, 0)]), name="cplx"),
            tf.constant(np.zeros((0, 3), np.float32), name="empty"),
            tf.constant(np.arange(3000.0).reshape(100, 30), name="big"),
            tf.less(x, 1.5, name="flags"),
        ]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            fetches = [zero, last, loop, *unique, *others]
            return debug_run(session, fetches, {x: FED, words: [b"a", b"b"]})


def make_failed_dump():
    """A run that ends in an error of one of its nodes."""
    with tf.Graph().as_default():
        x = tf.constant([1.0, np.inf], name="x")
        checked = tf.check_numerics(tf.negative(x, name="neg"), "not finite", name="check")
        with tf.Session() as session:
            return debug_run(session, tf.square(checked, name="square"), call_count=7)


class Shell:
    """Runs command lines as a UI does."""

    def __init__(self, dump=None, mode=None, *, info=None, settings=None, **extra):
        self.dump = dump
        info = info or (dump.run_info() if dump is not None else None) or RunInfo()
        self.filters = FilterRegistry()
        self.settings = settings or Settings(None)
        self.context = Context(
            mode or ("run-start" if dump is None else "run-end"),
            make_registry(),
            self.filters,
            self.settings,
            info,
            dump,
            extra=extra,
        )
        self.service = CommandService(
            self.context,
            title="a stop",
            title_role="end",
            initial_command="lt",
            history=History(None),
        )

    def reply(self, command, width=80):
        return self.service.run(command, width)

    def typed(self, command):
        """As a person at a prompt."""
        return self.service.run(self.service.history.add(command))

    def document(self, command, width=80):
        reply = self.reply(command, width)
        assert not reply.failed, (command, reply.message, reply.details)
        assert reply.document is not None, (command, reply)
        return reply.document

    def lines(self, command, width=80):
        return [line.text for line in self.document(command, width)]

    def text(self, command, width=80):
        return "\n".join(self.lines(command, width))

    def error(self, command):
        """The one line that a mistake leads to."""
        reply = self.reply(command)
        assert reply.failed, (command, reply)
        assert reply.document is None
        text = reply.message.text
        assert text == " ".join(text.split("\n")).strip()
        assert "Error in the debugger" not in text, reply.details
        assert "Traceback" not in text

        return text

    def links(self, command):
        """The commands of all links and menu items of a screen."""
        document = self.document(command)
        found = [span.link.command for line in document for span in line.spans if span.link]
        return found + [item.command for item in document.menu if item.enabled]

    def tensors(self, command):
        """The tensors that a list leads to, in its order."""
        return [link.split()[1] for link in self.links(command) if link.startswith("pt ")]

    def complete(self, text, cursor=None):
        """The completed lines."""
        cursor = len(text) if cursor is None else cursor
        completion = self.service.complete(text, cursor)
        return [text[: completion.start] + c.text + text[cursor:] for c in completion.candidates]


def link_of(document, text):
    """The command behind the span with this text."""
    return next(
        span.link.command
        for line in document
        for span in line.spans
        if span.link and span.text == text
    )


def roles(document, role):
    """The texts of all spans with a role."""
    return [span.text for line in document for span in line.spans if span.role == role]
