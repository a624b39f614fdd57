"""The overrides of a subject: a small YAML file in which people say what its schema does not.

    table: ORDER_EVENTS                            # of the sink; else that of the topic's name
    typed_columns: false                           # the table has a column for each first-level field
    source: streaming                              # dbt's source
    message: Order                                 # Protobuf: the schema's first by default
    fields:
      created_at: {type: timestamp_millis}        # a long of milliseconds
      order_total: {type: "number(12, 2)", description: Total in GBP}
      lines[].sku: {name: product_id}
      debug: {skip: true}
    freshness:                                     # dbt's own form; null: none
      warn_after: {count: 10, period: minute}

A field is named by its way in the schema: members by dots, items of arrays and values of maps by `[]`.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from firn.errors import ConfigError
from firn.modelling.description import Kind, Scalar

DEFAULT_FRESHNESS: dict[str, Any] = {
    "warn_after": {"count": 1, "period": "hour"},
    "error_after": {"count": 24, "period": "hour"},
}
_NUMBER = re.compile(r"number\(\s*(\d{1,2})\s*(?:,\s*(\d{1,2})\s*)?\)", re.IGNORECASE)
_MAX_DIGITS = 38
_NAMES = {"number": Kind.INTEGER, "double": Kind.FLOAT, "text": Kind.TEXT, "string": Kind.TEXT}


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Override(_Strict):
    """What a person says of one field. type: a kind of `description`, or `number(p, s)`; None: the schema's."""

    type: Scalar | None = None
    name: str = ""
    description: str = ""
    nullable: bool | None = None
    values: tuple[str, ...] = ()
    skip: bool = False

    @field_validator("type", mode="before")
    @classmethod
    def _scalar(cls, given: object) -> object:
        if not isinstance(given, str):
            return given
        if found := _NUMBER.fullmatch(given.strip()):
            precision, scale = int(found[1]), int(found[2] or 0)
            if not 0 <= scale <= precision <= _MAX_DIGITS or precision == 0:
                raise ValueError(f"NUMBER has 1 to {_MAX_DIGITS} digits, not {given}")
            return Scalar(Kind.DECIMAL, precision, scale, native=False)
        name = given.strip().lower()
        try:
            kind = _NAMES.get(name) or Kind(name)
        except ValueError:
            known = ", ".join(each for each in Kind if each is not Kind.DECIMAL)
            raise ValueError(f"not a type: {given}; known are number(p, s), {known}") from None
        return Scalar(kind, native=False)


class Overrides(_Strict):
    """All that a file says. where: the file, for messages."""

    table: str | None = None
    typed_columns: bool = False
    source: str = "streaming"
    message: str | None = None
    fields: Mapping[str, Override] = {}
    freshness: Mapping[str, Any] | None = DEFAULT_FRESHNESS
    where: str = ""

    def of(self, way: str) -> Override:
        """What is said of the field at this way; nothing: the schema counts."""
        return self.fields.get(way, _NOTHING)

    def check(self, ways: set[str]) -> None:
        """Raise ConfigError for fields that the schema lacks, with the nearest that it has."""
        unknown = sorted(self.fields.keys() - ways)
        if not unknown:
            return
        nearest = {way: difflib.get_close_matches(way, ways, 1) for way in unknown}
        lines = [f"  {way}" + (f" (nearest: {near[0]})" if near else "") for way, near in nearest.items()]
        raise ConfigError(
            "The schema has no such fields, or they are inside of one that is kept as it is:\n" + "\n".join(lines),
            where=self.where,
            next_step="Correct their names: members by dots, items of arrays and maps by [].",
        )


_NOTHING = Override()


def read_overrides(file: Path) -> Overrides:
    """The overrides in a file. Raises ConfigError naming what is wrong in it."""
    try:
        document = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        _refuse(file, f"cannot be read ({' '.join(str(error).split())})")
    if not isinstance(document, dict) or "where" in document:
        _refuse(file, "is no mapping of table, typed_columns, source, message, fields, freshness")
    try:
        return Overrides.model_validate({**document, "where": str(file)})
    except ValidationError as error:
        faults = "; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors())
        _refuse(file, f"is malformed: {faults}")


def _refuse(file: Path, what: str) -> NoReturn:
    raise ConfigError(
        f"The overrides file {what}.", where=str(file), next_step="Correct it; docs/dbt.md has an example."
    )
