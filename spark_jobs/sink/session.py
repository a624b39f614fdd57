"""The Spark session of a sink. No credential is in here: session settings show up in command lines and in the UI."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from firn.errors import ConfigError
from firn.kafka.client import KafkaClient
from firn.settings import Settings
from spark_jobs.sink.context import spark_log

ARROW_BATCH_BYTES = 16 * 1024 * 1024
_LOG_CONFIG = Path(__file__).with_name("log4j2.properties")


def spark_session(settings: Settings, name: str, client: KafkaClient) -> SparkSession:
    """The running session (under spark-submit), or a new one whose JVM gets what the Kafka client wants from it.

    Raises ConfigError when Java or the jars are missing, or when a JVM that runs already lacks the environment.
    """
    environment = client.jvm_environment()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.update(environment)
    builder = SparkSession.builder.appName(f"firn-sink-{name}").master(settings.spark_master)
    for key, value in _conf(settings, name, client.jvm_system_properties()).items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except Exception as error:
        raise ConfigError(
            f"Spark does not start: {(str(error).splitlines() or [''])[0]}",
            where=f"master {settings.spark_master}",
            next_step="Java 17 or 21 must be installed (make setup installs it), or set JAVA_HOME; see --debug.",
        ) from error
    session.sparkContext.setLogLevel("WARN")
    _check_environment(session, environment)
    return session


def _check_environment(session: SparkSession, environment: Mapping[str, str]) -> None:
    jvm: Any = session.sparkContext._jvm
    missing = [variable for variable in environment if jvm.System.getenv(variable) is None]
    if missing:
        raise ConfigError(
            f"Spark's JVM was started without {', '.join(missing)}.",
            where="spark-submit",
            next_step="Use `firn sink run`, which sets it from Secrets Manager and the connector, or set it for "
            "spark-submit yourself: these variables hold the credentials of the Kafka client.",
        )


def _conf(settings: Settings, name: str, system_properties: Mapping[str, str]) -> dict[str, str]:
    """The user's configuration, and over it what a sink depends on; jars and Java options are added up."""
    given, log = settings.spark_conf, spark_log(settings, name)
    log.parent.mkdir(parents=True, exist_ok=True)
    java = (
        "-XX:+UseParallelGC -Darrow.enable_unsafe_memory_access=true"
        f" -Dlog4j2.configurationFile={_LOG_CONFIG.as_uri()} -Dfirn.log={log}"
        + "".join(f" -D{key}={value}" for key, value in system_properties.items())
    )
    jars = ",".join(map(str, _jars(settings)))
    conf = {
        "spark.jars": _added(jars, ",", given.get("spark.jars")),
        "spark.driver.memory": settings.spark_driver_memory,
        "spark.driver.extraJavaOptions": _added(java, " ", given.get("spark.driver.extraJavaOptions")),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.speculation": "false",  # a second attempt beside the first would stage every record twice
        "spark.sql.session.timeZone": "UTC",
        # Together they bound what a worker holds, however large records are: a batch closes at the first that is met.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
        "spark.sql.execution.arrow.maxBytesPerBatch": str(ARROW_BATCH_BYTES),
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.stopTimeout": "30s",
        "spark.python.daemon.module": "spark_jobs.sink.daemon",
        "spark.local.dir": str(settings.home / "spark"),
    }
    if settings.spark_master.startswith("local"):
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return given | conf


def _added(own: str, separator: str, given: str | None) -> str:
    return f"{own}{separator}{given}" if given else own


def _jars(settings: Settings) -> list[Path]:
    jars = sorted(settings.spark_jars_dir.glob("*.jar"))
    if not jars:
        raise ConfigError(
            "The jars of Spark's Kafka source are missing.",
            where=f"FIRN_SPARK_JARS_DIR={settings.spark_jars_dir}",
            next_step="Run `make setup`, which fetches them.",
        )
    return jars
