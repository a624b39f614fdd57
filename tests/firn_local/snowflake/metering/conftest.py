"""A local Snowflake whose clock the test moves, with one warehouse that is suspended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from firn_local.snowflake.engine.cursor import Cursor
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.instance import LocalSnowflake
from firn_local.snowflake.metering.history import Query
from firn_local.snowflake.metering.meter import FastClock
from firn_local.snowflake.metering.usage import Usage


@dataclass
class Metered:
    """One session of an administrator; `mark` begins to count."""

    snowflake: LocalSnowflake
    session: Session
    clock: FastClock
    _before: Usage = field(default_factory=Usage)

    def run(self, *statements: str) -> Cursor:
        for statement in statements:
            cursor = self.snowflake.run(self.session, statement)
        return cursor

    def rows(self, statement: str) -> list[tuple[object, ...]]:
        table = self.run(statement).result
        assert table is not None
        return [tuple(row.values()) for row in table.to_pylist()]

    def last(self) -> Query:
        return self.snowflake.meter.queries()[-1]

    def mark(self) -> None:
        self._before = self.snowflake.meter.usage()

    def used(self) -> Usage:
        return self.snowflake.meter.usage() - self._before


@pytest.fixture(scope="module")
def snowflake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalSnowflake]:
    """One with table T of two rows, an empty table U, a view V, a stage S."""
    data = tmp_path_factory.mktemp("metering")
    (data / "tmp").mkdir()
    opened = LocalSnowflake(data, threads=1, clock=FastClock())
    with opened.session("MAKER", "ACCOUNTADMIN") as session:
        for statement in (
            "CREATE WAREHOUSE WH AUTO_SUSPEND = 60 INITIALLY_SUSPENDED = TRUE",
            "CREATE DATABASE D",
            "CREATE TABLE T (A INT, B VARCHAR)",
            "CREATE TABLE U (A INT, B VARCHAR)",
            "INSERT INTO T VALUES (1, 'a'), (2, 'b')",
            "CREATE VIEW V AS SELECT A FROM T",
            "CREATE STAGE S",
        ):
            opened.run(session, statement)
    yield opened
    opened.close()


@pytest.fixture
def metered(snowflake: LocalSnowflake) -> Iterator[Metered]:
    """A session on warehouse WH, an hour after everything before."""
    clock = snowflake.account.clock
    assert isinstance(clock, FastClock)
    clock.advance(3600)
    with snowflake.session("ME", "ACCOUNTADMIN") as session:
        metered = Metered(snowflake, session, clock)
        metered.run("USE WAREHOUSE WH", "USE DATABASE D")
        metered.mark()
        yield metered
