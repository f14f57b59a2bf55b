"""The registry of tensor filters, and files that define them."""

import sys

import numpy as np
import pytest

from tfdbg_cli.common.errors import UserError
from tfdbg_cli.filters.builtin import BUILTIN, has_inf_or_nan
from tfdbg_cli.filters.registry import FilterRegistry, load_filters


@pytest.fixture
def registry():
    return FilterRegistry()


def test_the_built_in_filter_is_there(registry):
    assert registry.names()[0] == "has_inf_or_nan"
    assert registry.get("has_inf_or_nan") is has_inf_or_nan
    assert has_inf_or_nan(None, np.array([1.0, np.nan]))
    assert not has_inf_or_nan(None, np.array(["nan"], object))
    assert not has_inf_or_nan(None, object())


def test_adding_and_replacing(registry):
    def first(datum, tensor):
        return True

    registry.add("mine", first)
    assert registry.get("mine") is first
    registry.add("mine", has_inf_or_nan)
    assert registry.get("mine") is has_inf_or_nan
    assert registry.names().count("mine") == 1


@pytest.mark.parametrize(
    ("name", "function", "error"),
    [(1, has_inf_or_nan, TypeError), ("", has_inf_or_nan, ValueError), ("a", 1, TypeError)],
)
def test_what_is_no_filter_is_refused(registry, name, function, error):
    with pytest.raises(error, match="Input argument filter_"):
        registry.add(name, function)


def test_an_unknown_name(registry):
    with pytest.raises(UserError, match="Did you mean has_inf_or_nan"):
        registry.get("has_inf")


def test_a_file_of_filters(registry, tmp_path):
    path = tmp_path / "filters.py"
    path.write_text(
        "from math import hypot\n"
        "from posixpath import join\n"
        "import numpy as np\n"
        "def large(datum, tensor):\n    return helper(tensor) > 2\n"
        "def helper(tensor):\n    return tensor.size\n"
        "def _hidden(datum, tensor):\n    return True\n"
        "def with_default(datum, tensor, limit=3):\n    return tensor.size > limit\n"
    )
    assert load_filters(str(path), registry) == ["large", "with_default"]
    assert registry.names() == [*BUILTIN, "large", "with_default"]
    assert registry.get("large")(None, np.zeros(3))
    assert not registry.get("large")(None, np.zeros(2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "can't be read: No such file"),
        ("1 / 0", "failed: ZeroDivisionError"),
        ("def (", "failed: SyntaxError"),
        ("import sys; sys.exit(3)", "failed: SystemExit: 3"),
        ("import no_such_module_anywhere", "failed: ModuleNotFoundError"),
        ("x = 3", "defines no filter"),
    ],
)
def test_a_file_that_cannot_be_used(registry, tmp_path, text, message):
    path = tmp_path / "filters.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        load_filters(str(path), registry)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    assert registry.names() == list(BUILTIN)


def test_a_built_in_name_that_means_something_else_is_known(registry):
    assert not registry.is_replaced("has_inf_or_nan")
    registry.add("mine", lambda datum, value: True)
    assert not registry.is_replaced("mine")
    assert not registry.is_replaced("nowhere")
    registry.add("has_inf_or_nan", lambda datum, value: True)
    assert registry.is_replaced("has_inf_or_nan")


def test_filters_of_installed_packages_are_imported_when_they_are_asked_for(tmp_path, monkeypatch):
    (tmp_path / "tensor_filters_of_a_package.py").write_text(
        "def empty(datum, tensor):\n    return tensor.size == 0\n"
    )
    info = tmp_path / "filters_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: filters-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[tfdbg_cli.filters]\n"
        "empty = tensor_filters_of_a_package:empty\n"
        "mine = tensor_filters_of_a_package:nothing\n"
        "gone = no_such_module_anywhere:gone\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    registry = FilterRegistry()
    registry.add("mine", has_inf_or_nan)
    assert registry.names() == [*BUILTIN, "mine", "empty", "gone"]
    assert registry.get("mine") is has_inf_or_nan  # the name of the package's own is taken
    assert "tensor_filters_of_a_package" not in sys.modules
    assert registry.get("empty")(None, np.zeros(0))
    assert not registry.get("empty")(None, np.zeros(1))
    with pytest.raises(UserError, match='"gone" can\'t be loaded: ModuleNotFoundError'):
        registry.get("gone")
    del sys.modules["tensor_filters_of_a_package"]
