"""What every engine's stepper promises, as tests to inherit.

Write the program that `SteppedProgram` describes in the engine's own words, and let pytest collect
a subclass of the suite::

    from tfdbg_cli.testing.stepper_contract import StepperContract

    class TestMySteps(StepperContract):
        def make(self):
            return MyProgram()
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.base import SteppedRun

__all__ = ["FailingProgram", "SteppedProgram", "StepperContract"]


class FailingProgram(NamedTuple):
    """A run of which one step fails.

    Attributes:
        stepper: of the run.
        failing: the node that fails.
        input: a tensor that it reads, and that no step before it does.
        mended: a value of the input with which it does not fail.
        outcome: what the run returns then, computed from nothing but that value.
    """

    stepper: SteppedRun
    failing: str
    input: str
    mended: Any
    outcome: Any


class SteppedProgram(ABC):
    """A small program of one run, at its beginning; one is like the other, random numbers included.

    The run takes the input ``[1, 2]`` (float32) and the variable ``[3, 4]``, and in this order

    - computes `product`, input times variable;
    - draws two random numbers, `noise`;
    - computes `total`, product plus noise, and `result`, twice the total;
    - adds 1 to the variable;

    and returns the result, maybe with more besides.

    Attributes:
        product, noise, total, result: the names of tensors, ``node:slot``.
        variable: the name of the variable, as `Stepper.updated` has it.
    """

    product: str = ""
    noise: str = ""
    total: str = ""
    result: str = ""
    variable: str = ""

    @abstractmethod
    def plain(self) -> Any:
        """Make the run as it is without a debugger; what it returns."""

    @abstractmethod
    def stepper(self) -> SteppedRun:
        """The run, to be done step by step."""

    @abstractmethod
    def value(self) -> Any:
        """The value of the variable now."""

    @abstractmethod
    def draw(self) -> Any:
        """Some of the random numbers that come next."""

    @abstractmethod
    def fail(self) -> FailingProgram:
        """Another run, one that fails."""

    @abstractmethod
    def fail_plainly(self) -> Any:
        """The run of `fail` without a debugger: it raises."""

    def outcome(self, value: Any) -> Any:
        """The result, in what the run returns: it may return more besides."""
        return value

    def array(self, value: Any) -> NDArray[Any]:
        """A value of the framework's as an array."""
        return np.array(value)


class _Left(NamedTuple):
    """What a run has returned and left, to be compared bit by bit."""

    result: bytes
    variable: bytes
    random: bytes


