"""BEGIN, COMMIT, ROLLBACK in every spelling, SHOW LOCKS and SHOW TRANSACTIONS. What they do is in `transactions`.

Written word by word: sqlglot has no START TRANSACTION, and passes over what may not follow COMMIT.
"""

from __future__ import annotations

from firn_local.snowflake.engine.family import Family
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.sql.result_set import ResultSet, text_columns
from firn_local.snowflake.sql.sql_errors import unsupported
from firn_local.snowflake.sql.tokenizer import Tokenizer


def _begin(session: Session, sql: str) -> ResultSet:
    tokens = Tokenizer(sql)
    if not tokens.skip("START", "TRANSACTION"):
        tokens.expect("BEGIN")
        if not tokens.skip("TRANSACTION"):
            tokens.skip("WORK")
    if tokens.skip("NAME"):
        tokens.name()
    if tokens:  # BEGIN ... END is a block of Snowflake Scripting
        raise unsupported(sql)
    session.transactions.begin()
    return ResultSet.status()


def _commit(session: Session, sql: str) -> ResultSet:
    _nothing_but_work(sql, "COMMIT")
    session.transactions.commit()
    return ResultSet.status()


def _rollback(session: Session, sql: str) -> ResultSet:
    _nothing_but_work(sql, "ROLLBACK")
    session.transactions.rollback()
    return ResultSet.status()


def _nothing_but_work(sql: str, verb: str) -> None:
    tokens = Tokenizer(sql)
    tokens.expect(verb)
    tokens.skip("WORK")
    tokens.end()


def _show_locks(session: Session, sql: str) -> ResultSet:  # noqa: ARG001  (every command takes the statement)
    rows = [(table, "PARTITIONS", tx, status, query) for table, status, tx, query in session.account.locks.rows()]
    return ResultSet(text_columns("resource", "type", "transaction", "status", "query_id"), rows)


def _show_transactions(session: Session, sql: str) -> ResultSet:  # noqa: ARG001
    current = session.transactions.current
    rows = [(current.id, session.user, str(session.id), "running")] if current else []
    return ResultSet(text_columns("id", "user", "session", "state"), rows)


FAMILY = Family(
    commands={
        ("BEGIN",): _begin,
        ("START", "TRANSACTION"): _begin,
        ("COMMIT",): _commit,
        ("ROLLBACK",): _rollback,
        ("SHOW", "LOCKS"): _show_locks,
        ("SHOW", "TRANSACTIONS"): _show_transactions,
    }
)
