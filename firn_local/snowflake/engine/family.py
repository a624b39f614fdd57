"""Statements of our own, found by their first words before anything is parsed. Not for DML, tables or queries."""

from __future__ import annotations

from collections.abc import Callable

from firn_local.snowflake.engine.session import Session
from firn_local.snowflake.sql.result_set import Answer
from firn_local.snowflake.statements import (
    databases,
    describe,
    grants,
    pipes,
    principals,
    session_settings,
    stages,
    transaction_control,
)

Command = Callable[[Session, str], Answer | None]

_COMMANDS: dict[tuple[str, ...], Command] = {
    **session_settings.COMMANDS,
    **transaction_control.COMMANDS,
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
