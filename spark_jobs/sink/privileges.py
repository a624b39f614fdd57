"""What a sink needs in Snowflake, looked at live: login, objects, tables, privileges; with the GRANT that is missing.

Not for making anything: the sink makes its tables and its ledger when it starts, and the method what it needs. What the
method needs beside the tables it says itself (`methods.base`). Privileges by statement: those of `tables`, `evolution`,
`schema_changes`, `ledger.table` and `control`
(https://docs.snowflake.com/en/user-guide/security-access-control-privileges).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial

from snowflake.connector import SnowflakeConnection

from firn.connector.config import SinkConfig
from firn.errors import ConfigError, FirnError, PrivilegeError
from firn.ledger import control, schema_changes
from firn.ledger import table as ledger_table
from firn.operations.validation.live_check import LiveCheck, failed
from firn.provision.snowflake import look_for_objects, session_of
from firn.snowflake.connection import SnowflakeLogin, connect
from firn.snowflake.grants import Privilege, held_privileges, name_parts
from firn.snowflake.identifiers import FullName, Namespace, check_table_map, quoted, table_for, written
from firn.snowflake.tables import describe_named, named_table_exists
from spark_jobs.sink.methods import registry
from spark_jobs.sink.methods.base import MethodPrivileges
from spark_jobs.sink.tables.loaders import loader_of
from spark_jobs.sink.tables.target_tables import check_columns
from spark_jobs.sink.values.table_loaders import ColumnsLoader, PipeLoader, TableLoader

_OTHER_ROLE = "Or correct snowflake.role.name (`role` in the Snowflake secret)."


@dataclass(frozen=True)
class _Session:
    connection: SnowflakeConnection
    config: SinkConfig
    login: SnowflakeLogin
    role: str
    tables: tuple[str, ...]
    loads: dict[str, TableLoader] = field(default_factory=dict)
    """Of the tables that were looked at and have no fault."""

    @property
    def namespace(self) -> Namespace:
        return Namespace(self.login.database, self.login.schema)

    @cached_property
    def of_method(self) -> MethodPrivileges:
        """What the method needs beside the tables; nothing for one that cannot run yet."""
        method = registry.find(self.config.method)
        return method.privileges(self.connection, self.namespace) if method else MethodPrivileges(())

    def has_table(self, name: FullName) -> bool:
        return named_table_exists(self.connection, name)


@dataclass(frozen=True)
class _Used:
    """A table that the sink uses, what it needs on it once it is there, and whether it makes it if it is not."""

    name: FullName
    privileges: str
    made: bool = True


def check_snowflake(config: SinkConfig, login: SnowflakeLogin, topics: Iterable[str]) -> Iterator[LiveCheck]:
    """Log in and look. Raises FirnError where the login does not work; all else is a check."""
    topics = tuple(topics)
    tables = tuple(dict.fromkeys(table_for(topic, config.table_map) for topic in topics))
    yield from _guarded("snowflake.topic2table.map", partial(_map, topics, config))
    with connect(login, query_tag="firn sink validate") as connection:
        who = session_of(connection)
        yield LiveCheck("snowflake login", "ok", str(who))
        session = _Session(connection, config, login, who.role, tables)
        yield from _guarded("snowflake objects", lambda: _objects(session))
        for table in tables:
            yield from _guarded(f"table {table}", partial(_table, session, table))
        yield from _guarded("snowflake privileges", lambda: _privileges(session))


def _map(topics: Iterable[str], config: SinkConfig) -> tuple[LiveCheck, ...]:
    check_table_map(topics, config.table_map)
    return ()


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
    load = loader_of(session.connection, session.namespace, config, table)
    if isinstance(load, PipeLoader):
        name = written(load.table)
    shape = describe_named(session.connection, _filled(session, table, load))
    if shape is None and (isinstance(load, PipeLoader) or not config.auto_create_tables):
        piped = "Make it: no table is made for a pipe's SELECT."
        step = piped if isinstance(load, PipeLoader) else "Make it, or set auto.create.tables to true."
        return LiveCheck(f"table {name}", "failed", f"does not exist, or role {session.role} may not see it", step)
    session.loads[table] = load
    if shape is None:
        return LiveCheck(f"table {name}", "ok", f"will be made (role {session.role} sees none)")
    try:
        if isinstance(load, PipeLoader):
            if method := registry.find(config.method):
                method.check_table(session.connection, session.namespace, table, load)
        else:
            check_columns(name, shape.columns, load)
    except ConfigError as error:
        return LiveCheck(f"table {name}", "failed", error.what, error.next_step)
    return LiveCheck(f"table {name}", "ok", _spoken(session, table, load, len(shape.columns)))


def _filled(session: _Session, table: str, load: TableLoader | None) -> FullName:
    """The table that rows go into: a pipe may fill another one."""
    return load.table if isinstance(load, PipeLoader) else session.namespace.full_name(table)


def _spoken(session: _Session, table: str, load: TableLoader, columns: int) -> str:
    """How an existing table will be loaded."""
    match load:
        case PipeLoader():
            return f"exists ({columns}), loaded by the SELECT of pipe {session.namespace.qualified(table)}"
        case ColumnsLoader():
            return f"exists, its columns fit ({columns}), {'evolves' if load.grow else 'does not evolve'}"
        case _:
            return f"exists, its columns fit ({columns})"


def check_rights(
    connection: SnowflakeConnection, config: SinkConfig, login: SnowflakeLogin, tables: Iterable[str]
) -> None:
    """Raise PrivilegeError, with every GRANT that is missing, unless the session's role may do all that a sink does.

    For the start of a run, before the first record; it says what `firn sink validate --live` says. Raises ConfigError
    for a pipe of a table that cannot be read, and the errors of `firn.snowflake.connection`.
    """
    session = _Session(connection, config, login, session_of(connection).role, tuple(dict.fromkeys(tables)))
    session.loads.update({t: loader_of(connection, session.namespace, config, t) for t in session.tables})
    needed, missing = _missing(session)
    if missing:
        lines = [f"  {each.privilege} on {each.kind.lower()} {'.'.join(each.name)}" for each in missing]
        raise PrivilegeError(
            f"Insufficient privileges: role {session.role} lacks {len(missing)} of the {len(needed)} that the sink "
            "needs:\n" + "\n".join(lines),
            where=f"sink {config.name}",
            next_step=" ".join([*(_grant(session, each) for each in missing), _OTHER_ROLE]),
        )


def _privileges(session: _Session) -> Iterator[LiveCheck]:
    needed, missing = _missing(session)
    for each in missing:
        subject = f"privilege {each.privilege} on {each.kind.lower()} {'.'.join(each.name)}"
        step = f"{_grant(session, each)} {_OTHER_ROLE}"
        yield LiveCheck(subject, "failed", f"role {session.role} does not hold it", step)
    if not missing:
        yield LiveCheck("snowflake privileges", "ok", f"role {session.role} holds all {len(needed)} that are needed")


def _missing(session: _Session) -> tuple[list[Privilege], list[Privilege]]:
    """The privileges that the sink needs, and those of them that the session does not hold."""
    needed = list(dict.fromkeys(_needed(session)))
    return needed, held_privileges(session.connection, session.role).missing(needed)


def _grant(session: _Session, missing: Privilege) -> str:
    """The GRANT, and what helps instead of it."""
    return f"{missing.grant(session.role)}{_instead(session, missing)}"


def _instead(session: _Session, missing: Privilege) -> str:
    """What to grant instead of a right to CREATE if an object is there and hidden: Snowflake does not tell which."""
    if missing.privilege == "OWNERSHIP":
        return " Or set auto.evolve to false: the table then stays as it is."
    hidden = [privilege for create, privilege in session.of_method.instead.items() if create == missing]
    if missing.privilege == "CREATE TABLE":
        used = [each for each in _tables(session) if each.made and not session.has_table(each.name)]
        hidden += [Privilege(each.privileges, "TABLE", each.name) for each in used]
    return "".join(
        f" If {each.name[2]} exists, hidden from this role, instead: {each.grant(session.role)}" for each in hidden
    )


def _needed(session: _Session) -> Iterator[Privilege]:
    schema = name_parts(session.namespace.qualified("X"))[:2]
    yield Privilege("USAGE", "WAREHOUSE", name_parts(quoted(session.login.warehouse)))
    yield Privilege("USAGE", "DATABASE", schema[:1])
    yield Privilege("USAGE", "SCHEMA", schema)
    creates_table = Privilege("CREATE TABLE", "SCHEMA", schema)
    for used in _tables(session):
        yield Privilege("USAGE", "DATABASE", used.name[:1])
        yield Privilege("USAGE", "SCHEMA", used.name[:2])
        if session.has_table(used.name):
            yield from (Privilege(privilege, "TABLE", used.name) for privilege in used.privileges.split(", "))
        elif used.made:
            yield creates_table
    yield from session.of_method.needed


def _tables(session: _Session) -> Iterator[_Used]:
    """Each table that the sink uses."""
    growing = {table: load for table, load in session.loads.items() if isinstance(load, ColumnsLoader) and load.grow}
    for table in session.tables:
        load = session.loads.get(table)
        # ALTER TABLE wants its owner; who makes a table owns it.
        wanted = "INSERT, OWNERSHIP" if table in growing and growing[table].exists else "INSERT"
        made = session.config.auto_create_tables and not isinstance(load, PipeLoader)
        yield _Used(_filled(session, table, load), wanted, made)
    yield _Used(session.namespace.full_name(ledger_table.TABLE), "SELECT, INSERT, UPDATE")
    yield _Used(session.namespace.full_name(control.TABLE), "SELECT, INSERT, UPDATE")
    if growing:
        yield _Used(session.namespace.full_name(schema_changes.TABLE), "INSERT")
