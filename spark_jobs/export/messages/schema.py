"""What a message consists of, whatever its format: records of named fields. A plain value, and the names of Avro.

Not for how a format writes a schema down (`avro_schema`, `json_schema`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from spark_jobs.export.messages.types import Scalar

_UNFIT = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True)
class Field:
    """A field; `name` as the column has it. doc: the column's comment."""

    name: str
    type: Scalar | Record
    nullable: bool = False
    doc: str = ""

    @property
    def optional(self) -> Field:
        """The same field, which may be null."""
        return replace(self, nullable=True)


@dataclass(frozen=True)
class Record:
    """Fields under a name (`Value`, `Key`, `Envelope`, ...) within a namespace: the topic's."""

    name: str
    namespace: str
    fields: tuple[Field, ...]

    @property
    def full_name(self) -> str:
        """The name as Avro has it."""
        return f"{self.namespace}.{self.name}"


def avro_names(names: Iterable[str]) -> list[str]:
    """Names that Avro takes, one for each: other characters become `_`, and a number tells equal ones apart.

    Source: https://avro.apache.org/docs/1.12.0/specification/#names
    """
    taken: list[str] = []
    for name in names:
        fitting = _fitting(name)
        unique, number = fitting, 1
        while unique in taken:
            number += 1
            unique = f"{fitting}_{number}"
        taken.append(unique)
    return taken


def avro_namespace(topic: str) -> str:
    """The namespace of a topic's records: its name, with each part between dots as Avro takes it."""
    return ".".join(_fitting(part) for part in topic.split(".") if part) or "_"


def _fitting(name: str) -> str:
    fitting = _UNFIT.sub("_", name)
    return f"_{fitting}" if not fitting or fitting[0].isdigit() else fitting
