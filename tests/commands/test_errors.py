"""``errors``: what the debugger caught in its own work."""

from command_kit import Shell

from tfdbg_cli.common.caught import caught, keep
from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.common.interpreter.program_signals import contained
from tfdbg_cli.dumps.datum import Datum
from tfdbg_cli.dumps.memory import MemoryDump


def test_what_a_list_leaves_out_is_told():
    def damaged():
        raise DumpError("errors.bin is damaged: it ends early.")

    dump = MemoryDump()
    dump.add_datum(Datum("lost", 0, damaged, timestamp=9))
    shell = Shell(dump)
    shell.text("lt -o size,dtype")
    (found,) = [each for each in caught() if "errors.bin" in each.error]
    assert found.error == "DumpError: errors.bin is damaged: it ends early."
    assert found.caught_at.startswith("tfdbg_cli/commands/tensors/facts.py:")
    assert found.raised_at.startswith("tests/commands/test_errors.py:")
    shell.text("lt -o size,dtype")
    text = shell.text("errors")
    assert f"{found.error} ({found.times + 1} times)" in text
    assert f"caught at {found.caught_at}" in text


def test_nothing_of_the_programs_is_called_and_only_so_many_are_kept():
    class Talking(Exception):
        def __str__(self):
            raise AssertionError("called")

    class Tensor:
        __str__ = __repr__ = Talking.__str__

    with contained:
        raise Talking("its words", 3, Tensor())
    assert caught()[-1].error == "Talking: its words: 3"
    before = caught()[-1].number
    for number in range(300):
        keep(ValueError(number))
    assert [each.error for each in caught()] == [f"ValueError: {n}" for n in range(100, 300)]
    assert len(caught(before + 299)) == 1


def test_an_interrupt_is_not_kept_back():
    for kind in (KeyboardInterrupt, SystemExit, GeneratorExit):
        try:
            with contained:
                raise kind
        except kind:
            continue
        raise AssertionError(kind)
