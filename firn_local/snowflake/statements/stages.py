"""LIST, REMOVE and DROP STAGE of internal stages. PUT and CREATE STAGE are fakesnow's; the files lie under `stages/`.

LIST and REMOVE are read alike, by their text: sqlglot parses only the first of them.
A stage path is a prefix, as on Snowflake: `@s/a` names `a/1.parquet` and `ab.parquet`.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path

from fakesnow.transforms import stage
from sqlglot import exp

from firn_local.snowflake.engine.family import Execution, Family, Handler, as_it_is
from firn_local.snowflake.engine.login_session import Session
from firn_local.snowflake.privileges import enforcement, requirements
from firn_local.snowflake.privileges import requirements as needed
from firn_local.snowflake.sql.result_set import NUMBER, TEXT, ResultSet, text_columns
from firn_local.snowflake.sql.sql_errors import SYNTAX, compilation_error, missing
from firn_local.snowflake.sql.statement import Kind, Statement

_DELETE = (
    "DELETE FROM _fs_global._fs_information_schema._fs_stages WHERE database_name = ? AND schema_name = ? AND name = ?"
)
_REFERENCE = re.compile(
    r"^\s*\w+\s+(?:'@(?P<quoted>[^']*)'|@(?P<plain>[^\s;']+))(?:\s+PATTERN\s*=\s*'(?P<pattern>(?:[^']|'')*)')?\s*;?\s*(?:/\*.*\*/\s*)?$",
    re.IGNORECASE,
)


def _directory(session: Session, reference: str) -> tuple[Path, str]:
    """(directory of the stage, path prefix inside it) of `[db.][schema.]stage[/path]`. Raises 2003 if there is none."""
    name, _, prefix = reference.partition("/")
    catalog, schema, stage_name = stage.parts_from_var(name, session.database, session.schema)
    sql = stage.stage_lookup_sql(catalog, schema, stage_name, session.table_stages)
    found = session.store.query(sql)
    if not found:
        raise stage.not_found_error(f"{catalog}.{schema}.{stage_name}")
    return Path(stage.internal_dir(found[0][0])), prefix


def _files(session: Session, sql: str, privilege: str) -> list[Path]:
    match = _REFERENCE.match(sql)
    if match is None:
        raise compilation_error(SYNTAX, "syntax error: expected a stage, as in LIST @stage/path PATTERN = '...'.")
    reference = match["quoted"] or match["plain"]
    place = Statement(sql, exp.Null(), session.database, session.schema)
    enforcement.demand(session, *needed.on_stage(place, reference, privilege))
    root, prefix = _directory(session, reference)
    pattern = re.compile(match["pattern"].replace("''", "'")) if match["pattern"] else None
    files = sorted(p for p in root.rglob("*") if p.is_file() and str(p.relative_to(root)).startswith(prefix))
    return [p for p in files if pattern is None or pattern.fullmatch(stage.internal_file_name(str(p)))]


def _list(session: Session, sql: str) -> ResultSet:
    rows = []
    for path in _files(session, sql, "READ"):
        changed = format_datetime(datetime.fromtimestamp(path.stat().st_mtime, UTC), usegmt=True)
        digest = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        rows.append((stage.internal_file_name(str(path)), path.stat().st_size, digest, changed))
    return ResultSet([("name", TEXT), ("size", NUMBER), ("md5", TEXT), ("last_modified", TEXT)], rows)


def _remove(session: Session, sql: str) -> ResultSet:
    rows = []
    for path in _files(session, sql, "WRITE"):
        rows.append((stage.internal_file_name(str(path)), "removed"))
        path.unlink(missing_ok=True)
    return ResultSet(text_columns("name", "result"), rows)


def _drop(session: Session, statement: Statement, _: Execution) -> ResultSet:
    if_exists = statement.expression.args.get("exists")
    (full_name,) = statement.target_objects()
    if if_exists and enforcement.holds_nothing(session, "STAGE", full_name):
        return ResultSet.status("Drop statement executed successfully.")
    enforcement.demand(session, requirements.Need(("OWNERSHIP",), "STAGE", full_name))
    with session.ddl():
        if session.store.query(_DELETE, full_name.split(".")) == [(0,)]:
            if if_exists:
                return ResultSet.status("Drop statement executed successfully.")
            raise missing("Stage", full_name.rpartition(".")[2])
        shutil.rmtree(stage.internal_dir(full_name), ignore_errors=True)
        session.account.grants.forget("STAGE", full_name)
    return ResultSet.status(f"{full_name.rpartition('.')[2]} successfully dropped.")


FAMILY = Family(
    commands={("LIST",): _list, ("LS",): _list, ("REMOVE",): _remove, ("RM",): _remove},
    handlers={
        (exp.Put, ""): Handler(as_it_is, requirements.to_put),
        (exp.Drop, "STAGE"): Handler(_drop, kind=Kind.SESSION),
    },
)
