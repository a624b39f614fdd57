"""Starts Spark for a sink. No credential is in its configuration, which shows up in command lines and in the UI.

Spark only schedules here: its JVM runs small jobs and moves no records. So it is started with the quick compiler, the
simplest collector, a small heap, and classes that were loaded before (`class_archive`).
"""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway

from firn.errors import ConfigError, FirnError, TransientError
from firn.settings import Settings
from firn.sinks.context import spark_log
from spark_jobs.spark.class_archive import JAVA_OPTIONS, archive_options, java_program
from spark_jobs.spark.engine import cause

_LOG_CONFIG = Path(__file__).with_name("log4j2.properties")
_LINES = 50
_COLLECTOR = re.compile(r"-XX:\+Use\w+GC\b")
# The task's closure holds credentials: above this size Spark would write it to a file.
_CLOSURE_BYTES = "1g"
_SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN)
_TOO_OLD = ("UnsupportedClassVersionError", "more recent version of the Java Runtime")
_BAD_OPTION = ("Unrecognized VM option", "Unrecognized option", "Conflicting collector", "Invalid initial heap size")
_WRONG_SETTING = ("Could not parse Master URL", "must be at least", "requirement failed", "Invalid Spark URL")


def spark_context(settings: Settings, name: str, hidden: frozenset[str] = frozenset()) -> SparkContext:
    """The running context (under spark-submit), or a new one.

    hidden: variables of the environment that hold credentials: Spark's processes do not inherit them. Raises
    ConfigError where Java is missing or too old, or Spark refuses a setting; TransientError where a JVM was killed or
    the machine lacks memory or file descriptors.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setAppName(f"firn-{name}").setMaster(settings.spark_master)
    conf.setAll(list(_conf(settings, name).items()))
    with _without(hidden):
        if SparkContext._gateway is None and "PYSPARK_GATEWAY_PORT" not in os.environ:
            SparkContext._ensure_initialized(gateway=_launched(conf, settings))
        return _started(conf, settings)


def _launched(conf: SparkConf, settings: Settings) -> object:
    """A JVM that listens. Raises as `spark_context` does."""
    java = java_program()
    if java is None:
        raise _no_java("Spark needs Java, and none was found.", settings)
    heard = _Heard()
    try:
        return launch_gateway(conf=conf, popen_kwargs={"stderr": heard.inlet})  # type: ignore[no-untyped-call]
    except OSError as error:
        heard.close()
        if error.errno in _SHORT:
            raise _not_started(os.strerror(error.errno or 0), settings) from error
        raise _no_java(f"Spark does not start: {error}.", settings) from error
    except PySparkException as error:
        raise _ended(heard.close(), settings) from error
    finally:
        heard.no_more_writers()


def _started(conf: SparkConf, settings: Settings) -> SparkContext:
    try:
        context = SparkContext.getOrCreate(conf)
    except (Py4JJavaError, PySparkException) as error:
        what = cause(error)
        if any(sign in str(error) for sign in _WRONG_SETTING):
            raise ConfigError(
                f"Spark refuses a setting: {what}",
                where=f"master {settings.spark_master}",
                next_step="Correct FIRN_SPARK_MASTER, FIRN_SPARK_CONF or FIRN_SPARK_DRIVER_MEMORY.",
            ) from error
        raise _not_started(what, settings) from error
    except OSError as error:
        raise _not_started(str(error), settings) from error
    context.setLogLevel("WARN")
    return context


def _ended(lines: list[str], settings: Settings) -> FirnError:
    """Why a JVM ended before it listened, from its last words: those of Spark's shell script are none."""
    words = [line for line in lines if "spark-class: line" not in line]
    if _saying(words, _TOO_OLD):
        return _no_java("Spark needs a newer Java than the one that was found.", settings)
    if refused := _saying(words, _BAD_OPTION):
        return ConfigError(
            f"Java refuses its options: {refused}",
            where="FIRN_SPARK_CONF (spark.driver.extraJavaOptions), FIRN_SPARK_DRIVER_MEMORY",
            next_step="Correct them.",
        )
    said = _saying(words, ("rror", "annot")) or (words or ["it was killed, and left no word"])[-1]
    return _not_started(said, settings)


def _saying(lines: list[str], signs: tuple[str, ...]) -> str | None:
    """The last line that holds one of the signs."""
    return next((line for line in reversed(lines) if any(sign in line for sign in signs)), None)


def _no_java(what: str, settings: Settings) -> ConfigError:
    return ConfigError(
        what,
        where=f"JAVA_HOME={os.environ.get('JAVA_HOME', '')}, master {settings.spark_master}",
        next_step="Install Java 17 or 21 (make setup installs it), or point JAVA_HOME to it.",
    )


def _not_started(what: str, settings: Settings) -> TransientError:
    return TransientError(
        f"Spark's JVM ended while it started: {what}.",
        where=f"master {settings.spark_master}",
        next_step="Run the sink again. If it stays so, look at this machine's memory, processes and file descriptors "
        "(ulimit -n).",
    )


def _conf(settings: Settings, name: str) -> dict[str, str]:
    """The user's configuration, and over it what a sink depends on; Java options are added up."""
    given, log = settings.spark_conf, spark_log(settings, name)
    log.parent.mkdir(parents=True, exist_ok=True)
    theirs = given.get("spark.driver.extraJavaOptions", "")
    own = [option for option in JAVA_OPTIONS if not (_COLLECTOR.match(option) and _COLLECTOR.search(theirs))]
    java = [*own, *archive_options(), f"-Dlog4j2.configurationFile={_LOG_CONFIG.as_uri()}", f"-Dfirn.log={log}", theirs]
    conf = {
        "spark.driver.memory": settings.spark_driver_memory,
        "spark.driver.extraJavaOptions": " ".join(filter(None, java)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.speculation": "false",  # a second attempt beside the first would write every record twice
        "spark.task.maxFailures": "1",  # what a lost attempt published, the next claim finds out
        "spark.broadcast.UDFCompressionThreshold": _CLOSURE_BYTES,
        "spark.python.daemon.module": "spark_jobs.sink.task.daemon",
        "spark.local.dir": str(settings.home / "spark"),
    }
    if settings.spark_master.startswith("local"):
        conf |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    return given | conf


@contextmanager
def _without(names: frozenset[str]) -> Iterator[None]:
    """This process's environment without some variables, while others inherit it."""
    kept = {name: os.environ.pop(name) for name in names if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(kept)


class _Heard:
    """What a child says on its standard error: passed on to ours, the last lines kept."""

    def __init__(self) -> None:
        outlet, self.inlet = os.pipe()
        self._lines: deque[str] = deque(maxlen=_LINES)
        self._pump = threading.Thread(target=self._listen, args=(os.fdopen(outlet, "rb"),), daemon=True)
        self._pump.start()
        self._open = True

    def no_more_writers(self) -> None:
        """Only the child writes from now on: when it ends, so does the pump."""
        if self._open:
            self._open = False
            os.close(self.inlet)

    def close(self) -> list[str]:
        """The last lines of a child that has ended."""
        self.no_more_writers()
        self._pump.join(5)
        return list(self._lines)

    def _listen(self, stream: IO[bytes]) -> None:
        with stream:
            for line in stream:
                self._lines.append(line.decode(errors="replace").rstrip())
                sys.stderr.buffer.write(line)
                sys.stderr.buffer.flush()
