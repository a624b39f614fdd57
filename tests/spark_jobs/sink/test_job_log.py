"""What a driver and its tasks write: one form of line, nothing of Spark's on standard error, and no secret anywhere."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext

from firn.secrets import KafkaSecret, RegistrySecret, SnowflakeSecret, read_secret
from firn.settings import PROJECT_ROOT, Settings
from firn.sinks.context import spark_log
from spark_jobs.spark import session
from spark_jobs.spark.engine import Engine
from tests.conftest import RunningStack
from tests.support.kafka import Topic, framed
from tests.support.sinks import connector_file

pytestmark = pytest.mark.stack

SCHEMA = {"type": "record", "name": "Note", "fields": [{"name": "text", "type": "string"}]}
CONTENT = "content-of-a-record"
JAVA = "WARNING: Using incubator modules: jdk.incubator.vector"


def secrets_of(settings: Settings) -> list[str]:
    """Everything that must not be written, in the pieces that a log would hold it in."""
    kafka = read_secret(settings, settings.kafka_secret_id, KafkaSecret)
    registry = read_secret(settings, settings.registry_secret_id, RegistrySecret)
    snowflake = read_secret(settings, settings.snowflake_secret_id, SnowflakeSecret)
    key = [line for line in snowflake.private_key.get_secret_value().splitlines() if len(line) > 40]
    assert len(key) > 10
    return [kafka.api_secret.get_secret_value(), registry.api_secret.get_secret_value(), *key]


def driven(stack: RunningStack, file: Path) -> subprocess.CompletedProcess[str]:
    """The driver as its supervisor starts it, at debug level, to its end."""
    command = [sys.executable, "-m", "spark_jobs.sink.job", str(file), "--once"]
    env = stack.env | {"FIRN_DEBUG": "1"}
    return subprocess.run(
        command, env=env, cwd=PROJECT_ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
    )


@pytest.mark.full
def test_a_driver_that_fails_at_debug_level_writes_whole_lines_and_no_secret(
    stack: RunningStack, settings: Settings, tmp_path: Path
) -> None:
    topic = Topic(settings, "joblog")
    topic.send([*framed(topic.register(SCHEMA), SCHEMA, [{"text": CONTENT}] * 3), CONTENT.encode()])
    done = driven(stack, connector_file(tmp_path, topic, errors__tolerance="none"))
    assert done.returncode == 6, done.stderr
    error = json.loads(done.stdout.splitlines()[-1])["error"]
    log, _, message = done.stderr.partition(f"\n{error['what'].splitlines()[0]}")
    assert f"{topic.name}-0 offset 3" in message
    check_lines([json.loads(line) for line in log.splitlines() if line != JAVA], topic)
    spark = spark_log(settings, f"s_{topic.table}").read_text()  # Spark tells its own story there, and there alone
    written = done.stdout + done.stderr + spark
    assert [secret for secret in (*secrets_of(settings), CONTENT) if secret in written] == []


def check_lines(lines: list[dict[str, Any]], topic: Topic) -> None:
    """Driver, batch and task: each with the fields that it can have."""
    sink, epoch, batch = f"s_{topic.table}", 1, "1-0"
    assert all(each.keys() >= {"timestamp", "level", "logger", "event"} for each in lines)
    assert all(each["sink"] == sink for each in lines)
    claimed = [each.get("firn_event") for each in lines].index("started")
    assert all(each["epoch"] == epoch for each in lines[claimed:-1])
    (task,) = [each for each in lines if each["event"].startswith("staged")]
    assert (task["batch"], task["topic"], task["partition"]) == (batch, topic.name, 0)
    (committed,) = [each for each in lines if each.get("firn_event") == "committed"]
    assert committed["batch"] == batch
    assert lines[-1]["event"] == "the sink ends"
    assert "BadRecordError" in lines[-1]["exception"]


def test_sparks_log_keeps_its_bound_and_leaves_out_what_is_no_warning(spark: Engine, tmp_path: Path) -> None:
    """In a log context of its own, with the very file that drivers are started with."""
    jvm: Any = SparkContext._jvm
    file = tmp_path / "spark.log"
    before = jvm.System.setProperty("firn.log", str(file))
    try:
        configurator = jvm.org.apache.logging.log4j.core.config.Configurator
        context = configurator.initialize("test", None, session._LOG_CONFIG.as_uri())
    finally:
        jvm.System.setProperty("firn.log", before)
    appenders = {each.getClass().getSimpleName() for each in context.getConfiguration().getAppenders().values()}
    text = jvm.java.lang.StringBuilder("x" * 2**20)
    for _ in range(90):
        context.getLogger("org.apache.spark.Some").warn(text)
    context.getLogger("org.apache.spark.Some").info(text)
    context.stop()
    files = sorted(each.name for each in tmp_path.iterdir())
    assert files == ["spark.log", "spark.log.1", "spark.log.2", "spark.log.3"]
    assert all(each.stat().st_size < 22 * 2**20 for each in tmp_path.iterdir())
    assert appenders == {"RollingFileAppender"}  # none writes to the console
