"""What is known of a run of a program at its beginning and at its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

from tfdbg_cli.dumps.dump import Dump, InconvertibleTensorProto, RunInfo

if TYPE_CHECKING:
    from tfdbg_cli.engines.kit.levels import CaptureLevel

__all__ = ["RunDescription", "RunInputs"]


class RunInputs(Mapping[str, Any]):
    """Name -> value, read when somebody asks.

    Attributes:
        shapes: name -> dtype and shape, as far as known.
        tensors: name -> ``node:slot``, at the end of a run that was debugged.
    """

    def __init__(
        self,
        loads: Mapping[str, Callable[[], Any]],
        shapes: Mapping[str, str],
        tensors: Mapping[str, str] | None = None,
    ) -> None:
        self._loads = loads
        self.shapes = shapes
        self.tensors = tensors or {}

    def __getitem__(self, name: str) -> Any:
        return self._loads[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._loads)

    def __len__(self) -> int:
        return len(self._loads)


class RunDescription:
    """One run, described when somebody wants to know.

    Args:
        kind: what kind of run; it may turn out to be another one.
        number: 1 for the first one of its kind.
        title: what to call it.
        inputs: what it gets, by the user's names.
    """

    def __init__(
        self, kind: str, number: int, title: str = "", inputs: Mapping[str, Any] | None = None
    ) -> None:
        self.kind = kind
        self.number = number
        self._title = title
        self._inputs = dict(inputs or {})
        self._made: dict[str, str] = {}

    def tensors(self) -> Mapping[str, Any]:
        """The tensors that it gets, by the names of the user's variables for them."""
        return self._inputs

    def info(self) -> RunInfo:
        """What is known at the beginning."""
        return RunInfo(kind=self.kind, runner=self._title, feeds=self.tensors(), number=self.number)

    def began(self, watcher: CaptureLevel) -> None:
        """The run begins; what it gets may have been made by ops that were recorded before."""
        made = {name: watcher.tensor_name(tensor) for name, tensor in self.tensors().items()}
        self._made = {name: tensor for name, tensor in made.items() if tensor}

    def end(
        self,
        info: RunInfo,
        watcher: CaptureLevel,
        frame: FrameType | None,
        output: Any,
        events: str,
    ) -> None:
        """Add what is known at the end.

        Args:
            info: what was told at the beginning.
            watcher: has seen the run.
            frame: the user's.
            output: of the call that the run is; ``None``: it is none.
            events: of the run, as letters.
        """
        info.kind, info.number = self.kind, self.number
        self.forget()

    def take_feeds(self, info: RunInfo, dump: Dump | None) -> None:
        """Show the inputs as they were when the run used them, where the dump has them."""
        if dump is None:
            return
        loads: dict[str, Callable[[], Any]] = {}
        shapes = getattr(info.feeds, "shapes", {})
        tensors = {}
        for name in info.feeds:
            known = (f"input/{name}:0", self._made.get(name, ""))
            held = next((found for each in known if (found := dump.by_tensor(each))), None)
            loads[name] = held[0].get_tensor if held else _missing(name)
            if held:
                tensors[name] = held[0].tensor_name
        info.feeds = RunInputs(loads, shapes, tensors)

    def forget(self) -> None:
        """Nobody is going to ask: hold nothing of the program's."""
        self._inputs = {}


def _missing(name: str) -> Callable[[], Any]:
    def load() -> Any:
        return InconvertibleTensorProto(f"no op of the run used {name}: its value was not kept")

    return load
