"""The tables that a description becomes: one of the records, one below it for each array and map in them.

Members of records become columns of their table, named after the way to them (`customer_address_city`). Values only:
the SQL is written by `sql`, the documents by `properties`. A description that is no record has one column, `value`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from firn.errors import ConfigError
from firn.modelling.description import Array, Described, Field, Map, Record, Scalar, Type
from firn.modelling.overrides import Override, Overrides
from firn.snowflake.identifiers import quoted, stored

MAX_COLUMNS = 1000
"""Of all tables together. A schema that has more is rarely meant to be spread out; overrides cut it."""

RECORD_COLUMNS = ("topic", "partition", "offset", "kafka_timestamp", "pushed_at", "record_key", "schema_id")
"""Columns of every model about the record itself; child tables have the first three and pushed_at."""
_TAKEN = frozenset({*RECORD_COLUMNS, "headers", "is_tombstone", "loaded_at"})
_BRANCH_NUMBER = re.compile(r"^io\.confluent\.connect\.json\.OneOf\.field\.(\d+)$")


@dataclass(frozen=True)
class Column:
    """A column. steps: the way from the value of its table to it, () for that value itself.

    nullable: whether it may be null though the record has a value. field: the way in the schema, for overrides.
    """

    name: str
    type: Scalar
    steps: tuple[str | int, ...]
    nullable: bool
    doc: str = ""
    field: str = ""


@dataclass(frozen=True)
class Flattened:
    """An array or map inside a record that is a table below. alias: of its FLATTEN; steps: the way to it.

    is_map: it is an object, whose entries have a key and no index.
    """

    alias: str
    steps: tuple[str | int, ...]
    is_map: bool

    @property
    def key(self) -> str:
        """The column that tells an item from others of the same record."""
        return f"{self.alias}_key" if self.is_map else f"{self.alias}_index"


@dataclass(frozen=True)
class Table:
    """One table. flattened: what leads to it, the outermost first; () for the records themselves."""

    suffix: str
    columns: tuple[Column, ...]
    flattened: tuple[Flattened, ...] = ()
    doc: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns that identify a row, beside topic, partition and offset."""
        return tuple(each.key for each in self.flattened)


def tables_of(described: Described, overrides: Overrides) -> list[Table]:
    """The tables, that of the records first.

    Raises ConfigError for more than MAX_COLUMNS columns, and for overrides of fields that there are not.
    """
    spread = _Spread(overrides)
    tables = list(spread.tables(_Pending("", described.type, described.nullable)))
    overrides.check(spread.ways)
    return tables


@dataclass(frozen=True)
class _Place:
    """Where a value stands. steps: from the value of its table; way: in the schema; prefix: of its columns."""

    steps: tuple[str | int, ...]
    way: str
    prefix: str
    nullable: bool

    def inside(self, member: Field) -> _Place:
        """The place of a member of what stands here; one without a name is all of it."""
        nullable = self.nullable or member.nullable
        if not member.name:
            return replace(self, nullable=nullable)
        step = member.name if member.position is None else member.position
        way = f"{self.way}.{member.name}" if self.way else member.name
        return _Place((*self.steps, step), way, _joined(self.prefix, member.name), nullable)

    def overridden(self, override: Override) -> _Place:
        """This place as a person wants it."""
        return replace(
            self,
            prefix=override.name or self.prefix,
            nullable=self.nullable if override.nullable is None else override.nullable,
        )


@dataclass(frozen=True)
class _Pending:
    """A table to make: what its rows hold, and what leads to it. way: its way in the schema."""

    suffix: str
    row: Type
    nullable: bool
    flattened: tuple[Flattened, ...] = ()
    way: str = ""
    doc: str = ""


