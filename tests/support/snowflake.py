"""Snowflake for tests beside what a sink does there: schemas, an administrator, users of their own and their keys."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
from pydantic import SecretStr

from firn.settings import Settings
from firn.snowflake.connection import connect, execute
from firn.snowflake.statements import run_statements
from firn_local.admin import ACCOUNT, admin_login, new_private_key
from firn_local.home import Home
from firn_local.servers.seed import public_key
from tests.support.sinks import login_of

WRITER, DEVELOPER = "STREAMING_DB_WRITER", "ANALYTICS_DEVELOPER"


def admin_sql(settings: Settings, *statements: str) -> list[dict[str, Any]]:
    """Run statements as the stack's administrator; the rows of the last one."""
    rows: list[dict[str, Any]] = []
    with connect(admin_login(Home.load(settings.home), settings)) as connection:
        for statement in statements:
            rows = [row for result in run_statements(connection, statement) for row in result.rows]
    return rows


def make_schema(settings: Settings, name: str) -> None:
    """A schema of somebody else, in which the role of sinks and exports may make tables, stages and streams."""
    schema = f"{settings.snowflake_database}.{name}"
    with connect(login_of(settings)) as connection:
        execute(connection, f"USE ROLE {DEVELOPER}")
        execute(connection, f"CREATE SCHEMA {schema}")
        rights = "USAGE, CREATE TABLE, CREATE STAGE, CREATE STREAM"
        execute(connection, f"GRANT {rights} ON SCHEMA {schema} TO ROLE {WRITER}")


def drop_schema(settings: Settings, name: str) -> None:
    """The end of a schema of `make_schema`."""
    with connect(login_of(settings)) as connection:
        execute(connection, f"USE ROLE {DEVELOPER}")
        execute(connection, f"DROP SCHEMA {settings.snowflake_database}.{name}")


@contextmanager
def schema_of_its_own(settings: Settings, prefix: str) -> Iterator[str]:
    """The name of a schema of `make_schema` that is gone after the block."""
    name = f"{prefix}_{uuid.uuid4().hex[:8].upper()}"
    make_schema(settings, name)
    try:
        yield name
    finally:
        drop_schema(settings, name)


@dataclass
class OwnUser:
    """A user with a role and a secret of its own, whose key a test may rotate, and whose grants it may take away.

    `settings` are those of the stack, with the user's secret instead of the service user's.
    """

    stack_settings: Settings
    name: str = field(default_factory=lambda: f"T_{uuid.uuid4().hex[:8].upper()}")
    key: str = field(default_factory=new_private_key)

    @property
    def settings(self) -> Settings:
        """Settings whose Snowflake secret is this user's."""
        return self.stack_settings.model_copy(update={"snowflake_secret_id": f"test/{self.name}"})

    def make(self, *grants: str) -> None:
        """The user, its secret, and its role: the warehouse and what `grants` say (`{role}` is its name)."""
        admin_sql(
            self.stack_settings,
            f"CREATE ROLE {self.name}",
            f"CREATE USER {self.name} RSA_PUBLIC_KEY = '{self.public_key}' DEFAULT_ROLE = {self.name}",
            f"GRANT ROLE {self.name} TO USER {self.name}",
            f"GRANT USAGE ON WAREHOUSE {self.stack_settings.snowflake_warehouse} TO ROLE {self.name}",
            *(grant.format(role=self.name) for grant in grants),
        )
        self._secrets().create_secret(Name=f"test/{self.name}", SecretString=self._secret())

    def remove(self) -> None:
        """Take user, role and secret away."""
        admin_sql(self.stack_settings, f"DROP USER {self.name}", f"DROP ROLE {self.name}")
        self._secrets().delete_secret(SecretId=f"test/{self.name}", ForceDeleteWithoutRecovery=True)

    @property
    def public_key(self) -> str:
        """The public half of the newest key."""
        return public_key(SecretStr(self.key))

    def new_key(self) -> None:
        """Step 1 of a rotation: another key pair, which nobody knows yet."""
        self.key = new_private_key()

    def set_second_key(self) -> None:
        """Step 2: Snowflake takes both keys."""
        admin_sql(self.stack_settings, f"ALTER USER {self.name} SET RSA_PUBLIC_KEY_2 = '{self.public_key}'")

    def put_secret(self) -> None:
        """Step 3: whoever reads the secret from now on gets the new key."""
        self._secrets().put_secret_value(SecretId=f"test/{self.name}", SecretString=self._secret())

    def unset_first(self) -> None:
        """Step 4: the old key opens nothing any more."""
        admin_sql(self.stack_settings, f"ALTER USER {self.name} UNSET RSA_PUBLIC_KEY")

    def rotate_key(self) -> None:
        """All four steps, in the order that Snowflake's guide gives."""
        self.new_key()
        self.set_second_key()
        self.put_secret()
        self.unset_first()

    def end_sessions(self) -> None:
        """End every session of the user, who may log in again at once."""
        who = f"ALTER USER {self.name} SET DISABLED"
        admin_sql(self.stack_settings, f"{who} = TRUE", f"{who} = FALSE")

    def _secret(self) -> str:
        host = Home.load(self.stack_settings.home).url("snowflake")
        who = {"account": ACCOUNT, "user": self.name, "role": self.name, "url": host, "private_key": self.key}
        return json.dumps(who)

    def _secrets(self) -> Any:
        settings = self.stack_settings
        assert settings.aws_access_key_id is not None
        assert settings.aws_secret_access_key is not None
        return boto3.session.Session().client(
            "secretsmanager",
            region_name=settings.aws_region,
            endpoint_url=settings.aws_endpoint_url,
            aws_access_key_id=settings.aws_access_key_id.get_secret_value(),
            aws_secret_access_key=settings.aws_secret_access_key.get_secret_value(),
        )


@contextmanager
def own_user(settings: Settings, *grants: str) -> Iterator[OwnUser]:
    """A user for the length of a block."""
    user = OwnUser(settings)
    user.make(*grants)
    try:
        yield user
    finally:
        user.remove()
