"""Statements of our own, found by their first words before anything is parsed. Not for DML, DDL of tables or queries."""

from __future__ import annotations

from collections.abc import Callable

from firn.local.snowflake.session import Answer, Session

Command = Callable[[Session, str], Answer]
COMMANDS: dict[tuple[str, ...], Command] = {}


def find(sql: str) -> Command | None:
    """The command whose words `sql` begins with; the longest match wins."""
    words = tuple(sql.upper().rstrip("; \n").split()[:5])
    for length in range(len(words), 0, -1):
        if (command := COMMANDS.get(words[:length])) is not None:
            return command
    return None
