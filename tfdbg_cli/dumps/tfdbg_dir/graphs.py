"""The original's questions about the graphs of a dump directory, device by device."""

from __future__ import annotations

from tfdbg_cli.dumps.graph import node_name_of
from tfdbg_cli.dumps.proto.attr_values import AttrValue
from tfdbg_cli.dumps.proto.graph_def import GraphDef
from tfdbg_cli.dumps.tfdbg_dir.dump import DirectoryDump
from tfdbg_cli.dumps.tfdbg_dir.partition import DeviceGraph
from tfdbg_cli.dumps.tfdbg_dir.walks import all_inputs, some_path

__all__ = ["GraphQueries"]


class GraphQueries(DirectoryDump):
    """A dump directory whose graphs can be asked about by the names in them.

    Args and errors as for `DirectoryDump`.
    """

    def devices(self) -> list[str]:
        """The devices that have a folder."""
        return list(self._devices)

    def _need_graphs(
        self, what: str = "No partition graphs have been loaded."
    ) -> dict[str, DeviceGraph]:
        graphs = self._load_graphs()
        if not graphs:
            raise LookupError(what)
        return graphs

    def loaded_partition_graphs(self) -> bool:
        """Whether there is a graph of any device."""
        return bool(self._load_graphs())

    def partition_graphs(self) -> list[GraphDef]:
        """The devices' graphs with the debugger's nodes.

        Raises:
            LookupError: there are none.
        """
        return [graph.debug_graph_def for graph in self._need_graphs().values()]

    def reconstructed_non_debug_partition_graphs(self) -> dict[str, GraphDef]:
        """Device -> its graph without the debugger's nodes."""
        return {name: graph.non_debug_graph_def() for name, graph in self._load_graphs().items()}

    def nodes(self, device_name: str | None = None) -> list[str]:
        """The names of all nodes, or of one device's.

        Raises:
            LookupError: there is no graph.
            ValueError: there is no such device.
        """
        graphs = self._need_graphs()
        if device_name is None:
            return [name for graph in graphs.values() for name in graph.nodes]
        if device_name not in graphs:
            raise ValueError(f"Invalid device name: {device_name}")
        return list(graphs[device_name].nodes)

    def node_exists(self, node_name: str, device_name: str | None = None) -> bool:
        """Whether a node is in the graphs, or in one device's.

        Raises:
            LookupError: there is no graph.
            ValueError: there is no such device.
        """
        graphs = self._need_graphs("Nodes have not been loaded from partition graphs yet.")
        if device_name is not None and device_name not in graphs:
            raise ValueError(f"The specified device_name '{device_name}' cannot be found.")
        chosen = graphs.values() if device_name is None else (graphs[device_name],)
        return any(self._in_graph(node_name, graph) is not None for graph in chosen)

    def _in_graph(self, node_name: str, graph: DeviceGraph) -> str | None:
        """A node's name in a device's graph; a feed may be given by the user's name."""
        if node_name in graph.nodes:
            return node_name
        feeds = self._feed_nodes().get(node_name, ())
        return next((name for name, _ in feeds if name in graph.nodes), None)

    def _node(self, name: str, device_name: str | None, what: str) -> tuple[DeviceGraph, str]:
        graphs = self._need_graphs(f"{what} are not loaded from partition graphs yet.")
        if device_name is None:
            device_name = self._infer_device(name)
        if device_name not in graphs:
            raise ValueError(f"Invalid device name: {device_name}")
        found = self._in_graph(name, graphs[device_name])
        if found is None:
            raise ValueError(f"None of the 1 device(s) has a node named '{name}'.")
        return graphs[device_name], found

    def _infer_device(self, node_name: str) -> str:
        devices = self._node_devices(node_name)
        if len(devices) == 1:
            return devices[0]
        if not devices:
            raise ValueError(
                f"None of the {len(self._devices)} device(s) has a node named '{node_name}'."
            )
        raise ValueError(
            f"There are multiple ({len(devices)}) devices with nodes named '{node_name}' but "
            "device_name is not specified."
        )

    def _node_devices(self, node_name: str) -> list[str]:
        """The devices that have a node, by their graphs, or by their files where there is none."""
        graphs = self._load_graphs()
        feeds = {name for name, _ in self._feed_nodes().get(node_name, ())}
        found = []
        for device, table in self._watch_nodes().items():
            graph = graphs.get(device)
            names = table if graph is None else graph.nodes
            if node_name in names or not feeds.isdisjoint(names):
                found.append(device)
        return found

    def node_attributes(
        self, node_name: str, device_name: str | None = None
    ) -> dict[str, AttrValue]:
        """Attribute name -> value; ``str`` of a value is readable text.

        Raises:
            LookupError: there is no graph.
            ValueError: no device or several have the node.
        """
        graph, name = self._node(node_name, device_name, "Node attributes")
        return graph.nodes[name].attr

    def node_op_type(self, node_name: str, device_name: str | None = None) -> str:
        """The op type of a node. Errors as in `node_attributes`."""
        graph, name = self._node(node_name, device_name, "Node op types")
        return graph.nodes[name].op

    def node_inputs(
        self, node_name: str, is_control: bool = False, device_name: str | None = None
    ) -> list[str]:
        """The inputs of a node (slot 0 isn't written), or the nodes it waits for."""
        graph, name = self._node(node_name, device_name, "Node inputs")
        return list((graph.control_inputs if is_control else graph.inputs)[name])

    def node_recipients(
        self, node_name: str, is_control: bool = False, device_name: str | None = None
    ) -> list[str]:
        """The nodes that consume a node's outputs, or wait for it."""
        graph, name = self._node(node_name, device_name, "Node recipients")
        return list((graph.control_recipients if is_control else graph.recipients)[name])

    def node_device(self, node_name: str) -> str | list[str]:
        """The device of a node; a list where several have one of this name.

        Raises:
            LookupError: there is no graph.
            ValueError: there is no such node.
        """
        self._need_graphs("Node devices are not loaded from partition graphs yet.")
        devices = self._node_devices(node_name)
        if not devices:
            raise ValueError(f"Node '{node_name}' does not exist in partition graphs.")
        return devices[0] if len(devices) == 1 else devices

    def transitive_inputs(
        self,
        node_name: str,
        include_control: bool = True,
        include_reversed_ref: bool = False,
        device_name: str | None = None,
    ) -> list[str]:
        """All inputs, the inputs' inputs and so on, on one device; not beyond ``Merge`` nodes.

        Args:
            node_name: where to start.
            include_control: follow control edges too.
            include_reversed_ref: what consumes a reference counts as an input of what gives it.
            device_name: needed where several devices have the node.

        Raises:
            LookupError, ValueError: as in `node_attributes`.
        """
        graph, name = self._node(node_name, device_name, "Node inputs")
        return all_inputs(graph, name, include_control, include_reversed_ref)

    def find_some_path(
        self,
        src_node_name: str,
        dst_node_name: str,
        include_control: bool = True,
        include_reversed_ref: bool = False,
        device_name: str | None = None,
    ) -> list[str] | None:
        """A shortest way from one node to another, both included, or ``None``.

        Within one device the names are those of its graph; a way over several devices goes
        through the user's graph.

        Raises:
            LookupError, ValueError: as in `node_attributes`.
        """
        source, target = node_name_of(src_node_name), node_name_of(dst_node_name)
        start, start_name = self._node(source, device_name, "Node inputs")
        end, end_name = self._node(target, device_name, "Node inputs")
        if start is end:
            path = some_path(end, start_name, end_name, include_control, include_reversed_ref)
            if path is not None or len(self._load_graphs()) == 1:
                return path
        graph = self.graph()
        if graph is None or source not in graph or target not in graph:
            return None
        return graph.path(source, target, include_control)
