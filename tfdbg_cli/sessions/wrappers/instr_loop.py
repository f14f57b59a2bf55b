"""The remote instruction loop: a session that does what it is told before its program goes on.

``OnSessionInitAction.REMOTE_INSTR_LOOP`` and the two callbacks are those that the original's
``framework.py`` announces and never had. When a session is wrapped and `on_session_init` asks for
the loop, `on_instr_start` is asked for one instruction after the other, `on_instr_end` is told what
came of each, until the instruction is to leave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tfdbg_cli.dumps.dump import RunError, RunInfo
from tfdbg_cli.dumps.memory import MemoryDump
from tfdbg_cli.engines.base import Capture, SessionAdapter
from tfdbg_cli.sessions.wrappers.node_stepper import NodeStepper
from tfdbg_cli.sessions.wrappers.requests import OnRunStartAction, OnRunStartResponse, check_type

if TYPE_CHECKING:
    from tfdbg_cli.sessions.wrappers.framework import BaseDebugWrapperSession

__all__ = [
    "OnInstrEndRequest",
    "OnInstrEndResponse",
    "OnInstrStartAction",
    "OnInstrStartRequest",
    "OnInstrStartResponse",
    "follow_instructions",
]


class OnInstrStartAction:
    """What an instruction may be."""

    RUN = "run"
    CONTINUE = "continue"
    OVERRIDE = "override"
    LEAVE = "leave"

    ALL = (RUN, CONTINUE, OVERRIDE, LEAVE)


class OnInstrStartRequest:
    """Given to `BaseDebugWrapperSession.on_instr_start`.

    Attributes:
        session: the session that was wrapped.
        instr_count: 1 for the first instruction.
    """

    def __init__(self, sess: Any, instr_count: int) -> None:
        self.session = sess
        self.instr_count = instr_count


class OnInstrStartResponse:
    """An instruction, the answer to an `OnInstrStartRequest`.

    Attributes:
        action: one of `OnInstrStartAction`.
        fetches: of a run; of ``continue`` and ``override``: of the run to be stepped through.
            ``None`` there: the one that is being stepped through.
        feed_dict: likewise.
        target: of ``continue``: the name of the tensor or node that the stepper goes to; ``None``:
            the end of the run.
        overrides: of ``override``: tensor names and the values that they are to have.
        debug_urls: of a run: where its dump goes; an empty list keeps it in memory.
        debug_ops: of a run: name(s) of debug ops.
        node_name_regex_allowlist, op_type_regex_allowlist, tensor_dtype_regex_allowlist: of a run:
            which tensors to watch; ``None``: all.

    Raises:
        TypeError: the action is not a str, or the URLs are no list of str.
        ValueError: there is no such action.
    """

    def __init__(
        self,
        action: str,
        fetches: Any = None,
        feed_dict: Any = None,
        target: str | None = None,
        overrides: Mapping[str, Any] | None = None,
        debug_urls: Sequence[str] = (),
        debug_ops: str | Sequence[str] = "DebugIdentity",
        node_name_regex_allowlist: str | None = None,
        op_type_regex_allowlist: str | None = None,
        tensor_dtype_regex_allowlist: str | None = None,
    ) -> None:
        check_type(action, str)
        if action not in OnInstrStartAction.ALL:
            raise ValueError(f"Invalid OnInstrStartAction value: {action}")
        self.action = action
        self.fetches = fetches
        self.feed_dict = feed_dict
        self.target = target
        self.overrides = dict(overrides or {})
        self.run = OnRunStartResponse(
            OnRunStartAction.DEBUG_RUN,
            debug_urls,
            debug_ops,
            node_name_regex_allowlist,
            op_type_regex_allowlist,
            tensor_dtype_regex_allowlist,
        )


class OnInstrEndRequest:
    """Given to `BaseDebugWrapperSession.on_instr_end`.

    Attributes:
        performed_action: one of `OnInstrStartAction`.
        value: what the run returned.
        dump: the run's tensors.
        run_metadata: the engine's record of the run, or ``None``.
        tf_error: the exception of the run. It is not raised: nobody but the instruction asked for
            the run.
        error: the same in plain words.
    """

    def __init__(
        self,
        performed_action: str,
        value: Any = None,
        dump: MemoryDump | None = None,
        run_metadata: Any = None,
        tf_error: BaseException | None = None,
        error: RunError | None = None,
    ) -> None:
        check_type(performed_action, str)
        self.performed_action = performed_action
        self.value = value
        self.dump = dump
        self.run_metadata = run_metadata
        self.tf_error = tf_error
        self.error = error


class OnInstrEndResponse:
    """The answer to an `OnInstrEndRequest`; it says nothing."""


def follow_instructions(wrapper: BaseDebugWrapperSession, adapter: SessionAdapter) -> None:
    """Do what `on_instr_start` says, one instruction after the other, until it says to leave.

    Args:
        wrapper: whose callbacks are asked.
        adapter: how to drive its session.

    A run that is being stepped through when the loop is left stays as it is: what was not done is
    not done.

    Raises:
        TypeError: a callback answers with something else than its response.
    """
    count = 0
    steppers = _Steppers(adapter)
    while True:
        count += 1
        instruction = wrapper.on_instr_start(OnInstrStartRequest(wrapper.session, count))
        check_type(instruction, OnInstrStartResponse)
        if instruction.action == OnInstrStartAction.LEAVE:
            return
        if instruction.action == OnInstrStartAction.RUN:
            outcome = _run(adapter, instruction, count)
        else:
            outcome = steppers.follow(instruction, count)
        check_type(wrapper.on_instr_end(outcome), OnInstrEndResponse)


def _run(
    adapter: SessionAdapter, instruction: OnInstrStartResponse, count: int
) -> OnInstrEndRequest:
    info = RunInfo(call_count=count, engine=adapter.engine_name)
    try:
        call = adapter.call(instruction.fetches, instruction.feed_dict, None, None)
        info.fetches, info.feeds = list(call.fetches), call.feeds
        capture = call.debug(instruction.run.watch())
    except Exception as error:
        # A wrong fetch or feed is the instruction's mistake, no reason to end the program.
        capture = Capture(None, None, error)
    if capture.error is not None:
        info.error = capture.late or adapter.describe_error(capture.error)
    if capture.dump is not None:
        capture.dump.set_run_info(info)
    return OnInstrEndRequest(
        instruction.action,
        None if capture.error is not None else capture.value,
        capture.dump,
        capture.run_metadata,
        capture.error,
        info.error,
    )


class _Steppers:
    """The run that instructions step through, one at a time."""

    def __init__(self, adapter: SessionAdapter) -> None:
        self._adapter = adapter
        self._stepper: NodeStepper | None = None

    def follow(self, instruction: OnInstrStartResponse, count: int) -> OnInstrEndRequest:
        """Do a ``continue`` or an ``override``."""
        value, error = None, None
        try:
            stepper = self._of(instruction, count)
            if instruction.action == OnInstrStartAction.OVERRIDE:
                for name, override in instruction.overrides.items():
                    stepper.override_tensor(name, override)
            elif instruction.target is None:
                value = stepper.finalize()
            else:
                value = stepper.cont(instruction.target)
        except Exception as raised:
            # As of a run: the instruction's mistake, or the run's.
            error = raised
        dump = _as_it_is(self._stepper) if self._stepper is not None else None
        described = self._adapter.describe_error(error) if error is not None else None
        return OnInstrEndRequest(instruction.action, value, dump, None, error, described)

    def _of(self, instruction: OnInstrStartResponse, count: int) -> NodeStepper:
        if instruction.fetches is not None:
            session = self._adapter.session
            self._stepper = NodeStepper(session, instruction.fetches, instruction.feed_dict)
            self._stepper.run_info.call_count = count
        if self._stepper is None:
            raise ValueError(
                f'The instruction "{instruction.action}" has no fetches, and no run is being '
                "stepped through."
            )
        return self._stepper


def _as_it_is(stepper: NodeStepper) -> MemoryDump:
    """What has been computed so far; it doesn't grow with the steps to come."""
    found = stepper.run.dump()
    dump = MemoryDump(found.graph, found.sources(), stepper.run_info)
    for datum in found.data():
        dump.add_datum(datum)
    return dump
