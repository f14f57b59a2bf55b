"""The stepper as an API, under the names of the original's ``debug/lib/stepper.py`` (TF 1.x)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.dumps.dump import RunInfo
from tfdbg_cli.dumps.elements import node_name_of, slot_of, tensor_name_of
from tfdbg_cli.dumps.graph import Graph
from tfdbg_cli.engines.base import CannotStep, Capture, SessionAdapter, SteppedRun, StepsRuns
from tfdbg_cli.engines.registry import engine_for
from tfdbg_cli.sessions.director.stepping import RunWalk
from tfdbg_cli.sessions.wrappers.surface import SessionSurface
from tfdbg_cli.stepping.stepper import Step
from tfdbg_cli.stepping.walk import Halt

__all__ = ["NodeStepper"]

_PLACEHOLDERS = frozenset({"Placeholder", "PlaceholderV2"})
_VARIABLES = frozenset({"VarHandleOp", "Variable", "VariableV2"})


class NodeStepper(RunWalk):
    """Does a run node by node, on request.

    The session's variables are its own until `finalize`: they are then set to what the run has made
    of them, whoever has set them meanwhile.

    Args:
        sess: a session of any engine, or a wrapper of one. The run goes past the debugger.
        fetches: as in ``sess.run``.
        feed_dict: likewise.

    Attributes:
        run: the stepped run below; see `tfdbg_cli.stepping.stepper.Stepper`.
        walk: moves through it.

    Raises:
        TypeError: no engine knows the session.
        ValueError: there are no fetches.
        NotImplementedError: runs of the engine can't be stepped through.
    """

    FEED_TYPE_CLIENT = "client"
    FEED_TYPE_HANDLE = "handle"
    FEED_TYPE_OVERRIDE = "override"
    FEED_TYPE_DUMPED_INTERMEDIATE = "dumped_intermediate"

    def __init__(self, sess: Any, fetches: Any, feed_dict: Mapping[Any, Any] | None = None) -> None:
        if fetches is None:
            raise ValueError("The fetches of a NodeStepper must not be None.")
        plain = sess.session if isinstance(sess, SessionSurface) else sess
        engine = engine_for(plain)
        if engine is None:
            raise TypeError(
                f"Expected a session of an engine that is loaded; got type {type(sess)}"
            )
        adapter = engine.adapt(plain)
        if not isinstance(adapter, SessionAdapter) or not isinstance(adapter, StepsRuns):
            raise CannotStep(f"The {engine.name} engine has no stepper for sessions.")
        call = adapter.call(fetches, feed_dict, None, None)
        stepper = adapter.stepper(fetches, feed_dict, None, None)
        stepper.withhold()
        info = RunInfo(fetches=call.fetches, feeds=call.feeds, engine=adapter.engine_name)
        self._begin(stepper, info)

    @classmethod
    def of(cls, run: SteppedRun, run_info: RunInfo) -> NodeStepper:
        """The API of a run that there is already."""
        made: NodeStepper = object.__new__(cls)
        made._begin(run, run_info)
        return made

    def _begin(self, run: SteppedRun, run_info: RunInfo) -> None:
        super().__init__(run, run_info)
        self._finished: Capture | None = None
        self._read: set[str] | None = None
        self._last_feed_types: dict[str, str] = {}
        self._last_updated: set[str] | None = None

    # What there is.

    def sorted_nodes(self) -> list[str]:
        """The nodes in the order in which they are done; of an open-ended run those so far."""
        return [step.node for step in self.run.steps]

    def closure_elements(self) -> list[str]:
        """The names of all nodes and tensors of the run."""
        return [name for step in self.run.steps for name in (step.node, *step.outputs)]

    def output_slots_in_closure(self, node_name: str) -> list[int]:
        """The output slots of a node.

        Raises:
            ValueError: it is not in the run.
        """
        return [slot_of(name) for name in self._step_of(node_name).outputs]

    def is_feedable(self, name: str) -> bool:
        """Whether a node or tensor can be overridden.

        Raises:
            TypeError: the name is not a str.
            ValueError: it is not in the run.
        """
        return not self._step_of(name).unfit

    def is_placeholder(self, graph_element_name: str) -> bool:
        """Whether it is a placeholder, fed or not.

        Raises:
            ValueError: it is not in the run.
        """
        return self._step_of(graph_element_name).op_type in _PLACEHOLDERS

    def placeholders(self) -> list[str]:
        """The placeholders of the run, fed or not."""
        return [step.node for step in self.run.steps if step.op_type in _PLACEHOLDERS]

    def graph(self) -> Graph | None:
        """The graph."""
        return self.run.graph()

    def _step_of(self, name: str) -> Step:
        if not isinstance(name, str):
            raise TypeError(f"Expected type str; got type {type(name)}")
        try:
            index = self.walk.find(name)
        except UserError as error:
            raise ValueError(str(error)) from None
        if index is None:
            raise ValueError(f'"{name}" has not come yet.')
        return self.run.steps[index]

    def _used(self, step: Step) -> list[str]:
        """The outputs of a node that the run is there for: nodes read them, or they are fetched."""
        if self.run.is_open_ended:
            return list(step.outputs)
        if self._read is None:
            self._read = {name for each in self.run.steps for name in each.inputs}
            self._read.update(self.run_info.fetches)
        return [name for name in step.outputs if name in self._read]

    # Moving.

    def step(self) -> str:
        """Do the next node; its name.

        Raises:
            UserError: the run is at its end.
            Exception: what the node raises.
        """
        halt = self._moved(self.walk.step())
        return halt.outcomes[-1].step.node

    def cont(
        self,
        target: Any,
        use_tensor_handles: bool = True,
        use_dumped_intermediates: bool = True,
        use_overrides: bool = True,
        invalidate_from_updated_variables: bool = False,
        restore_variable_values: bool = False,
    ) -> Any:
        """Go on to a node or tensor, it included, and give its value.

        Nodes are done once, in their order; one that is done already is not done again.

        Args:
            target: a tensor, an operation, a variable, the name of one, or nested lists and
                dictionaries of them.
            use_tensor_handles, use_dumped_intermediates: kept for the original's signature: what
                was computed is used.
            use_overrides: likewise; `remove_override` takes an override back.
            invalidate_from_updated_variables: likewise: what has read a variable before it was
                updated keeps what it has read, as in the run itself.
            restore_variable_values: first reset variables to their values at the beginning.

        Returns:
            The value in the structure of the target; of an operation whose outputs nobody uses
            ``None``; of a variable, what the steps that were done have made of it.

        Raises:
            ValueError: the target is not in the run.
            Exception: what a node raises.
        """
        if isinstance(target, Mapping):
            return {key: self.cont(each) for key, each in target.items()}
        if isinstance(target, list | tuple):
            values = [self.cont(each) for each in target]
            return values if isinstance(target, list) else tuple(values)
        name = target if isinstance(target, str) else str(target.name)
        if restore_variable_values:
            self.restore_variable_values()
        try:
            place = self.walk.find(name)
        except UserError as error:
            raise ValueError(str(error)) from None
        is_done = place is not None and place < self.run.position
        if not is_done:
            self._moved(self.walk.go(name))
        place = self.walk.index(name)
        step = self.run.steps[place] if place is not None else None
        tensor = name if ":" in name else self._tensor_of(name)
        if is_done or (step is not None and step.is_feed):
            self._last_updated = set()
            self._last_feed_types = {tensor: self.walk.source(tensor)} if tensor else {}
        if step is not None and step.op_type in _VARIABLES:
            return self.run.variable(step.node)
        return self.run.value(tensor) if tensor and self.run.has(tensor) else None

    def _tensor_of(self, node_name: str) -> str:
        """The tensor that is meant by the name of a node; empty: nobody uses what it makes."""
        index = self.walk.index(node_name)
        if index is None or not self.run.steps[index].outputs:
            return f"{node_name}:0"
        return next(iter(self._used(self.run.steps[index])), "")

    def _moved(self, halt: Halt) -> Halt:
        made = {name for each in halt.outcomes for name in each.step.outputs}
        made.update(n for step in self.run.steps if step.unfit for n in step.outputs)
        if halt.outcomes:
            self._last_feed_types = {
                name: kind
                for each in halt.outcomes
                for name, kind in self.walk.sources(each)
                if name not in made or kind in (self.FEED_TYPE_CLIENT, self.FEED_TYPE_OVERRIDE)
            }
        self._last_updated = {f"{name}:0" for name in halt.updated}
        if halt.error is not None:
            raise halt.error
        return halt

    def back(self, count: int = 1) -> list[str]:
        """Undo steps; the names of those undone, the last one first.

        Raises:
            UserError: not even one can be undone.
        """
        return [step.node for step in self.walk.back(count)]

    def finalize(self) -> Any:
        """Do the rest, overrides included; the result of the run.

        (The original ran everything anew, without overrides: an update was then made twice.)

        Raises:
            UserError: the run was discarded.
            Exception: what the run raises.
        """
        capture = self.finish()
        if capture.error is not None:
            raise capture.error
        return capture.value

    def finish(self) -> Capture:
        """As `finalize`, with the dump, and with an error as a value."""
        if self.is_discarded:
            raise UserError("This run was discarded: there is nothing to finish.")
        if self._finished is None:
            self._finished = self.run.finish()
        return self._finished

    # Values.

    def get_tensor_value(self, tensor_name: str) -> Any:
        """The value of a tensor that was computed, fed or overridden; of a node, the first one.

        Raises:
            ValueError: there is none.
        """
        try:
            return self.run.value(tensor_name_of(tensor_name))
        except KeyError:
            raise ValueError(
                f'This stepper has no access to the value of tensor "{tensor_name}": it is not '
                "computed yet, or not in the run."
            ) from None

    def override_tensor(self, tensor_name: str, overriding_val: Any) -> None:
        """Let a tensor have another value; steps that have read it are undone.

        Raises:
            TypeError: the name is not a str.
            ValueError: it is not in the run.
            UserError: it can't be overridden, or not with this value.
        """
        self._step_of(tensor_name)
        self.walk.override(tensor_name, overriding_val)

    def remove_override(self, tensor_name: str) -> None:
        """Take an override back.

        Raises:
            ValueError: there is none.
        """
        if tensor_name not in self.run.overrides:
            raise ValueError(f'No override is registered for tensor "{tensor_name}".')
        readers = self.walk.readers(tensor_name)
        if readers and not self.run.is_open_ended:
            self.walk.rewind(readers[0])
        self.run.take_back(tensor_name)

    def override_names(self) -> list[str]:
        """The overridden tensors."""
        return list(self.run.overrides)

    def handle_names(self) -> list[str]:
        """The tensors that were stepped or continued to, and are as they were computed."""
        return [
            name
            for step in self.run.steps[: self.run.position]
            if step.node in self.walk.asked and not step.is_feed
            for name in self._used(step)
            if name not in self.run.overrides
        ]

    def handle_node_names(self) -> set[str]:
        """The nodes that were stepped or continued to."""
        return {node_name_of(name) for name in self.handle_names()}

    def intermediate_tensor_names(self) -> list[str]:
        """The tensors that were computed on the way, and are as they were computed."""
        return [
            name
            for step in self.run.steps[: self.run.position]
            if step.node not in self.walk.asked and not step.is_feed and not step.unfit
            for name in step.outputs
            if name not in self.run.overrides
        ]

    def last_feed_types(self) -> dict[str, str]:
        """What the last move has used that was there before it, each as one of ``FEED_TYPE_…``."""
        return dict(self._last_feed_types)

    def last_updated(self) -> set[str] | None:
        """The variables that the last move has changed, as ``v:0``; ``None``: there was none."""
        return None if self._last_updated is None else set(self._last_updated)

    def dirty_variables(self) -> set[str]:
        """The variables that were changed so far and not restored, as ``v:0``."""
        return {f"{name}:0" for name in self.run.updated}

    def restore_variable_values(self) -> None:
        """Give all changed variables the value from before the first step, for all to come.

        What steps to come write to them is theirs in the end.
        """
        if self.run.updated:
            self.run.restore()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, exc_type: object, exc_value: object, traceback: object) -> None:
        """Leave the stepper: without `finalize` the session's variables are as before it."""
