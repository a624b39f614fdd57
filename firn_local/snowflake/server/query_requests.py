"""One query request as the connector sends it, run and turned into the answer the connector expects.

Answers follow fakesnow's server. What is added: every fault is a Snowflake error in the answer; a statement that runs
longer than `answer_within_seconds` is answered with "in progress" and fetched again, because the connector gives up
on a silent socket after 60 s; a request repeated after a lost connection joins the first run instead of running twice.
"""

from __future__ import annotations

import asyncio
import logging
import os
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import duckdb
import snowflake.connector.errors as sf
from fakesnow import statement_type
from fakesnow.converter import from_binding
from fakesnow.dialect import parse_one
from fakesnow.rowtype import describe_as_rowtype
from fakesnow.statement_type import DML_TYPE_IDS, statement_type_id
from starlette.concurrency import run_in_threadpool

from firn_local.snowflake.engine.cursor import Cursor
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.instance import LocalSnowflake
from firn_local.snowflake.server import arrow_encoding, uploads
from firn_local.snowflake.server.login_registry import Login
from firn_local.snowflake.sql.sql_errors import beginning_of, to_snowflake

KEPT_REQUESTS = 256
FATAL_EXIT_CODE = 70

log = logging.getLogger("firn_local.snowflake")
Json = dict[str, Any]


@dataclass
class Running:
    """A request under way or done: its query id and the task that makes its answer."""

    query_id: str
    task: asyncio.Task[Json]


class Queries:
    """The requests of all sessions by request id and by query id."""

    def __init__(self, snowflake: LocalSnowflake, answer_within_seconds: float) -> None:
        self._snowflake = snowflake
        self._patience = answer_within_seconds
        self._by_request: OrderedDict[str, Running] = OrderedDict()

    async def submit(self, login: Login, request_id: str, body: Json, upload_url: str) -> Json:
        """Run a request, or join the run of the same request id; the answer, or "in progress"."""
        key = f"{login.token}/{request_id}"
        running = self._by_request.get(key)
        if running is None:
            query_id = str(uuid.uuid4())
            task = asyncio.create_task(_run(self._snowflake, login, body, query_id, upload_url))
            running = self._by_request[key] = Running(query_id, task)
            self._forget_old()
        return await self._wait(running)

    async def result(self, query_id: str) -> Json | None:
        """The answer of a query that was in progress; None if there is no such query."""
        running = next((r for r in self._by_request.values() if r.query_id == query_id), None)
        return None if running is None else await self._wait(running)

    async def _wait(self, running: Running) -> Json:
        done, _ = await asyncio.wait([running.task], timeout=self._patience)
        if done:
            return running.task.result()
        data = {"queryId": running.query_id, "getResultUrl": f"/queries/{running.query_id}/result"}
        return {"code": "333333", "message": None, "success": True, "data": data}

    def _forget_old(self) -> None:
        for key in list(self._by_request)[:-KEPT_REQUESTS]:
            if self._by_request[key].task.done():
                del self._by_request[key]


async def _run(snowflake: LocalSnowflake, login: Login, body: Json, query_id: str, upload_url: str) -> Json:
    login.running += 1
    try:
        return await run_in_threadpool(_answer, snowflake, login.session, body, query_id, upload_url)
    finally:
        login.running -= 1


def _answer(snowflake: LocalSnowflake, session: Session, body: Json, query_id: str, upload_url: str) -> Json:
    sql = str(body.get("sqlText", ""))
    try:
        with snowflake.statement(session) as cursor:
            return _run_with(cursor, session, body, query_id, upload_url)
    except Exception as error:
        _end_if_fatal(error)
        failure = to_snowflake(error, sql)
        # Without the message: it may repeat values of the data.
        log.info("session %s: %s: error %06d (%s)", session.id, beginning_of(sql), failure.errno, failure.sqlstate)
        return failed(failure, query_id)


