"""ALTER SESSION, SHOW PARAMETERS, USE ROLE and USE WAREHOUSE: the session's own state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from firn_local.snowflake.privileges import enforcement
from firn_local.snowflake.sql.errors import unsupported
from firn_local.snowflake.sql.result_set import Answer, text_columns
from firn_local.snowflake.sql.tokenizer import Words
from firn_local.snowflake.statements import principals

if TYPE_CHECKING:
    from firn_local.snowflake.engine.session import Session

DEFAULTS = {"AUTOCOMMIT": True, "LOCK_TIMEOUT": 43_200, "QUERY_TAG": "", "TIMEZONE": "Etc/UTC"}


def _set(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.expect("ALTER", "SESSION", "SET")
    session.set_parameters(words.properties())
    return Answer.status()


def _unset(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.expect("ALTER", "SESSION", "UNSET")
    for name in words.names():
        session.parameters.pop(name, None)
        if name in DEFAULTS:
            session.set_parameters({name: DEFAULTS[name]})
    return Answer.status()


def _show_parameters(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.expect("SHOW", "PARAMETERS")
    like = words.like()
    rows = [
        (name, str(value).lower() if isinstance(value, bool) else str(value), str(DEFAULTS.get(name, "")), "", "", "")
        for name, value in sorted(session.parameters.items())
        if like is None or like.fullmatch(name)
    ]
    return Answer(text_columns("key", "value", "default", "level", "description", "type"), rows)


def _use_role(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.expect("USE", "ROLE")
    role = principals.require(session, "ROLE", words.name())
    enforcement.demand_role(session, role)
    session.role = role
    return Answer.status()


def _use_warehouse(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.expect("USE", "WAREHOUSE")
    name = principals.require(session, "WAREHOUSE", words.name())
    enforcement.demand_use(session, "WAREHOUSE", name)
    session.warehouse = name
    return Answer.status()


def _use_secondary_roles(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.expect("USE", "SECONDARY", "ROLES")
    every = words.skip("ALL")
    if not (every or words.skip("NONE")):
        raise unsupported(sql)
    session.secondary = every
    return Answer.status()


COMMANDS = {
    ("ALTER", "SESSION", "SET"): _set,
    ("ALTER", "SESSION", "UNSET"): _unset,
    ("SHOW", "PARAMETERS"): _show_parameters,
    ("USE", "ROLE"): _use_role,
    ("USE", "WAREHOUSE"): _use_warehouse,
    ("USE", "SECONDARY", "ROLES"): _use_secondary_roles,
}
