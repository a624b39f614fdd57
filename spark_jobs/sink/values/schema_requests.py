"""What a table would need in order to take the records that tasks met: said by tasks, done by the driver."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Wanted:
    """Changes to one table that the records of one partition want; types as they stand in a statement.

    schema_id: of the first record that wants one of them; None where it has none. add: columns by name, in the order
    of their fields. nullable: columns that records come without. widen: columns whose type is too narrow, and the type.
    """

    topic: str
    partition: int
    table: str
    schema_id: int | None
    add: dict[str, str] = field(default_factory=dict)
    nullable: list[str] = field(default_factory=list)
    widen: dict[str, str] = field(default_factory=dict)
