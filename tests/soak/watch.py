"""What the ledger says while the soak runs: the owner's epoch and every commit's time, by Snowflake's own clock.

Its own sessions give up at once, so that a Snowflake that is down is asked again a moment later.
"""

from __future__ import annotations

import threading
from datetime import UTC
from typing import Any

import snowflake.connector
from snowflake.connector import errors as driver

from firn.keys import private_key_der
from firn.settings import Settings
from tests.support.sinks import login_of, wait_until

_POLL = 0.25
_SECONDS = 3
_STATEMENT = """
SELECT MAX(IFF(PARTITION = -1, EPOCH, 0)) AS EPOCH, SUM(IFF(PARTITION >= 0, NEXT_OFFSET, 0)) AS TOTAL,
  MAX(IFF(PARTITION >= 0 AND BATCH_ID <> '', UPDATED_AT, NULL)) AS COMMITTED_AT
FROM FIRN_OFFSETS WHERE SINK = ?
"""


def brief_connection(settings: Settings) -> Any:
    """A session that gives up after seconds, where the product's own would be patient."""
    login = login_of(settings)
    return snowflake.connector.connect(
        account=login.account,
        user=login.user,
        private_key=private_key_der(login.private_key, login.private_key_passphrase),
        role=login.role,
        warehouse=login.warehouse,
        database=login.database,
        schema=login.schema,
        host=login.host,
        port=login.port,
        protocol=login.protocol,
        login_timeout=_SECONDS,
        network_timeout=_SECONDS,
        paramstyle="qmark",
        session_parameters={"TIMEZONE": "UTC", "LOCK_TIMEOUT": 1},
    )


class Watch:
    """Looks at the ledger in a thread of its own. Times are Unix seconds."""

    def __init__(self, settings: Settings, sink: str) -> None:
        self._settings, self._sink = settings, sink
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self.epoch = 0
        self.total = 0
        self.commits: list[float] = []

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def stop(self) -> None:
        """Look no more."""
        self._end.set()
        self._thread.join()

    def first_commit_after(self, moment: float) -> float | None:
        """The time of the first commit that was seen after a moment."""
        return next((at for at in self.commits if at > moment), None)

    def await_commit(self, moment: float, *, seconds: float, what: str) -> float:
        """Wait for a commit after a moment and return its time; fails after `seconds`."""
        wait_until(lambda: self.first_commit_after(moment), seconds=seconds, what=what)
        found = self.first_commit_after(moment)
        assert found is not None
        return found

    def _run(self) -> None:
        connection: Any = None
        while not self._end.wait(_POLL):
            try:
                connection = connection or brief_connection(self._settings)
                self._look(connection)
            except driver.Error:
                if connection is not None:
                    _close(connection)
                connection = None
        if connection is not None:
            _close(connection)

    def _look(self, connection: Any) -> None:
        with connection.cursor() as cursor:
            epoch, total, at = cursor.execute(_STATEMENT, (self._sink,)).fetchone()
        self.epoch, self.total = int(epoch or 0), int(total or 0)
        if at is not None:
            stamp = at.replace(tzinfo=UTC).timestamp()
            if not self.commits or stamp > self.commits[-1]:
                self.commits.append(stamp)


def _close(connection: Any) -> None:
    try:
        connection.close()
    except driver.Error:
        return
