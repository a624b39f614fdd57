"""Starting and stopping the server: uvicorn, with TCP connections that last as long as their clients."""

from __future__ import annotations

import argparse
import logging
import signal
import socket
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from firn_local.snowflake.bootstrap import bootstrap
from firn_local.snowflake.instance import LocalSnowflake
from firn_local.snowflake.scheduler import Scheduler
from firn_local.snowflake.server.login_registry import Registry
from firn_local.snowflake.server.query_requests import Queries
from firn_local.snowflake.server.routes import build_app
from firn_local.snowflake.streaming.endpoint import StreamingEndpoint

KEEP_ALIVE_SECONDS = 7 * 24 * 3600  # an open TCP connection is how we know that a client lives


def serve(options: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT; then roll back what is open and close the files."""
    logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    for noisy in ("snowflake", "sqlglot", "fakesnow"):
        logging.getLogger(noisy).setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", message="Arrow output on a DB-API result")
    snowflake = LocalSnowflake(
        options.data_dir, account=options.account, memory_limit=options.memory_limit, threads=options.threads
    )
    bootstrap(snowflake, options.bootstrap_sql)
    streaming = _streaming(snowflake, options)
    registry = Registry(
        detached_seconds=options.detached_session_seconds,
        idle_transaction_seconds=options.idle_transaction_seconds,
    )

    scheduler = Scheduler(snowflake)
    scheduler.start()

    def close() -> None:
        if streaming is not None:
            streaming.close()
        scheduler.close()
        snowflake.close()

    # uvicorn raises the signal again once it has stopped: then this is a clean end, not a death by signal.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    uvicorn.run(
        build_app(snowflake.account, registry, Queries(snowflake, options.answer_within_seconds), close),
        host="127.0.0.1",
        port=options.port,
        http=_tracking(registry),
        ws="none",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=3,
        log_config=None,
        access_log=False,
    )


@contextmanager
def served(snowflake: LocalSnowflake) -> Iterator[int]:
    """Serve an open instance from a thread of this process, on a free port of loopback, which this gives.

    For tests and benchmarks that drive real clients and hold the instance too: its meter, its clock. Closes it at the
    end.
    """
    registry = Registry(detached_seconds=3600, idle_transaction_seconds=14_400)
    scheduler = Scheduler(snowflake)
    scheduler.start()

    def close() -> None:
        scheduler.close()
        snowflake.close()

    app = build_app(snowflake.account, registry, Queries(snowflake, 40), close)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="local-snowflake")
        thread.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join()


def _streaming(snowflake: LocalSnowflake, options: argparse.Namespace) -> StreamingEndpoint | None:
    if options.streaming_port is None:
        return None
    return StreamingEndpoint(snowflake, port=options.streaming_port, commit_delay=options.commit_delay_seconds)


def _tracking(registry: Registry) -> type[H11Protocol]:
    """uvicorn's protocol, telling `registry` when a TCP connection ends."""

    class Tracking(H11Protocol):
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            if self.client is not None:
                registry.disconnected(self.client)

    return Tracking
