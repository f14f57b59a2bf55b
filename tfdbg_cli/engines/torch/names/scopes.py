"""What modules, parameters and optimizers are called, the same from step to step."""

from __future__ import annotations

import itertools
import re
import weakref
from collections.abc import Iterable, Iterator, Mapping
from types import FrameType
from typing import Any, TypeVar

import torch

from tfdbg_cli.engines.kit.stacks import user_frames, variables
from tfdbg_cli.engines.torch.names.sites import has_parameters
from tfdbg_cli.engines.torch.private import WRAPPED, buffers_of, children_of, parameters_of

__all__ = ["Leaf", "ModuleName", "Names", "legal"]

# Wraps a module without being a part of the model, and has it in the attribute `module`.
_PARALLEL = {"DataParallel", "DistributedDataParallel", "DistributedDataParallelCPU"}
# What would be read as something else in a name: a reference in backticks ends, tabs are widened
# where they are shown, empty pieces between slashes are left out by the original's dumps; what
# stands for a slot, a number of an execution, a control input, or for one of these signs.
_STRANGE = re.compile(
    r"[`\t]|(?:^|(?<=/))/|/$|:(?=\d{1,9}$)|(?<= \()#(?=\d{1,9}\)$)|%(?=[\dA-F]{2})"
)
_STRANGE_IN_FRONT = re.compile(r"^[\^\s]")
# How many variables, and how many levels of lists and objects, are searched for a name.
_MOST_VARIABLES = 500

_T = TypeVar("_T")


def legal(name: str, path: str = "") -> str:
    """A name of the program's as a part of a node's name: as it is, nearly always.

    What means something else there is written as ``%`` and two digits, so that two names stay two.

    Args:
        name: of a module, a parameter, a variable.
        path: what stands in front of it, made by this function.
    """
    if name.isidentifier():
        return name
    found = _STRANGE.sub(_written, name)
    if not path:
        found = _STRANGE_IN_FRONT.sub(_written, found)
    # No command line can quote a word that has both kinds of quotes.
    if "'" in path:
        found = found.replace('"', "%22")
    elif '"' in path or '"' in found:
        found = found.replace("'", "%27")
    return found or "_"


