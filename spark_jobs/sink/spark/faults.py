"""What Spark's and the JVM's errors say, in one line a person can use. Not for errors of our own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from firn.errors import TransientError

_LONGEST = 500


class EngineLostError(TransientError):
    """Spark's JVM is gone, and with it all that this process can do. Exit code 4: another process may go on."""


class EngineFailedError(TransientError):
    """Spark failed in a way that nobody foresaw. It may pass; where it comes again at the same offsets it does not."""


@contextmanager
def translated(where: str) -> Iterator[None]:
    """Turn what PySpark and its JVM raise into EngineFailedError; EngineLostError where the JVM does not answer."""
    try:
        yield
    except (Py4JNetworkError, ConnectionError) as error:
        raise EngineLostError(
            "Spark's JVM has ended, or was killed.",
            where=where,
            next_step="Run the sink again: it continues from the ledger. If memory ran out, Spark's log in "
            "FIRN_HOME/logs says so: raise FIRN_SPARK_DRIVER_MEMORY.",
        ) from error
    except (PySparkException, Py4JError, OSError, UnboundLocalError) as error:
        # OSError: a file or socket of PySpark's own. UnboundLocalError: what it raises where the JVM is gone just then.
        raise EngineFailedError(
            f"Spark failed: {cause(error)}", where=where, next_step="See Spark's log in FIRN_HOME/logs."
        ) from error


def cause(error: Exception) -> str:
    """The line of the message that tells what happened: the last "Caused by", or else Java's own, or else the first."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    # Py4J tells in its first line only which call of ours failed, and puts Java's text behind a colon.
    thrown = [line.removeprefix(": ") for line in lines if line.startswith(": ")]
    return next(iter([*causes[-1:], *thrown, *lines]), type(error).__name__)[:_LONGEST]
