"""A session of ONNX Runtime as the debugger sees it."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tfdbg_cli.common.errors import UserError, one_line
from tfdbg_cli.common.interpreter.program_signals import contained, pass_on
from tfdbg_cli.common.streams import tell
from tfdbg_cli.dumps.dump import RunError
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.dumps.profile import Profile, place_of
from tfdbg_cli.engines.base import CannotStep, Capture, SessionAdapter, Watch
from tfdbg_cli.engines.kit.levels import CHECKED
from tfdbg_cli.engines.kit.stacks import Stack, call_frame, take
from tfdbg_cli.engines.onnx.graph import nodes_of
from tfdbg_cli.engines.onnx.install import plain_run, straight
from tfdbg_cli.engines.onnx.model import Model, read_model
from tfdbg_cli.engines.onnx.op_facts import checked_names
from tfdbg_cli.engines.onnx.optimised import optimised_nodes
from tfdbg_cli.engines.onnx.private import ERRORS, initial_options, model_source
from tfdbg_cli.engines.onnx.profile import profiled
from tfdbg_cli.engines.onnx.record import Record, dump_of_outside
from tfdbg_cli.engines.onnx.requests import Request
from tfdbg_cli.engines.onnx.sameness import Sameness
from tfdbg_cli.engines.onnx.stepping.nodes import NodeRunner
from tfdbg_cli.engines.onnx.stepping.stepper import OnnxStepper
from tfdbg_cli.engines.onnx.twin import Twin
from tfdbg_cli.engines.onnx.values import as_feed, as_value, is_finite

__all__ = ["OnnxAdapter"]

#: Settings of ``level`` at which a run is looked at by its outputs alone while `run -f` waits.
_OUTPUTS = ("auto", "modules")


class OnnxAdapter(SessionAdapter):
    """An ``InferenceSession``, for the wrapper session.

    The program gets what its own session computes. What is shown comes from a twin that is made
    when somebody first wants to look.

    Args:
        session: the program's.
        setting: the value of a setting by its name.
    """

    engine_name = "onnx"

    def __init__(self, session: Any, setting: Callable[[str], Any]) -> None:
        super().__init__(session)
        self._setting = setting
        self._lock = threading.RLock()
        self._model: Model | UserError | None = None
        self._twin: Twin | UserError | None = None
        self._watched: Twin | None = None
        self._sameness = Sameness()
        #: Runs of the session that the twin hasn't made, of models that draw random numbers.
        self._behind = 0
        self._has_told = False
        self._has_bad_weights: bool | None = None

    # The model and its twin: made once, and what keeps them from being made is told once.

    def model(self) -> Model | None:
        """What the session computes; ``None``: it can't be read."""
        with self._lock:
            if self._model is None:
                try:
                    source = model_source(self.session)
                    if source is None:
                        raise UserError("The session doesn't name its model.")
                    self._model = read_model(source)
                    self._model.optimised = functools.cache(self._optimised)
                except UserError as error:
                    self._model = error
        return self._model if isinstance(self._model, Model) else None

    def twin(self) -> Twin | None:
        """The session with all outputs; ``None``: there can't be one."""
        model = self.model()
        if model is None:
            return None
        with self._lock:
            if self._twin is None:
                try:
                    self._twin = Twin(self.session, model)
                except UserError as error:
                    self._twin = error
        return self._twin if isinstance(self._twin, Twin) else None

    def _optimised(self) -> Mapping[str, str]:
        model = self.model()
        with contained, straight():  # of custom ops, say, no such session can be made
            return optimised_nodes(self.session, model) if model is not None else {}
        return {}

    @property
    def obstacle(self) -> str:
        """Why there is no twin; empty: there is one, or nobody has asked."""
        found = next((e for e in (self._model, self._twin) if isinstance(e, UserError)), None)
        return "" if found is None else str(found)

    def request(self, fetches: Any, feed_dict: Any, options: Any) -> Request:
        """What was asked for: by the program, or of a wrapper."""
        if isinstance(options, Request):
            return options
        names = list(fetches) if fetches else [each.name for each in self.session.get_outputs()]
        plain = functools.partial(plain_run, self.session, names, feed_dict, options)
        return Request(names, feed_dict, options, plain)

    # What a wrapper asks.

    def run(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Any:
        self._behind += 1
        return self.request(fetches, feed_dict, options).plain()

    def debug_run(
        self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any, watch: Watch
    ) -> Capture:
        """The run by the program's own session, then that of the twin where somebody looks."""
        request = self.request(fetches, feed_dict, options)
        if request.is_bound:  # an output may be bound to the memory of an input
            request.feeds = {name: as_feed(value) for name, value in request.feeds.items()}
        stack = take(call_frame(sys._getframe()), None, None)
        error: BaseException | None = None
        value: Any = None
        self._behind += 1
        try:
            value = self._by_twin(request, watch)
            if value is None:
                value = request.plain()
        except Exception as raised:
            if self.describe_error(raised) is None:
                raise
            error = raised
        with straight():
            return self._capture(request, watch, stack, value, error)

    def profile_run(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> Capture:
        """The run by the program's own session, and one of a session that is timed."""
        request = self.request(fetches, feed_dict, options)
        stack = take(call_frame(sys._getframe()), None, None)
        feeds = {name: as_feed(value) for name, value in request.feeds.items()}
        self._behind += 1
        try:
            value = request.plain()
        except Exception as error:
            if self.describe_error(error) is None:
                raise
            return Capture(None, MemoryDump(self.graph(), profile=Profile()), error)
        model = self.model()
        if model is None:
            return Capture(value, MemoryDump(Graph(()), profile=Profile()))
        graph = Graph(functools.partial(nodes_of, model, stack))
        profile = Profile()
        try:
            with straight():
                profile = profiled(self.session, model, request.names, feeds, place_of(graph))
        except Exception as error:
            pass_on(error)
            tell(f"the run couldn't be timed: {one_line(error)}")
        return Capture(value, MemoryDump(graph, profile=profile))

    def stepper(self, fetches: Any, feed_dict: Any, options: Any, run_metadata: Any) -> OnnxStepper:
        """The run, made once by the program's own session, to be gone through node by node.

        Raises:
            CannotStep: its values aren't known.
        """
        request = self.request(fetches, feed_dict, options)
        model = self.model()
        if model is None or self.twin() is None:
            raise CannotStep(f"This run can't be done step by step: {self.obstacle}")
        if request.is_bound:
            raise CannotStep(
                "A run with IO binding can't be done step by step: its outputs go to memory of the "
                "program's."
            )
        real = self.debug_run(fetches, feed_dict, request, run_metadata, Watch())
        if real.dump is None or not len(real.dump.graph() or ()):
            raise CannotStep("This run can't be done step by step: nothing is known of it.")
        failed = self.describe_error(real.error) if real.error is not None else None
        failing = failed.op_name if failed is not None else ""
        runner = NodeRunner(self.session, model)
        return OnnxStepper(real, failing, model, request.names, runner)

    def _capture(
        self,
        request: Request,
        watch: Watch,
        stack: Stack,
        value: Any,
        error: BaseException | None,
    ) -> Capture:
        outputs: Mapping[str, Any] = {}
        try:
            outputs = request.outputs(value) if error is None else {}
            held = functools.partial(self._held, request, outputs)
            if error is None and self._nothing_bad(request, watch, outputs):
                make = functools.partial(self._dump, request, watch, stack, outputs, None)
                only = "the outputs" if self._setting("level") in _OUTPUTS else ""
                return Capture(
                    value, None, filter_passed=False, only=only, make_dump=make, held=held
                )
            capture = Capture(value, self._dump(request, watch, stack, outputs, error), error)
            capture.held = held
            model = self.model()
            if model is not None and request.gives_arrays:
                capture.replaced = functools.partial(request.replaced, model.tensors)
            return capture
        except Exception as ours:  # the program gets what it has asked for all the same
            pass_on(ours)
            if not self._has_told:
                self._has_told = True
                tell(f"a run of ONNX Runtime couldn't be looked at: {one_line(ours)}")
            return Capture(value, MemoryDump(Graph(())), error)

    def _held(self, request: Request, outputs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """What the run got and gives; see `Capture.held`."""
        model = self.model()
        found = request.found or {}
        for name, value in (*request.feeds.items(), *found.items(), *outputs.items()):
            tensor = model.tensors.get(name, "") if model is not None else ""
            yield tensor or name, as_value(value)

    def _by_twin(self, request: Request, watch: Watch) -> list[Any] | None:
        """What the program gets of a twin that is to stand for its session; ``None``: of that.

        That is where ``results`` is ``twin``, and where the twin has given the same so far.
        """
        is_light = self._is_light(request, watch)
        is_same = is_light and not watch.exclude and self._sameness.holds(request)
        if not (is_same or self._setting("results") == "twin") or not request.gives_arrays:
            return None
        if watch.filter_name in CHECKED and self._setting("level") in _OUTPUTS:
            return None  # it isn't run
        with straight():
            model, twin = self.model(), self.twin()
            if model is None or twin is None or model.random:
                return None
            with contained:  # the program's own session says what is wrong
                if is_light:
                    twin = self._watching(model, watch)
                names = [*twin.names, *(name for name in request.names if name not in twin.names)]
                found = twin.run(request.feeds, names, request.options, lambda value: value)
                values = [found[name].numpy() for name in request.names]
                request.found = found
                return values
        return None

    def _is_light(self, request: Request, watch: Watch) -> bool:
        """Whether a run that waits for something bad is looked at in few places first."""
        model = self.model()
        return (
            model is not None
            and watch.filter_name in CHECKED
            and not (watch.node_name or watch.op_type or watch.tensor_dtype or request.unknown)
            # What is drawn is drawn once, and bodies are run by what their nodes were given.
            and not (model.random or any(node.body for node in model.nodes))
        )

    def _nothing_bad(self, request: Request, watch: Watch, outputs: Mapping[str, Any]) -> bool:
        """Whether a run that waits for something bad has none, told without a dump."""
        if watch.filter_name not in CHECKED or not self._is_clean(outputs, watch):
            return False
        if self._setting("level") in _OUTPUTS:
            return True
        model = self.model()
        if model is None or not self._is_light(request, watch):
            return False
        if self._has_bad_weights is None:
            weights = {name: weight.load() for name, weight in model.weights.items()}
            self._has_bad_weights = not self._is_clean(weights, Watch())
        if self._has_bad_weights or not self._is_clean(request.feeds, watch):
            return False
        with contained:  # it is told with the dump
            found = request.found
            if found is None:
                twin = self._watching(model, watch)
                is_compared = self._is_compared(request, watch)
                names = [name for name in twin.names if is_compared or name not in outputs]
                found = twin.run(request.feeds, names, request.options, lambda value: value)
                if is_compared:
                    self._sameness.compare(request, outputs, found)
                request.found = found
            return self._is_clean(found, watch)
        return False

    def _is_compared(self, request: Request, watch: Watch) -> bool:
        """Whether it is of interest if the twin gives the same as the program's session."""
        options = initial_options(self.session)
        return (
            request.gives_arrays
            and not watch.exclude
            and self._sameness.may_hold
            # Whose profile would lack runs.
            and not getattr(options, "enable_profiling", False)
        )

    def _watching(self, model: Model, watch: Watch) -> Twin:
        """A twin that gives what has to be looked at."""
        if watch.exclude:  # what tells of another may be excluded
            twin = self.twin()
            if twin is not None:
                return twin
        with self._lock:
            if self._watched is None:
                self._watched = Twin(self.session, model, only=frozenset(checked_names(model)))
            return self._watched

    def _is_clean(self, outputs: Mapping[str, Any], watch: Watch) -> bool:
        """Whether no output that counts is bad."""
        return all(
            is_finite(value) or watch.excludes(self._node(name)) for name, value in outputs.items()
        )

    def _node(self, name: str) -> str:
        """The node that makes a tensor of the model."""
        model = self.model()
        return model.tensors.get(name, name).rpartition(":")[0] if model is not None else name

    def _dump(
        self,
        request: Request,
        watch: Watch,
        stack: Stack,
        outputs: Mapping[str, Any],
        error: BaseException | None,
    ) -> MemoryDump:
        """What a run has computed."""
        model, twin = self.model(), self.twin()
        if model is None:
            return dump_of_outside(request, outputs, self.obstacle)
        record = Record(self.session, model, twin or self.obstacle, self._behind - 1)
        try:
            return record.dump(request, watch, stack, outputs, error)
        finally:
            if record.has_caught_up:
                self._behind = 0

    def fetch_names(self, fetches: Any) -> list[str]:
        try:
            return [str(name) for name in fetches or ()]
        except TypeError:
            return [str(fetches)]

    def is_empty(self, fetches: Any) -> bool:
        """Nothing asked for is everything."""
        return False

    def feeds(self, feed_dict: Any) -> Mapping[str, Any]:
        if not isinstance(feed_dict, Mapping):
            return {}
        return {str(name): as_value(value) for name, value in feed_dict.items()}

    def graph(self) -> Graph:
        model = self.model()
        if model is None:
            return Graph(())
        return Graph(functools.partial(nodes_of, model, Stack(())))

    def describe_error(self, error: BaseException) -> RunError | None:
        if type(error).__module__ != ERRORS:
            return None
        model = self.model()
        node = model.node_of_error(error) if model is not None else None
        message = str(error).partition(" : ")[2] or str(error)
        return RunError(type(error).__name__, message, node.name if node is not None else "")
