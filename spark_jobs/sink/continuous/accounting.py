"""Accounts for rows that Snowflake refused in a channel, on the driver. Not for finding them (`task.account_task`).

With errors.tolerance=none the run ends, and says what the service says. With `all` a job makes them dead letters, and
then the ledger and the channel's baseline of errors move together, in one transaction: until then no error counts as
accounted for, and after it none is accounted for twice.
"""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from functools import partial

from firn.channels.recorded import RecordedChannel
from firn.channels.tokens import next_offset
from firn.dead_letters.published import PartitionLetters
from firn.errors import BadRecordError, ClaimAgainError, TerminalError
from firn.kafka.partitions import OffsetRange
from firn.ledger.owner import Totals
from firn.ledger.positions import Move
from firn.logs import log_fields
from firn.plural import counted
from firn.retry import RETRIES, Deadline
from firn.snowflake.columns import METADATA, Kind
from firn.snowflake.identifiers import table_for
from firn.snowflake.tables import columns_of
from firn.snowflake.transactions import transaction
from spark_jobs.sink.continuous.progress import RunProgress
from spark_jobs.sink.dispatch import uncommitted_letters
from spark_jobs.sink.methods.base import Claim, EpochSession
from spark_jobs.sink.tables.loaders import TableLoaders
from spark_jobs.sink.task.account_task import AccountPlan, AccountWork, run_account
from spark_jobs.sink.values.reports import Accounted, Failed, Reports, Retried, RowErrors, Tolerated, load
from spark_jobs.spark.engine import EngineFailedError, EpochEngine

log = logging.getLogger(__name__)


class Accountant:
    """Accounts for the refused rows of one epoch, one partition at a time, while no task follows that partition."""

    def __init__(self, session: EpochSession, claim: Claim, engine: EpochEngine, deadline: Deadline) -> None:
        self._session, self._claim, self._engine, self._deadline = session, claim, engine, deadline
        self._config = session.context.config

    def account(self, errors: RowErrors, progress: RunProgress, loaders: TableLoaders) -> None:
        """Make these rows dead letters, and move the ledger behind them, as far as one transaction holds letters.

        Raises BadRecordError where no bad record is tolerated, TerminalError where nobody can tell which rows they are.
        """
        if self._config.errors.tolerance == "none":
            raise refused_error(self._claim.ledger.sink, errors)
        ledger, where = self._claim.ledger, errors.where
        recorded = progress.recorded(where)
        end = next_offset(errors.token, ledger.generation)
        if recorded is None or end is None:
            raise ClaimAgainError(f"The channel of {where} is not the one that was claimed: {errors}.")
        self._check_metadata(errors, end)
        start = ledger.committed[where]
        log.warning(
            "Snowflake refused %s of %s (%s): looking for them among offsets %d to %d",
            counted(errors.unaccounted, "row"),
            where,
            errors.message,
            start,
            end - 1,
        )
        reports = self._run(errors, OffsetRange(*where, start, end), loaders)
        (read,), found = reports.of(Accounted), reports.of(Tolerated)
        left = 0 if read.end == end else max(0, errors.unaccounted - read.refused)
        channel = replace(recorded, token=errors.token, row_errors=errors.row_errors - left)
        for tolerated in found:
            progress.left_out(tolerated)
        self._move(Move(where, start, read.end), channel, progress, read.rows)

    def _run(self, errors: RowErrors, offsets: OffsetRange, loaders: TableLoaders) -> Reports:
        where = errors.where
        letters = uncommitted_letters(self._session.context, self._claim, {where: offsets.start})
        work = AccountWork(
            offsets,
            self._claim.topic_ids[where.topic],
            letters.get(where, PartitionLetters()),
            errors.unaccounted,
            errors.message,
        )
        plan = AccountPlan(
            self._session.context,
            self._session.epoch,
            self._claim.ledger.ledger_id,
            loaders.of_topics({where.topic})[where.topic],
            max(1.0, self._deadline.left()),
            log_fields(),
        )
        reports = Reports(map(load, self._engine.run(partial(run_account, plan), [work])))
        for retried in reports.of(Retried):
            RETRIES.add(retried.errors)
        for failed in reports.of(Failed):
            self._deadline.failed(failed.failing_seconds)
            raise failed.unwrap()
        if len(reports.of(Accounted)) != 1:
            raise EngineFailedError(f"The task that compares {offsets} ended without a report.")
        return reports

    def _move(self, move: Move, channel: RecordedChannel, progress: RunProgress, present: int) -> None:
        """One transaction: the position, the token, and the baseline of errors."""
        ledger, session = self._claim.ledger, self._session
        moves = ledger.add_in_flight([move], {})
        with transaction(session.connection):
            name = f"{session.epoch}-accounts"
            session.ledger.move(session.connection, session.epoch, name, moves, Totals(), {move.where: channel})
        ledger.advance(moves)
        ledger.channels[move.where] = channel  # the next task begins with this baseline
        progress.accounted(move.where, move.end, present, channel, time.monotonic())

    def _check_metadata(self, errors: RowErrors, end: int) -> None:
        """Raise TerminalError unless the table says of each row which record it was."""
        context, metadata = self._session.context, self._config.metadata
        if not (metadata.all and metadata.topic and metadata.offset_and_partition):
            raise _untold(
                errors,
                end,
                "rows do not say their topic and offset",
                where="snowflake.metadata.* of the connector",
                next_step="Let RECORD_METADATA have topic, offset and partition.",
            )
        table = table_for(errors.topic, self._config.table_map)
        columns = columns_of(self._session.connection, context.namespace.full_name(table)) or ()
        if not any(column.name == METADATA and column.type.kind in (Kind.VARIANT, Kind.OBJECT) for column in columns):
            raise _untold(
                errors,
                end,
                f"the table has no column {METADATA} that says topic and offset of each row",
                where=f"table {context.namespace.qualified(table)}",
                next_step=f"Let the SELECT of the pipe, or the table, bring $1:{METADATA} as a VARIANT of that name.",
            )


def _untold(errors: RowErrors, end: int, why: str, *, where: str, next_step: str) -> TerminalError:
    return TerminalError(
        f"Snowflake refused {counted(errors.unaccounted, 'row')} of {errors.where}, and nobody can tell which: {why}. "
        f"{errors.message}",
        where=where,
        next_step=f"{next_step} Rows that are refused from then on become dead letters. To go on without these: firn "
        f"sink offsets <config> --reset {end} --topic {errors.topic} --partition {errors.partition}",
    )


def refused_error(sink: str, errors: RowErrors) -> BadRecordError:
    """Why the sink ends where Snowflake refused rows, under the number that the official connector gives it.

    https://docs.snowflake.com/en/connectors/kafkahp/setup-kafka ("Handling streaming channel errors").
    """
    bound = f", the last one at or before token {errors.bound}" if errors.bound else ""
    return BadRecordError(
        f"ERROR_5030: Snowflake refused {counted(errors.unaccounted, 'row')} of {errors.where} "
        f"(errors.tolerance=none){bound}: {errors.message}",
        where=f"sink {sink}; the channel is at token {errors.token}, and rows that were taken are in the table",
        next_step="Correct the table or its pipe, so that it takes such rows. Then set errors.tolerance=all and start "
        "the sink again: it finds the refused rows and makes them dead letters, if errors.deadletterqueue.topic.name "
        "is set.",
    )
