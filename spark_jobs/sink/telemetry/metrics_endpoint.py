"""The HTTP endpoint of a driver's metrics, and the polls of Kafka that keep its end offsets fresh: one thread.

Spark's own progress would do for an ordinary day; it stands still with a batch that hangs. A port that cannot be had
ends no sink: there is one warning, and each poll tries again. Not for the metrics themselves (`metrics`).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from wsgiref.simple_server import WSGIServer

from prometheus_client import start_http_server

from firn.connector.config import MetricsConfig
from firn.errors import FirnError
from firn.kafka.partitions import TopicPartition
from firn.logs import log_context
from spark_jobs.sink.telemetry.metrics import SinkMetrics

POLL_SECONDS = 15.0
_CLOSE_SECONDS = 2.0
EndsOf = Callable[[Iterable[TopicPartition]], Mapping[TopicPartition, int]]
log = logging.getLogger(__name__)


@contextmanager
def served(metrics: SinkMetrics, config: MetricsConfig, ends_of: EndsOf) -> Iterator[None]:
    """Serve the metrics meanwhile, if a port is configured. `ends_of` gives Kafka's end offsets, in another thread."""
    if not config.port:
        yield
        return
    endpoint = _Endpoint(metrics, config, ends_of)
    try:
        yield
    finally:
        endpoint.close()


class _Endpoint:
    def __init__(self, metrics: SinkMetrics, config: MetricsConfig, ends_of: EndsOf) -> None:
        self._metrics, self._config, self._ends_of = metrics, config, ends_of
        self._server: WSGIServer | None = None
        self._warned = False
        self._closing, self._lock = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._work, name="firn-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Free the port. A poll that hangs ends with the process."""
        self._closing.set()
        with self._lock:
            if self._server:
                self._server.shutdown()
                self._server.server_close()
        self._thread.join(_CLOSE_SECONDS)

    def _work(self) -> None:
        with log_context(sink=self._metrics.sink):
            while not self._closing.is_set():
                self._serve()
                self._poll()
                self._closing.wait(POLL_SECONDS)

    def _serve(self) -> None:
        with self._lock:
            if self._server or self._closing.is_set():
                return
            try:
                self._server, _ = start_http_server(self._config.port, self._config.host, self._metrics.registry)
            except OSError as error:
                self._warn(error)
                return
        log.info("metrics are served at http://%s:%s/metrics", self._config.host, self._config.port)

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            log.warning(
                "Metrics cannot be served at %s:%s (%s). The sink runs without them and goes on trying. Free the port, "
                "or set another one (firn.metrics.port, firn.metrics.host); each sink on a machine needs its own.",
                self._config.host,
                self._config.port,
                error.strerror or error,
            )
        self._warned = True

    def _poll(self) -> None:
        try:
            self._metrics.positions.refresh(self._ends_of)
        except FirnError as error:
            log.debug("Kafka's end offsets are not known: %s", error.what)
        except Exception:
            log.warning("Kafka's end offsets could not be read", exc_info=True)
