"""The signs of life of an export's run, in Kafka: an idle export says that it lives without waking a warehouse.

A sign that Kafka does not take ends nothing: whether the export works, its batches show. Only the ledger's word ends a
run (`firn.exports.ledger.check_epoch`, asked by each task and each move). Not for who reads the signs
(`firn.operations.exports`).
"""

from __future__ import annotations

import logging
import threading
from contextvars import copy_context

from firn.exports.names import control_name
from firn.kafka.client import KafkaClient
from firn.kafka.partitions import TopicPartition
from firn.ledger.kafka_names import sign_group
from firn.sinks.signs import SignWriter

SIGN_SECONDS = 30.0
JOIN_SECONDS = 10.0
log = logging.getLogger(__name__)


class ExportSigns:
    """Writes a sign at fixed intervals, in a thread of its own, from `begin` to `close`. For the driver's main thread.

    moves: how often something changed in Snowflake, so that observers ask it again only then.
    """

    def __init__(self, client: KafkaClient, export: str, marker_topic: str, seconds: float = SIGN_SECONDS) -> None:
        self._client, self._export, self._seconds = client, export, seconds
        self._where = TopicPartition(marker_topic, 0)
        self._moves, self._epoch, self._idle = 0, 0, False
        self._stop, self._ended = threading.Event(), False
        self._thread: threading.Thread | None = None

    def begin(self, export_id: str, epoch: int) -> None:
        """The run has claimed the export: write the first sign at once."""
        self.close(ended=False)
        self._epoch, self._stop = epoch, threading.Event()
        writer = SignWriter(self._client, sign_group(export_id, control_name(self._export)))
        run = copy_context().run
        self._thread = threading.Thread(target=run, args=(self._write, writer, self._stop), daemon=True)
        self._thread.name = "firn-export-signs"
        self._thread.start()

    def moved(self) -> None:
        """Something changed in Snowflake."""
        self._moves += 1

    def idle(self, *, idle: bool) -> None:
        """Whether nothing is under way."""
        self._idle = idle

    def close(self, *, ended: bool = True) -> None:
        """Write no more signs; `ended`: say last that nobody runs the export any more. Never raises."""
        self._ended = ended
        self._stop.set()
        if self._thread is not None:
            self._thread.join(JOIN_SECONDS)
            self._thread = None

    def _write(self, writer: SignWriter, stop: threading.Event) -> None:
        try:
            while True:
                ended = stop.is_set()
                if not ended or self._ended:
                    writer.write(self._where, self._epoch, moves=self._moves, idle=self._idle or ended, ended=ended)
                if ended:
                    break
                stop.wait(self._seconds)
        except Exception:
            log.exception("signs of life cannot be written")
        finally:
            writer.close()
