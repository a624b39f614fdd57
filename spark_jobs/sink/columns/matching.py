"""Which column a field of a record goes to, and the name of a new column for it.

As the official connector: a name is folded to upper case unless the field's own name has double quotes around it. A
column whose name is exactly the field's comes first, so that columns that were made with quotes are found too.
"""

from __future__ import annotations

from firn.snowflake.columns import Columns


class Matcher:
    """Finds the columns of fields. Remembers what it found: records have the same fields again and again."""

    def __init__(self, columns: Columns) -> None:
        self._exact = {column.name: at for at, column in enumerate(columns)}
        self._folded: dict[str, int] = {}
        for at, column in reversed(list(enumerate(columns))):
            self._folded[column.name.upper()] = at
        self._found: dict[str, int | None] = {}

    def column_of(self, field: str) -> int | None:
        """The position of the field's column; None where there is none."""
        if field not in self._found:
            name = column_name(field)
            at = self._exact.get(field, self._exact.get(name))
            self._found[field] = self._folded.get(name) if at is None and name == field.upper() else at
        return self._found[field]


def column_name(field: str) -> str:
    """The name that a new column for this field gets, as Snowflake keeps it."""
    if len(field) > 2 and field[0] == field[-1] == '"':
        return field[1:-1].replace('""', '"')
    return field.upper()
