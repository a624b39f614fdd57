"""Whose login does what: secrets of their own for dbt and `firn sql`, or the sinks'."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pydantic import SecretStr

from firn.provision import logins as provisioned
from firn.provision.findings import Finding
from firn.provision.snowflake import Session
from firn.secrets import SnowflakeSecret
from firn.settings import Settings
from firn.snowflake import logins
from firn.snowflake.grants import Held, Privilege


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user in each secret, named after it."""

    def read(_settings: Settings, secret_id: str, _kind: Any) -> SnowflakeSecret:
        return SnowflakeSecret(account="a", user=secret_id, role="R", private_key=SecretStr("k"))

    monkeypatch.setattr(logins, "read_secret", read)


def test_without_secrets_of_their_own_all_use_the_sinks() -> None:
    settings = Settings(snowflake_secret_id="sink")
    users = {login(settings).user for login in (logins.sink_login, logins.dbt_login, logins.sql_login)}
    assert users == {"sink"}
    assert logins.dbt_login(settings).schema == "PUBLIC"
    assert provisioned.check_own_logins(settings) == []


def test_each_may_have_a_secret_and_dbt_a_schema() -> None:
    settings = Settings(snowflake_secret_id="sink", dbt_secret_id="dbt", sql_secret_id="sql", dbt_schema="ANALYTICS")
    assert logins.sink_login(settings).user == "sink"
    assert logins.sql_login(settings).user == "sql"
    dbt = logins.dbt_login(settings)
    assert (dbt.user, dbt.schema) == ("dbt", "ANALYTICS")
    assert "secret dbt in Secrets Manager" in dbt.key_place.holder


def test_provision_prints_the_grants_that_dbts_role_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def connected(_login: Any) -> Iterator[None]:
        yield

    held = frozenset(
        {
            Privilege("USAGE", "DATABASE", ("STREAMING",)),
            Privilege("USAGE", "SCHEMA", ("STREAMING", "PUBLIC")),
            Privilege("OWNERSHIP", "SCHEMA", ("STREAMING", "ANALYTICS")),
        }
    )
    absent = Finding("warehouse", "INGEST_WH", "missing", "does not exist")
    monkeypatch.setattr(provisioned, "connect", connected)
    monkeypatch.setattr(provisioned, "session_of", lambda _: Session("DBT", "SVC_DBT", "1"))
    monkeypatch.setattr(provisioned, "held_privileges", lambda *_: Held(held, held))
    monkeypatch.setattr(provisioned, "look_for_objects", lambda *_: [absent])

    found = provisioned.check_own_logins(Settings(dbt_secret_id="dbt", dbt_schema="ANALYTICS"))

    assert [(each.kind, each.state) for each in found] == [
        ("dbt login", "ok"),
        ("warehouse", "missing"),
        ("privilege", "missing"),
    ]
    assert found[2].detail == "GRANT USAGE ON WAREHOUSE INGEST_WH TO ROLE SVC_DBT;"


def test_a_role_that_may_nothing_is_told_all_that_dbt_needs() -> None:
    login = logins.dbt_login(Settings(dbt_schema="ANALYTICS"))
    grants = [each.grant("D") for each in provisioned.needed_by_dbt(login, ("STREAMING", "PUBLIC"))]
    assert "GRANT CREATE VIEW ON SCHEMA STREAMING.ANALYTICS TO ROLE D;" in grants
    assert "GRANT USAGE ON SCHEMA STREAMING.PUBLIC TO ROLE D;" in grants
    assert len(grants) == len(set(grants)) == 6
