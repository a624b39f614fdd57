"""The SQL file that is run once, at the first start, so that the first user exists. Not for later changes."""

from __future__ import annotations

import logging
from pathlib import Path

import sqlglot

from firn.local.snowflake.session import Session, Shared

log = logging.getLogger("firn.local.snowflake")


def bootstrap(shared: Shared, sql_file: Path | None) -> None:
    """Run `sql_file` with ACCOUNTADMIN's rights unless it was run before (a marker in the data directory says so)."""
    marker = shared.engine.data_dir / "bootstrapped"
    if sql_file is None or marker.exists():
        return
    session = Session(shared, "SNOWFLAKE", "ACCOUNTADMIN")
    statements = split_statements(sql_file.read_text())
    for statement in statements:
        session.cursor().execute(statement)
    session.close()
    marker.touch()
    log.info("bootstrap: %d statements", len(statements))


def split_statements(text: str) -> list[str]:
    """The statements of an SQL text, cut at semicolons outside literals and comments."""
    tokens = sqlglot.tokenize(text, read="snowflake")
    statements, start = [], 0
    for token in tokens:
        if token.token_type is sqlglot.TokenType.SEMICOLON:
            statements.append(text[start : token.start].strip())
            start = token.end + 1
    statements.append(text[start:].strip())
    return [s for s in statements if s and sqlglot.tokenize(s, read="snowflake")]
