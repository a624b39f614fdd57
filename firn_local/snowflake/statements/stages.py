"""LIST, REMOVE and DROP STAGE of internal stages. PUT and CREATE STAGE are fakesnow's; the files lie under `stages/`.

A stage path is a prefix, as on Snowflake: `@s/a` names `a/1.parquet` and `ab.parquet`.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from typing import TYPE_CHECKING

from fakesnow.transforms import stage
from sqlglot import Expr, exp

from firn_local.snowflake.privileges import enforcement, grant_table
from firn_local.snowflake.privileges import requirements as needed
from firn_local.snowflake.sql.errors import SYNTAX, compilation_error, missing
from firn_local.snowflake.sql.result_set import NUMBER, TEXT, Answer, text_columns
from firn_local.snowflake.sql.statement import Statement
from firn_local.snowflake.sql.tokenizer import Words

if TYPE_CHECKING:
    from firn_local.snowflake.engine.session import Session

_DELETE = (
    "DELETE FROM _fs_global._fs_information_schema._fs_stages WHERE database_name = ? AND schema_name = ? AND name = ?"
)
_REFERENCE = re.compile(
    r"^\s*\w+\s+(?:'@(?P<quoted>[^']*)'|@(?P<plain>[^\s;']+))(?:\s+PATTERN\s*=\s*'(?P<pattern>(?:[^']|'')*)')?\s*;?\s*(?:/\*.*\*/\s*)?$",
    re.IGNORECASE,
)


def unquoted(expression: Expr) -> Expr:
    """A statement (changed in place) whose quoted stage paths, `'@s/a--b/'`, stand as fakesnow expects them: bare.

    Snowflake takes both; only quotes let a path hold spaces or `--`.
    """
    if isinstance(expression, exp.Put):
        target = expression.args["target"]
        target.set("this", target.name.strip("'"))
    if isinstance(expression, exp.Copy):
        for table in expression.find_all(exp.Table):
            if isinstance(table.this, exp.Literal) and table.name.startswith("@"):
                table.set("this", exp.Var(this=table.name))
    return expression


def stage_directory(session: Session, reference: str) -> tuple[Path, str]:
    """(directory of the stage, path prefix inside it) of `[db.][schema.]stage[/path]`. Raises 2003 if there is none."""
    name, _, prefix = reference.partition("/")
    catalog, schema, stage_name = stage.parts_from_var(name, session.database, session.schema)
    sql = stage.stage_lookup_sql(catalog, schema, stage_name, session.table_stages)
    found = session.shared.engine.query(sql)
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
    root, prefix = stage_directory(session, reference)
    pattern = re.compile(match["pattern"].replace("''", "'")) if match["pattern"] else None
    files = sorted(p for p in root.rglob("*") if p.is_file() and str(p.relative_to(root)).startswith(prefix))
    return [p for p in files if pattern is None or pattern.fullmatch(stage.internal_file_name(str(p)))]


def _list(session: Session, sql: str) -> Answer:
    rows = []
    for path in _files(session, sql, "READ"):
        changed = format_datetime(datetime.fromtimestamp(path.stat().st_mtime, UTC), usegmt=True)
        digest = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
        rows.append((stage.internal_file_name(str(path)), path.stat().st_size, digest, changed))
    return Answer([("name", TEXT), ("size", NUMBER), ("md5", TEXT), ("last_modified", TEXT)], rows)


def _remove(session: Session, sql: str) -> Answer:
    rows = []
    for path in _files(session, sql, "WRITE"):
        rows.append((stage.internal_file_name(str(path)), "removed"))
        path.unlink(missing_ok=True)
    return Answer(text_columns("name", "result"), rows)


def _drop(session: Session, sql: str) -> Answer:
    words = Words(sql)
    words.expect("DROP", "STAGE")
    if_exists = words.skip("IF", "EXISTS")
    name = words.name()
    full_name = session.full_name(name)
    if if_exists and enforcement.holds_nothing(session, "STAGE", full_name):
        return Answer.status("Drop statement executed successfully.")
    enforcement.demand(session, needed.Need(("OWNERSHIP",), "STAGE", full_name))
    with session.ddl():
        if session.shared.engine.query(_DELETE, full_name.split(".")) == [(0,)]:
            if if_exists:
                return Answer.status("Drop statement executed successfully.")
            raise missing("Stage", name)
        shutil.rmtree(stage.internal_dir(full_name), ignore_errors=True)
        grant_table.forget(session.shared.engine, "STAGE", full_name)
    return Answer.status(f"{name} successfully dropped.")


COMMANDS = {
    ("DROP", "STAGE"): _drop,
    ("LIST",): _list,
    ("LS",): _list,
    ("REMOVE",): _remove,
    ("RM",): _remove,
}
