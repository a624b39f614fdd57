"""`firn sink validate` through the public command: every fault at once, effective values, and no secret anywhere."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from firn.snowflake.connection import connect, execute
from tests.support.kafka import Topic
from tests.support.proxies import closed_port
from tests.support.sinks import login_of

TEN_MISTAKES = {
    "topics": "orders",
    "topics.regex": "orders.*",
    "tasks.max": "0",
    "buffer.count.record": "10",
    "buffer.flush.time": "soon",
    "snowflake.ingestion.method": "SNOWPIPES",
    "snowflake.topic2table.map": "orders-ORDERS",
    "value.converter": "com.example.MyConverter",
    "behavior.on.null.values": "DROP",
    "snowflake.metadata.all": "yes",
    "snowflake.private.key": "hunter2-is-no-key",
}
VALID = """\
name=streaming
topics=orders
snowflake.ingestion.method=SNOWPIPE_STREAMING
snowflake.role.name=WRITER
snowflake.url.name=account.example.com
snowflake.user.name=svc
snowflake.database.name=D
snowflake.schema.name=S
snowflake.private.key=${secretsmanager:some/secret:key}
jvm.proxy.host=proxy.example
jvm.proxy.port=3128
jvm.proxy.username=me
jvm.proxy.password=hunter2
consumer.override.max.poll.records=10
buffer.flush.time=${env:FLUSH}
"""


@pytest.fixture
def offline(firn_in, tmp_path: Path):
    """Runs `firn sink validate` in a home without a stack, where nothing of the outside answers."""

    def run(file: Path, *options: str, **env: str):
        nowhere = {"FIRN_AWS_ENDPOINT_URL": f"http://127.0.0.1:{closed_port()}"}
        nowhere |= {"FIRN_AWS_ACCESS_KEY_ID": "any", "FIRN_AWS_SECRET_ACCESS_KEY": "any"}
        return firn_in(tmp_path / "home", "sink", "validate", file, *options, check=False, env=nowhere | env)

    return run


def by_name(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in rows}


def written(file: Path, config: dict[str, str], name: str = "validated") -> Path:
    file.write_text(json.dumps({"name": name, "config": config}))
    return file


def test_ten_mistakes_are_listed_at_once(offline, tmp_path: Path):
    file = written(tmp_path / "sink.json", TEN_MISTAKES)
    done = offline(file)
    assert done.returncode == 3
    for name in set(TEN_MISTAKES) - {"topics"}:
        assert name in done.stdout
    assert "SNOWPIPE, SNOWPIPE_STREAMING" in done.stdout
    assert "buffer.count.records" in done.stdout
    assert "buffer.flush.time=soon\n" in done.stdout
    assert "Values in effect" not in done.stdout
    assert "10 faults" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


def test_the_faults_as_json(offline, tmp_path: Path):
    done = offline(written(tmp_path / "sink.json", TEN_MISTAKES), "--json")
    assert done.returncode == 3
    document = json.loads(done.stdout)
    assert (document["valid"], len(document["faults"]), document["live"]) == (False, 10, None)
    faults = by_name(document["faults"])
    assert faults["buffer.count.record"]["nearest"] == "buffer.count.records"
    assert faults["snowflake.ingestion.method"]["allowed"] == ["SNOWPIPE", "SNOWPIPE_STREAMING"]
    assert faults["buffer.flush.time"]["value"].strip("'") == "soon"
    assert "hunter2" not in done.stdout + done.stderr


def test_a_valid_file_needs_no_network_and_shows_what_takes_effect(offline, tmp_path: Path):
    file = tmp_path / "sink.properties"
    file.write_text(VALID)
    began = time.monotonic()
    done = offline(file, "--json", FLUSH="33")
    assert time.monotonic() - began < 30
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert set(document) == {"valid", "faults", "warnings", "effective", "live"}
    assert document["valid"] is True
    assert document["faults"] == []
    assert "consumer.override.max.poll.records" in by_name(document["warnings"])
    effective = by_name(document["effective"])
    assert effective["buffer.flush.time"]["source"] == "reference"
    assert effective["snowflake.private.key"]["source"] == "reference"
    assert effective["buffer.count.records"]["source"] == "default"
    assert effective["jvm.proxy.host"]["value"].strip("'") == "proxy.example"
    assert "hunter2" not in done.stdout + done.stderr
    assert "snowflake.private.key" in done.stderr  # a reference that only --live looks up


def test_secrets_manager_down_is_a_failed_check(offline, tmp_path: Path):
    file = tmp_path / "sink.properties"
    file.write_text(VALID)
    done = offline(file, "--live", "--json", FLUSH="33", FIRN_RETRY_DEADLINE_SECONDS="1")
    assert done.returncode == 3
    document = json.loads(done.stdout)
    assert document["valid"] is True
    (check,) = document["live"]
    assert (check["subject"], check["state"]) == ("secret references", "failed")
    assert "Secrets Manager does not answer" in check["found"]


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_names_and_values_that_no_terminal_should_get_are_escaped(offline, tmp_path: Path, options: tuple[str, ...]):
    file = written(tmp_path / "sink.json", {"topics": "orders", "x\ud800": "1", "\x1b[31m": "1"}, "orders\udc00\u202e")
    done = offline(file, *options)
    assert done.returncode == 3, done.stderr
    assert "\\udc00\\u202e" in done.stdout.replace("\\\\", "\\")
    assert not {"\x1b", "\u202e"} & set(done.stdout + done.stderr)
    assert "Traceback" not in done.stderr


def test_a_file_that_is_none(offline, tmp_path: Path):
    done = offline(tmp_path / "absent.json", "--json")
    assert done.returncode == 3
    assert done.stdout == ""
    assert "absent.json" in done.stderr


@pytest.fixture
def schema(stack) -> Iterator[str]:
    """A schema with nothing in it but the privileges of a first start."""
    name = f"VALIDATE_{uuid4().hex[:8].upper()}"
    with connect(login_of(stack.settings)) as connection:
        execute(connection, "USE ROLE ANALYTICS_DEVELOPER")  # the service role makes no schemas
        execute(connection, f"CREATE SCHEMA {name}")
        for privilege in ("USAGE", "CREATE TABLE", "CREATE STAGE"):
            execute(connection, f"GRANT {privilege} ON SCHEMA {name} TO ROLE STREAMING_DB_WRITER")
        yield name
        execute(connection, f"DROP SCHEMA {name}")


@pytest.mark.stack
def test_live_checks_and_their_exit_code(stack, schema: str, tmp_path: Path):
    topic = Topic(stack.settings, "validate-cli")
    config = {
        "topics": topic.name,
        "snowflake.schema.name": schema,
        "input.data.format": "JSON",
        "jvm.proxy.host": "127.0.0.1",
    }
    config |= {"jvm.proxy.port": str(closed_port()), "jvm.nonProxy.hosts": "127.*|localhost"}
    fine = stack.run("sink", "validate", written(tmp_path / "fine.json", config), "--live", check=False)
    assert f"topic {topic.name}" in fine.stdout
    assert (fine.returncode, "All live checks passed" in fine.stderr) == (0, True), fine.stdout + fine.stderr

    wrong = config | {"snowflake.url.name": f"http://127.0.0.1:{closed_port()}", "topics": "no-such-topic"}
    done = stack.run("sink", "validate", written(tmp_path / "wrong.json", wrong), "--live", "--json", check=False)
    assert done.returncode == 3
    document = json.loads(done.stdout)
    assert document["valid"] is True
    failed = {check["subject"] for check in document["live"] if check["state"] == "failed"}
    assert {"topic no-such-topic", "snowflake login"} <= failed
    assert f"{len(failed)} live checks failed" in done.stderr


@pytest.mark.stack
def test_a_reference_that_leads_nowhere_is_a_fault_when_live(stack, tmp_path: Path):
    config = {"topics": "orders", "snowflake.private.key": "${secretsmanager:no/such:key}"}
    done = stack.run("sink", "validate", written(tmp_path / "sink.json", config), "--live", "--json", check=False)
    assert done.returncode == 3
    (fault,) = json.loads(done.stdout)["faults"]
    assert fault["name"] == "snowflake.private.key"
    assert "no/such" in fault["problem"]
