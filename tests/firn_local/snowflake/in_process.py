"""A local Snowflake in this process, with connections like the connector's: for all that lies below HTTP."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from snowflake.connector.errors import DatabaseError

from firn_local.snowflake.bootstrap import bootstrap
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.instance import LocalSnowflake
from firn_local.snowflake.metering.meter import Clock
from firn_local.snowflake.server.authentication import Refused, open_session

Rows = list[tuple[Any, ...]]


class Cursor:
    """The last result of one connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def execute(self, sql: str) -> Cursor:
        self._cursor = self._connection.snowflake.run(self._connection.session, sql)
        self._uploaded = upload(self._cursor.translated_statement)
        return self

    def fetchall(self) -> Rows:
        table = self._cursor.result
        if self._uploaded is not None:
            return self._uploaded
        return [] if table is None else list(zip(*(column.to_pylist() for column in table.columns), strict=True))

    @property
    def description(self) -> Any:
        return self._cursor.description

    @property
    def rowcount(self) -> int | None:
        return self._cursor.rowcount

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def upload(translated: Any) -> Rows | None:
    """For a PUT, what the connector answers once it has put the file into the stage."""
    data = translated.args.get("put_stage_data") if translated is not None else None
    if data is None:
        return None
    source, folder = Path(data["src_locations"][0]), Path(data["stageInfo"]["location"])
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, folder)
    return [(source.name, source.name, 0, 0, "NONE", "NONE", "UPLOADED", "")]


class Connection:
    """One session."""

    def __init__(self, snowflake: LocalSnowflake, session: Session) -> None:
        self.snowflake, self.session = snowflake, session

    def cursor(self) -> Cursor:
        return Cursor(self)

    def commit(self) -> None:
        run(self, "COMMIT")

    def close(self) -> None:
        self.session.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class InProcess:
    """One data directory, opened; `connect` takes the connector's options but those of transport and proof."""

    def __init__(self, data_dir: Path, bootstrap_sql: Path | None = None, clock: Clock = time.time) -> None:
        self._data_dir, self._bootstrap_sql, self._clock = data_dir, bootstrap_sql, clock
        self._opened: list[Connection] = []
        self._open()

    def _open(self) -> None:
        (self._data_dir / "tmp").mkdir(parents=True, exist_ok=True)
        self.snowflake = LocalSnowflake(self._data_dir, threads=1, clock=self._clock)
        bootstrap(self.snowflake, self._bootstrap_sql)

    def connect(
        self,
        *,
        user: str = "TESTER",
        database: str | None = "STREAMING",
        schema: str | None = "PUBLIC",
        role: str | None = None,
        session_parameters: dict[str, Any] | None = None,
    ) -> Connection:
        try:
            session = open_session(self.snowflake.account, user, database, schema, role, None)
        except Refused as refused:
            raise DatabaseError(msg=str(refused), errno=int(refused.code)) from refused
        session.set_parameters(session_parameters or {})
        self._opened.append(Connection(self.snowflake, session))
        return self._opened[-1]

    def stop(self) -> None:
        for connection in self._opened:
            connection.close()
        self._opened.clear()
        self.snowflake.close()

    def restart(self) -> None:
        self.stop()
        self._open()


def run(connection: Any, sql: str, params: Any = None) -> Rows:
    """Run a statement on a connection of either kind; `params` are for the connector's."""
    with connection.cursor() as cursor:
        done = cursor.execute(sql) if params is None else cursor.execute(sql, params)
        return list(done.fetchall())


def write_parquet(path: Path, rows: int, *, first: int = 0) -> Path:
    """A staged file as the sink writes it: two columns of JSON text."""
    metadata = [json.dumps({"topic": "t", "partition": 0, "offset": first + i}) for i in range(rows)]
    content = [json.dumps({"order_id": first + i}) for i in range(rows)]
    pq.write_table(pa.table({"RECORD_METADATA": metadata, "RECORD_CONTENT": content}), path)
    return path
