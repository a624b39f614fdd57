"""What follows from a schema's graph alone: how deep and how small its values are, and which arrays are maps.

Every type is looked at once however often it is used: used twice at every level it would be met 2**levels times.
Not for: parsing schemas (`schema`) or reading values.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

from spark_jobs.sink.decode.schema import Array, Enum, Fixed, Map, Node, Record, Scalar, Union, is_null


class Shapes:
    """Knows the nodes of one graph. Ask for the whole first: what a record holds is then known where it is used."""

    def __init__(self) -> None:
        self._empty: dict[Record, bool] = {}
        self._depths: dict[Record, float] = {}

    def takes_none(self, node: Node) -> bool:
        """Whether a value takes no bytes at all; otherwise it takes at least one."""
        if isinstance(node, Record):
            if node not in self._empty:
                self._empty[node] = True
                self._empty[node] = all(self.takes_none(child) for _, child in node.fields)
            return self._empty[node]
        return is_null(node) or (isinstance(node, Fixed) and node.size == 0)

    def depth(self, node: Node) -> float:
        """Levels of records, arrays and maps that a value can have; infinite for a record within itself."""
        match node:
            case Record():
                if node not in self._depths:
                    self._depths[node] = math.inf
                    self._depths[node] = 1 + max([self.depth(child) for _, child in node.fields], default=0)
                return self._depths[node]
            case Array():
                return 1 + self.depth(node.items)
            case Map():
                return 1 + self.depth(node.values)
            case Union():
                return max([self.depth(branch) for branch in node.branches])
        return 0


def entry_of(node: Array) -> Record | None:
    """The record of key and value, where Connect wrote a map as an array because its keys are no plain strings."""
    entry = node.items
    if isinstance(entry, Record) and entry.map_entry and sorted(name for name, _ in entry.fields) == ["key", "value"]:
        return entry
    return None


def is_text(node: Node) -> bool:
    """Whether Connect's type of `node` is STRING, null allowed or not."""
    only = nullable(node) if isinstance(node, Union) and len(node.branches) == 2 else node
    return isinstance(only, Enum) or (isinstance(only, Scalar) and only.kind == "string")


def nullable(node: Union) -> Node | None:
    """The one branch of a union that is not null; None where there is not exactly one."""
    branches = [branch for branch in node.branches if not is_null(branch)]
    return branches[0] if len(branches) == 1 else None


def branch_names(branches: Iterable[Node]) -> list[str]:
    """Connect's field names for the branches of a wide union: the type, or a named type's name without namespace.

    Source: AvroData.unionMemberFieldName with enhanced.avro.schema.support off, its default. Two named types that
    differ in namespace only are an error there; here they keep their full names.
    """
    full = [getattr(node, "fullname", "") or _type_name(node) for node in branches]
    short = [name.rpartition(".")[2] for name in full]
    counts = Counter(short)
    return [name if counts[name] == 1 else whole for name, whole in zip(short, full, strict=True)]


def _type_name(node: Node) -> str:
    return node.kind if isinstance(node, Scalar) else type(node).__name__.lower()
