"""Types of columns that an Avro schema asks for, as Confluent's AvroData and the official connector map its types.

Only the first level is looked at. Not for reading schemas (`schema`) or values (`values`).
"""

from __future__ import annotations

from firn.snowflake.columns import ColumnType
from spark_jobs.sink.decode.avro.schema import (
    Array,
    Enum,
    Fixed,
    Node,
    Record,
    Scalar,
    Union,
    branch_names,
    entry_of,
    is_null,
)
from spark_jobs.sink.decode.base.column_types import (
    ARRAY,
    BINARY,
    BOOLEAN,
    DATE,
    FLOAT,
    INTEGER,
    TEXT,
    TIME,
    TIMESTAMP,
    VARIANT,
    ValueTypes,
    decimal_type,
)


def value_types(node: Node, *, flatten_singletons: bool = True) -> ValueTypes:
    """The types of values of `node`. flatten_singletons: whether a union of one type is that type."""
    return _Types(flatten_singletons).value(node)


class _Types:
    def __init__(self, flatten_singletons: bool) -> None:
        self._flatten = flatten_singletons

    def value(self, node: Node) -> ValueTypes:
        match node:
            case Record():
                return ValueTypes(VARIANT, {name: self.type(child) for name, child in node.fields})
            case Union():
                branches = self._branches(node)
                if isinstance(branches, list):
                    names = branch_names(branches)
                    return ValueTypes(
                        VARIANT, {name: self.type(each) for name, each in zip(names, branches, strict=True)}
                    )
                return self.value(branches) if branches else ValueTypes(None)
        return ValueTypes(self.type(node))

    def type(self, node: Node) -> ColumnType | None:
        match node:
            case Scalar() | Fixed() if node.logical == "decimal":
                return decimal_type(node.precision, node.scale)
            case Scalar():
                return TIMESTAMP if node.is_timestamp else _SCALARS[node.kind, node.logical]
            case Enum():
                return TEXT
            case Fixed():
                return BINARY
            case Array():
                return VARIANT if entry_of(node) else ARRAY
            case Union():
                branches = self._branches(node)
                if isinstance(branches, list):
                    return VARIANT
                return self.type(branches) if branches else None
        return VARIANT

    def _branches(self, node: Union) -> Node | list[Node] | None:
        """The one type that the union is; the types that an object has a field for; None where it is always null."""
        named = [branch for branch in node.branches if not is_null(branch)]
        if len(named) > 1 or (len(node.branches) == 1 and named and not self._flatten):
            return named
        return named[0] if named else None


_SCALARS: dict[tuple[str, str], ColumnType | None] = {
    ("null", ""): None,
    ("boolean", ""): BOOLEAN,
    ("int", ""): INTEGER,
    ("int", "date"): DATE,
    ("int", "time-millis"): TIME,
    ("long", ""): INTEGER,
    ("float", ""): FLOAT,
    ("double", ""): FLOAT,
    ("bytes", ""): BINARY,
    ("string", ""): TEXT,
}
