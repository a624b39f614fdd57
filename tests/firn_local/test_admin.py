"""The administrator of the embedded Snowflake, whose key no secret holds, does what the service user may not."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import uuid

import pytest

from firn.errors import PrivilegeError, TerminalError
from firn.secrets import SnowflakeSecret, read_secret
from firn.settings import PROJECT_ROOT
from firn.snowflake.connection import connect, execute
from firn_local.admin import admin_login, key_file
from firn_local.home import Home
from tests.support.sinks import login_of
from tests.support.snowflake import admin_sql


@pytest.mark.stack
def test_the_service_user_makes_no_schemas_and_no_grants_and_the_administrator_does(stack) -> None:
    name = f"STREAMING.ADMIN_{uuid.uuid4().hex[:8].upper()}"
    with connect(login_of(stack.settings)) as connection:
        for statement in (f"CREATE SCHEMA {name}", "CREATE ROLE R", "ALTER USER SVC_KAFKA_CONNECTOR SET COMMENT = ''"):
            with pytest.raises((PrivilegeError, TerminalError)):
                execute(connection, statement)
    admin_sql(stack.settings, f"CREATE SCHEMA {name}", f"DROP SCHEMA {name}")


@pytest.mark.stack
def test_its_key_is_a_private_file_and_in_no_secret(stack) -> None:
    file = key_file(Home.load(stack.home))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    secret = read_secret(stack.settings, stack.settings.snowflake_secret_id, SnowflakeSecret)
    assert secret.private_key.get_secret_value() != file.read_text()
    assert file.read_text() not in repr(admin_login(Home.load(stack.home), stack.settings))


@pytest.mark.stack
def test_it_runs_statements_from_the_command_line(stack) -> None:
    command = [sys.executable, "-m", "firn_local.admin", "SELECT CURRENT_USER() AS U; SELECT CURRENT_ROLE() AS R"]
    done = subprocess.run(
        command, env=stack.env, cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert [json.loads(line) for line in done.stdout.splitlines()] == [{"U": "FIRN_ADMIN"}, {"R": "ACCOUNTADMIN"}]


def failed_command(statement: str, env: dict[str, str]) -> str:
    """What it says on stderr when it ends with exit code 3."""
    command = [sys.executable, "-m", "firn_local.admin", statement]
    done = subprocess.run(command, env=env, cwd=PROJECT_ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (3, "")
    assert "Traceback" not in done.stderr
    return done.stderr


@pytest.mark.stack
def test_a_failed_statement_says_what_where_and_what_next(stack) -> None:
    said = failed_command("GRANT ROLE NOBODY TO USER FIRN_ADMIN", stack.env).splitlines()
    assert said[0].startswith("Error: Role not found")
    assert "Where: Snowflake, statement: GRANT ROLE NOBODY" in "\n".join(said)
    assert said[-1].startswith("Next: Correct the name (SHOW ROLES lists")


def test_without_a_home_it_ends_in_words(tmp_path) -> None:
    said = failed_command("SELECT 1", os.environ | {"FIRN_HOME": str(tmp_path)})
    assert said.startswith("Error: There is no administrator's key.")


def test_without_a_stack_it_says_what_to_start(tmp_path) -> None:
    home = Home(tmp_path)
    with pytest.raises(TerminalError, match="no administrator's key") as raised:
        admin_login(home, None)  # type: ignore[arg-type]
    assert "firn up" in raised.value.next_step
