"""The types that a JSON Schema is compiled to: parsed JSON values in, the JSON text of the record out.

Each type has `text` for a value that is not null, and `match` for choosing among the branches of a sum: how well a
value fits, -1 for not at all (Confluent's JsonSchemaData: a simple type fits or not, a struct by the number of
properties it shares). Not for: reading schemas (`schema`), or what validators check beyond the type.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NoReturn, Protocol

from spark_jobs.sink.decode.base.contract import MalformedError
from spark_jobs.sink.decode.base.json_text import number_text
from spark_jobs.sink.decode.base.rows import Budget
from spark_jobs.sink.decode.base.scalars import boolean_text, map_text, quoted
from spark_jobs.sink.decode.connect import schema as connect
from spark_jobs.sink.decode.connect.values import writer
from spark_jobs.sink.decode.json.connect_json import reader
from spark_jobs.sink.values.bad_records import SCHEMA_MISMATCH

ONE_OF_FIELD = "io.confluent.connect.json.OneOf.field."
FITS, FITS_NOT = 1 << 60, -1


class Type(Protocol):
    """What a schema says of values that are not null."""

    def text(self, value: Any, /) -> str:
        """The JSON text of a parsed value (numbers: int or Decimal). Raises MalformedError (`schema_mismatch`)."""
        ...

    def match(self, value: Any, /) -> int:
        """How well `value` fits: FITS, FITS_NOT or the number of properties that a struct shares with it."""
        ...


@dataclass(frozen=True)
class Slot:
    """Where a value stands: its type, and what a null or an absent value there means.

    default: the parsed JSON that takes the place of a null; None for none. `budget` pays for it.
    """

    type: Type
    path: str
    optional: bool
    default: Any = None
    budget: Budget = field(default_factory=Budget)

    def text(self, value: Any) -> str:
        """The JSON text of a parsed value, which may be None."""
        if value is not None:
            return self.type.text(value)
        if self.default is not None:
            text = self.type.text(self.default)
            self.budget.spend(len(text))
            return text
        if not self.optional:
            _mismatch(self.path, "is null or absent, and its schema requires a value")
        return "null"


class Leaf:
    """A type without others in it, as Kafka Connect has it: `connect` writes what `json_types` reads."""

    def __init__(self, schema: connect.Schema, path: str, time_zone: str) -> None:
        self._read, self._write = reader(schema, path), writer(schema, time_zone, path)
        self.schema = schema
        self._kind, self._is_decimal = schema.type, schema.name == connect.DECIMAL
        self.is_string = schema.type is connect.Type.STRING

    def text(self, value: Any) -> str:
        """The text of a value of this type, and of no other."""
        return self._write(self._read(value))

    def match(self, value: Any) -> int:
        """By the kind of JSON value alone; bytes have to be base64."""
        kind = connect.Type
        match self._kind:
            case kind.BOOLEAN:
                fits = type(value) is bool
            case kind.STRING:
                fits = type(value) is str
            case kind.FLOAT32 | kind.FLOAT64:
                fits = type(value) in (int, Decimal)
            case kind.BYTES if not self._is_decimal:
                fits = type(value) is str and self._reads(value)
            case kind.BYTES:
                fits = type(value) in (int, Decimal)
            case _:
                fits = type(value) is int
        return FITS if fits else FITS_NOT

    def _reads(self, value: Any) -> bool:
        try:
            self._read(value)
        except MalformedError:
            return False
        return True


class Anything:
    """No type at all: JSON as it stands, without losing a digit."""

    def text(self, value: Any) -> str:
        """The JSON of any parsed value."""
        return plain_text(value)

    def match(self, _value: Any) -> int:
        """Everything fits."""
        return FITS


class Null(Anything):
    """The null type: no value but null is of it, and what contradicts it is kept as it stands."""


class ArrayOf:
    """A JSON array whose items have one type."""

    def __init__(self, items: Slot, path: str) -> None:
        self._items, self._path = items, path

    def text(self, value: Any) -> str:
        """The array."""
        return "[" + ",".join(map(self._items.text, _of(list, "array", value, self._path))) + "]"

    def match(self, value: Any) -> int:
        """Any array fits."""
        return FITS if type(value) is list else FITS_NOT


class MapOf:
    """A map of Connect: an object, or where its keys are not plain strings an array of {"key", "value"} objects.

    key: None for an object.
    """

    def __init__(self, key: Slot | None, value: Slot, path: str) -> None:
        self._key, self._value, self._path = key, value, path
        self._keyed = key is None or (isinstance(key.type, Leaf) and key.type.is_string)

    def text(self, value: Any) -> str:
        """An object where keys are strings, else an array of pairs; of equal keys the last one stands."""
        return map_text(dict(self._entries(value)).items(), keyed=self._keyed)

    def match(self, value: Any) -> int:
        """As officially: any object and any array."""
        return FITS if type(value) in (dict, list) else FITS_NOT

    def _entries(self, value: Any) -> Iterable[tuple[str, str]]:
        if self._key is None:
            found = _of(dict, "object of a map", value, self._path)
            return ((quoted(name), self._value.text(each)) for name, each in found.items())
        pairs = _of(list, "array of a map's entries", value, self._path)
        return (self._entry(self._key, each) for each in pairs)

    def _entry(self, key: Slot, entry: Any) -> tuple[str, str]:
        if type(entry) is not dict or not entry.keys() <= {"key", "value"}:
            _mismatch(self._path, 'holds an entry that is no {"key": ..., "value": ...}')
        return key.text(entry.get("key")), self._value.text(entry.get("value"))


class Struct:
    """An object with named properties. What the schema does not name follows as it stands, so that nothing is lost.

    `slots` is filled after the struct is made, because a property may lead back to it.
    """

    def __init__(self, path: str, budget: Budget) -> None:
        self._path, self._budget = path, budget
        self._names: set[str] = set()
        self._fields: list[tuple[str, str, Slot]] = []
        self._width = 2

    def add(self, name: str, slot: Slot) -> None:
        """Declare a property."""
        self._names.add(name)
        self._fields.append((quoted(name) + ":", name, slot))
        self._width += len(self._fields[-1][0]) + 1

    @property
    def slots(self) -> dict[str, Slot]:
        """What stands in the declared properties, in their order."""
        return {name: slot for _, name, slot in self._fields}

    def text(self, value: Any) -> str:
        """An object with every declared property, in their order, and behind them the others."""
        found = _of(dict, "object", value, self._path)
        self._budget.spend(self._width)
        parts = [before + slot.text(found.get(name)) for before, name, slot in self._fields]
        if not found.keys() <= self._names:
            parts += [f"{quoted(name)}:{plain_text(found[name])}" for name in found if name not in self._names]
        return "{" + ",".join(parts) + "}"

    def match(self, value: Any) -> int:
        """The number of properties that both have."""
        return len(self._names & value.keys()) if type(value) is dict else FITS_NOT


class OneOf:
    """A sum of types: an object with one field for each, null but for the one that fits.

    The first simple type that fits, else the struct with the most properties of the value, of equal ones the first.
    """

    def __init__(self, branches: list[Type], path: str, budget: Budget) -> None:
        self._branches, self._path, self._budget = branches, path, budget
        self.branches = {f"{ONE_OF_FIELD}{at}": branch for at, branch in enumerate(branches)}
        self._names = [quoted(name) + ":" for name in self.branches]
        self._width = 2 + sum(len(name) + len("null,") for name in self._names)

    def text(self, value: Any) -> str:
        """The object with its one field filled."""
        matches = [branch.match(value) for branch in self._branches]
        best = max(matches, default=FITS_NOT)
        if best == FITS_NOT:
            _mismatch(self._path, f"fits no branch of its schema: {_found(value)}")
        self._budget.spend(self._width)
        chosen = matches.index(best)
        texts = ["null"] * len(matches)
        texts[chosen] = self._branches[chosen].text(value)
        return "{" + ",".join([name + text for name, text in zip(self._names, texts, strict=True)]) + "}"

    def match(self, value: Any) -> int:
        """A sum within a sum is a struct to the official converter, which no value fits; here its branches decide."""
        return max((branch.match(value) for branch in self._branches), default=FITS_NOT)


def plain_text(value: Any) -> str:
    """The JSON text of a parsed value without a schema (numbers: int or Decimal)."""
    match value:
        case None:
            return "null"
        case bool():
            return boolean_text(value)
        case str():
            return quoted(value)
        case int() | Decimal():
            return number_text(str(value))
        case dict():
            return "{" + ",".join([f"{quoted(name)}:{plain_text(each)}" for name, each in value.items()]) + "}"
        case _:
            return "[" + ",".join(map(plain_text, value)) + "]"


def _of(wanted: type, name: str, value: Any, path: str) -> Any:
    if type(value) is not wanted:
        _mismatch(path, f"is no {name}: {_found(value)}")
    return value


def _found(value: Any) -> str:
    return {dict: "an object", list: "an array", bool: "a boolean"}.get(type(value)) or str(value)[:40]


def _mismatch(path: str, what: str) -> NoReturn:
    raise MalformedError(SCHEMA_MISMATCH, f"{path} {what}")
