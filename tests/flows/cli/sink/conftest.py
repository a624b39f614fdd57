"""`firn sink ...` within this process, against the schema that a module makes (its fixture `schema`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import typer
from typer.testing import CliRunner, Result

from firn.settings import load_settings
from firn.snowflake.connection import SnowflakeLogin
from flows.cli.sink import add
from tests.support.sinks import login_of


@pytest.fixture
def login(stack, schema: str) -> SnowflakeLogin:
    """The service user's login to the schema."""
    return replace(login_of(stack.settings), schema=schema)


@pytest.fixture
def firn(stack, schema: str, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Runs `firn sink ...` against the schema."""
    monkeypatch.setenv("FIRN_HOME", str(stack.home))
    monkeypatch.setenv("FIRN_SNOWFLAKE_SCHEMA", schema)
    load_settings.cache_clear()
    app = typer.Typer()
    add(app)
    return lambda *arguments: CliRunner().invoke(app, ["sink", *map(str, arguments)])