@dataclass
class _Draft:
    """A table in the making; `names` are the columns that it has by now."""

    pending: _Pending
    columns: list[Column] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def named(self, wanted: str) -> str:
        """A name that no other column has."""
        keys = {each.key for each in self.pending.flattened}
        first = f"value_{wanted}" if wanted in _TAKEN | keys or _is_reserved(wanted) else wanted
        name, number = first, 2
        while name in self.names:
            name, number = f"{first}_{number}", number + 1
        self.names.add(name)
        return name


class _Spread:
    """Spreads records into columns, and puts arrays and maps aside for tables of their own."""

    def __init__(self, overrides: Overrides) -> None:
        self.ways: set[str] = set()
        self._overrides = overrides
        self._count = 0
        self._suffixes: set[str] = set()

    def tables(self, pending: _Pending) -> Iterator[Table]:
        """The table whose rows hold such values, and those below it."""
        draft = _Draft(pending)
        whole = Field("", pending.row, pending.nullable)
        below = list(self._member(draft, whole, _Place((), pending.way, "", nullable=False)))
        yield Table(pending.suffix, tuple(draft.columns), pending.flattened, pending.doc)
        for each in below:
            yield from self.tables(each)

    def _member(self, draft: _Draft, member: Field, place: _Place) -> Iterator[_Pending]:
        """Add a member's columns to `draft`; give the tables below it."""
        here = place.inside(member)
        self.ways.add(here.way)
        override = self._overrides.of(here.way)
        if override.skip:
            return
        here = here.overridden(override)
        doc = override.description or member.doc
        type = _overridden(member.type, override)
        match type:
            case Scalar():
                name = draft.named(here.prefix or "value")
                self._add(draft, Column(name, type, here.steps, here.nullable, doc, here.way))
            case Record():
                for each in type.fields:
                    yield from self._member(draft, each, here)
            case Array() | Map():
                yield self._below(draft.pending, type, here, doc)

    def _add(self, draft: _Draft, column: Column) -> None:
        self._count += 1
        if self._count > MAX_COLUMNS:
            raise ConfigError(
                f"The schema has more than {MAX_COLUMNS} fields, those of nested records included.",
                where=f"field {column.field}",
                next_step="Keep parts of it as they are: in the overrides, give their fields `type: variant`, "
                "or `skip: true`.",
            )
        draft.columns.append(column)

    def _below(self, above: _Pending, type: Array | Map, here: _Place, doc: str) -> _Pending:
        name = here.prefix or "items"
        suffix = f"{above.suffix}__{name}"
        while suffix in self._suffixes:
            suffix += "_2"
        self._suffixes.add(suffix)
        taken = {each.alias for each in above.flattened} | {"records"}
        alias = name if name not in taken and not _is_reserved(name) else f"{name}_{len(taken)}"
        keyed = isinstance(type, Map) and not type.pairs
        row, nullable = _row(type)
        return _Pending(
            suffix, row, nullable, (*above.flattened, Flattened(alias, here.steps, keyed)), f"{here.way}[]", doc
        )


def _row(type: Array | Map) -> tuple[Type, bool]:
    """What one row of the table below holds, and whether it may be null."""
    if isinstance(type, Array):
        return type.items, type.nullable
    if not type.pairs:
        return type.values, type.nullable
    key = Field("key", type.keys, nullable=False, position=0)
    return Record((key, Field("value", type.values, type.nullable, position=1))), False


def _overridden(type: Type, override: Override) -> Type:
    if override.type is not None:
        return replace(override.type, symbols=override.values)
    return replace(type, symbols=override.values) if override.values and isinstance(type, Scalar) else type


def _joined(prefix: str, name: str) -> str:
    """The column of a member of `prefix`, in the manner of dbt: snake_case, letters, digits and underscores."""
    found = _BRANCH_NUMBER.match(name)
    plain = f"option_{found[1]}" if found else name
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", plain)
    words = re.sub(r"[^a-z0-9_]+", "_", words.lower()).strip("_") or "field"
    words = f"{prefix}_{words}" if prefix else words
    return f"_{words}" if words[:1].isdigit() else words


def _is_reserved(name: str) -> bool:
    return quoted(name) != stored(name)
