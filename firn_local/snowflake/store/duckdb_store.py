"""The store under the local Snowflake: one DuckDB process over the files of one data directory.

Layout of the directory: `databases/<NAME>.db` (one DuckDB file and WAL a database), `databases/_fs_global.db`
(what spans databases: stages and comments in fakesnow's schema; users, roles, grants and pipes in `_firn`), `stages/`
(staged files), `tmp/`. Each database also holds, in fakesnow's schema, the versions and row changes of
`change_tracking`. Not for statements.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

import duckdb
from fakesnow import info_schema, macros
from fakesnow.instance import GLOBAL_DATABASE_NAME, FakeSnow
from fakesnow.transforms import show, stage

from firn_local.snowflake.functions import macros as functions
from firn_local.snowflake.store import catalog_views

# What a stream is about: the commits that changed tracked tables, and how far streams were consumed.
_VERSIONS = """
CREATE TABLE IF NOT EXISTS {0}._firn_commits (tx BIGINT, version BIGINT, made_at TIMESTAMPTZ);
CREATE TABLE IF NOT EXISTS {0}._firn_offsets (stream BIGINT, version BIGINT, made_at TIMESTAMPTZ);
"""
KEPT_RESULTS = 64
LARGEST_KEPT_RESULT = 4_000_000


class RecentResults(OrderedDict[str, tuple[Any, ...]]):
    """The last results by query id, for RESULT_SCAN; old and large ones are dropped so that memory is bounded."""

    def __setitem__(self, key: str, value: tuple[Any, ...]) -> None:
        table = value[0]
        if table is None or table.nbytes <= LARGEST_KEPT_RESULT:
            super().__setitem__(key, value)
        while len(self) > KEPT_RESULTS:
            self.popitem(last=False)


class Store(FakeSnow):
    """fakesnow's shared instance, durable: every database is a file that is attached again at the next start."""

    def __init__(self, data_dir: Path, *, memory_limit: str, threads: int) -> None:
        # Not super().__init__(): that opens the catalog that spans databases in memory.
        self.data_dir = data_dir.resolve()
        self.create_database_on_connect = False
        self.create_schema_on_connect = False
        self.nop_regexes = None
        self.results_cache = RecentResults()
        self.db_path = self.data_dir / "databases"
        self.stages_dir = self.data_dir / "stages"
        for directory in (self.db_path, self.stages_dir):
            directory.mkdir(parents=True, exist_ok=True)
        self.ddl_lock = threading.RLock()
        stage.LOCAL_BUCKET_PATH = str(self.stages_dir)
        self.duck_conn = _open(self.data_dir / "tmp", memory_limit, threads)
        self._attach_all()
        self.duck_conn.execute(functions.creation_sql())

    def query(self, sql: str, params: list[Any] | None = None) -> list[tuple[Any, ...]]:
        """Run a statement of our own on a connection of its own: outside every session's transaction."""
        with self.duck_conn.cursor() as conn:
            return conn.execute(sql, params).fetchall()

    def _attach_all(self) -> None:
        self.attach(GLOBAL_DATABASE_NAME)
        self.duck_conn.execute(info_schema.fs_global_creation_sql())
        self.duck_conn.execute(show.fs_global_creation_sql())
        for view in catalog_views.REPLACED:
            self.duck_conn.execute(view)
        for file in sorted(Path(self.db_path or "").glob("*.db")):
            if file.stem != GLOBAL_DATABASE_NAME:
                self.attach(file.stem)
                self.prepare(file.stem)

    def attach(self, database: str) -> None:
        """Attach the file of `database`, made when absent."""
        self.duck_conn.execute(f"ATTACH IF NOT EXISTS '{self._file(database)}' AS \"{database}\"")

    def prepare(self, database: str) -> None:
        """Make fakesnow's views and macros in `database`; a crash between attach and this is healed at start."""
        self.duck_conn.execute(info_schema.per_db_creation_sql(database))
        self.duck_conn.execute(catalog_views.tables_of(database))
        self.duck_conn.execute(macros.creation_sql(database))
        self.duck_conn.execute(_VERSIONS.format(f'"{database}"._fs_information_schema'))

    def databases(self) -> list[str]:
        """The names of Snowflake's databases."""
        return sorted(file.stem for file in Path(self.db_path or "").glob("*.db") if file.stem != GLOBAL_DATABASE_NAME)

    def remove(self, database: str) -> None:
        """Detach `database` and delete its files."""
        self.duck_conn.execute(f'DETACH "{database}"')
        for file in (self._file(database), Path(f"{self._file(database)}.wal")):
            file.unlink(missing_ok=True)

    def _file(self, database: str) -> Path:
        return Path(self.db_path or "") / f"{database}.db"

    def close(self) -> None:
        """Write every WAL back into its file and close; a kill instead loses nothing that was committed."""
        self.duck_conn.close()


def _open(tmp: Path, memory_limit: str, threads: int) -> duckdb.DuckDBPyConnection:
    (tmp / "duckdb").mkdir(parents=True, exist_ok=True)
    conn = duckdb.connect(
        ":memory:",
        config={
            "lambda_syntax": "ENABLE_SINGLE_ARROW",  # sqlglot still writes the old arrow form
            "memory_limit": memory_limit,
            "threads": threads,
            "temp_directory": str(tmp / "duckdb"),
            "extension_directory": str(tmp / "extensions"),
            "autoinstall_known_extensions": False,
        },
    )
    conn.execute("SET GLOBAL TimeZone = 'UTC'")
    # JSON text, which is what most columns hold: DuckDB's own choice takes twice the CPU and four times the space.
    conn.execute("SET GLOBAL force_compression = 'zstd'")
    conn.execute("SET GLOBAL preserve_insertion_order = false")  # nor does Snowflake keep an order
    return conn
