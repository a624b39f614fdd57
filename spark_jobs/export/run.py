"""A run of an export: epoch after epoch, claimed again after anything transient, until it is done or a person must act.

Transient failures are tried again until nothing was published for as long as the run has patience.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from firn.errors import AuthenticationError, TransientError
from firn.exports.context import ExportContext
from firn.exports.ledger import ExportLedger
from firn.logs import log_context
from firn.operations.exports.run_report import ExportReport
from firn.retry import Deadline, with_retries_until
from spark_jobs.export.epoch import Epoch, RunParts
from spark_jobs.export.signs import ExportSigns
from spark_jobs.spark.engine import Engine, EngineLostError

log = logging.getLogger(__name__)


class ExportRun:
    """One process's run of one export. `stop` asks it to end after the batches that are being published.

    reload: reads the configuration and its secrets again, once a login is refused: a key may have been rotated.
    """

    def __init__(
        self,
        context: ExportContext,
        engine: Engine,
        *,
        once: bool,
        stop: threading.Event,
        reload: Callable[[], ExportContext] | None = None,
    ) -> None:
        self._context, self._reload = context, reload
        self.report = ExportReport(context.config.name)
        self._parts = RunParts(
            engine=engine,
            once=once,
            stop=stop,
            deadline=Deadline(context.settings.sink_patience_seconds),
            ledger=ExportLedger(context.namespace, context.config.name),
            signs=_signs(context),
            report=self.report,
            by={
                "run_id": uuid.uuid4().hex,
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "started": datetime.now(UTC).isoformat(),
            },
        )

    def run(self) -> ExportReport:
        """Run to the end: all that is there (`once`), or until `stop` is set. Raises what a person must see."""
        begun = time.monotonic()
        ended = False
        with log_context(export=self.report.export):
            try:
                while not self._parts.stop.is_set() and not self._done():
                    pass
                ended = True
            finally:
                self._parts.signs.close(ended=ended)
        self.report.seconds = time.monotonic() - begun
        return self.report

    def _done(self) -> bool:
        """Run epochs until one ends by itself, or only a new login is wanted (False)."""
        try:
            with_retries_until(self._parts.stop, self._parts.deadline, self._epoch)
        except AuthenticationError as error:
            self._renew(error)
            return False
        except TransientError as error:
            if not self._parts.stop.is_set():
                raise
            log.warning("The export was asked to stop while it could not go on: %s", error.what)
        return True

    def _epoch(self) -> None:
        try:
            Epoch(self._context, self._parts).run()
        except EngineLostError:
            # A process has one JVM: trying again helps in a new process only.
            self._parts.deadline.failed(ago=self._parts.deadline.seconds)
            raise

    def _renew(self, error: AuthenticationError) -> None:
        """Go on with other credentials, if there are any by now; else raise `error`."""
        if self._reload is None:
            raise error
        renewed = self._reload()
        changed = replace(
            self._context,
            kafka=renewed.kafka,
            login=renewed.login,
            key_registry=renewed.key_registry,
            value_registry=renewed.value_registry,
        )
        if changed == self._context:
            raise error
        log.warning("A login was refused, and there are other credentials by now: the export goes on with those.")
        self._parts.signs.close(ended=False)
        self._parts = replace(self._parts, signs=_signs(changed))
        self._context = changed


def _signs(context: ExportContext) -> ExportSigns:
    return ExportSigns(context.kafka, context.config.name, context.config.marker_topic)