class StepperContract:
    """The suite. Nothing in it knows a framework."""

    def make(self) -> SteppedProgram:
        """A new program."""
        raise NotImplementedError

    @pytest.fixture
    def plain(self) -> _Left:
        """What the plain run leaves; programs that are made after it begin as it did."""
        program = self.make()
        return left_by(program, program.plain())

    @pytest.fixture
    def program(self, plain: _Left) -> SteppedProgram:
        """A program whose run was not made yet."""
        return self.make()

    # A run that nothing is changed in is the plain one.

    def test_a_run_that_is_stepped_through_is_the_plain_one(
        self, program: SteppedProgram, plain: _Left
    ) -> None:
        stepper = program.stepper()
        to_the_end(stepper)
        capture = stepper.finish()
        assert capture.error is None
        assert left_by(program, capture.value) == plain

    @pytest.mark.parametrize("node", ["", "product", "total"])
    def test_finish_does_what_is_left(
        self, program: SteppedProgram, plain: _Left, node: str
    ) -> None:
        stepper = program.stepper()
        if node:
            assert stepper.reach(getattr(program, node))
        capture = stepper.finish()
        assert left_by(program, capture.value) == plain
        assert stepper.finish() is capture
        assert stepper.next is None

    def test_variables_that_are_withheld_get_the_outcome_in_the_end(
        self, program: SteppedProgram, plain: _Left
    ) -> None:
        stepper = program.stepper()
        stepper.withhold()
        assert left_by(program, stepper.finish().value) == plain

    # Going on.

    def test_a_step_is_the_next_one_then_it_is_done(self, program: SteppedProgram) -> None:
        stepper = program.stepper()
        assert stepper.position == 0
        assert not stepper.done
        for position, step in through(stepper):
            assert stepper.position == position
            assert stepper.steps[position] == step
            assert stepper.advance().step == step
            assert stepper.done[-1] == step
        assert stepper.position == len(stepper.steps) == len(stepper.done)
        outputs = [name for step in stepper.done for name in step.outputs]
        order = [program.product, program.total, program.result]
        assert [name for name in outputs if name in order] == order
        with pytest.raises(UserError, match="at its end"):
            stepper.advance()

    def test_nothing_is_done_after_the_end(self, program: SteppedProgram, plain: _Left) -> None:
        stepper = program.stepper()
        capture = stepper.finish()
        with pytest.raises(UserError):
            stepper.advance()
        assert left_by(program, capture.value) == plain

    def test_going_on_until_there_is_a_tensor(self, program: SteppedProgram) -> None:
        stepper = program.stepper()
        assert stepper.reach(program.total)
        assert stepper.is_made(program.total)
        assert not stepper.is_made(program.result)
        position = stepper.position
        assert stepper.reach(program.product)
        assert stepper.position == position
        assert not stepper.reach("there_is/no_such_tensor:0")
        assert stepper.next is None

    def test_caveats_are_sentences_and_known_before_the_first_step(
        self, program: SteppedProgram
    ) -> None:
        stepper = program.stepper()
        assert all(text.endswith(".") for text in stepper.caveats)
        assert stepper.position == 0

    # Values.

    def test_values_are_there_once_they_are_computed(self, program: SteppedProgram) -> None:
        stepper = program.stepper()
        assert not stepper.has(program.total)
        with pytest.raises(KeyError):
            stepper.value(program.total)
        assert stepper.reach(program.total)
        product, noise, total = (
            program.array(stepper.value(name))
            for name in (program.product, program.noise, program.total)
        )
        assert product.tolist() == [3, 8]
        assert (total == product + noise).all()
        assert not stepper.has(program.result)

    def test_values_are_nobody_elses(self, program: SteppedProgram, plain: _Left) -> None:
        stepper = program.stepper()
        stepper.reach(program.total)
        for name in (program.product, program.total):
            value = stepper.value(name)
            before = program.array(value)
            mark = stepper.mark(value)
            assert not stepper.is_written(value, mark)
            value[:] = 100
            assert stepper.is_written(value, mark)
            assert exact(program.array(stepper.value(name))) == exact(before)
        assert left_by(program, stepper.finish().value) == plain

    def test_the_dump_has_what_was_computed(self, program: SteppedProgram) -> None:
        stepper = program.stepper()
        stepper.reach(program.product)
        assert stepper.dump().by_tensor(program.product)
        assert not stepper.dump().by_tensor(program.total)
        graph = stepper.graph()
        assert graph is not None
        assert program.product.rpartition(":")[0] in graph.nodes
        while not stepper.is_made(program.total):
            outcome = stepper.advance()
        assert program.total in [datum.tensor_name for datum in stepper.made(outcome)]
        whole = stepper.finish().dump
        assert whole is not None
        data = whole.data()
        names = [datum.tensor_name for datum in data]
        assert {program.product, program.noise, program.total, program.result} <= set(names)
        stamps = [datum.timestamp for datum in data]
        assert stamps == sorted(stamps)

    # Other values.

    @pytest.mark.parametrize("is_early", [True, False])
    def test_the_rest_of_the_run_sees_an_override(
        self, program: SteppedProgram, plain: _Left, is_early: bool
    ) -> None:
        stepper = program.stepper()
        given = np.array([10, 20], np.float32)
        if not is_early:
            stepper.reach(program.product)
        stepper.override(program.product, given)
        given[:] = 0  # it was copied
        assert list(stepper.overrides) == [program.product]
        stepper.reach(program.total)
        assert program.array(stepper.value(program.product)).tolist() == [10, 20]
        noise = program.array(stepper.value(program.noise))
        capture = stepper.finish()
        assert capture.dump is not None
        (datum,) = capture.dump.by_tensor(program.product)
        assert np.asarray(capture.dump.value(datum)).tolist() == [10, 20]
        result = program.array(program.outcome(capture.value))
        assert exact(result) == exact((np.array([10, 20], np.float32) + noise) * np.float32(2))
        # What has state was done once, as ever.
        assert left_by(program, capture.value)[1:] == plain[1:]

    def test_what_would_be_without_overrides_is_known(
        self, program: SteppedProgram, plain: _Left
    ) -> None:
        stepper = program.stepper()
        stepper.reach(program.product)
        assert exact(program.array(stepper.original(program.product))) == exact(
            np.array([3, 8], np.float32)
        )
        stepper.override(program.product, [0, 0])
        while not stepper.has(program.result):
            stepper.advance()
        assert program.array(stepper.original(program.product)).tolist() == [3, 8]
        assert exact(program.array(stepper.original(program.result))) == plain.result
        assert stepper.original("there_is/no_such_tensor:0") is None

    def test_an_override_by_the_computed_value_changes_nothing(
        self, program: SteppedProgram, plain: _Left
    ) -> None:
        stepper = program.stepper()
        stepper.reach(program.total)
        stepper.override(program.total, stepper.value(program.total))
        assert left_by(program, stepper.finish().value) == plain

    def test_what_was_used_is_not_overridden_any_more(
        self, program: SteppedProgram, plain: _Left
    ) -> None:
        stepper = program.stepper()
        stepper.reach(program.total)
        with pytest.raises(UserError, match="used") as caught:
            stepper.override(program.product, [0, 0])
        assert program.product in str(caught.value)
        assert caught.value.hint
        assert not stepper.overrides
        assert left_by(program, stepper.finish().value) == plain

    @pytest.mark.parametrize(
        ("value", "words"),
        [
            ([1.0, 2.0, 3.0], r"has the shape \[2\]; the value has \[3\]"),
            (np.ones((1, 2), np.float32), r"has the shape \[2\]; the value has \[1, 2\]"),
            (np.array([1j, 2]), "is float32; the value is complex128, which would lose too much"),
            (["one", "two"], "can't have this value: "),
            (None, "can't have this value: "),
            ([[1.0], [1.0, 2.0]], "can't have this value: "),
        ],
    )
    def test_a_value_that_does_not_fit_is_refused(
        self, program: SteppedProgram, plain: _Left, value: Any, words: str
    ) -> None:
        stepper = program.stepper()
        stepper.reach(program.product)
        with pytest.raises(UserError, match=words) as caught:
            stepper.override(program.product, value)
        assert str(caught.value).startswith(program.product)
        assert "\n" not in str(caught.value)
        assert not stepper.overrides
        assert left_by(program, stepper.finish().value) == plain

    @pytest.mark.parametrize(
        "value",
        [
            [5, 6],
            [5.0, 6.0],
            np.array([5, 6], np.int64),
            np.array([5, 6], np.float64),
            np.array([5, 6], np.float32),
        ],
        ids=["integers", "floats", "int64", "float64", "float32"],
    )
    def test_numbers_of_another_precision_fit(self, program: SteppedProgram, value: Any) -> None:
        stepper = program.stepper()
        stepper.reach(program.total)
        stepper.override(program.total, value)
        made = program.array(stepper.value(program.total))
        assert exact(made) == exact(np.array([5, 6], np.float32))
        result = program.outcome(stepper.finish().value)
        assert exact(program.array(result)) == exact(np.array([10, 12], np.float32))

    def test_what_is_not_there_is_not_overridden(self, program: SteppedProgram) -> None:
        stepper = program.stepper()
        stepper.reach(program.product)
        name = program.product.replace(":0", ":7")
        with pytest.raises(UserError, match=f"There is no .*{name}"):
            stepper.override(name, [1, 2])
        assert not stepper.overrides

    def test_an_override_is_taken_back(self, program: SteppedProgram, plain: _Left) -> None:
        stepper = program.stepper()
        with pytest.raises(UserError, match=f"{program.product} is not overridden"):
            stepper.take_back(program.product)
        stepper.override(program.product, [0, 0])
        do_before(stepper, program.product)
        stepper.advance()
        stepper.take_back(program.product)
        assert not stepper.overrides
        assert program.array(stepper.value(program.product)).tolist() == [3, 8]
        assert left_by(program, stepper.finish().value) == plain

    # Back.

    def test_there_is_no_way_back_from_the_beginning(self, program: SteppedProgram) -> None:
        stepper = program.stepper()
        with pytest.raises(UserError, match="No step was done yet"):
            stepper.back()

    @pytest.mark.parametrize("node", ["product", "noise", "total"])
    def test_a_step_is_undone_and_done_again(
        self, program: SteppedProgram, plain: _Left, node: str
    ) -> None:
        stepper, name = program.stepper(), getattr(program, node)
        do_before(stepper, name)
        step = stepper.advance().step
        value = exact(program.array(stepper.value(name)))
        assert stepper.back() == step == stepper.next
        assert not stepper.has(name)
        assert not stepper.dump().by_tensor(name)
        assert stepper.advance().step == step
        assert exact(program.array(stepper.value(name))) == value
        assert left_by(program, stepper.finish().value) == plain

    def test_an_update_is_undone_and_done_again(
        self, program: SteppedProgram, plain: _Left
    ) -> None:
        stepper = program.stepper()
        while not stepper.advance().updated:
            pass
        assert list(stepper.updated) == [program.variable]
        stepper.back()
        assert not stepper.updated
        assert stepper.advance().updated == (program.variable,)
        assert left_by(program, stepper.finish().value) == plain

    def test_overrides_stay_when_a_step_is_undone(self, program: SteppedProgram) -> None:
        stepper = program.stepper()
        do_before(stepper, program.result)
        stepper.override(program.total, [1, 2])
        stepper.advance()
        stepper.back()
        assert list(stepper.overrides) == [program.total]
        assert program.array(program.outcome(stepper.finish().value)).tolist() == [2, 4]

    # Variables.

    def test_what_steps_have_changed_is_told_and_restored(self, program: SteppedProgram) -> None:
        stepper = program.stepper()
        stepper.reach(program.result)
        assert not stepper.updated
        with pytest.raises(UserError, match=f"No step has changed a variable {program.variable}"):
            stepper.restore([program.variable])
        changed = [name for _, _ in through(stepper) for name in stepper.advance().updated]
        assert changed == list(stepper.updated) == [program.variable]
        with pytest.raises(UserError, match="No step has changed a variable no_such"):
            stepper.restore(["no_such"])
        assert list(stepper.restore()) == [program.variable]
        assert not stepper.updated
        assert stepper.finish().error is None
        assert program.array(program.value()).tolist() == [3, 4]

    # The other end.

    @pytest.mark.parametrize("is_overridden", [False, True])
    def test_a_run_that_is_discarded_has_never_begun_or_is_the_plain_one(
        self, program: SteppedProgram, plain: _Left, is_overridden: bool
    ) -> None:
        stepper = program.stepper()
        if is_overridden:
            stepper.reach(program.product)
            stepper.override(program.product, [0, 0])
        capture = stepper.discard()
        result = program.plain() if capture is None else capture.value
        assert left_by(program, result) == plain

    # Failures.

    def test_a_step_that_fails_is_still_the_next_and_can_be_mended(
        self, program: SteppedProgram
    ) -> None:
        failing = program.fail()
        stepper = failing.stepper
        plain = error_of(program)
        for _ in range(2):
            with pytest.raises(type(plain)) as caught:
                to_the_end(stepper)
            assert str(caught.value) == str(plain)
            assert stepper.next is not None
            assert stepper.next.node == failing.failing
        assert failing.input in stepper.mendable()
        stepper.override(failing.input, failing.mended)
        assert stepper.advance().step.node == failing.failing
        capture = stepper.finish()
        assert capture.error is None
        assert program.array(capture.value).tolist() == failing.outcome

    @pytest.mark.parametrize("is_tried", [False, True])
    def test_the_error_of_a_run_is_the_plain_runs(
        self, program: SteppedProgram, is_tried: bool
    ) -> None:
        plain = error_of(program)
        failing = program.fail()
        if is_tried:
            with pytest.raises(type(plain)):
                to_the_end(failing.stepper)
        capture = failing.stepper.finish()
        assert type(capture.error) is type(plain)
        assert str(capture.error) == str(plain)
        assert capture.dump is not None
        assert capture.dump.by_tensor(failing.input)


def through(stepper: SteppedRun) -> Iterator[tuple[int, Any]]:
    """Each step, before it is done by whoever asks for it."""
    position = stepper.position
    while (step := stepper.next) is not None:
        yield position, step
        position += 1


def to_the_end(stepper: SteppedRun) -> None:
    """Do all steps."""
    for _ in through(stepper):
        stepper.advance()


def error_of(program: SteppedProgram) -> Exception:
    """What the failing run raises when nobody watches."""
    try:
        program.fail_plainly()
    except Exception as error:
        return error
    raise AssertionError("it does not fail")


def do_before(stepper: SteppedRun, tensor_name: str) -> None:
    """Do all steps before the one that makes a tensor."""
    for _, step in through(stepper):
        if tensor_name in step.outputs:
            return
        stepper.advance()
    raise AssertionError(f"no step makes {tensor_name}")


def exact(array: NDArray[Any]) -> bytes:
    """An array as something that is equal only bit for bit."""
    return f"{array.dtype.name} {array.shape} ".encode() + array.tobytes()


def left_by(program: SteppedProgram, result: Any) -> _Left:
    """What a run has returned, and has made of the program."""
    values = program.outcome(result), program.value(), program.draw()
    return _Left(*(exact(program.array(value)) for value in values))
