"""BEGIN, COMMIT, ROLLBACK in every spelling, SHOW LOCKS and SHOW TRANSACTIONS. What they do is in `transactions`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firn_local.snowflake.sql.errors import unsupported
from firn_local.snowflake.sql.result_set import Answer, text_columns
from firn_local.snowflake.sql.tokenizer import Words

if TYPE_CHECKING:
    from firn_local.snowflake.engine.session import Session


def _begin(session: Session, sql: str) -> Answer:
    words = Words(sql)
    if not words.skip("START", "TRANSACTION"):
        words.expect("BEGIN")
        if not words.skip("TRANSACTION"):
            words.skip("WORK")
    if words.skip("NAME"):
        words.name()
    if words:  # BEGIN ... END is a block of Snowflake Scripting
        raise unsupported(sql)
    session.transactions.begin()
    return Answer.status()


def _commit(session: Session, sql: str) -> Answer:
    _nothing_but_work(sql, "COMMIT")
    session.transactions.commit()
    return Answer.status()


def _rollback(session: Session, sql: str) -> Answer:
    _nothing_but_work(sql, "ROLLBACK")
    session.transactions.rollback()
    return Answer.status()


def _nothing_but_work(sql: str, verb: str) -> None:
    words = Words(sql)
    words.expect(verb)
    words.skip("WORK")
    words.end()


def _show_locks(session: Session, sql: str) -> Answer:  # noqa: ARG001  (every command takes the statement)
    rows = [(table, "PARTITIONS", tx, status, query) for table, status, tx, query in session.shared.locks.rows()]
    return Answer(text_columns("resource", "type", "transaction", "status", "query_id"), rows)


def _show_transactions(session: Session, sql: str) -> Answer:  # noqa: ARG001
    current = session.transactions.current
    rows = [(current.id, session.user, str(session.id), "running")] if current else []
    return Answer(text_columns("id", "user", "session", "state"), rows)


COMMANDS = {
    ("BEGIN",): _begin,
    ("START", "TRANSACTION"): _begin,
    ("COMMIT",): _commit,
    ("ROLLBACK",): _rollback,
    ("SHOW", "LOCKS"): _show_locks,
    ("SHOW", "TRANSACTIONS"): _show_transactions,
}
