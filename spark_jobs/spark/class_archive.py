"""Spark's classes as an archive that its JVM maps instead of loading them one by one: a third of the start's CPU time.

    python -m spark_jobs.spark.class_archive

`make setup` makes it, once for each JVM and Spark; without it a sink starts all the same, a few seconds later. It lies
beside the Python packages, because it belongs to Spark's jars. Source: Java's "Class Data Sharing" (JEP 310, JEP 350).
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyspark

JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""The JVM schedules small jobs: optimised code would cost more than it gives back, and there is little garbage."""
_QUIET = ("-Xshare:auto", "-Xlog:disable", "-Xlog:all=error:stderr")


def java_program() -> str | None:
    """The Java that Spark's launcher runs, if there is one: JAVA_HOME's, or else the one on the path."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")


def archive_options() -> tuple[str, ...]:
    """The JVM's options that use the archive of this Java and this Spark; none where it was not made."""
    file = archive_file()
    return (*_QUIET, f"-XX:SharedArchiveFile={file}") if file and file.exists() else ()


def archive_file() -> Path | None:
    """Where the archive of this Java and this Spark lies or would lie; None without Java."""
    java = java_program()
    if java is None:
        return None
    program = Path(java).resolve()
    release = program.parent.parent / "release"  # names the version and build of a JDK or JRE
    build = release.read_bytes() if release.is_file() else str(program.stat().st_mtime_ns).encode()
    parts = [str(program).encode(), build, pyspark.__version__.encode(), str(_spark_home()).encode()]
    key = hashlib.sha256(b"\0".join([*parts, " ".join(JAVA_OPTIONS).encode()])).hexdigest()[:16]
    return Path(sys.prefix) / "share" / "firn" / f"spark-{key}.jsa"


def _spark_home() -> Path:
    return Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)


def make(file: Path) -> None:
    """Run a small job and archive the classes that it loaded; archives of other Javas and Sparks go."""
    sys.stderr.write("setup: archiving the classes of Spark's JVM\n")
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        part = Path(folder) / file.name
        command = [sys.executable, "-c", _JOB, *JAVA_OPTIONS, f"-XX:ArchiveClassesAtExit={part}"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        if not part.exists():
            sys.stderr.write(f"No class archive was made, Spark starts without:\n{done.stderr[-2000:]}\n")
            return
        for older in file.parent.glob("spark-*.jsa"):
            older.unlink(missing_ok=True)
        part.rename(file)


_JOB = """
import sys
from pyspark import SparkConf, SparkContext
conf = SparkConf().setMaster("local[2]").setAppName("firn-class-archive").setAll([
    ("spark.ui.enabled", "false"), ("spark.driver.host", "127.0.0.1"), ("spark.driver.bindAddress", "127.0.0.1"),
    ("spark.driver.extraJavaOptions", " ".join(sys.argv[1:])),
])
context = SparkContext(conf=conf)
context.setJobGroup("g", "archive")
for _ in range(3):
    context.parallelize([[1], [2]], 2).mapPartitions(lambda groups: map(str, groups)).collect()
context.cancelJobGroup("g")
context.stop()
"""


def main() -> int:
    """Make the archive unless it is there; returns the exit code: that there is none is no fault."""
    file = archive_file()
    try:
        if file is not None and not file.exists():
            make(file)
    except (OSError, subprocess.TimeoutExpired) as error:
        sys.stderr.write(f"No class archive was made, Spark starts without: {error}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
