"""Statements of our own, found by their first words before anything is parsed. Not for DML, tables or queries."""

from __future__ import annotations

from collections.abc import Callable

from firn_local.snowflake import databases, describe, grants, pipes, principals, settings_sql, stages, transaction_sql
from firn_local.snowflake.answers import Answer
from firn_local.snowflake.session import Session

Command = Callable[[Session, str], Answer | None]

_COMMANDS: dict[tuple[str, ...], Command] = {
    **settings_sql.COMMANDS,
    **transaction_sql.COMMANDS,
    **databases.COMMANDS,
    **stages.COMMANDS,
    **principals.COMMANDS,
    **grants.COMMANDS,
    **describe.COMMANDS,
    **pipes.COMMANDS,
}
_LONGEST = max(len(words) for words in _COMMANDS)


def find(sql: str) -> Command | None:
    """The command whose words `sql` begins with; the longest match wins."""
    words = tuple(_strip_comments(sql).upper().rstrip("; \n").split(maxsplit=_LONGEST)[:_LONGEST])
    for length in range(len(words), 0, -1):
        if (command := _COMMANDS.get(words[:length])) is not None:
            return command
    return None


def _strip_comments(sql: str) -> str:
    """`sql` without comments in front (dbt begins its statements with one)."""
    text = sql.lstrip()
    while text.startswith(("/*", "--", "//")):
        end = text.find("*/") + 2 if text.startswith("/*") else text.find("\n") + 1
        if end in {0, 1}:
            return ""
        text = text[end:].lstrip()
    return text
