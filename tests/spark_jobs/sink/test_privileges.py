"""Each privilege that `validate --live` asks for is one without which the sink really fails, and names its error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from snowflake.connector import SnowflakeConnection

from firn.connector.config import SinkConfig, TableConfig
from firn.errors import ConfigError, FirnError, PrivilegeError
from firn.kafka.client import KafkaClient
from firn.kafka.partitions import KafkaPartition, TopicPartition
from firn.ledger.control import ControlTable
from firn.ledger.control_record import DesiredState, State
from firn.ledger.schema_changes import SchemaChanges
from firn.ledger.table import LedgerTable
from firn.settings import Settings
from firn.sinks.context import SinkContext
from firn.snowflake.connection import SnowflakeLogin, connect
from firn.snowflake.faults import MissingObjectError
from firn.snowflake.identifiers import Namespace
from firn_local.admin import admin_login
from firn_local.home import Home
from spark_jobs.sink.methods.snowpipe.copy_into import copy_files
from spark_jobs.sink.methods.snowpipe.files import ParquetFile
from spark_jobs.sink.methods.snowpipe.stage import Stage
from spark_jobs.sink.privileges import check_rights
from spark_jobs.sink.tables.loaders import TableLoaders
from spark_jobs.sink.tables.target_tables import ensure_variant_table
from spark_jobs.sink.validation import check_snowflake
from spark_jobs.sink.values.reports import Receipt, SchemaChangeRequest
from tests.support.sinks import login_of
from tests.support.snowflake import OwnUser, admin_sql, own_user

pytestmark = pytest.mark.stack

TOPIC, TABLE = "some-topic", "TARGET"
CONFIG = SinkConfig(name="needy", topics=(TOPIC,), table_map=((TOPIC, TABLE),))
AROUND = {
    "USAGE ON WAREHOUSE INGEST_WH": "claim",
    "USAGE ON DATABASE STREAMING": "claim",
    "USAGE ON SCHEMA {schema}": "claim",
}
FIRST_START = {"CREATE TABLE ON SCHEMA {schema}": "make table", "CREATE STAGE ON SCHEMA {schema}": "make stage"}
LATER = {
    "SELECT ON TABLE {schema}.FIRN_OFFSETS": "claim",
    "INSERT ON TABLE {schema}.FIRN_OFFSETS": "claim",
    "UPDATE ON TABLE {schema}.FIRN_OFFSETS": "claim",
    "SELECT ON TABLE {schema}.FIRN_SINKS": "note",
    "INSERT ON TABLE {schema}.FIRN_SINKS": "note",
    "UPDATE ON TABLE {schema}.FIRN_SINKS": "note",
    "SELECT ON TABLE {schema}.FIRN_REQUESTS": "request",
    "INSERT ON TABLE {schema}.FIRN_REQUESTS": "request",
    "UPDATE ON TABLE {schema}.FIRN_REQUESTS": "request",
    "INSERT ON TABLE {schema}.TARGET": "copy",
    "READ ON STAGE {schema}.FIRN_STAGE": "copy",
    "WRITE ON STAGE {schema}.FIRN_STAGE": "put",
}
# Not asked for: only so that the table is seen while INSERT is away.
ALSO = "SELECT ON TABLE {schema}.TARGET"


class Bench:
    """A user with exactly the privileges of a sink in a schema of somebody else, and the sink's steps."""

    def __init__(self, user: OwnUser, folder: Path) -> None:
        self.user, self.schema = user, f"STREAMING.S_{user.name}"
        self.namespace = Namespace("STREAMING", f"S_{user.name}")
        self.stage = Stage(self.namespace, CONFIG.name, 1)
        self.folder = self.stage.folder(TABLE, TOPIC, 0)
        self.config = CONFIG
        self._folder, self._claims = folder, 0

    @property
    def login(self) -> SnowflakeLogin:
        settings = self.user.settings.model_copy(update={"snowflake_schema": self.namespace.schema})
        return login_of(settings)

    def grant(self, privilege: str) -> None:
        admin_sql(self.user.stack_settings, f"GRANT {self.named(privilege)} TO ROLE {self.user.name}")

    def revoke(self, privilege: str) -> None:
        admin_sql(self.user.stack_settings, f"REVOKE {self.named(privilege)} FROM ROLE {self.user.name}")

    def named(self, privilege: str) -> str:
        return privilege.format(schema=self.schema)

    @property
    def context(self) -> SinkContext:
        """Of the sink that is looked at; only what its steps in Snowflake need."""
        kafka = KafkaClient(())
        return SinkContext(self.config, self.user.stack_settings, kafka, None, None, self.login)

    def fixes(self) -> list[str]:
        """The next steps of every check that failed."""
        checks = check_snowflake(self.user.stack_settings, self.config, self.login, [TOPIC])
        return [check.next_step for check in checks if check.state == "failed"]

    def check_rights(self) -> None:
        """What a run asks for first."""
        with connect(self.login) as connection:
            check_rights(connection, self.config, self.login, [TABLE])

    def do(self, step: str) -> None:
        """One step of a sink, in a session of its own."""
        steps: dict[str, Callable[[SnowflakeConnection], object]] = {
            "claim": self.claim,
            "make table": lambda c: ensure_variant_table(c, self.namespace, TABLE, create=True, tables=TableConfig()),
            "make stage": self.stage.ensure,
            "put": self.put,
            "copy": self.copy,
            "evolve": self.evolve,
            "note": self.note,
            "request": self.request,
        }
        with connect(self.login) as connection:
            steps[step](connection)

    def claim(self, connection: SnowflakeConnection) -> None:
        self._claims += 1
        ledger = LedgerTable(self.namespace, f"needy{self._claims}")
        ledger.ensure(connection)
        seen = {TopicPartition(TOPIC, 0): KafkaPartition("id", 0, 0)}
        ledger.claim(connection, lambda: seen, "earliest", lambda _: TABLE, share_target=True)

    def put(self, connection: SnowflakeConnection) -> str:
        self._claims += 1
        file = ParquetFile(self._folder / f"0-0-1-{self._claims}.parquet", ("RECORD_METADATA", "RECORD_CONTENT"))
        file.write([pa.array(["{}"]), pa.array(["{}"])])
        file.close()
        self.stage.put(connection, file.path, self.folder)
        return file.path.name

    def copy(self, connection: SnowflakeConnection) -> None:
        with connect_as_admin(self) as admin:
            name = self.put(admin)
        receipt = Receipt(TOPIC, 0, TABLE, 0, 0, 1, 1, 1, [], self.folder + name)
        loaders = TableLoaders(replace(self.context, config=CONFIG), connection, lambda *_: None).of_topics([TOPIC])
        copy_files(connection, self.stage, [receipt], {TABLE: loaders[TOPIC]}, {})

    def note(self, connection: SnowflakeConnection) -> None:
        """What a supervisor writes of a sink that is new to it."""
        self._claims += 1
        records = ControlTable(self.namespace, f"needy{self._claims}")
        records.ensure(connection)
        records.report(connection, State.RUNNING)

    def request(self, connection: SnowflakeConnection) -> None:
        """What a start by hand writes of a sink that is new to it."""
        self._claims += 1
        records = ControlTable(self.namespace, f"needy{self._claims}")
        records.ensure(connection)
        records.request(connection, DesiredState.RUNNING, "anna")

    def evolve(self, connection: SnowflakeConnection) -> None:
        """Find the table too narrow for a record, as a task would."""
        loaders = TableLoaders(self.context, connection, lambda *_: None)
        loaders.of_topics([TOPIC])
        self._claims += 1
        loaders.evolve([SchemaChangeRequest(TOPIC, 0, TABLE, None, add={f"C{self._claims}": "VARCHAR"})])


