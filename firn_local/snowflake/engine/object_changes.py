"""DDL: commits what is open, waits for locks, is visible to whom it may be, and leaves owners and no residue behind.

What CREATE, ALTER or DROP does to the object itself is its family's. Source: the notes on access control of the CREATE
and DROP pages, and https://docs.snowflake.com/en/sql-reference/transactions#ddl.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

from sqlglot import Expr, exp

from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.privileges import enforcement, ownership, requirements
from firn_local.snowflake.privileges.requirements import Need
from firn_local.snowflake.sql.result_set import ResultSet
from firn_local.snowflake.sql.statement import Statement
from firn_local.snowflake.store import channel_table, dropped_objects
from firn_local.snowflake.transactions.locks import Claim, columns_of


def change(
    session: Session, statement: Statement, query_id: str, work: Callable[[], ResultSet | None]
) -> ResultSet | None:
    """Run `work`, which changes objects, with everything that goes round such a statement; its answer."""
    session.transactions.commit()
    account = session.account
    claim = Claim(f"ddl-{query_id}", query_id)
    targets = statement.targets()
    try:
        for table in sorted(targets):
            session.lock(table, claim)
        with session.ddl():
            _refuse_what_is_there(session, statement)
            if name := _already_there(session, statement):
                return ResultSet.status(f"{name} already exists, statement succeeded.")
            _before(session, statement)
            with _altering(session, statement):
                answer = work()
            _after(session, statement)
        account.commits.record(targets | columns_of(targets))
        return answer
    finally:
        account.locks.release(claim.transaction)


def nothing_to_drop(session: Session, statement: Statement) -> bool:
    """Whether it is DROP ... IF EXISTS of what the role may not see."""
    drop = statement.expression
    if not (isinstance(drop, exp.Drop) and drop.args.get("exists")):
        return False
    kind = str(drop.args.get("kind"))
    return all(enforcement.holds_nothing(session, kind, name) for name in statement.target_objects())


def _refuse_what_is_there(session: Session, statement: Statement) -> None:
    """CREATE of what is there fails where the role may not see it, OR REPLACE also where it is not the owner."""
    create = statement.expression
    if not isinstance(create, exp.Create) or create.find(exp.TemporaryProperty):
        return
    kind = str(create.args.get("kind"))
    for name in statement.target_objects():
        if session.role_grants.now().owner(kind, name) is not None:
            enforcement.refuse_unseen(session, kind, name)
            if create.args.get("replace"):
                enforcement.demand(session, Need(("OWNERSHIP",), kind, name))


def _already_there(session: Session, statement: Statement) -> str | None:
    """Name of the table or view that CREATE ... IF NOT EXISTS finds; fakesnow would forget its load history."""
    create = statement.expression
    if not (isinstance(create, exp.Create) and create.args.get("exists") and create.kind in {"TABLE", "VIEW"}):
        return None
    for full_name in statement.targets():
        database, schema, name = full_name.split(".", 2)
        sql = "SELECT 1 FROM information_schema.tables WHERE table_catalog = ? AND table_schema = ? AND table_name = ?"
        if session.store.query(sql, [database, schema, name]):
            return name
    return None


def _altering(session: Session, statement: Statement) -> AbstractContextManager[None]:
    """Around an ALTER TABLE: what is kept of a tracked table's changes follows it."""
    alter = statement.expression
    tracked = session.account.tracked
    if not tracked or not isinstance(alter, (exp.Alter, exp.Command)):
        return nullcontext()
    renamed = {}
    for action in alter.args.get("actions") or []:
        if isinstance(action, exp.RenameColumn):
            old, new = (_column_name(action.args[part]) for part in ("this", "to"))
            renamed[old] = new
    name = next((name for name in _altered(statement) if tracked.named(name) is not None), None)
    return nullcontext() if name is None else tracked.altering(name, renamed)


def _altered(statement: Statement) -> Iterator[str]:
    """Full names of the tables of an ALTER TABLE, also of one that sqlglot does not parse."""
    yield from statement.targets()
    yield from (need.name for need in requirements.to_alter_table(statement))


def _column_name(column: Expr) -> str:
    identifier = column.this if isinstance(column, exp.Column) else column
    return identifier.name if identifier.args.get("quoted") else identifier.name.upper()


def _before(session: Session, statement: Statement) -> None:
    """A table about to be replaced loses its comments and its channels."""
    if isinstance(statement.expression, exp.Create) and statement.expression.args.get("replace"):
        _forget_tables(session, statement)


def _after(session: Session, statement: Statement) -> None:
    """A dropped object leaves nothing behind; one that was made has an owner."""
    drop = statement.expression
    if not isinstance(drop, exp.Drop):
        ownership.record_change(session.role_grants, session.role, statement)
    elif drop.kind == "SCHEMA":
        for name in statement.target_objects():
            session.account.forget_inside("SCHEMA", name)
    else:
        _forget_tables(session, statement)
        for target in statement.targets():
            session.account.grants.forget(str(drop.args.get("kind")), target)


def _forget_tables(session: Session, statement: Statement) -> None:
    dropped_objects.forget_comments(session.store, statement.targets())
    channel_table.forget_tables(session.store, statement.targets())
