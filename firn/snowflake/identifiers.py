"""Names in Snowflake: when they need quotes, and which table a topic goes to.

Sources: Snowflake's identifier requirements (https://docs.snowflake.com/en/sql-reference/identifiers-syntax and
.../reserved-keywords) and the official connector's naming rules, whose names we keep so that a team finds its tables
again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from firn.errors import ConfigError
from firn.java_regex import matches

TableMap: TypeAlias = tuple[tuple[str, str], ...]
"""snowflake.topic2table.map: a topic's name or an expression, and the table."""

FullName: TypeAlias = tuple[str, str, str]
"""Database, schema and name of an object, each as Snowflake keeps it."""

# Words that Snowflake takes for a name only in double quotes, wherever it refuses them.
_WORDS = """
ACCOUNT ALL ALTER AND ANY AS BETWEEN BY CASE CAST CHECK COLUMN CONNECT CONNECTION CONSTRAINT CREATE CROSS CURRENT
CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP CURRENT_USER DATABASE DELETE DISTINCT DROP ELSE EXISTS FALSE FOLLOWING FOR
FROM FULL GRANT GROUP GSCLUSTER HAVING ILIKE IN INCREMENT INNER INSERT INTERSECT INTO IS ISSUE JOIN LATERAL LEFT LIKE
LOCALTIME LOCALTIMESTAMP MINUS NATURAL NOT NULL OF ON OR ORDER ORGANIZATION QUALIFY REGEXP REVOKE RIGHT RLIKE ROW ROWS
SAMPLE SCHEMA SELECT SET SOME START TABLE TABLESAMPLE THEN TO TRIGGER TRUE TRY_CAST UNION UNIQUE UPDATE USING VALUES
VIEW WHEN WHENEVER WHERE WITH
"""
_RESERVED = frozenset(_WORDS.split())

MAX_NAME = 255
"""Characters that a name may have."""
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")
_VALID_TABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_$]+")


@dataclass(frozen=True)
class Namespace:
    """A database and schema; names without need of quotes are folded to upper case, as Snowflake does."""

    database: str
    schema: str

    def qualified(self, name: str) -> str:
        """The full name of an object in here, ready for a statement."""
        return ".".join(quoted(part) for part in (self.database, self.schema, name))

    def full_name(self, name: str) -> FullName:
        """The full name of an object in here, that is written as `quoted` writes it."""
        return stored(self.database), stored(self.schema), stored(name)


def quoted(name: str) -> str:
    """A name as it stands in a statement: folded where it is plain, in double quotes where it must have them."""
    kept = stored(name)
    return kept if _PLAIN.fullmatch(name) and kept not in _RESERVED else always_quoted(kept)


def stored(name: str) -> str:
    """The name as Snowflake keeps it, of an object that is written as `quoted` writes it."""
    return name.upper() if _PLAIN.fullmatch(name) else name


def always_quoted(name: str) -> str:
    """A name as Snowflake keeps it, in double quotes: neither folded nor taken for a word of SQL."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    """A text as a constant in a statement, where nothing can be bound.

    Source: https://docs.snowflake.com/en/sql-reference/data-types-text, "single-quoted string constants".
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


def written(name: tuple[str, ...]) -> str:
    """A full name, or its first parts, as it stands in a statement: in quotes only where it must have them."""
    return ".".join(quoted(part) if stored(part) == part else always_quoted(part) for part in name)


def table_for(topic: str, table_map: TableMap) -> str:
    """The table of a topic: the map's (by name, else by expression), or the topic's own name made valid.

    A name is made valid as the official connector makes it.
    """
    mapped = dict(table_map).get(topic) or next((table for _, table in _matches(topic, table_map)), None)
    if mapped:
        return mapped
    if _VALID_TABLE.fullmatch(topic):
        return topic
    first = topic[0] if re.match(r"[A-Za-z_]", topic) else "_" + (topic[0] if re.match(r"[0-9$]", topic) else "_")
    rest = re.sub(r"[^A-Za-z0-9_$]", "_", topic[1:])
    return f"{first}{rest}_{abs(_java_hash(topic))}"


def check_table_map(topics: Iterable[str], table_map: TableMap) -> None:
    """Raise ConfigError, with each topic at fault, unless each topic has one table, of a name that Snowflake takes.

    Expressions that match each other's text are refused when the map is read; that others overlap only topics show.
    """
    topics = list(topics)
    faults = [
        f"  {topic}: {', '.join(f'{pattern} (table {table})' for pattern, table in found)}"
        for topic in topics
        if len(found := _matches(topic, table_map)) > 1
    ]
    if faults:
        raise ConfigError(
            "More than one expression of snowflake.topic2table.map matches a topic:\n" + "\n".join(faults),
            where="snowflake.topic2table.map",
            next_step="Make the expressions narrower, so that each topic has one table.",
        )
    if long := [f"  {topic}" for topic in topics if len(table_for(topic, table_map)) > MAX_NAME]:
        raise ConfigError(
            f"The table of a topic would have a name of more than {MAX_NAME} characters:\n" + "\n".join(long),
            where="snowflake.topic2table.map",
            next_step="Name a table for it there.",
        )


def _matches(topic: str, table_map: TableMap) -> list[tuple[str, str]]:
    """The entries of the map that are for this topic; a name is an expression that matches itself."""
    return [(pattern, table) for pattern, table in table_map if matches(pattern, topic)]


def _java_hash(text: str) -> int:
    """String.hashCode of Java over UTF-16 code units: the official suffix of a name that had to be changed."""
    value = 0
    units = text.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