def _end_if_fatal(error: BaseException) -> None:
    """After DuckDB's fatal errors every statement fails until the files are opened again: leave that to a restart."""
    if isinstance(error, duckdb.FatalException) or isinstance(error.__cause__, duckdb.FatalException):
        log.critical("DuckDB failed for good, ending: %s", error.__cause__ or error)
        os._exit(FATAL_EXIT_CODE)


def failed(error: sf.Error, query_id: str | None = None) -> Json:
    """The answer that carries an error: never a 5xx, which the connector would retry for minutes."""
    code = f"{error.errno or 0:06d}"
    data = {"errorCode": code, "sqlState": error.sqlstate, "internalError": False, "queryId": query_id}
    return {"data": data, "code": code, "message": error.raw_msg, "success": False}


def _run_with(cursor: Cursor, session: Session, body: Json, query_id: str, upload_url: str) -> Json:
    sql = str(body.get("sqlText", ""))
    params, batch = _bindings(body.get("bindings"))
    if body.get("describeOnly"):
        described = cursor.described_without_running(sql)
        if described is not None:
            return _described(session, described, sql, query_id)
    if batch is None:
        cursor.execute(sql, binding_params=params, query_id=query_id)
        total = None
    else:
        total = 0
        for row in batch:
            cursor.execute(sql, binding_params=row, query_id=query_id)
            total += cursor.rowcount or 0
    if upload := uploads.announced(session.account, cursor.translated_statement, upload_url):
        return {"data": upload, "success": True}
    return _result(session, cursor, query_id, total)


def _bindings(bindings: Json | None) -> tuple[Any, list[tuple[Any, ...]] | None]:
    """(parameters of one run, or rows of an array binding), as fakesnow's server reads them."""
    if not bindings:
        return None, None
    if not all(key.isdigit() for key in bindings):
        return {name: from_binding(b) for name, b in bindings.items()}, None
    ordered = [bindings[str(position)] for position in range(1, len(bindings) + 1)]
    if any(isinstance(b["value"], list) for b in ordered):
        columns = [[from_binding({**b, "value": v}) for v in b["value"]] for b in ordered]
        return None, list(zip(*columns, strict=True))
    return tuple(from_binding(b) for b in ordered), None


def _described(session: Session, described: list[Any], sql: str, query_id: str) -> Json:
    type_id = statement_type_id(parse_one(sql))
    rows: Json = {"queryResultFormat": "json", "rowset": []}
    if type_id == statement_type.SELECT:
        rows = {"queryResultFormat": "arrow", "rowsetBase64": ""}
    return _success(
        session, query_id, {"rowtype": describe_as_rowtype(described), "total": 0, "statementTypeId": type_id, **rows}
    )


def _result(session: Session, cursor: Cursor, query_id: str, batch_total: int | None) -> Json:
    table = cursor.result
    rowtype = describe_as_rowtype(cursor.described())
    type_id = cursor.statement_type
    total = table.num_rows if table is not None else 0
    rows: Json = {"queryResultFormat": "arrow", "rowsetBase64": ""}
    if batch_total is not None and type_id in DML_TYPE_IDS:
        rows, total = {"queryResultFormat": "json", "rowset": [[str(batch_total)]]}, 1
    elif table is not None and type_id in DML_TYPE_IDS:
        values = zip(*[c.to_pylist() for c in table.columns], strict=True)
        rows = {"queryResultFormat": "json", "rowset": [[None if v is None else str(v) for v in row] for row in values]}
    elif table is not None:
        rows["rowsetBase64"] = arrow_encoding.encode(table, rowtype)
    return _success(session, query_id, {"rowtype": rowtype, "total": total, "statementTypeId": type_id, **rows})


def _success(session: Session, query_id: str, result: Json) -> Json:
    data = {
        "parameters": [
            {"name": "TIMEZONE", "value": "Etc/UTC"},
            {"name": "AUTOCOMMIT", "value": bool(session.parameters["AUTOCOMMIT"])},
        ],
        "queryId": query_id,
        "finalDatabaseName": session.database,
        "finalSchemaName": session.schema,
        "finalWarehouseName": session.warehouse,
        "finalRoleName": session.role,
        **result,
    }
    return {"data": data, "success": True}
