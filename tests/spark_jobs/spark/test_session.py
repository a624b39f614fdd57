"""How Spark is started for a sink: the user's configuration beside the sink's, and why a JVM does not start."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from firn.errors import ConfigError, FirnError, TransientError
from firn.settings import Settings
from spark_jobs.spark import class_archive, session


@pytest.fixture(autouse=True)
def _no_running_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another test's JVM is not this one's."""
    monkeypatch.setattr(session.SparkContext, "_gateway", None)
    monkeypatch.setattr(session.SparkContext, "_jvm", None)
    monkeypatch.delenv("SPARK_SUBMIT_OPTS", raising=False)


def configured(monkeypatch: pytest.MonkeyPatch, home: Path, given: dict[str, str]) -> dict[str, str]:
    """The whole configuration that Spark would be launched with."""
    seen: dict[str, str] = {}

    def launch(conf: Any, **_: object) -> object:
        seen.update(conf.getAll())
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(session, "launch_gateway", launch)
    monkeypatch.setattr(session, "java_program", lambda: "java")
    with pytest.raises(TransientError):
        session.spark_context(Settings(home=home, spark_conf=given), "orders")
    return seen


def test_java_options_are_added_to_those_of_the_sink(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = configured(monkeypatch, tmp_path, {"spark.driver.extraJavaOptions": "-Da=1 -Db=2"})
    options = found["spark.driver.extraJavaOptions"].split()
    assert options[-2:] == ["-Da=1", "-Db=2"]
    assert "-XX:+UseSerialGC" in options


def test_a_collector_of_the_users_takes_the_place_of_the_sinks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = configured(monkeypatch, tmp_path, {"spark.driver.extraJavaOptions": "-XX:+UseG1GC"})
    assert "-XX:+UseSerialGC" not in found["spark.driver.extraJavaOptions"]


def test_what_a_sink_depends_on_stays_and_the_rest_is_the_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = {
        "spark.speculation": "true",
        "spark.task.maxFailures": "4",
        "spark.executor.memory": "2g",
        "spark.jars": "s3a://mine.jar",
    }
    found = configured(monkeypatch, tmp_path, given)
    assert (found["spark.speculation"], found["spark.task.maxFailures"]) == ("false", "1")
    assert (found["spark.executor.memory"], found["spark.jars"]) == ("2g", "s3a://mine.jar")


def test_variables_with_credentials_are_not_inherited(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "secret")
    seen: list[bool] = []

    def launch(**_: object) -> object:
        seen.append("KAFKA_PASSWORD" in os.environ)
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(session, "launch_gateway", launch)
    with pytest.raises(TransientError):
        session.spark_context(Settings(home=tmp_path), "orders", frozenset({"KAFKA_PASSWORD", "NOT_SET"}))
    assert seen == [False]
    assert os.environ["KAFKA_PASSWORD"] == "secret"


def started_with(monkeypatch: pytest.MonkeyPatch, home: Path, java: str | None) -> FirnError:
    """Why Spark does not start with this shell script as its Java, or with none."""
    (home / "bin").mkdir()
    if java is not None:
        program = home / "bin" / "java"
        program.write_text(f"#!/bin/sh\n{java}\n")
        program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(FirnError) as raised:
        session.spark_context(Settings(home=home / "firn"), "orders")
    return raised.value


@pytest.mark.parametrize(
    ("java", "kind", "said"),
    [
        (None, ConfigError, "none was found"),
        ("echo 'Error: UnsupportedClassVersionError: x has been compiled' >&2; exit 1", ConfigError, "newer Java"),
        ("echo 'Unrecognized VM option UseNothing' >&2; exit 1", ConfigError, "UseNothing"),
        ("kill -9 $$", TransientError, "killed"),
        (
            "echo '# There is insufficient memory for the Java Runtime Environment to continue.'; "
            "echo 'Error: Cannot allocate memory (errno=12)' >&2; exit 1",
            TransientError,
            "Cannot allocate memory",
        ),
        ("echo 'java.lang.OutOfMemoryError: unable to create native thread' >&2; exit 1", TransientError, "native"),
    ],
    ids=["absent", "too-old", "option", "killed", "memory", "threads"],
)
def test_a_java_that_is_missing_or_wrong_is_told_from_one_that_could_not_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, java: str | None, kind: type[FirnError], said: str
) -> None:
    error = started_with(monkeypatch, tmp_path, java)
    assert isinstance(error, kind)
    assert said in error.what
    assert ("Java 17" in error.next_step) == (said in ("none was found", "newer Java"))


def test_too_few_file_descriptors_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def launch(**_: object) -> object:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(session, "launch_gateway", launch)
    with pytest.raises(TransientError, match="Too many open files") as raised:
        session.spark_context(Settings(home=tmp_path), "orders")
    assert "ulimit -n" in raised.value.next_step


def test_an_archive_belongs_to_one_java_and_is_used_once_it_is_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(class_archive.sys, "prefix", str(tmp_path / "env"))
    names = set()
    for build in ("17.0.1", "17.0.2"):
        home = tmp_path / build
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "java").write_text("#!/bin/sh\n")
        (home / "bin" / "java").chmod(0o755)
        (home / "release").write_text(f'JAVA_VERSION="{build}"\n')
        monkeypatch.setenv("JAVA_HOME", str(home))
        file = class_archive.archive_file()
        assert file is not None
        names.add(file.name)
        assert class_archive.archive_options() == ()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        assert class_archive.archive_options()[-1] == f"-XX:SharedArchiveFile={file}"
    assert len(names) == 2
