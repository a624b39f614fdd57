"""What a sink needs in Snowflake, looked at live: login, objects, tables, privileges; with the GRANT that is missing.

Not for making anything: the sink makes its tables, stage and ledger when it starts. Privileges by statement: those of
`tables`, `stage`, `ledger_table` and `copy_into`
(https://docs.snowflake.com/en/user-guide/security-access-control-privileges).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from snowflake.connector import SnowflakeConnection

from firn.connector.config import Method, SinkConfig
from firn.connector.live_check import LiveCheck, failed
from firn.errors import ConfigError, FirnError
from firn.grants import Privilege, held_privileges, name_parts
from firn.provision.snowflake import look_for_objects, session_of
from firn.snowflake import SnowflakeLogin, connect
from spark_jobs.sink import ledger_table, stage
from spark_jobs.sink.columns.load import VariantLoad
from spark_jobs.sink.identifiers import Namespace, quoted, table_for
from spark_jobs.sink.tables import check_columns, describe, table_exists

_OTHER_ROLE = "Or correct snowflake.role.name (`role` in the Snowflake secret)."


@dataclass(frozen=True)
class _Session:
    connection: SnowflakeConnection
    config: SinkConfig
    login: SnowflakeLogin
    role: str
    tables: tuple[str, ...]

    @property
    def namespace(self) -> Namespace:
        return Namespace(self.login.database, self.login.schema)

    def has_table(self, table: str) -> bool:
        return table_exists(self.connection, self.namespace, table)


def check_snowflake(config: SinkConfig, login: SnowflakeLogin, topics: Iterable[str]) -> Iterator[LiveCheck]:
    """Log in and look. Raises FirnError where the login does not work; all else is a check."""
    tables = tuple(dict.fromkeys(table_for(topic, config.table_map) for topic in topics))
    with connect(login, query_tag="firn sink validate") as connection:
        who = session_of(connection)
        yield LiveCheck("snowflake login", "ok", str(who))
        session = _Session(connection, config, login, who.role, tables)
        yield from _guarded("snowflake objects", lambda: _objects(session))
        for table in tables:
            yield from _guarded(f"table {table}", partial(_table, session, table))
        yield from _guarded("snowflake privileges", lambda: _privileges(session))


def _guarded(subject: str, look: Callable[[], Iterable[LiveCheck]]) -> list[LiveCheck]:
    try:
        return list(look())
    except FirnError as error:
        return [failed(subject, error)]


def _objects(session: _Session) -> Iterator[LiveCheck]:
    for finding in look_for_objects(session.connection, session.login):
        subject = f"{finding.kind} {finding.name}"
        if finding.state == "ok":
            yield LiveCheck(subject, "ok", "exists")
        else:
            what, _, step = finding.detail.partition(": ")
            yield LiveCheck(subject, "failed", what, step)


def _table(session: _Session, table: str) -> list[LiveCheck]:
    return [_look_at_table(session, table)]


def _look_at_table(session: _Session, table: str) -> LiveCheck:
    name, config = session.namespace.qualified(table), session.config
    shape = describe(session.connection, session.namespace, table)
    if shape is None and config.auto_create_tables:
        return LiveCheck(f"table {name}", "ok", f"will be made (role {session.role} sees none)")
    if shape is None:
        step = "Make it, or set auto.create.tables to true."
        return LiveCheck(f"table {name}", "failed", f"does not exist, or role {session.role} may not see it", step)
    if not config.schematization:
        try:
            check_columns(name, shape.columns, VariantLoad())
        except ConfigError as error:
            return LiveCheck(f"table {name}", "failed", error.what, error.next_step)
    return LiveCheck(f"table {name}", "ok", f"exists, its columns fit ({len(shape.columns)})")


def _privileges(session: _Session) -> Iterator[LiveCheck]:
    needed = list(dict.fromkeys(_needed(session)))
    missing = held_privileges(session.connection, session.role).missing(needed)
    for each in missing:
        subject = f"privilege {each.privilege} on {each.kind.lower()} {'.'.join(each.name)}"
        step = f"{each.grant(session.role)}{_if_hidden(session, each)} {_OTHER_ROLE}"
        yield LiveCheck(subject, "failed", f"role {session.role} does not hold it", step)
    if not missing:
        yield LiveCheck("snowflake privileges", "ok", f"role {session.role} holds all {len(needed)} that are needed")


def _if_hidden(session: _Session, missing: Privilege) -> str:
    """What to grant instead of a right to CREATE if the object is there and hidden: Snowflake does not tell which."""
    if missing.privilege == "CREATE STAGE":
        kind, name, wanted = "STAGE", stage.STAGE, "READ, WRITE"
    elif missing.privilege == "CREATE TABLE" and not session.has_table(ledger_table.TABLE):
        kind, name, wanted = "TABLE", ledger_table.TABLE, "SELECT, INSERT, UPDATE"
    else:
        return ""
    return f" If {name} exists, hidden from this role, instead: {_on(session, wanted, kind, name).grant(session.role)}"


def _needed(session: _Session) -> Iterator[Privilege]:
    schema = name_parts(session.namespace.qualified("X"))[:2]
    yield Privilege("USAGE", "WAREHOUSE", name_parts(quoted(session.login.warehouse)))
    yield Privilege("USAGE", "DATABASE", schema[:1])
    yield Privilege("USAGE", "SCHEMA", schema)
    creates_table = Privilege("CREATE TABLE", "SCHEMA", schema)
    for table in session.tables:
        if session.has_table(table):
            yield _on(session, "INSERT", "TABLE", table)
        elif session.config.auto_create_tables:
            yield creates_table
    if session.has_table(ledger_table.TABLE):
        for privilege in ("SELECT", "INSERT", "UPDATE"):
            yield _on(session, privilege, "TABLE", ledger_table.TABLE)
    else:
        yield creates_table
    if session.config.method is Method.SNOWPIPE:
        yield from _needed_for_stage(session, Privilege("CREATE STAGE", "SCHEMA", schema))


def _needed_for_stage(session: _Session, creates_stage: Privilege) -> Iterator[Privilege]:
    if not stage.stage_exists(session.connection, session.namespace):
        yield creates_stage
        return
    for privilege in ("READ", "WRITE"):  # in this order: Snowflake grants WRITE to those who may READ
        yield _on(session, privilege, "STAGE", stage.STAGE)


def _on(session: _Session, privilege: str, kind: str, name: str) -> Privilege:
    return Privilege(privilege, kind, name_parts(session.namespace.qualified(name)))