def connect_as_admin(bench: Bench) -> AbstractContextManager[SnowflakeConnection]:
    settings = bench.user.stack_settings
    return connect(admin_login(Home.load(settings.home), settings))


@pytest.fixture(scope="module")
def bench(stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    settings: Settings = stack.settings
    with own_user(settings) as user:
        bench = Bench(user, tmp_path_factory.mktemp("files"))
        admin_sql(settings, f"CREATE SCHEMA {bench.schema}")
        for privilege in (*AROUND, *FIRST_START):
            bench.grant(privilege)
        yield bench
        admin_sql(settings, f"DROP SCHEMA {bench.schema}")


def lacking(bench: Bench, privilege: str, step: str) -> None:
    """Without the privilege validation and a run name its GRANT and the step fails; with it both are content."""
    assert bench.fixes() == []
    bench.revoke(privilege)
    try:
        fixes = bench.fixes()
        assert any(bench.named(privilege) in fix for fix in fixes), fixes
        with pytest.raises(PrivilegeError) as refused:
            bench.check_rights()
        assert f"GRANT {bench.named(privilege)}" in refused.value.next_step
        with pytest.raises((PrivilegeError, MissingObjectError, ConfigError)) as raised:
            bench.do(step)
        assert_named(raised.value)
    finally:
        bench.grant(privilege)


def assert_named(error: FirnError) -> None:
    names = ("Insufficient privileges", "Table not found", "Schema not found", "Stage not found", "No active warehouse")
    assert any(name in error.what for name in names), error
    assert "GRANT " in error.next_step


@pytest.mark.parametrize("privilege", [*AROUND, *FIRST_START])
def test_a_first_start_needs(bench: Bench, privilege: str) -> None:
    step = (AROUND | FIRST_START)[privilege]
    lacking(bench, privilege, step)


@pytest.fixture(scope="module")
def made(bench: Bench) -> Bench:
    """The same when the sink's objects are there, and belong to somebody else."""
    with connect_as_admin(bench) as admin:
        LedgerTable(bench.namespace, "any").ensure(admin)
        ControlTable(bench.namespace, "any").ensure(admin)
        ensure_variant_table(admin, bench.namespace, TABLE, create=True, tables=TableConfig())
        bench.stage.ensure(admin)
    for privilege in (*LATER, ALSO):
        bench.grant(privilege)
    for privilege in FIRST_START:
        bench.revoke(privilege)
    return bench


@pytest.mark.parametrize("privilege", LATER)
def test_a_later_start_needs(made: Bench, privilege: str) -> None:
    lacking(made, privilege, LATER[privilege])
    made.do(LATER[privilege])


def test_everything_that_is_missing_is_said_at_once(made: Bench) -> None:
    gone = ("INSERT ON TABLE {schema}.TARGET", "WRITE ON STAGE {schema}.FIRN_STAGE")
    for privilege in gone:
        made.revoke(privilege)
    try:
        with pytest.raises(PrivilegeError) as raised:
            made.check_rights()
    finally:
        for privilege in reversed(gone):
            made.grant(privilege)
    assert len(raised.value.what.splitlines()) == 1 + len(gone)
    for privilege in gone:
        assert f"GRANT {made.named(privilege)} TO ROLE {made.user.name};" in raised.value.next_step


@pytest.fixture
def evolving(made: Bench) -> Iterator[Bench]:
    """The same with typed columns and evolution; table and history belong to somebody else, but for OWNERSHIP."""
    made.config = replace(CONFIG, schematization=True, auto_evolve=True)
    made.grant(OWNED)
    with connect_as_admin(made) as admin:
        SchemaChanges(made.namespace, "any").ensure(admin)
    made.grant(HISTORY)
    yield made
    made.config = CONFIG


OWNED = "OWNERSHIP ON TABLE {schema}.TARGET"
HISTORY = "INSERT ON TABLE {schema}.FIRN_SCHEMA_CHANGES"


def test_evolution_needs_its_history(evolving: Bench) -> None:
    lacking(evolving, HISTORY, "evolve")
    evolving.do("evolve")


def test_evolution_needs_the_owner_of_the_table(evolving: Bench) -> None:
    evolving.check_rights()
    admin_sql(evolving.user.stack_settings, f"GRANT OWNERSHIP ON TABLE {evolving.schema}.TARGET TO ROLE SYSADMIN")
    for privilege in ("INSERT ON TABLE {schema}.TARGET", ALSO):
        evolving.grant(privilege)
    fix = f"GRANT {evolving.named(OWNED)} TO ROLE {evolving.user.name} COPY CURRENT GRANTS;"
    assert [fix in each for each in evolving.fixes()] == [True]
    with pytest.raises(PrivilegeError) as raised:
        evolving.check_rights()
    assert fix in raised.value.next_step
    with pytest.raises(PrivilegeError):
        evolving.do("evolve")
    evolving.config = replace(evolving.config, auto_evolve=False)
    evolving.check_rights()
    evolving.config = replace(evolving.config, auto_evolve=True)
    admin_sql(evolving.user.stack_settings, fix.rstrip(";"))
    evolving.do("evolve")