def _written(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"


class ModuleName:
    """A module's name.

    Attributes:
        path: dotted; empty for the main module.
        class_name: of the module.
        is_wrapper: it wraps another module that goes by the same path.
        children: the names of the modules in it, and their ids.
        stack: the modules from the outermost to this one, as they first called each other:
            ``encoder (Encoder) > layers.0 (Layer)``; empty until it is called.
    """

    __slots__ = ("children", "class_name", "is_wrapper", "path", "reference", "stack")

    def __init__(self, module: torch.nn.Module, path: str, is_wrapper: bool) -> None:
        self.reference = weakref.ref(module)
        self.path = path
        self.class_name = type(module).__name__
        self.is_wrapper = is_wrapper
        self.children = _places(children_of(module))
        self.stack = ""

    def called_by(self, caller: ModuleName | None) -> None:
        """Note which module calls it first."""
        if self.stack:
            return
        outer = caller.stack if caller is not None else ""
        if self.is_wrapper and outer:
            self.stack = outer
            return
        name = self.path
        if caller is not None and caller.path:
            name = name.removeprefix(f"{caller.path}.")
        label = f"{name} ({self.class_name})" if name else self.class_name
        self.stack = f"{outer} > {label}" if outer else label


class Leaf:
    """A tensor that no op of the run has made, by the name that it has in the model.

    Attributes:
        name: ``fc1.weight``; what comes before the name of the parameter that it belongs to.
        op_type: ``Parameter``, ``Buffer``, ``State`` or ``Input``.
        parameter: the record of that parameter, or its name; ``None``: it belongs to none.
        rest: what comes after its name.
        note: what its elements don't tell: which part it is of a tensor that several ranks share.
        place: of an op that has made it and wasn't recorded, see `UnusedOps`.
    """

    __slots__ = ("name", "note", "op_type", "parameter", "place", "reference", "rest")

    def __init__(
        self, tensor: torch.Tensor, name: str, op_type: str, parameter: Any = None, rest: str = ""
    ) -> None:
        self.reference = weakref.ref(tensor)
        self.parameter = parameter
        self.name = name
        self.op_type = op_type
        self.rest = rest
        self.note = ""
        self.place: Any = None


class Names:
    """What outlives runs, so that names are the same in each: modules, parameters, optimizers.

    The first module that is called from outside of any other and owns parameters is the main one:
    its name is left out. Others have the name that the user's code has for them in front.

    Args:
        has_tensors: whether anybody asks for names of parameters and buffers.
    """

    def __init__(self, *, has_tensors: bool = True) -> None:
        self._has_tensors = has_tensors
        self._modules: dict[int, ModuleName] = {}
        self._tensors: dict[int, Leaf] = {}
        self._main: weakref.ref[torch.nn.Module] | None = None
        self._roots: dict[str, weakref.ref[torch.nn.Module]] = {}
        self._optimizers: dict[str, weakref.ref[Any]] = {}
        self._optimizer_names: dict[int, tuple[weakref.ref[Any], str]] = {}

    # Modules.

    def module(
        self, module: torch.nn.Module, frame: FrameType | None, caller: ModuleName | None
    ) -> ModuleName:
        """The name of a module.

        Args:
            module: is being called.
            frame: from where.
            caller: the module that calls it, if one does.
        """
        known = self._modules.get(id(module))
        if known is not None and known.reference() is module:
            return known
        if caller is None:
            self._add_root(module, frame)
        else:
            self._add_called(module, caller)
        return self._modules[id(module)]

    def named(self, module: torch.nn.Module) -> ModuleName | None:
        """The name of a module that has been called; ``None``: it has none."""
        known = self._modules.get(id(module))
        return known if known is not None and known.reference() is module else None

    def at(self, path: str) -> torch.nn.Module | None:
        """The module of this path, as far as it is known."""
        for known in self._modules.values():
            if known.path == path and not known.is_wrapper:
                return known.reference()
        return None

    def _add_root(self, module: torch.nn.Module, frame: FrameType | None) -> None:
        inner = self._modules.get(id(_unwrapped(module)))
        if inner is not None and inner.reference() is _unwrapped(module):
            self._add_tree(module, inner.path)
            return
        name, owner = _variable_of(module, frame)
        if owner is not None:
            known = self._modules.get(id(owner))
            if known is not None and known.reference() is owner:
                self._add_tree(owner, known.path)
                return
            name, module = _variable_of(owner, frame)[0], owner
        if self._living_main() is None and has_parameters(module):
            self.add_main(module)
            return
        prefix = self._free(legal(name or type(module).__name__), self._roots)
        self._roots[prefix] = weakref.ref(module)
        self._add_tree(module, prefix)

    def _living_main(self) -> torch.nn.Module | None:
        return self._main() if self._main is not None else None

    def add_main(self, module: torch.nn.Module) -> None:
        """Let a module be the main one, whatever it is a part of."""
        self._main = weakref.ref(module)
        if self._has_tensors or self._modules:
            self._add_tree(module, "")
            return
        # Of the same model nearly always: to look whether it is takes a tenth of the time.
        known = _trees.get(id(module))
        if known is None or not _is_tree(module, known):
            self._add_tree(module, "")
            if len(_trees) >= _MOST_TREES:
                _trees.clear()
            known = _trees[id(module)] = dict(self._modules)
        self._modules = dict(known)

    def _add_called(self, module: torch.nn.Module, caller: ModuleName) -> None:
        """A module that isn't known is called by one that is."""
        parent = caller.reference()
        if parent is not None:
            self._add_tree(parent, caller.path)
        known = self._modules.get(id(module))
        if known is None or known.reference() is not module:
            name = _attribute_of(module, parent) or _layer_name(module) or type(module).__name__
            self._add_tree(module, _join(caller.path, name))

    def _add_tree(self, root: torch.nn.Module, path: str) -> None:
        for module, at, is_wrapper in _tree(root, path):
            known = self._modules.get(id(module))
            if known is None or known.reference() is not module:
                known = self._modules[id(module)] = ModuleName(module, at, is_wrapper)
            if self._has_tensors:
                self._add_tensors(known.path, module)

    def _add_tensors(self, path: str, module: torch.nn.Module) -> None:
        for tensors, op_type in (
            (parameters_of(module), "Parameter"),
            (buffers_of(module), "Buffer"),
        ):
            for name, tensor in tensors.items():
                if tensor is not None and self.tensor(tensor) is None:
                    self._tensors[id(tensor)] = Leaf(tensor, _join(path, name), op_type)

    def _free(self, name: str, taken: dict[str, weakref.ref[_T]]) -> str:
        """A name that nobody who lives has."""
        main = self._living_main()
        found, count = name, 0
        while (found in taken and taken[found]() is not None) or (
            taken is self._roots and main is not None and found in children_of(main)
        ):
            count += 1
            found = f"{name}_{count}"
        return found

    # Tensors.

    def tensor(self, tensor: torch.Tensor) -> Leaf | None:
        """The parameter or buffer that a tensor is, as far as it is known."""
        known = self._tensors.get(id(tensor))
        return known if known is not None and known.reference() is tensor else None

    def name_all(self, tensors: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Let tensors have names of a framework's own, paths with ``/`` between their parts."""
        for path, tensor in tensors:
            known = self.tensor(tensor)
            name = "/".join(map(legal, path.split("/")))
            if path and (known is None or known.name != name):
                op_type = "Parameter" if tensor.requires_grad else "Buffer"
                self._tensors[id(tensor)] = Leaf(tensor, name, op_type)

    def search(self) -> None:
        """Look at all known modules again: they may have got other parameters or buffers."""
        for key, known in list(self._modules.items()):
            module = known.reference()
            if module is None:
                del self._modules[key]
            else:
                self._add_tensors(known.path, module)
        for number, leaf in list(self._tensors.items()):
            if leaf.reference() is None:
                del self._tensors[number]

    def tensors(self) -> Iterator[tuple[torch.Tensor, Leaf]]:
        """The parameters and buffers that are known."""
        for leaf in list(self._tensors.values()):
            tensor = leaf.reference()
            if tensor is not None:
                yield tensor, leaf

    # Optimizers.

    def optimizer(self, optimizer: Any) -> str:
        """The name of an optimizer: its class, numbered where there are more of it."""
        known = self._optimizer_names.get(id(optimizer))
        if known is not None and known[0]() is optimizer:
            return known[1]
        name = self._free(legal(type(optimizer).__name__), self._optimizers)
        reference = weakref.ref(optimizer)
        self._optimizers[name] = reference
        self._optimizer_names[id(optimizer)] = (reference, name)
        return name


# By the id of a main module: the names of the modules in it, in the order of `_tree`.
_trees: dict[int, dict[int, ModuleName]] = {}
_MOST_TREES = 64


def _is_tree(root: torch.nn.Module, names: Mapping[int, ModuleName]) -> bool:
    """Whether the modules in one are those of some names, in the same places."""
    seen: set[int] = set()
    pending = [root]
    while pending:
        module = pending.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        known = names.get(id(module))
        if known is None or known.reference() is not module:
            return False
        children = children_of(module)
        if children:
            if known.children != _places(children):
                return False
            pending += [each for each in children.values() if each is not None]
        elif known.children:
            return False
    return len(seen) == len(names)


def _places(children: Mapping[str, Any]) -> tuple[tuple[str, int], ...]:
    return (*((name, id(child)) for name, child in children.items()),)  # a script's has no more


def _join(path: str, name: str) -> str:
    name = legal(name, path)
    return f"{path}.{name}" if path else name


def _tree(root: torch.nn.Module, path: str) -> Iterator[tuple[torch.nn.Module, str, bool]]:
    """A module and those in it, each once, with their paths, and whether they are wrappers."""
    seen: set[int] = set()
    pending = [(root, path)]
    while pending:
        module, at = pending.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        wrapped = WRAPPED | {"module"} if type(module).__name__ in _PARALLEL else WRAPPED
        children = [
            (name, child) for name, child in children_of(module).items() if child is not None
        ]
        yield module, at, any(name in wrapped for name, _ in children)
        pending += [
            (child, at if name in wrapped else _join(at, name))
            for name, child in reversed(children)
        ]


def _unwrapped(module: torch.nn.Module) -> torch.nn.Module:
    """The module inside of wrappers; itself if it is none."""
    while True:
        wrapped = WRAPPED | {"module"} if type(module).__name__ in _PARALLEL else WRAPPED
        children = children_of(module)
        inner = next((children[name] for name in wrapped if name in children), None)
        if inner is None:
            return module
        module = inner


def _variable_of(
    module: torch.nn.Module, frame: FrameType | None
) -> tuple[str, torch.nn.Module | None]:
    """What the user's code calls a module, or else the module that it is a part of.

    A variable counts first, then an attribute of ``self``. What is reached through another module
    (``model.head(x)``) is named as a part of that.
    """
    for at in user_frames(frame):
        found = variables(at)
        host = found.get("self")
        if not isinstance(host, torch.nn.Module):
            found = {**_attributes(host), **found}
        owner: torch.nn.Module | None = None
        for name, value in itertools.islice(reversed(found.items()), _MOST_VARIABLES):
            if value is module and name != "self":
                return str(name).lstrip("_"), None
            if (
                owner is None
                and value is not module
                and isinstance(value, torch.nn.Module)
                and _contains(value, module)
            ):
                owner = value
        if owner is not None:
            return "", owner
    return "", None


def _layer_name(module: torch.nn.Module) -> str:
    """What a Keras layer is called; empty for other modules."""
    if not any(kind.__name__ == "TorchLayer" for kind in type(module).__mro__):
        return ""
    return str(getattr(module, "name", ""))


def _contains(module: torch.nn.Module, part: torch.nn.Module) -> bool:
    return any(found is part for found in module.modules())


def _attributes(host: Any) -> dict[str, Any]:
    try:
        return dict(vars(host))
    except TypeError:
        return {}


def _attribute_of(value: Any, host: Any) -> str:
    """The attribute of an object that holds this very value; empty if none does."""
    for name, held in itertools.islice(_attributes(host).items(), _MOST_VARIABLES):
        if held is value:
            return str(name).lstrip("_")
    return ""
