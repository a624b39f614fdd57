"""Spark's configuration for a sink: what the user gives beside what the sink depends on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from firn.errors import ConfigError
from firn.settings import Settings
from spark_jobs.sink import session


class Client:
    """A Kafka client that wants one property of its JVM."""

    def jvm_environment(self) -> dict[str, str]:
        return {}

    def jvm_system_properties(self) -> dict[str, str]:
        return {"its.own": "1"}


class Builder(dict[str, str]):
    """Takes a configuration, and starts nothing."""

    def appName(self, _name: str) -> Builder:  # noqa: N802 - pyspark's name
        return self

    def master(self, _master: str) -> Builder:
        return self

    def config(self, name: str, value: str) -> Builder:
        self[name] = value
        return self

    def getOrCreate(self) -> None:  # noqa: N802 - pyspark's name
        raise RuntimeError("no Java here")


def configured(monkeypatch: pytest.MonkeyPatch, home: Path, given: dict[str, str]) -> dict[str, str]:
    """The whole configuration, with the user's in it."""
    (home / "kafka-source.jar").touch()
    builder: Any = Builder()
    monkeypatch.setattr(session, "SparkSession", type("SparkSession", (), {"builder": builder}))
    settings = Settings(home=home, spark_jars_dir=home, spark_conf=given)
    with pytest.raises(ConfigError, match="no Java here"):
        session.spark_session(settings, "orders", Client())  # type: ignore[arg-type]
    return builder


def test_jars_and_java_options_are_added_to_those_of_the_sink(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = {"spark.jars": "s3a://mine.jar", "spark.driver.extraJavaOptions": "-Da=1 -Db=2"}
    found = configured(monkeypatch, tmp_path, given)
    assert found["spark.jars"].split(",") == [str(tmp_path / "kafka-source.jar"), "s3a://mine.jar"]
    options = found["spark.driver.extraJavaOptions"].split()
    assert options[-2:] == ["-Da=1", "-Db=2"]
    assert "-Dits.own=1" in options


def test_what_a_sink_depends_on_stays_and_the_rest_is_the_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = {"spark.speculation": "true", "spark.sql.session.timeZone": "CET", "spark.executor.memory": "2g"}
    found = configured(monkeypatch, tmp_path, given)
    assert found["spark.speculation"] == "false"
    assert found["spark.sql.session.timeZone"] == "UTC"
    assert found["spark.executor.memory"] == "2g"
