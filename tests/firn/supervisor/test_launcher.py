"""The driver's command and environment for each Spark master, and its log file."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from firn.errors import ConfigError
from firn.operations.log_files import driver_log
from firn.settings import Settings
from firn.supervisor import launcher
from firn.supervisor.launcher import driver_command, driver_environment


def settings(tmp_path: Path, master: str, **more: object) -> Settings:
    return Settings(home=tmp_path, spark_master=master, **more)  # type: ignore[arg-type]


def arguments(found: Settings) -> list[str]:
    return shlex.split(driver_environment(found, {})["PYSPARK_SUBMIT_ARGS"])


def test_the_driver_is_this_python_and_ends_with_its_supervisor() -> None:
    assert driver_command("spark_jobs.sink.job", Path("s.json"), once=False) == [
        *(sys.executable, "-m", "spark_jobs.sink.job", "s.json", "--supervised")
    ]
    assert driver_command("spark_jobs.sink.job", Path("s.json"), once=True)[-1] == "--once"


def test_one_machine_needs_nothing_more(tmp_path: Path) -> None:
    assert driver_environment(settings(tmp_path, "local[*]"), {"PATH": "/bin"}) == {"PATH": "/bin"}


# Spark 4.0, "Submitting Applications", "Running Spark on YARN", "Running Spark on Kubernetes".
@pytest.mark.parametrize("master", ["spark://a:7077,b:7077", "yarn", "k8s://https://api:6443"])
def test_a_cluster_is_told_to_pysparks_own_spark_submit(tmp_path: Path, master: str) -> None:
    assert arguments(settings(tmp_path, master)) == ["--master", master, "--deploy-mode", "client", "pyspark-shell"]


def test_executors_use_the_python_they_have(tmp_path: Path) -> None:
    environment = driver_environment(settings(tmp_path, "yarn", spark_python="./env/bin/python"), {})
    assert environment["PYSPARK_PYTHON"] == "./env/bin/python"
    assert environment["PYSPARK_DRIVER_PYTHON"] == sys.executable


def test_configuration_of_spark_is_read_from_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FIRN_SPARK_CONF", "spark.executor.instances=2 spark.executor.extraJavaOptions='-Da=1 -Db=2'")
    assert Settings().spark_conf == {
        "spark.executor.instances": "2",
        "spark.executor.extraJavaOptions": "-Da=1 -Db=2",
    }
    monkeypatch.setenv("FIRN_SPARK_CONF", "executor=2")
    with pytest.raises(ValueError, match="executor"):
        Settings()


def test_a_master_that_is_none_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="mesos"):
        driver_environment(settings(tmp_path, "mesos://a:5050"), {})


def test_a_log_rotates_and_its_newest_lines_are_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launcher, "LOG_BYTES", 1000)
    file = driver_log(settings(tmp_path, "local"), "s")
    log = launcher.LogFile(file)
    for number in range(1000):
        log.write(f"line {number}")
    files = sorted(file.parent.glob("sink-s.log*"))
    assert len(files) == 1 + launcher.LOG_FILES
    assert all(each.stat().st_size <= 1000 for each in files)
    assert file.read_text().endswith("line 999\n")


def test_a_folder_that_is_gone_stops_no_driver(tmp_path: Path) -> None:
    log = launcher.LogFile(tmp_path / "logs" / "sink-s.log")
    (tmp_path / "logs").rmdir()
    log.write("a line")
