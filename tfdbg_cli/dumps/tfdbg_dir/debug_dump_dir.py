"""`DebugDumpDir`: the original's dump directory with the API of TensorFlow's ``debug_data``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from tfdbg_cli.common.errors import DumpError
from tfdbg_cli.dumps.dump import (
    Datum,
    InconvertibleTensorProto,
    Predicate,
)
from tfdbg_cli.dumps.tfdbg_dir.datum import DebugTensorDatum, DeviceFolder
from tfdbg_cli.dumps.tfdbg_dir.events import (
    CoreMetadata,
    extract_core_metadata_from_event_proto,
    load_tensor_from_event,
    load_tensor_from_event_file,
)
from tfdbg_cli.dumps.tfdbg_dir.graphs import GraphQueries
from tfdbg_cli.dumps.tfdbg_dir.names import device_name_to_device_path, device_path_to_device_name

__all__ = [
    "DebugDumpDir",
    "DebugTensorDatum",
    "InconvertibleTensorProto",
    "WatchKeyDoesNotExistInDebugDumpDirError",
    "device_name_to_device_path",
    "device_path_to_device_name",
    "extract_core_metadata_from_event_proto",
    "load_tensor_from_event",
    "load_tensor_from_event_file",
]


class WatchKeyDoesNotExistInDebugDumpDirError(ValueError):
    """A tensor has no dumps."""


class _Microseconds(int):
    """A time that is a number, as in the original, and a method, as in every `Dump`."""

    def __call__(self) -> int:
        return int(self)


class DebugDumpDir(GraphQueries):
    """A run in the original's dump directory.

    As a `Dump` it speaks the user's names: the value fed to ``x`` is ``x:0``, and the graph is
    the user's, over all devices. The methods of the original keep the names of the files
    (``_arg_x_0_0``) and of the graphs per device; they understand the user's names of feeds too.

    Listing opens no file. Graphs are read when first asked for; without any, everything that
    needs none still works.

    Args:
        dump_root: the run's folder.
        partition_graphs: graphs for devices whose folder has none: TensorFlow's GraphDef
            messages, `GraphDef`, or serialized ones.
        validate: compare the dumps with the graph. What contradicts it (a node that the graph
            doesn't have, a tensor dumped before its inputs) becomes a line of `warnings` when the
            graph is first read. Nothing is raised for it, with ``validate=True`` neither: other
            than in the original, a clock or a queue cannot make a dump unreadable.

    Raises:
        OSError: there is no such folder.
    """

    # The original's properties.

    @property
    def core_metadata(self) -> CoreMetadata | list[CoreMetadata]:
        """TensorFlow's record of the run; a list where the folder has none or several."""
        return self._core[0] if len(self._core) == 1 else self._core

    @property
    def dumped_tensor_data(self) -> list[DebugTensorDatum]:
        """All dumps under the names of their files, in time order."""
        return self._all_data()

    @property
    def t0(self) -> int:  # type: ignore[override]
        """Microseconds of the first dump since the epoch, 0 if there is none.

        A number, as in the original; calling it works as well, as in every other `Dump`.
        """
        firsts = [folder.data[0].timestamp for folder in self._devices.values() if folder.data]
        return _Microseconds(min(firsts, default=0))

    @property
    def size(self) -> int:
        """How many tensors were dumped."""
        return sum(len(folder.data) for folder in self._devices.values())

    @property
    def run_fetches_info(self) -> str | list[str] | None:
        """``repr(fetches)`` as the wrapper noted it; a list of several, ``None`` without any."""
        return _only(self._fetches)

    @property
    def run_feed_keys_info(self) -> str | list[str] | None:
        """``repr(feed_dict.keys())``, likewise."""
        return _only(self._feed_keys)

    # The original's watch API.

    def debug_watch_keys(self, node_name: str, device_name: str | None = None) -> list[str]:
        """The watch keys ``node:slot:DebugOp`` of a node; empty for one that wasn't dumped.

        Without ``device_name`` those of all devices.
        """
        names = {node_name, *(name for name, _ in self._feed_nodes().get(node_name, ()))}
        chosen = self._devices.values() if device_name is None else [self._folder(device_name)]
        found = (
            (datum.output_slot, datum.debug_op, datum.watch_key)
            for folder in chosen
            for datum in folder.data
            if datum.node_name in names
        )
        return [key for _, _, key in sorted(set(found))]

    def _folder(self, device_name: str) -> DeviceFolder:
        if device_name not in self._devices:
            raise ValueError(
                f"There is no device named '{device_name}' consisting of debug watch keys."
            )
        return self._devices[device_name]

    def watch_key_to_data(
        self, debug_watch_key: str, device_name: str | None = None
    ) -> list[DebugTensorDatum]:
        """The dumps of a watch key in time order; empty if there are none.

        Raises:
            ValueError: several devices have the key and none is named, or the named one doesn't
                exist.
        """
        keys = self._watch_keys()
        if device_name is None:
            devices = [name for name, table in keys.items() if debug_watch_key in table]
            if not devices:
                return []
            if len(devices) > 1:
                raise ValueError(
                    f"The debug watch key '{debug_watch_key}' exists on multiple "
                    f"({len(devices)}) devices, but device name is not specified."
                )
            device_name = devices[0]
        return list(keys[self._folder(device_name).name].get(debug_watch_key, ()))

    def _dumps_of(
        self, node_name: str, output_slot: int, debug_op: str, device_name: str | None
    ) -> list[DebugTensorDatum]:
        fed = next(
            (name for name, slot in self._feed_nodes().get(node_name, ()) if slot == output_slot),
            None,
        )
        key = f"{node_name}:{output_slot}:{debug_op}"
        table = self._watch_keys()
        if device_name is None:
            device_name = self._infer_device(node_name)
        found = table.get(device_name, {}).get(key)
        if found is None and fed is not None:
            found = table.get(device_name, {}).get(f"{fed}:0:{debug_op}")
        if not found:
            raise WatchKeyDoesNotExistInDebugDumpDirError(
                f'Watch key "{key}" does not exist in the debug dump of device {device_name}'
            )
        return found

    def get_tensor_file_paths(
        self, node_name: str, output_slot: int, debug_op: str, device_name: str | None = None
    ) -> list[str]:
        """The files of a tensor's dumps, in time order.

        Raises:
            WatchKeyDoesNotExistInDebugDumpDirError: the tensor wasn't dumped.
            ValueError: no device or several have the node.
        """
        data = self._dumps_of(node_name, output_slot, debug_op, device_name)
        return [datum.file_path for datum in data]

    def get_tensors(
        self, node_name: str, output_slot: int, debug_op: str, device_name: str | None = None
    ) -> list[Any]:
        """The values of a tensor's dumps, in time order.

        Raises:
            WatchKeyDoesNotExistInDebugDumpDirError: the tensor wasn't dumped, or it isn't clear
                on which device.
            DumpError: a file is damaged.
        """
        try:
            data = self._dumps_of(node_name, output_slot, debug_op, device_name)
        except WatchKeyDoesNotExistInDebugDumpDirError:
            raise
        except ValueError as error:
            key = f"{node_name}:{output_slot}:{debug_op}"
            raise WatchKeyDoesNotExistInDebugDumpDirError(
                f'Watch key "{key}" does not exist in the debug dump: {error}'
            ) from None
        return [datum.get_tensor() for datum in data]

    def get_rel_timestamps(
        self, node_name: str, output_slot: int, debug_op: str, device_name: str | None = None
    ) -> list[int]:
        """Microseconds from the first dump of the run. Errors as in `get_tensor_file_paths`."""
        start = self.t0
        data = self._dumps_of(node_name, output_slot, debug_op, device_name)
        return [datum.timestamp - start for datum in data]

    def get_dump_sizes_bytes(
        self, node_name: str, output_slot: int, debug_op: str, device_name: str | None = None
    ) -> list[int | None]:
        """The sizes of the files. Errors as in `get_tensor_file_paths`."""
        data = self._dumps_of(node_name, output_slot, debug_op, device_name)
        return [datum.dump_size_bytes for datum in data]

    def find(
        self,
        predicate: Predicate,
        first_n: int = 0,
        exclude: re.Pattern[str] | str | None = None,
        on_error: Callable[[Datum, Exception], None] | str | None = None,
        *,
        device_name: str | None = None,
        exclude_node_names: str | None = None,
    ) -> list[Datum]:
        """The tensors for which a filter is true, in time order.

        Takes the arguments of `Dump.find`, and those of the original: a text in the place of
        ``exclude`` is its ``device_name``, one in the place of ``on_error`` its
        ``exclude_node_names`` (a regex that the beginning of a name must match).

        A value that can't be read is named in `warnings` and doesn't pass.

        Raises:
            ValueError: there is no such device.
        """
        if isinstance(exclude, str):
            device_name, exclude = exclude, None
        if isinstance(on_error, str):
            exclude_node_names, on_error = on_error, None
        if device_name is not None:
            self._folder(device_name)
        start = re.compile(exclude_node_names) if exclude_node_names else None
        data: Iterable[Datum] = (
            datum
            for datum in self.data()
            if (device_name is None or datum.device_name == device_name)
            and (exclude is None or not exclude.search(datum.node_name))
            and (start is None or not start.match(datum.node_name))
        )
        told = on_error or _raise_others
        return list(self.iter_find(predicate, max(first_n, 0), on_error=told, among=data))


def _raise_others(datum: Datum, error: Exception) -> None:
    """A value that can't be read is named in the warnings; what a filter raises is raised."""
    if not isinstance(error, DumpError):
        raise error


def _only(found: list[str]) -> str | list[str] | None:
    if not found:
        return None
    return found[0] if len(found) == 1 else found
