"""How a task ends: with reports as texts, whatever happened. Spark would turn an error into text and lose its kind.

Not for what a task does (`partition_task`, `group_task`), nor for the reports themselves (`values.reports`).
"""

from __future__ import annotations

import errno
import gc
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence

from pyspark import TaskContext

from firn.errors import FirnError, TransientError, unexpected
from firn.kafka.ranges import StalledRangeError
from firn.logs import log_context
from firn.retry import RETRIES
from spark_jobs.sink.task.worker import begin_task, patience
from spark_jobs.sink.values.reports import Failed, Report, Retried, dump

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE)
log = logging.getLogger(__name__)


def run_reporting(
    work: Callable[[list[Report]], None], seconds: float, log_fields: Mapping[str, object], over: Sequence[object]
) -> Iterator[str]:
    """Do a task's work, which adds to its reports; yields them as texts, a Failed last where it raised.

    seconds: how long it may go on failing. log_fields: for its log lines. over: what it is about, for messages.
    """
    RETRIES.take()  # of the worker's last task
    reports: list[Report] = []
    with log_context(**log_fields):
        failed = _failure_of(lambda: _work(work, reports, seconds, over))
    if failed:
        reports.append(failed)
    if retried := RETRIES.take():
        reports.append(Retried(retried))
    gc.collect()  # a worker has no other collection (`daemon`)
    yield from map(dump, reports)


def _work(work: Callable[[list[Report]], None], reports: list[Report], seconds: float, over: Sequence[object]) -> None:
    begin_task(seconds)
    _refuse_second_attempt(over)
    work(reports)


def _failure_of(work: Callable[[], None]) -> Failed | None:
    try:
        work()
    except StalledRangeError as error:
        return Failed.of(error, max(patience.failing_for(), error.seconds))
    except FirnError as error:
        return Failed.of(error, patience.failing_for())
    except OSError as error:
        return Failed.of(_of_the_disk(error))
    except Exception as error:
        log.exception("a task of the sink failed")
        return Failed.of(unexpected(error))
    return None


def _refuse_second_attempt(over: Sequence[object]) -> None:
    """Raise TransientError in a task that Spark runs again, as it does for one that an executor took with it.

    The attempt that was lost may have published dead letters, and may yet. A new epoch settles that.
    """
    task = TaskContext.get()
    if task is not None and task.attemptNumber() > 0:
        raise TransientError(
            f"Spark lost a task of {', '.join(map(str, over))} and ran it again.",
            where=f"attempt {task.attemptNumber()}",
            next_step="Nothing: the sink claims again and finds out what the lost task published.",
        )


def _of_the_disk(error: OSError) -> FirnError:
    """A full disk may be emptied by somebody; whatever else it is, nobody foresaw it."""
    if error.errno not in _NO_SPACE:
        log.error("a task of the sink failed", exc_info=error)
        return unexpected(error)
    return TransientError(
        f"A file on its way to Snowflake could not be written: {os.strerror(error.errno or 0)}.",
        where=f"folder {tempfile.gettempdir()} of a Spark worker",
        next_step="Free space there, set TMPDIR to a larger volume, or raise the limit of open files. Nothing is lost: "
        "the batch is read again.",
    )
