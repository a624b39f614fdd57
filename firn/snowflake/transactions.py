"""One explicit transaction in Snowflake that either commits as a whole or leaves nothing.

DDL would commit it halfway without a word (https://docs.snowflake.com/en/sql-reference/transactions), so the id of the
transaction is compared before COMMIT. A COMMIT without an answer is in doubt: the caller claims again and looks.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from firn.errors import ClaimAgainError, TerminalError, TransientError
from firn.snowflake.connection import execute, query
from firn.snowflake.faults import LockConflictError

if TYPE_CHECKING:
    from snowflake.connector import SnowflakeConnection

_CURRENT = "SELECT CURRENT_TRANSACTION() AS ID"
log = logging.getLogger(__name__)


@contextmanager
def transaction(connection: SnowflakeConnection) -> Iterator[None]:
    """BEGIN; the block; COMMIT. Any error rolls back; a lock conflict or a COMMIT in doubt becomes ClaimAgainError."""
    execute(connection, "BEGIN TRANSACTION")
    try:
        started = _current(connection)
        yield
        _check_unbroken(connection, started)
    except LockConflictError as error:
        _roll_back(connection)
        raise ClaimAgainError(f"A lock was held for too long: {error.what}") from error
    except BaseException:
        _roll_back(connection)
        raise
    try:
        execute(connection, "COMMIT")
    except TransientError as error:
        raise ClaimAgainError(f"The answer to COMMIT was lost: {error.what}") from error


def _current(connection: SnowflakeConnection) -> object:
    return query(connection, _CURRENT)[0]["ID"]


def _check_unbroken(connection: SnowflakeConnection, started: object) -> None:
    if started is None or _current(connection) != started:
        raise TerminalError(
            "The transaction was committed by something else before its end.",
            where="Snowflake session of the sink",
            next_step="Report this: a statement inside the commit behaved as DDL.",
        )


def _roll_back(connection: SnowflakeConnection) -> None:
    try:
        execute(connection, "ROLLBACK")
    except Exception:  # the session is gone, and its transaction with it
        log.debug("ROLLBACK was not answered", exc_info=True)
