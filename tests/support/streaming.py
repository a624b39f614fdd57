"""Logins to a streaming endpoint that runs in the test's own process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import SecretStr

from firn.settings import Settings
from firn.snowflake.connection import SnowflakeLogin

DATABASE, SCHEMA = "D", "PUBLIC"


def streaming_login(key: str, **more: Any) -> SnowflakeLogin:
    """Somebody, who may do everything where no users are made. The address is the one of `streaming_settings`."""
    given: dict[str, Any] = {"role": "", "warehouse": "W", "database": DATABASE, "schema": SCHEMA}
    given |= {"account": "acct", "user": "me", "host": "acct.invalid", "port": 443, "protocol": "https"}
    return SnowflakeLogin(**{**given, "private_key": SecretStr(key), **more})


def streaming_settings(url: str, ca_file: Path) -> Settings:
    """Settings that lead to the endpoint."""
    return Settings(snowflake_streaming_url=url, snowflake_ca_file=ca_file)  # type: ignore[call-arg]
