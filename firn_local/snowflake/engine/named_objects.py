"""Objects that only their family knows (streams, tasks, pipes, tags): DESCRIBE and DROP of one by its name.

Source: the DESCRIBE <object> and DROP <object> pages of Snowflake's SQL reference. Not for tables and views.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.privileges import enforcement
from firn_local.snowflake.privileges.requirements import ANY, Need
from firn_local.snowflake.sql.result_set import ResultSet
from firn_local.snowflake.sql.sql_errors import compilation_error
from firn_local.snowflake.sql.tokenizer import Tokenizer

T = TypeVar("T")
Find = Callable[[Session, str], T | None]
"""Finds an object by its full name."""
ABSENT = (2003, "02000")


def required(kind: str, name: str, found: T | None) -> T:
    """The object of that kind and name, which was looked for. Raises where there is none."""
    if found is None:
        raise compilation_error(ABSENT, f"{kind.capitalize()} '{name}' does not exist or not authorized.")
    return found


def described(session: Session, sql: str, kind: str, find: Find[T]) -> T:
    """The object of DESC[RIBE] <kind> <name>, for a role that holds anything on it."""
    tokens = Tokenizer(sql)
    tokens.expect(tokens.peek())
    tokens.expect(kind)
    name = session.full_name(tokens.name())
    tokens.end()
    enforcement.demand(session, Need(ANY, kind, name))
    return required(kind, name, find(session, name))


def dropped(
    session: Session, sql: str, kind: str, find: Find[T], remove: Callable[[Session, str, T], None]
) -> ResultSet:
    """DROP <kind> [IF EXISTS] <name>: `remove` takes the object away, its grants go with it."""
    tokens = Tokenizer(sql)
    tokens.expect("DROP", kind)
    if_exists = tokens.skip("IF", "EXISTS")
    name = session.full_name(tokens.name())
    tokens.end()
    if if_exists and (find(session, name) is None or enforcement.holds_nothing(session, kind, name)):
        return ResultSet.status("Drop statement executed successfully.")
    enforcement.demand(session, Need(("OWNERSHIP",), kind, name))
    with session.ddl():
        remove(session, name, required(kind, name, find(session, name)))
        session.account.grants.forget(kind, name)
    return ResultSet.status(f"{name.rpartition('.')[2]} successfully dropped.")
