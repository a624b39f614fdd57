"""Names in Snowflake: when they need quotes, and which table a topic goes to.

Sources: Snowflake's identifier requirements (https://docs.snowflake.com/en/sql-reference/identifiers-syntax) and the
official connector's naming rules, whose names we keep so that a team finds its tables again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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


def quoted(name: str) -> str:
    """A name as it stands in a statement: folded where it is plain, in double quotes where it is not."""
    return name.upper() if _PLAIN.fullmatch(name) else always_quoted(name)


def stored(name: str) -> str:
    """The name as Snowflake keeps it, of an object that is written as `quoted` writes it."""
    return name.upper() if _PLAIN.fullmatch(name) else name


def always_quoted(name: str) -> str:
    """A name as Snowflake keeps it, in double quotes: neither folded nor taken for a word of SQL."""
    return '"' + name.replace('"', '""') + '"'


def table_for(topic: str, table_map: tuple[tuple[str, str], ...]) -> str:
    """The table of a topic: the map's (by name, else by expression), or the topic's own name made valid.

    A name is made valid as the official connector makes it.
    """
    mapped = dict(table_map).get(topic) or next((t for pattern, t in table_map if re.fullmatch(pattern, topic)), None)
    if mapped:
        return mapped
    if _VALID_TABLE.fullmatch(topic):
        return topic
    first = topic[0] if re.match(r"[A-Za-z_]", topic) else "_" + (topic[0] if re.match(r"[0-9$]", topic) else "_")
    rest = re.sub(r"[^A-Za-z0-9_$]", "_", topic[1:])
    return f"{first}{rest}_{abs(_java_hash(topic))}"


def _java_hash(text: str) -> int:
    """String.hashCode of Java over UTF-16 code units: the official suffix of a name that had to be changed."""
    value = 0
    units = text.encode("utf-16-be")
    for high, low in zip(units[::2], units[1::2], strict=True):
        value = (31 * value + (high << 8 | low)) & 0xFFFFFFFF
    return value - (1 << 32) if value >= 1 << 31 else value
