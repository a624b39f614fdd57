"""Whose login does what: the sink's, dbt's and that of `firn sql`, each from a secret of its own, or all from one.

With logins of their own the writer's role needs no right to make views, and people who look at tables cannot write them
(docs/credentials.md).
"""

from __future__ import annotations

from dataclasses import replace

from firn.secrets import SnowflakeSecret, read_secret
from firn.settings import Settings
from firn.snowflake.connection import SnowflakeLogin, login_from


def sink_login(settings: Settings) -> SnowflakeLogin:
    """The login of sinks whose connector names none, and of what looks at them. Raises as `read_secret` does."""
    return _login(settings, settings.snowflake_secret_id)


def dbt_login(settings: Settings) -> SnowflakeLogin:
    """The login of `firn transform`, whose schema is that of the models."""
    login = _login(settings, settings.dbt_secret_id or settings.snowflake_secret_id)
    return replace(login, schema=settings.dbt_schema or login.schema)


def sql_login(settings: Settings) -> SnowflakeLogin:
    """The login of `firn sql`."""
    return _login(settings, settings.sql_secret_id or settings.snowflake_secret_id)


def _login(settings: Settings, secret_id: str) -> SnowflakeLogin:
    return login_from(settings, read_secret(settings, secret_id, SnowflakeSecret), secret_id)
