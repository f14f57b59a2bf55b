"""Patching is a transaction: all or nothing, and only what is still ours is put back."""

import itertools

import pytest

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.engines.kit.patching.patches import PatchSet


class Base:
    def inherited(self):
        return "inherited"


class Framework(Base):
    def run(self):
        return "run"

    @staticmethod
    def make():
        return "made"


ORIGINAL = dict(vars(Framework))


@pytest.fixture(autouse=True)
def _whole():
    yield
    assert dict(vars(Framework)) == ORIGINAL


def around(word):
    return lambda original: lambda *args: f"{word}({original(*args)})"


def test_what_is_replaced_is_put_back():
    patches = PatchSet("Frame 1.0")
    assert not patches
    for name in ("run", "make", "inherited"):
        patches.replace(Framework, name, around("ours"))
    assert patches
    assert Framework().run() == "ours(run)"
    assert Framework.make() == Framework().make() == "ours(made)"
    assert Framework().inherited() == "ours(inherited)"
    assert Framework.run.__name__ == "run"
    patches.undo()
    patches.undo()
    assert not patches
    assert "inherited" not in vars(Framework)


def test_a_name_that_is_missing_undoes_the_earlier_ones():
    patches, said = PatchSet("Frame 1.0"), []
    patches.replace(Framework, "make", around("before"))

    def put():
        with patches.together():
            patches.replace(Framework, "run", around("ours"))
            patches.also(lambda: said.append("on"), lambda: said.append("off"))
            assert Framework().run() == "ours(run)"
            patches.replace(Framework, "_gone", around("ours"))

    with pytest.raises(UserError) as caught:
        put()
    assert str(caught.value) == f"Frame 1.0 has no {__name__}.Framework._gone."
    assert said == ["on", "off"]
    assert Framework().run() == "run"
    assert Framework.make() == "before(made)"
    patches.undo()


def test_any_other_failure_undoes_them_as_well():
    def fails(original):
        raise RuntimeError("no")

    patches = PatchSet("Frame 1.0")

    def put(owner, name, make):
        with patches.together():
            patches.replace(Framework, "run", around("ours"))
            patches.replace(owner, name, make)

    with pytest.raises(RuntimeError):
        put(Framework, "make", fails)
    with pytest.raises(TypeError):  # no class of C can be changed
        put(int, "__add__", around("ours"))
    assert not patches


def test_an_undo_that_fails_keeps_no_other_from_it():
    def fails():
        raise RuntimeError("no")

    patches = PatchSet("Frame 1.0")
    patches.replace(Framework, "run", around("ours"))
    patches.also(lambda: None, fails)
    patches.replace(Framework, "make", around("ours"))
    with pytest.raises(RuntimeError):
        patches.undo()
    assert not patches


def test_what_somebody_has_put_on_top_stays():
    patches, theirs = PatchSet("Frame 1.0"), lambda self: "theirs"
    undo = patches.replace(Framework, "run", around("ours"))
    Framework.run = theirs
    undo()
    assert vars(Framework)["run"] is theirs
    Framework.run = ORIGINAL["run"]
    undo()
    patches.undo()


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_ours_on_top_of_each_other_are_undone_in_any_order(order):
    sets = [PatchSet("Frame 1.0") for _ in range(3)]
    for number, patches in enumerate(sets):
        patches.replace(Framework, "run", around(str(number)))
    assert Framework().run() == "2(1(0(run)))"
    for number in order:
        sets[number].undo()
        sets[number].undo()
    assert Framework().run() == "run"


def test_one_of_a_set_can_be_undone_alone():
    patches = PatchSet("Frame 1.0")
    undo = patches.replace(Framework, "run", around("ours"))
    patches.replace(Framework, "make", around("ours"))
    undo()
    assert Framework().run() == "run"
    assert Framework.make() == "ours(made)"
    Framework.run = around("theirs")(ORIGINAL["run"])
    patches.undo()
    assert Framework().run() == "theirs(run)"
    Framework.run = ORIGINAL["run"]


class Called:
    def call(self, *args, **kwargs):
        return self, args, kwargs


class Below(Called):
    pass


def test_a_method_is_redirected_where_it_is():
    seen, made, codes = [], [], []
    patches = PatchSet("Frame 1.0", codes.append)
    method, code, thing = Called.call, Called.call.__code__, Below()

    def make(original):
        made.append(original)

        def instead(self, *args, **kwargs):
            seen.append((self, args, kwargs))
            return original(self, *args, **kwargs)

        return instead

    for _ in range(2):
        assert patches.redirect(Called.call, make)
        assert patches
        assert thing.call(1, key=2) == (thing, (1,), {"key": 2})
        assert Called.call is method
        assert Called.call.__name__ == "call"
        patches.undo()
        assert not patches
        assert Called.call.__code__ is code
    assert thing.call() == (thing, (), {})
    assert seen == [(thing, (1,), {"key": 2})] * 2
    assert len(made) == len(codes) == 1  # it is prepared once
    assert made[0](thing, 3) == (thing, (3,), {})


def test_what_somebody_else_has_redirected_since_stays():
    patches, others = PatchSet("Frame 1.0"), PatchSet("Frame 1.0")
    code = Called.call.__code__
    assert patches.redirect(Called.call, lambda original: lambda *args: "ours")
    assert others.redirect(Called.call, lambda original: lambda *args: "theirs")
    patches.undo()
    assert Called().call() == "theirs"
    others.undo()
    assert Called.call.__code__ is code


def test_not_every_method_can_be_redirected():
    outer = "outer"

    class Others:
        def fixed(self, one):
            return one

        def closed(self, *args, **kwargs):
            return outer

    patches = PatchSet("Frame 1.0")
    for method in (Others.fixed, Others.closed, len):
        assert not patches.redirect(method, around("ours"))
    assert not patches


def test_one_that_fails_does_not_keep_the_others_from_being_put_back():
    patches, said = PatchSet("Frame 1.0"), []

    def fail():
        raise LookupError("here")

    patches.also(list, lambda: said.append("first"))
    patches.also(list, fail)
    patches.also(list, lambda: said.append("last"))
    with pytest.raises(LookupError):
        patches.undo()
    assert said == ["last", "first"]
    assert not patches
